"""Claims of a well-known collection of switch benchmarks, judged on its loops with the switches counted."""

from __future__ import annotations

import pandas as pd

from .base import FAILS, HOLDS, CannotTell, Claim, Verdict, ns, yes

KIND = "loops.counted"
COLLECTION = "tsuna/contextswitch, as quoted in a collection of switch benchmarks (004)"
TOLERANCE = 0.02


def _cell(table: pd.DataFrame, loop: str, affinity: str) -> pd.Series:
    found = table[(table.loop == loop) & (table.affinity == affinity)]
    if found.empty:
        raise CannotTell(f"This run did not measure {loop.replace('_', ' ')} with the affinity {affinity}.")
    return found.iloc[0]


def _one_cpu(table: pd.DataFrame, loop: str) -> pd.Series:
    """A row of the loop in a setting that really meant one CPU."""
    found = table[(table.loop == loop) & table.cpus.str.fullmatch(r"\d+")]
    if found.empty:
        raise CannotTell(f"In no setting of this run was {loop.replace('_', ' ')} bound to one CPU.")
    return found.iloc[0]


def _as_assumed(row: pd.Series) -> Verdict:
    share = row.counted_per_iteration / row.assumed_per_iteration
    return yes(
        abs(share - 1) <= TOLERANCE,
        f"{row.counted_per_iteration:.2f} switches counted an iteration, "
        f"{row.assumed_per_iteration:.0f} assumed, on CPU {row.cpus}.",
    )


def _four_process_switches(table: pd.DataFrame) -> Verdict:
    return _as_assumed(_one_cpu(table, "process_futex"))


def _four_yields(table: pd.DataFrame) -> Verdict:
    return _as_assumed(_one_cpu(table, "thread_yield"))


def _yields_without_affinity(table: pd.DataFrame) -> Verdict:
    row = _cell(table, "thread_yield", "none")
    if row.cpus.isdigit():
        raise CannotTell("This process may use one CPU only.")
    return _as_assumed(row)


def _bound_to_cpu_0(table: pd.DataFrame) -> Verdict:
    row = _cell(table, "thread_yield", "cpu_0")
    if row.cpus == "0" and row.last_cpu == 0:
        raise CannotTell("This machine has one CPU: it cannot be told from its memory node.")
    return yes(row.cpus == "0", f"the script's mask is CPU {row.cpus}.")


def _bound_to_last(table: pd.DataFrame) -> Verdict:
    row = _cell(table, "thread_yield", "affinity")
    if row.last_cpu == 0:
        raise CannotTell("This machine has one CPU.")
    return yes(
        row.cpus == str(row.last_cpu), f"the script's mask is CPU {row.cpus}, the last CPU is {row.last_cpu}."
    )


def _sigoure(table: pd.DataFrame) -> Verdict:
    """By the collection's own division, as its numbers were made."""
    row = _cell(table, "process_futex", "none")
    text = (
        f"{ns(row.published_ns)} by the collection's own division, interval {ns(row.published_lo_ns)} to "
        f"{ns(row.published_hi_ns)}."
    )
    if row.published_lo_ns >= 3000 and row.published_hi_ns <= 4300:
        return Verdict(HOLDS, text)
    if row.published_hi_ns < 3000 or row.published_lo_ns > 4300:
        return Verdict(FAILS, text)
    raise CannotTell(f"The interval spans a limit: {text}")


CLAIMS = [
    Claim("004-014", "timectxsw makes four process switches in an iteration.", COLLECTION, KIND,
          _four_process_switches),
    Claim("004-016", "timetctxsw2 on one CPU makes four thread switches in an iteration.", COLLECTION, KIND,
          _four_yields),
    Claim("004-015-none", "timetctxsw2 without affinity makes four thread switches in an iteration.",
          COLLECTION, KIND, _yields_without_affinity),
    Claim("004-017", "The rows “With CPU affinity to CPU 0” were bound to CPU 0.", COLLECTION, KIND,
          _bound_to_cpu_0),
    Claim("004-018", "The rows “With CPU affinity” were bound to the last CPU.", COLLECTION, KIND,
          _bound_to_last),
    Claim("004-021", "A process switch takes 3.0 to 4.3 µs.", "B. Sigoure's list of 2010, processors of that "
          "time (004)", KIND, _sigoure),
]  # fmt: skip
