"""What people say about quota, judged on a run."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from sched_labs.claims.base import FAILS, HOLDS, WEB_COURSE, CannotTell, Claim, Verdict, ns, yes
from sched_labs.claims.base import LATENCY_COURSE as COURSE
from sched_labs.claims.helpers import between, holds_or_fails, some, within
from sched_labs.topics.cgroup_throttling import OTHERS

HOG = "quota.hog"
THREADS = "quota.threads"
LATENCY = "service.latency"


def _limited(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of a hog under a limit that stood still at all."""
    found = table[(table.share_percent < 100) & table.stall_ns.notna() & (table.throttled_periods > 0)]
    if found.empty:
        raise CannotTell("No thread was held back by a limit in this run.")
    return found


def _like_a_switch(table: pd.DataFrame) -> Verdict:
    """Statistic: stalls of every limit, the ends of their intervals.  Control: throttled time for each
    throttled period, as the kernel counted both, because gaps of less than 1 ms are not taken for stalls.
    Design: a hog, which always meets its limit.  Opponent: 0.2 ms is far more than a switch.
    """
    stalls = _limited(table)
    low, high = stalls.stall_lo_ns.min(), stalls.stall_hi_ns.max()
    counted = stalls.counted_stall_ns.min()
    if not math.isfinite(low) or not math.isfinite(high):
        raise CannotTell("A limit held the thread back in one trial only: that gives no interval.")
    least, most = stalls.stall_ns.min(), stalls.stall_ns.max()
    reason = (
        f"the median stall of each limit lasted between {ns(least)} and {ns(most)}, and by the "
        f"kernel's count the thread stood still for at least {ns(counted)} of a throttled period, on average."
    )
    if low > 200_000 and counted > 200_000:
        return Verdict(FAILS, reason)
    if high <= 200_000:
        return Verdict(HOLDS, reason)
    raise CannotTell(
        f"The intervals reach from {ns(low)} to {ns(high)}, and the kernel counts {ns(counted)} for each "
        "throttled period of a limit."
    )


def _default_period(table: pd.DataFrame) -> Verdict:
    """Statistic: one file of a new group.  Control: none is needed.  Design: nothing is set before it is
    read.  Opponent: a manager of services may set another.
    """
    period = table.default_period_ns.iloc[0]
    if period is None or not math.isfinite(period):
        raise CannotTell("No group was made, so its default was not seen.")
    return yes(period == 100e6, f"a new group here has a period of {ns(period)}.")


def _half_a_cpu(table: pd.DataFrame) -> Verdict:
    """Statistic: how long the thread stood still in a throttled period, which is what its quota leaves of it.
    Control: the throttled periods that the kernel counted.
    Design: a block's first period may be cut short, so that CPU time over a block says less.
    Opponent: a slice or a tick of overrun is in it, and the limits allow five points for them.
    """
    half = table[(table.share_percent == 50) & (table.period_ns == 100e6)]
    if half.empty:
        raise CannotTell("This run did not measure 50 ms in 100 ms.")
    row = half.iloc[0]
    if row.throttled_percent < 50:
        raise CannotTell(f"Only {row.throttled_percent:.0f} % of the periods were throttled.")
    low, high = (100 * (1 - row[end] / row.period_ns) for end in ("stall_hi_ns", "stall_lo_ns"))
    reason = (
        f"under 50,000 µs in 100,000 µs a busy thread's stall leaves "
        f"{100 * (1 - row.stall_ns / row.period_ns):.1f} % of a period (interval {low:.1f} to {high:.1f})."
    )
    return within(low, high, 45, 55, reason)


def _throttled_time_ns(table: pd.DataFrame) -> Verdict:
    """Statistic: the name of a field.  Control: none is needed.  Design: read from a group that was made
    here.  Opponent: version 1 and 2 differ.
    """
    field = table.throttled_field.iloc[0]
    if not isinstance(field, str):
        raise CannotTell("No group was made, so its cpu.stat was not seen.")
    return yes(field == "throttled_time_ns", f"here cpu.stat calls it {field}.")


def _many(table: pd.DataFrame) -> pd.Series:
    """The row with the most threads, where more than one of them could run at once and all stood still."""
    row = table.sort_values("threads").iloc[-1]
    if min(row.threads, row.cpus) < 2:
        raise CannotTell("This run had no two threads on two CPUs.")
    _held_back(row)
    return row


def _held_back(row: Any) -> None:
    """That it was the limit which made the threads stand still, and not other programs."""
    if not math.isfinite(row.ran_ns) or row.throttled_periods == 0:
        raise CannotTell("The threads were not held back in this run.")
    if row.throttled_percent < 50:
        raise CannotTell(f"{OTHERS} only {row.throttled_percent:.0f} % of the periods were throttled.")


def _as_pinned(table: pd.DataFrame) -> Verdict:
    """Statistic: time until all stood, by interval, against the quota less a slice and a tick, by which one
    stall may miss the formula.  Control: throttled in half of the periods at least.
    Design: more threads than one on more than one CPU.  Opponent: where other programs have the other CPUs it
    looks true, so that no run shows that it is.
    """
    row = _many(table)
    reason = (
        f"{row.threads:g} threads on {row.cpus:g} CPUs used {ns(row.quota_ns)} up in {ns(row.ran_ns)} "
        f"(interval {between(row, 'ran', 'ns')})."
    )
    if row.ran_hi_ns < row.quota_ns - row.tolerance_ns:
        return Verdict(FAILS, reason)
    if row.ran_lo_ns >= 0.95 * row.quota_ns:
        raise CannotTell(f"{OTHERS} {reason}")
    raise CannotTell(f"The interval comes within {_grain(row)} of the quota: {reason}")


def _at_most_the_rest(table: pd.DataFrame) -> Verdict:
    """Statistic: stall, by interval, against period - quota and a slice and a tick more.  Control: throttled
    in half of the periods at least.  Design: threads on several CPUs.  Opponent: of one thread it is true,
    and where other programs have the other CPUs it looks true.
    """
    row = _many(table)
    rest = row.period_ns - row.quota_ns
    reason = (
        f"{row.threads:g} threads stood still for {ns(row.stall_ns)} (interval {ns(row.stall_lo_ns)} to "
        f"{ns(row.stall_hi_ns)}); period - quota is {ns(rest)}."
    )
    if row.stall_lo_ns > rest + row.tolerance_ns:
        return Verdict(FAILS, reason)
    unclear = OTHERS if row.stall_hi_ns <= rest else f"The interval does not lie {_grain(row)} beyond it:"
    raise CannotTell(f"{unclear} {reason}")


def _grain(row: Any) -> str:
    return f"{ns(row.tolerance_ns)}, a slice and a tick,"


def _divided_by_threads(table: pd.DataFrame) -> Verdict:
    """Statistic: time until all stood, against both formulas, and to fail a slice and a tick beyond the
    claimed one.  Control: throttled in half of the periods at least.  Design: more threads than CPUs.
    Opponent: with as many CPUs the two are one, and a slice or a tick makes the time longer there, too.
    """
    more = some(table[table.threads > table.cpus], "This run had no more threads than CPUs.")
    row = more.sort_values("threads").iloc[-1]
    _held_back(row)
    claimed = row.quota_ns / row.threads
    reason = (
        f"{row.threads:g} threads on {row.cpus:g} CPUs: {ns(row.ran_ns)} (interval {ns(row.ran_lo_ns)} to "
        f"{ns(row.ran_hi_ns)}); quota / threads is {ns(claimed)}, quota / CPUs {ns(row.formula_ran_ns)}."
    )
    between = (claimed + row.formula_ran_ns) / 2
    if row.ran_lo_ns > between and row.ran_lo_ns <= claimed + row.tolerance_ns:
        raise CannotTell(f"The interval does not lie {_grain(row)} beyond quota / threads: {reason}")
    return holds_or_fails(
        row.ran_hi_ns < between, row.ran_lo_ns > between, reason, "The interval spans both:"
    )


CLAIMS = [
    Claim("000-101", "Being throttled costs what a context switch and its warm-up cost: 50 to 200 µs.",
          WEB_COURSE, HOG, _like_a_switch),
    Claim("000-140", "The default period is 100 ms.", WEB_COURSE, HOG, _default_period),
    Claim("002-090", "A limit of 500m, half a CPU, is a quota of 50,000 µs in every 100,000 µs.", COURSE,
          HOG, _half_a_cpu),
    Claim("002-094", "cpu.stat reports the throttled time as throttled_time_ns.", COURSE, HOG,
          _throttled_time_ns),
    Claim("002-039", "A small CPU limit is the same as being pinned to one CPU for that part of the time.",
          COURSE, THREADS, _as_pinned),
    Claim("002-092", "A throttled thread waits for period minus quota at most.", COURSE, THREADS,
          _at_most_the_rest),
    Claim("002-095", "Threads use a quota up in quota / threads, however many CPUs there are.", COURSE,
          THREADS, _divided_by_threads),
]  # fmt: skip
