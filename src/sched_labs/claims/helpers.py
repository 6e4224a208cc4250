"""What checks share: finding the row that a sentence speaks of, and judging an interval.

A check ends in one of three ways, and these say them alike: the interval lies on one side of the number that
the sentence names (*holds here*, *does not hold here*), or it spans it (*cannot tell here*).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pandas as pd

from ..core.words import number_text
from .base import FAILS, HOLDS, CannotTell, Verdict, ns


def one_row(table: pd.DataFrame, what: str = "", **wanted: object) -> pd.Series:
    """The first row with these values.  CannotTell, naming `what` or the values, where the run has none."""
    found = table
    for column, value in wanted.items():
        found = found[found[column] == value]
    if found.empty:
        raise CannotTell(f"This run did not measure {what or ', '.join(map(repr, wanted.values()))}.")
    return found.iloc[0]


def others_had(used_percent: float) -> str:
    """What stands against a number for which threads should have had their CPUs to themselves; else "".

    used_percent   what they used of those CPUs: other programs had the rest
    """
    return f"Other programs had {100 - used_percent:.0f} % of those CPUs." if used_percent < 90 else ""


def had_the_cpus(row: pd.Series) -> None:
    """CannotTell where other programs had more than a tenth of the CPUs of a row meanwhile."""
    if why := others_had(row["used_percent"]):
        raise CannotTell(why)


def above(low: float, high: float, bound: float, reason: str) -> Verdict:
    """Holds where the whole interval lies above the bound, fails where it lies below it."""
    if low > bound:
        return Verdict(HOLDS, reason)
    if high < bound:
        return Verdict(FAILS, reason)
    raise CannotTell(f"The interval spans {number_text(bound, 2)}: {reason}")


def within(
    low: float,
    high: float,
    least: float,
    most: float,
    reason: str,
    said: Callable[[float], str] | None = None,
) -> Verdict:
    """Holds where the interval lies inside the limits, fails where it lies outside.

    CannotTell where it spans one of them, or there is none; `said` puts its ends into words for that.
    """
    if math.isnan(low) or math.isnan(high):
        raise CannotTell("This run saw too few waits for it.")
    if low >= least and high <= most:
        return Verdict(HOLDS, reason)
    if high < least or low > most:
        return Verdict(FAILS, reason)
    ends = f", {said(low)} to {said(high)}," if said else ""
    raise CannotTell(f"The interval{ends} spans a limit: {reason}")


def more_than(one: tuple[float, float], other: tuple[float, float], reason: str) -> Verdict:
    """Holds where the first interval (low, high) lies above the second, fails where it lies below it."""
    if one[0] > other[1]:
        return Verdict(HOLDS, reason)
    if one[1] < other[0]:
        return Verdict(FAILS, reason)
    raise CannotTell(f"The intervals overlap: {reason}")


def tail_ratio(above: pd.Series, below: pd.Series) -> tuple[float, float]:
    """How many times as long the p99 of one row is as that of the other: the ends of the interval."""
    return ratio(above, below, "p99", "ns")


def ratio(above: pd.Series, below: pd.Series, stem: str, unit: str) -> tuple[float, float]:
    """How many times as large a quantity of one row is as that of the other: the ends of the interval."""
    ends = [row[f"{stem}_{end}_{unit}"] for row in (above, below) for end in ("lo", "hi")]
    if not all(math.isfinite(end) for end in ends):
        raise CannotTell("One trial says nothing about how trials vary.")
    if min(ends) <= 0:
        raise CannotTell("In some trial nothing came of it: it was too short.")
    return ends[0] / ends[3], ends[1] / ends[2]


def at_most(row: pd.Series, stem: str, unit: str, suffix: str = "") -> float:
    """The most that a difference may be: its upper end, but no less than what the noise may hide."""
    return max(float(row[f"{stem}_hi_{unit}{suffix}"]), float(row[f"floor_{unit}{suffix}"]))


def each_at_most(table: pd.DataFrame) -> pd.Series:
    """The same of the extra of every row, ns."""
    return table[["extra_hi_ns", "floor_ns"]].max(axis=1)


def between(row: pd.Series, stem: str, unit: str, said: Callable[[float], str] = ns) -> str:
    """The ends of an interval in words, "2 ms to 3 ms"; `said` puts one of them into words."""
    return " to ".join(said(float(row[f"{stem}_{end}_{unit}"])) for end in ("lo", "hi"))


def ends(row: pd.Series, stem: str = "extra", suffix: str = "") -> str:
    """The ends of a difference in ns, the upper one no less than what the noise may hide."""
    return f"{ns(row[f'{stem}_lo_ns{suffix}'])} to {ns(at_most(row, stem, 'ns', suffix))}"


def count(value: float) -> str:
    """A count in words of a reason: two digits below a hundred, all of them above."""
    return number_text(value, 2) if value < 100 else f"{value:,.0f}"


def some(rows: pd.DataFrame, missing: str) -> pd.DataFrame:
    """These rows.  CannotTell, saying what is missing, where there are none."""
    if rows.empty:
        raise CannotTell(missing)
    return rows


def holds_or_fails(holds: Any, fails: Any, reason: str, unclear: str = "") -> Verdict:
    """Holds where the first is true, fails where the second is.

    CannotTell where neither is, which says why (`unclear`) before the reason.
    """
    if not holds and not fails:
        raise CannotTell(f"{unclear} {reason}".lstrip())
    return Verdict(HOLDS if holds else FAILS, reason)
