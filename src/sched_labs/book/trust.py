"""What the page *Can you trust these numbers?* holds: comparisons with other tools, the smallest effects, and
what differs between the machines whose runs ship with the book.

The benchmarks write their last table to a file of `benchmarks/recorded/`, with the machine and the date.
The smallest effects are computed from the reader's newest runs, or from the recorded ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ..core import jsontext
from ..core.errors import ParameterError, SchedLabError
from ..fleet import numbers

if TYPE_CHECKING:
    from ..core.result import Result

RECORDED = "benchmarks/recorded"
_WORDS = {True: "met", False: "missed", None: ""}


def estimates(summary: pd.DataFrame) -> pd.DataFrame:
    """Every number that has an interval, one row each: median, low, high; the index says which number it is.

    An interval is a pair of columns such as extra_lo_ns and extra_hi_ns; its number is extra_ns, or else the
    column that begins and ends like it (net_per_switch_ns).  Rows are known by the columns that come before
    the first fraction.  Raises ParameterError where no number has an interval.
    """
    fractions = [str(name) for name in summary if summary[name].dtype.kind == "f"]
    found = []
    for low in fractions:
        split = re.fullmatch(r"(.+)_lo(_.+)?", low)
        if not split:
            continue
        keys = [str(name) for name in summary.columns[: summary.columns.get_loc(fractions[0])]]
        stem, unit = split[1], split[2] or ""
        high = f"{stem}_hi{unit}"
        others = [name for name in fractions if name.startswith(f"{stem}_") and name not in (low, high)]
        middle = stem + unit if stem + unit in fractions else next(n for n in others if n.endswith(unit))
        part = summary[[middle, low, high]].set_axis(["median", "low", "high"], axis=1)
        what = summary[keys].astype(str).agg(", ".join, axis=1) + f": {middle}"
        found.append(part.set_axis(what))
    if not found:
        raise ParameterError("This experiment's summary has no number with an interval.", "Leave it out.")
    return pd.concat(found).replace([np.inf, -np.inf], np.nan).dropna()


def smallest_effects(results: Iterator[Result]) -> pd.DataFrame:
    """How far apart two runs have to be for their intervals to part.  One row for each experiment.

    kind, profile
    numbers        how many of its numbers have an interval that is clear of zero
    median_percent, p90_percent
                   the difference of two numbers, in percent, from which on two intervals as wide as this
                   run's lie apart: the width of the interval over its number.  For half of the numbers it
                   is at most the first, for nine in ten the second.

    Experiments whose answer is a distribution, or a count that is exact, have no such number and no row.
    """
    rows = []
    for result in results:
        try:
            found = estimates(result.summary())
        except ParameterError:
            continue
        clear = found[found["low"] > 0]
        if clear.empty:
            continue
        percent = (clear["high"] - clear["low"]) / clear["median"] * 100
        rows.append(
            {
                "kind": result.kind,
                "profile": str(result.parameters.get("profile", "unknown")),
                "numbers": len(clear),
                "median_percent": float(percent.median()),
                "p90_percent": float(percent.quantile(0.9)),
            }
        )
    return pd.DataFrame(rows)


def apart(pairs: Iterable[tuple[Result, Result]]) -> pd.DataFrame:
    """The numbers that two machines have both measured, with their intervals; a row each.

    pairs   the two machines' runs of a kind, in the same order throughout

    kind, name, column   which number; the column has its unit
    first, second        the medians
    differs              whether their intervals lie apart
    times                the second over the first, NaN where one of them is not positive
    """
    rows = []
    for pair in pairs:
        first, second = (
            {(name, column): rest for name, column, *rest in numbers.of(run) if None not in rest}
            for run in pair
        )
        for (name, column), (value, low, high) in first.items():
            if (name, column) in second:
                other, other_low, other_high = second[name, column]
                differs = other_low > high or low > other_high
                times = other / value if min(value, other) > 0 else np.nan
                rows.append((pair[0].kind, name, column, value, other, differs, times))
    return pd.DataFrame(rows, columns=["kind", "name", "column", "first", "second", "differs", "times"])


def farthest(table: pd.DataFrame, most: int) -> pd.DataFrame:
    """Of the numbers that differ the one that does most of each kind, and of these so many, most first."""
    found = table[table["differs"] & table["times"].notna()]
    order = found["times"].map(np.log).abs().sort_values(ascending=False, kind="stable").index
    return found.loc[order].drop_duplicates("kind").head(most).reset_index(drop=True)


def benchmarks(root: Path) -> list[dict[str, Any]]:
    """The recorded tables of the benchmarks: command, measured_at, machine, doubts, lines.

    Raises SchedLabError for a file that is no such table.
    """
    tables = []
    for path in sorted((root / RECORDED).glob("*.json")):
        try:
            table = jsontext.parse(path.read_bytes())
            for name in ("command", "measured_at", "machine"):
                if not isinstance(table[name], str):
                    raise TypeError(f"{name} is no text")
            for line in table["lines"]:
                if set(line) != {"what", "value", "target", "ok", "remark"}:
                    raise TypeError("a line lacks a column")
            list(map(str, table["doubts"]))
        except (ValueError, KeyError, TypeError) as error:
            raise SchedLabError(
                f"{RECORDED}/{path.name} is no table of a benchmark: {error}.",
                "Delete it, or write it anew with the benchmark's --keep.",
            ) from error
        tables.append(table)
    return tables


def rows(table: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    """The lines of one benchmark as a page shows them; what could not be measured comes last."""
    lines = sorted(table["lines"], key=lambda line: line["value"] == "not measurable")
    return [
        (line["what"], line["value"], " ".join((line["target"], _WORDS[line["ok"]])).strip(), line["remark"])
        for line in lines
    ]
