"""What people say about loops, judged on a run."""

from __future__ import annotations

import math

import pandas as pd

from sched_labs.claims.base import CannotTell, Claim, Verdict, ns, yes
from sched_labs.claims.helpers import between, within

KIND = "loops.counted"
COLLECTION = "tsuna/contextswitch, as quoted in a collection of switch benchmarks"
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


def _cpus(row: pd.Series) -> str:
    return f"CPU {row.cpus}" if row.cpus.isdigit() else f"CPUs {row.cpus}"


def _as_assumed(row: pd.Series) -> Verdict:
    share = row.counted_per_iteration / row.assumed_per_iteration
    return yes(
        abs(share - 1) <= TOLERANCE,
        f"{row.counted_per_iteration:.2f} switches counted an iteration, "
        f"{row.assumed_per_iteration:.0f} assumed, on {_cpus(row)}.",
    )


def _four_process_switches(table: pd.DataFrame) -> Verdict:
    """Statistic: counted switches an iteration.  Control: the four that are assumed.  Design: bound to one
    CPU.  Opponent: across CPUs fewer are switches.
    """
    return _as_assumed(_one_cpu(table, "process_futex"))


def _four_yields(table: pd.DataFrame) -> Verdict:
    """Statistic: counted switches an iteration.  Control: the four that are assumed.  Design: bound to one
    CPU.  Opponent: a fair scheduler may let the caller go on.
    """
    return _as_assumed(_one_cpu(table, "thread_yield"))


def _yields_without_affinity(table: pd.DataFrame) -> Verdict:
    """Statistic: counted switches an iteration.  Control: the same bound to one CPU.  Design: free on
    several CPUs.  Opponent: where both happen to share one it may hold.
    """
    row = _cell(table, "thread_yield", "none")
    if row.cpus.isdigit():
        raise CannotTell("This process may use one CPU only.")
    return _as_assumed(row)


def _bound_to_cpu_0(table: pd.DataFrame) -> Verdict:
    """Statistic: the mask that the program had.  Control: the mask is read, not assumed.  Design: the same
    program and options as the collection used.  Opponent: on a machine with one memory node the option
    means another mask.
    """
    row = _cell(table, "thread_yield", "cpu_0")
    if row.cpus == "0" and row.last_cpu == 0:
        raise CannotTell("This machine has one CPU: it cannot be told from its memory node.")
    if row.cpus == "0" and (table[table.affinity == "none"].cpus == "0").any():
        raise CannotTell("This process may use CPU 0 only, whatever the script asks for.")
    return yes(row.cpus == "0", f"the script's mask is {_cpus(row)}.")


def _bound_to_last(table: pd.DataFrame) -> Verdict:
    """Statistic: the mask that the program had.  Control: the mask is read, not assumed.  Design: the same
    program and options as the collection used.  Opponent: with one memory node the option means another
    mask.
    """
    row = _cell(table, "thread_yield", "affinity")
    if row.last_cpu == 0:
        raise CannotTell("This machine has one CPU.")
    return yes(
        row.cpus == str(row.last_cpu), f"the script's mask is {_cpus(row)}, the last CPU is {row.last_cpu}."
    )


def _sigoure(table: pd.DataFrame) -> Verdict:
    """Statistic: time for each switch that the kernel counted, on one CPU, where both take turns.
    Control: the count itself, beside the four that the collection divides by.
    Design: the time holds system calls, too, so that a switch alone costs less.
    Opponent: the number is of processors of 2010.
    """
    row = _one_cpu(table, "process_futex")
    if math.isnan(row.counted_ns):
        raise CannotTell("The kernel counted hardly any switches in this loop.")
    text = (
        f"on {_cpus(row)}, {ns(row.counted_ns)} for each switch that was counted (interval "
        f"{between(row, 'counted', 'ns')})."
    )
    return within(row.counted_lo_ns, row.counted_hi_ns, 3000, 4300, text)


CLAIMS = [
    Claim("004-014", "timectxsw on one CPU makes four process switches in an iteration.", COLLECTION, KIND,
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
          "time, in a collection of switch benchmarks", KIND, _sigoure),
]  # fmt: skip
