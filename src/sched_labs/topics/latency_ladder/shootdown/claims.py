"""What people say about memory that is given back, judged on a run."""

from __future__ import annotations

import math

import pandas as pd

from sched_labs.claims.base import CannotTell, Claim, Verdict, ns
from sched_labs.claims.helpers import at_most, between, count, holds_or_fails, one_row

KIND = "shootdown.calls"
HALF = 0.5  # of the calls: a shootdown comes with each of them, and anything else seldom
SELDOM = 0.05


def _row(table: pd.DataFrame, condition: str) -> pd.Series:
    return one_row(table, f"the condition {condition}", condition=condition)


def _known(row: pd.Series, stem: str, unit: str, missing: str) -> pd.Series:
    """This row, whose quantity has an interval.  CannotTell where it has none."""
    if math.isnan(row[f"{stem}_{unit}"]):
        raise CannotTell(missing)
    if not all(math.isfinite(row[f"{stem}_{end}_{unit}"]) for end in ("lo", "hi")):
        raise CannotTell("One trial says nothing about how trials vary.")
    return row


def _interrupted(table: pd.DataFrame, condition: str) -> pd.Series:
    """The row of a condition, where shootdowns are interrupts: those that have to come do."""
    threads = _known(_row(table, "threads"), "interrupts", "per_call", "This kernel counts no shootdowns.")
    if threads.interrupts_lo_per_call < HALF:
        none = threads.interrupts_hi_per_call < SELDOM
        raise CannotTell(
            f"{count(threads.interrupts_per_call)} interrupts a call for a CPU that is to run a thread of "
            "the process: "
            + (
                "this machine has no shootdown by interrupt."
                if none
                else "that thread was often kept from running, or not every shootdown is an interrupt here."
            )
        )
    return _known(_row(table, condition), "interrupts", "per_call", "This kernel counts no shootdowns.")


def _costs_the_same(table: pd.DataFrame) -> Verdict:
    """Statistic: median call, more than alone, by interval.  Control: the same calls without other threads,
    whose trials give the floor.  Design: a thread of the process runs on each other CPU.  Opponent: one that
    runs in another process takes the same part of the machine; it is another row.
    """
    row = _row(table, "threads")
    if not all(math.isfinite(row[name]) for name in ("extra_lo_ns", "extra_hi_ns", "floor_ns")):
        raise CannotTell("Too few trials to tell how trials vary.")
    reason = (
        f"{ns(row.call_ns)} while threads of the process run on other CPUs, "
        f"{ns(_row(table, 'alone').call_ns)} alone."
    )
    same = -row.floor_ns <= row.extra_lo_ns and row.extra_hi_ns <= row.floor_ns
    unclear = (
        f"The interval of the difference, {between(row, 'extra', 'ns')}, meets the noise, {ns(row.floor_ns)}:"
    )
    return holds_or_fails(same, bool(row.seen), reason, unclear)


def _nobody_notices(table: pd.DataFrame) -> Verdict:
    """Statistic: part of the calls by which a running thread of the process is stopped, by interval.
    Control: a thread of another process, on the same CPUs.  Design: both only look at a clock.
    Opponent: a hypervisor or a device stops either of them, and so do less than one call in twenty.
    """
    missing = "No thread of the process ran, or it was stopped more often than it could note."
    row = _known(_row(table, "threads"), "stopped", "share", missing)
    other = _known(_row(table, "process"), "stopped", "share", "No other process ran, or could note it.")
    if other.stopped_hi_share >= HALF:
        raise CannotTell(
            "Threads of another process may have been stopped during half of the calls or more: "
            f"{_stops(other)} of them."
        )
    reason = (
        f"a thread of the process was stopped during {row.stopped_share:.1%} of the calls, one of another "
        f"during {other.stopped_share:.1%}."
    )
    return holds_or_fails(
        row.stopped_hi_share < SELDOM,
        row.stopped_lo_share > max(SELDOM, other.stopped_hi_share),
        reason,
        f"Something else may have stopped it, with intervals {_stops(row)} and {_stops(other)}:",
    )


def _stops(row: pd.Series) -> str:
    return between(row, "stopped", "share", "{:.1%}".format)


def _everyone(table: pd.DataFrame) -> Verdict:
    """Statistic: counted interrupts of a CPU for each call, by interval.  Control: the same CPU with a thread
    of the process on it.  Design: another process runs there.  Opponent: shootdowns of other programs count,
    too.
    """
    row = _interrupted(table, "process")
    reason = (
        f"{count(row.interrupts_per_call)} interrupts a call for a CPU with another process, "
        f"{count(_row(table, 'threads').interrupts_per_call)} for one with a thread of the same."
    )
    unclear = f"One half is possible, {between(row, 'interrupts', 'per_call', count)}:"
    return holds_or_fails(
        row.interrupts_lo_per_call > HALF, row.interrupts_hi_per_call < HALF, reason, unclear
    )


def _asleep_too(table: pd.DataFrame) -> Verdict:
    """Statistic: median call, more than alone, or the noise, against half of what running threads add.
    Control: running threads.  Design: as many threads, asleep on the same CPUs.  Opponent: a second thread
    makes some calls of a process dearer, without any interrupt.
    """
    running, asleep = _row(table, "threads"), _row(table, "asleep")
    if not running.seen or running.extra_ns <= 0:
        raise CannotTell("That running threads make the call dearer is not seen here.")
    if not all(math.isfinite(asleep[name]) for name in ("extra_lo_ns", "extra_hi_ns")):
        raise CannotTell("Too few trials to tell how trials vary.")
    reason = (
        f"{ns(asleep.call_ns)} with threads asleep, {ns(running.call_ns)} with threads that run; half "
        "of what these add is enough to count as dear."
    )
    return holds_or_fails(
        asleep.seen and asleep.extra_lo_ns > HALF * running.extra_hi_ns,
        at_most(asleep, "extra", "ns") < HALF * running.extra_lo_ns,
        reason,
        f"The intervals of what is added, {between(asleep, 'extra', 'ns')} and "
        f"{between(running, 'extra', 'ns')}, with noise of {ns(asleep.floor_ns)}, allow either:",
    )


def _each_one(table: pd.DataFrame) -> Verdict:
    """Statistic: counted interrupts of a CPU for each call, by interval.  Control: pages that were written
    to.  Design: the same call for pages that never were.  Opponent: shootdowns of other programs count, too.
    """
    row = _interrupted(table, "untouched")
    reason = (
        f"{count(row.interrupts_per_call)} interrupts a call for pages that were never used, "
        f"{count(_row(table, 'threads').interrupts_per_call)} for others."
    )
    unclear = f"One half is possible, {between(row, 'interrupts', 'per_call', count)}:"
    return holds_or_fails(
        row.interrupts_lo_per_call > HALF, row.interrupts_hi_per_call < HALF, reason, unclear
    )


CLAIMS = [
    Claim("give-back-same", "To give memory back costs a thread the same, whatever runs on the other CPUs.",
          "a common belief", KIND, _costs_the_same),
    Claim("give-back-notice", "Of memory that one thread gives back the other threads notice nothing.",
          "a common belief", KIND, _nobody_notices),
    Claim("shootdown-all", "A TLB shootdown interrupts every CPU of the machine.", "a common belief", KIND,
          _everyone),
    Claim("shootdown-asleep", "Sleeping threads make it as dear to give memory back as running ones do.",
          "a common belief", KIND, _asleep_too),
    Claim("shootdown-each", "In a program whose threads run on several CPUs each munmap is a TLB shootdown.",
          "a common belief", KIND, _each_one),
]  # fmt: skip
