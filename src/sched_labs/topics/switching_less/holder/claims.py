"""What people say about CPU limits and locks, judged on a run."""

from __future__ import annotations

import pandas as pd

from sched_labs.claims.base import CannotTell, Claim, Verdict, ns
from sched_labs.claims.helpers import holds_or_fails, one_row, ratio
from sched_labs.core.words import number_text

LONGER = 3  # times: more than busy neighbours make of a hold, and much less than the rest of a period
STOPPED_PERCENT = 10  # of all waiting; where stops make one wait in ten so much longer, they are more of it
LOCKS = {"mutex": "a mutex", "file": "the lock of a file"}  # in words
NEEDED_PERCENT = 90  # of quota and savings, by the holds; the holder also works between them


def _beside_none(table: pd.DataFrame, lock: str) -> tuple[pd.Series, tuple[float, float], str]:
    """The row with a quota, how many times as long its waits are as those without, and both in words."""
    row, alone = one_row(table, situation=f"{lock}, quota"), one_row(table, situation=lock)
    if not row.throttled_percent > 0:
        raise CannotTell("The holder's group was never throttled.")
    part = int(row.stopped_percent)
    stopped = f"; for at least {part} % of all that waiting the holder had no CPU" if part else ""
    reason = (
        f"one wait in ten for {LOCKS[lock]} took {ns(row.p90_ns)} or more with a quota on the holder, "
        f"{ns(alone.p90_ns)} without{stopped}."
    )
    longer = ratio(row, alone, "p90", "ns")
    if longer[0] > LONGER and row.stopped_percent < STOPPED_PERCENT:
        raise CannotTell(f"That they are longer for want of a CPU is not seen: {reason}")
    return row, longer, reason


def _long_without_help(table: pd.DataFrame) -> pd.Series:
    """The row of an ordinary mutex whose holder has a quota.  CannotTell if there may be nothing to mend."""
    row, (least, most), reason = _beside_none(table, "mutex")
    if least < LONGER:
        why = "There was nothing to mend" if most < LONGER else "Whether there was anything to mend is open"
        raise CannotTell(f"{why} ({_times(least, most)}): {reason}")
    return row


def _short(
    longer: tuple[float, float],
    reason: str,
    rule: str = f"Less than {LONGER} times as long counts as not kept waiting.",
) -> Verdict:
    """Holds where the waits are not LONGER times as long."""
    said = f"{reason} {rule}"
    unclear = f"The intervals allow either ({_times(*longer)}):"
    return holds_or_fails(longer[1] < LONGER, longer[0] > LONGER, said, unclear)


def _times(least: float, most: float) -> str:
    return f"{number_text(least)} to {number_text(most)} times"


def _nobody_waits(table: pd.DataFrame, lock: str) -> Verdict:
    """The same beside a holder without a quota.  CannotTell where most of the waiting is in a few."""
    row, longer, reason = _beside_none(table, lock)
    if longer[1] < LONGER and row.stopped_percent > 50:
        raise CannotTell(f"Fewer than one wait in ten was long, and they are most of the waiting: {reason}")
    return _short(longer, reason)


def _slows_nobody_else(table: pd.DataFrame) -> Verdict:
    """Statistic: p90 of the waits of a process without a limit, by interval.  Control: the same holder
    without a quota; the group was throttled.  Design: a CPU for each where there are two, and no rival.
    Opponent: where they share no lock it is true.
    """
    return _nobody_waits(table, "mutex")


def _keeps_no_kernel_lock(table: pd.DataFrame) -> Verdict:
    """Statistic: p90 of the waits for the lock of a file, by interval.  Control: the same write() without a
    quota; the group was throttled.  Design: nearly all of the quota goes into write().  Opponent: a write()
    can need more CPU time under a quota; hence the part of the waiting in which the holder had no CPU.
    Other locks of the kernel were not measured.
    """
    return _nobody_waits(table, "file")


def _stops_everybody(table: pd.DataFrame) -> Verdict:
    """Statistic: p90 of the waits, by interval.  Control: an ordinary mutex and the same quota, where the
    wait is long.  Design: the waiter is a real-time thread, and the lock passes its priority on.  Opponent: a
    holder for whom nobody waits is stopped all the same.
    """
    plain, row = _long_without_help(table), one_row(table, situation="inherit, quota")
    shorter = ratio(plain, row, "p90", "ns")
    reason = f"one wait in ten took {ns(row.p90_ns)} or more with inheritance, {ns(plain.p90_ns)} without."
    return _short(shorter, reason, f"Only a wait {LONGER} times as long without shows that the holder ran.")


def _burst_helps(table: pd.DataFrame) -> Verdict:
    """Statistic: p90 of the waits, by interval.  Control: no quota; and a quota without a burst, where the
    wait is long.  Design: the holder shall need less than its quota and what was saved up.  Opponent: one
    that needs more is stopped all the same; hence the CPU time of its holds.
    """
    plain, alone = _long_without_help(table), one_row(table, situation="mutex")
    row = one_row(table, situation="mutex, quota + burst")
    reason = (
        f"one wait in ten took {ns(row.p90_ns)} or more with a burst, {ns(plain.p90_ns)} with a quota alone, "
        f"{ns(alone.p90_ns)} with none."
    )
    longer = ratio(row, alone, "p90", "ns")
    if longer[0] > LONGER and row.needed_percent > NEEDED_PERCENT:
        raise CannotTell(
            f"The holds alone needed up to {row.needed_percent:.0f} % of quota and savings together: {reason}"
        )
    return _short(longer, reason)


WAITS = "holder.waits"
MANUAL = "read out of Documentation/scheduler/sched-bwc.rst"
CLAIMS = [
    Claim("quota-others", "A CPU limit on one program slows down no other one.", "a common belief", WAITS,
          _slows_nobody_else),
    Claim("quota-file", "A program that has used up its CPU limit keeps no lock of the kernel.",
          "read out of kernel/sched/fair.c of Linux 6.18", WAITS, _keeps_no_kernel_lock),
    Claim("quota-priority", "Where a group's threads have had their quota of CPU time, none of them runs "
          "before the next period.", MANUAL, WAITS, _stops_everybody),
    Claim("quota-burst", "A burst (cpu.max.burst, cpu.cfs_burst_us) keeps others from waiting for a holder "
          "that needs more than its quota now and then.", MANUAL, WAITS, _burst_helps),
]  # fmt: skip
