"""What people say about waking a thread on another CPU, judged on a run."""

from __future__ import annotations

import math

import pandas as pd

from sched_labs.claims.base import ONE_VM, CannotTell, Claim, Verdict, ns
from sched_labs.claims.helpers import above, between, holds_or_fails, one_row

from .experiment import not_idled

KIND = "wakepath.parts"
AS_LONG = 1.25  # times: more than one run's calls differ from the next one's


def _row(table: pd.DataFrame, situation: str) -> pd.Series:
    row = one_row(table, f"wake-ups of the situation {situation!r}", situation=situation)
    if not math.isfinite(row.p50_hi_ns):
        raise CannotTell("One trial says nothing about how trials vary.")
    if why := not_idled(row):
        raise CannotTell(why)
    return row


def _idle_unpolled(table: pd.DataFrame) -> pd.Series:
    """The row "idle"; CannotTell where its CPU did what that of "poll" does."""
    row = _row(table, "idle")
    if row.polled_percent > 50:
        raise CannotTell(f"The idle CPU polled by itself for {row.polled_percent:.0f} % of the time.")
    return row


def _idle_is_soonest(table: pd.DataFrame) -> Verdict:
    """Statistic: by how much a trial's median is shorter than in the idle trial beside it, by interval over
    the pairs.  Control: the same CPU and the same waker.  Design: a thread of the policy SCHED_IDLE uses the
    CPU; starts take turns.  Opponent: an ordinary thread would be in the way; this one gives way, with lazy
    preemption at the tick only.
    """
    _row(table, "idle")  # which has to be idle, too
    busy = _row(table, "spinner")
    reason = (
        "trial by trial the wake-up on the idle CPU less that on the one busy with a thread that gives way "
        f"is {ns(busy.sooner_ns)} in the median, interval {between(busy, 'sooner', 'ns')}."
    )
    return holds_or_fails(busy.sooner_hi_ns < 0, busy.sooner_lo_ns > 0, reason, "The interval spans zero:")


def _leaving_idle(table: pd.DataFrame) -> Verdict:
    """Statistic: what part of the median is gone where the CPU polls, by interval.  Control: the same CPU
    idles as the machine has it.  Design: a CPU that polls needs neither an interrupt nor a way out of its
    idle state.  Opponent: polling takes both away at once, and the sentence has both.
    """
    idle, polled = _idle_unpolled(table), _row(table, "poll")
    low, high = 1 - polled.p50_hi_ns / idle.p50_lo_ns, 1 - polled.p50_lo_ns / idle.p50_hi_ns
    reason = (
        f"{ns(idle.p50_ns)} on the idle CPU, {ns(polled.p50_ns)} where it polled: {100 * low:.0f} to "
        f"{100 * high:.0f} % less."
    )
    return above(low, high, 0.5, reason)


def _histogram_has_it(table: pd.DataFrame) -> Verdict:
    """Statistic: what part of the wake-up lies between sched_wakeup and sched_switch, by interval.  Control:
    the same wake-ups by the threads' own clocks.  Design: wake-ups of middling length, on an idle CPU.
    Opponent: where a thread waits behind others, the queue is nearly all of it.
    """
    row = _row(table, "idle")
    if math.isnan(row.queue_percent):
        raise CannotTell("The stations of the wake-ups were not seen (BPF).")
    reason = (
        f"of the {ns(row.running_at_ns)} of a wake-up of middling length a run-queue histogram has "
        f"{row.queue_percent:.0f} % in the median of the trials (interval {row.queue_lo_percent:.0f} to "
        f"{row.queue_hi_percent:.0f})."
    )
    return above(row.queue_lo_percent, row.queue_hi_percent, 50, reason)


def _free_for_the_waker(table: pd.DataFrame) -> Verdict:
    """Statistic: median time of the waker's system call, by interval.  Control: the same call to a CPU that
    polls.  Design: the waker does the same each time, and its own CPU idles between two calls.  Opponent:
    that CPU polls, too, in the control, and comes out of its idle state before the call.
    """
    idle, polled = _idle_unpolled(table), _row(table, "poll")
    low = idle.waker_p50_lo_ns / polled.waker_p50_hi_ns
    high = idle.waker_p50_hi_ns / polled.waker_p50_lo_ns
    reason = (
        f"the call took {ns(idle.waker_p50_ns)} where the other CPU was idle, {ns(polled.waker_p50_ns)} "
        f"where it polled: {low:.1f} to {high:.1f} times as long."
    )
    return holds_or_fails(high < AS_LONG, low > AS_LONG, reason, "The interval spans 1.25 times:")


CLAIMS = [
    Claim("idle-soonest", "An idle CPU runs a woken thread sooner than a busy one.",
          "a common belief", KIND, _idle_is_soonest),
    Claim("idle-exit", "Most of a wake-up on another, idle CPU is telling it, and its way out of idle.",
          ONE_VM, KIND, _leaving_idle),
    Claim("wake-histogram", "A run-queue histogram shows most of what a wake-up on an idle CPU takes.",
          "a common belief", KIND, _histogram_has_it),
    Claim("waker-pays", "To wake a thread takes the waker as long, whether the other CPU sleeps or polls.",
          "a common belief", KIND, _free_for_the_waker),
]  # fmt: skip
