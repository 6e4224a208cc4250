"""What people say about wakeplace, judged on a run."""

from __future__ import annotations

import math

import pandas as pd

from sched_labs.claims.base import FAILS, HOLDS, CannotTell, Claim, Verdict, ns
from sched_labs.claims.base import LATENCY_COURSE as COURSE
from sched_labs.claims.helpers import between, holds_or_fails, one_row, tail_ratio, within

from .experiment import SLOW_NS

IDLE_PERCENT = 60  # the woken workers themselves use some of the other CPUs
BUSY_PERCENT = 85  # hogs have a CPU from when a block starts until it ends, not before and after


def not_idle(others_idle_percent: float) -> str:
    """What stands against "the other CPUs were idle"; else an empty text."""
    if others_idle_percent < IDLE_PERCENT:
        return f"The other CPUs were idle for {others_idle_percent:.0f} % of the time only."
    return ""


def _woken(table: pd.DataFrame, condition: str) -> pd.Series:
    cell = one_row(table, f"wake-ups with {condition}", condition=condition)
    if why := not_idle(cell.others_idle_percent):
        raise CannotTell(why)
    return cell


def _waits_beside_idle(table: pd.DataFrame) -> Verdict:
    """Statistic: p50 and p99, in trials.  Control: how idle the other CPUs were.  Design: the waker never
    sleeps, and a worker's last CPU is idle.  Opponent: below a millisecond it is the way out of idle, and no
    wait; above it, too, where threads bound to an idle CPU take as long.
    """
    cell = _woken(table, "idle CPUs")
    reason = (
        f"with idle CPUs half of the wake-ups ran within {ns(cell.p50_ns)}, 99 % within {ns(cell.p99_ns)} "
        f"(interval {between(cell, 'p99', 'ns')}). Where 99 % take less than a millisecond, that is taken "
        "for no wait."
    )
    if cell.p99_hi_ns < 1e6:
        return Verdict(FAILS, reason)
    if cell.p50_lo_ns > 1e6:
        bound = _woken(table, "bound to an idle CPU")
        reason += f" Bound to an idle CPU half ran within {ns(bound.p50_ns)}."
        if cell.p50_lo_ns > bound.p50_hi_ns:
            return Verdict(HOLDS, reason)
    raise CannotTell(f"{reason} The CPUs may not have been idle: other programs run, too.")


def _eleven_ms_beside_idle(table: pd.DataFrame) -> Verdict:
    """Statistic: the longest wait, for the sentence says "up to".  Control: threads bound to an idle CPU.
    Design: a worker that finds its last CPU idle goes there, and short waits are no finding; where its last
    CPU is busy and another one idle, they are.
    Opponent: a single long wait may be the hypervisor's; as long a one without any choice says it is, and
    one without slow ones beside it may be.
    """
    cell, noise = _woken(table, "idle CPUs"), _woken(table, "bound to an idle CPU")
    longest = f"with idle CPUs the longest of {int(cell.wakes)} waits took {ns(cell.max_ns)}"
    if cell.max_ns < 5e6:
        if not (table.condition == "previous CPU busy").any():
            raise CannotTell(
                f"{longest}, but there the last CPU of a worker was idle as well, and this run did not "
                "measure wake-ups with previous CPU busy."
            )
        cell = _woken(table, "previous CPU busy")
        longest += f", with the last CPU busy {ns(cell.max_ns)} of {int(cell.wakes)}"
    if cell.max_ns < 5e6:
        return Verdict(FAILS, f"Less than 5 ms: {longest}.")
    reason = f"{longest}; bound to an idle CPU the longest took {ns(noise.max_ns)}."
    if cell.max_ns <= 5 * noise.max_ns:
        raise CannotTell(
            "Waits of 5 ms or more count where they are over five times as long as the longest without a "
            f"choice of CPUs: {reason}"
        )
    if cell.slow_lo_percent > noise.slow_hi_percent:
        return Verdict(HOLDS, reason)
    raise CannotTell(
        f"A few long waits may be other programs', or the hypervisor's: {_slow(cell)} took more than "
        f"{ns(SLOW_NS)}, {_slow(noise)} bound to an idle CPU; {reason}"
    )


def _affinity_dominates(table: pd.DataFrame) -> Verdict:
    """Statistic: the share of wake-ups on the waker's CPU.  Control: how idle the free CPUs were.  Design:
    where the CPU that a worker slept on is idle, the kernel takes it and searches no further (the first
    checks of select_idle_sibling in 6.1 and 6.12), so that only a busy one asks the question.  Opponent: one
    cache only.
    """
    cell = _woken(table, "previous CPU busy")
    reason = (
        f"with the last CPU busy and another idle {cell.on_waker_percent:.1f} % of the wake-ups put their "
        f"thread on the waker's busy one (interval {cell.on_waker_lo_percent:.1f} to "
        f"{cell.on_waker_hi_percent:.1f})."
    )
    if cell.on_waker_hi_percent < 10:
        return Verdict(FAILS, reason)
    if cell.on_waker_lo_percent > 50:
        return Verdict(HOLDS, reason)
    raise CannotTell(f"{reason} Other programs may have filled the idle CPUs.")


def _migration_cost_helps(table: pd.DataFrame) -> Verdict:
    """Statistic: p99.  Control: the same without the change, in turns.  Design: the last CPU is busy, so that
    the kernel has to search.  Opponent: balancing reads the number, too (task_hot, sched_balance_newidle).
    """
    plain, cheap = _woken(table, "previous CPU busy"), _woken(table, "low migration cost")
    least, most = tail_ratio(cheap, plain)
    reason = (
        f"one wake-up in a hundred took {ns(plain.p99_ns)} or more, {ns(cheap.p99_ns)} with a hundredth of "
        "the migration cost. A tail below 0.7 times the other is taken for shorter."
    )
    unclear = f"The intervals allow either, {least:.2f} to {most:.2f} times as long:"
    return holds_or_fails(most < 0.7, least > 0.7, reason, unclear)


def _slow(cell: pd.Series) -> str:
    if not math.isfinite(cell.slow_hi_percent):
        raise CannotTell("One trial says nothing about how trials vary.")
    return f"{cell.slow_percent:.1f} % (interval {cell.slow_lo_percent:.1f} to {cell.slow_hi_percent:.1f})"


def _idle_cpu_means_no_wait(table: pd.DataFrame) -> Verdict:
    """Statistic: the share of waits above 300 µs.  Control: threads bound to an idle CPU, whose long waits
    the machine makes by itself.  Design: a mask leaves the waker's busy CPU only.  Opponent: that is the
    claim.
    """
    bound, noise = _woken(table, "bound to the waker"), _woken(table, "bound to an idle CPU")
    reason = (
        f"with the other CPUs idle for {bound.others_idle_percent:.0f} % of the time, {_slow(bound)} of the "
        f"wake-ups took more than {ns(SLOW_NS)} for threads bound to one CPU, a busy one; bound to an "
        f"idle CPU {_slow(noise)}."
    )
    if bound.slow_lo_percent > noise.slow_hi_percent:
        return Verdict(FAILS, reason)
    if bound.slow_hi_percent == 0 and bound.p99_hi_ns < 1e5:
        return Verdict(HOLDS, reason)
    if bound.slow_hi_percent == 0:
        reason += (
            f" Of the former 99 % ran within {ns(bound.p99_ns)} (interval {between(bound, 'p99', 'ns')})."
        )
    raise CannotTell(f"These may be other programs', or the hypervisor's: {reason}")


def _long_waits_are_misplaced(table: pd.DataFrame) -> Verdict:
    """Statistic: the share of waits above 300 µs.  Control: idle CPUs to go to, and threads bound to one.
    Design: hogs on all others leave no better place.  Opponent: an average of idleness hides short moments of
    it; hence 85 %.
    """
    free, crowded = _woken(table, "idle CPUs"), one_row(table, "busy CPUs", condition="every CPU busy")
    if crowded.others_idle_percent > 100 - BUSY_PERCENT:
        raise CannotTell(f"Not every CPU was busy: the others idled {crowded.others_idle_percent:.0f} %.")
    reason = (
        f"{_slow(crowded)} of the wake-ups took more than {ns(SLOW_NS)} where every CPU was busy, "
        f"{_slow(free)} where a CPU was idle to go to."
    )
    if crowded.slow_lo_percent > free.slow_hi_percent:
        return Verdict(FAILS, reason)
    if free.slow_lo_percent <= crowded.slow_hi_percent:
        raise CannotTell(f"The intervals overlap: {reason}")
    bound = _woken(table, "bound to an idle CPU")
    if free.slow_lo_percent > bound.slow_hi_percent:
        return Verdict(HOLDS, reason)
    raise CannotTell(f"Bound to an idle CPU {_slow(bound)} of the wake-ups were slow, too: {reason}")


def _idle_wake_2_to_7_us(table: pd.DataFrame) -> Verdict:
    """Statistic: the median from the waker's system call until the thread runs, by interval.
    Control: the same on the waker's own CPU.  Design: bound to an idle CPU, so that a message has to reach
    it. Opponent: a run-queue histogram begins after that message, and shows less.
    """
    cell = _woken(table, "bound to an idle CPU")
    reason = (
        f"bound to an idle CPU half of the wake-ups ran within {ns(cell.p50_ns)} of the waker's call, "
        f"interval {between(cell, 'p50', 'ns')}."
    )
    return within(cell.p50_lo_ns, cell.p50_hi_ns, 2_000, 7_000, reason)


CLAIMS = [
    Claim("002-027", "With idle CPUs a woken thread runs after 2 to 7 µs.", COURSE, "wakeplace.sweep",
          _idle_wake_2_to_7_us),
    Claim("002-018", "A woken thread waits although no other CPU is busy.", COURSE, "wakeplace.sweep",
          _waits_beside_idle),
    Claim("002-002", "Workers wait up to 11 ms while there are idle CPUs.", COURSE, "wakeplace.sweep",
          _eleven_ms_beside_idle),
    Claim("002-007", "On a partly loaded machine, wake-up affinity puts threads on the waker's busy CPU.",
          COURSE, "wakeplace.sweep", _affinity_dominates),
    Claim("L30", "A lower sched_migration_cost_ns shortens the tail of wake-ups.", COURSE, "wakeplace.sweep",
          _migration_cost_helps),
    Claim("002-056", "A long wait for a CPU means that the thread was placed wrongly: another CPU was idle.",
          COURSE, "wakeplace.sweep", _long_waits_are_misplaced),
    Claim("002-123-mask", "While some CPU is idle, nobody waits for one.",
          f"a common belief, refuted in {COURSE}", "wakeplace.sweep", _idle_cpu_means_no_wait),
]  # fmt: skip
