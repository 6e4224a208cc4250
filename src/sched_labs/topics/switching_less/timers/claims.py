"""What people say about timers, judged on a run."""

from __future__ import annotations

import pandas as pd

from sched_labs.claims.base import FAILS, HOLDS, WEB_COURSE, CannotTell, Claim, Verdict, ns
from sched_labs.claims.helpers import between, count, one_row

SOON_NS = 250_000.0  # a quarter of the shortest tick, with HZ=1000
APART_NS = 200_000.0  # twice the quiet that ends a burst: closer times may make one by themselves
LONGEST_TICK_NS = 10_000_000.0  # with HZ=100
TIMES = {"own": "own times", "together": "the same times"}


def _wake_at_the_tick(table: pd.DataFrame) -> Verdict:
    """Statistic: bursts an event and lateness, by interval.  Control: threads with a common timer.
    Design: high resolution timers, a slack of 1 ns.  Opponent: with a large slack, or without such timers,
    they would; and threads that get no CPU for longer than a tick are served together, too.
    """
    own = one_row(table, by="own")
    reason = (
        f"{own.threads} threads with times of their own woke up after 0.1 ms of quiet "
        f"{own.bursts_per_event:.2f} times an event, and served half of the events within "
        f"{ns(own.late_p50_ns)} of their time."
    )
    if own.bursts_lo_per_event > 0.5 and own.late_p50_hi_ns < SOON_NS:
        return Verdict(FAILS, reason)
    late = between(own, "late_p50", "ns")
    if own.bursts_hi_per_event < 2 / own.threads:
        apart_ns = own.period_ns / own.threads
        if apart_ns < APART_NS:
            raise CannotTell(f"Their times lie {ns(apart_ns)} apart, too close to tell: {reason}")
        if own.late_p50_hi_ns > LONGEST_TICK_NS:
            raise CannotTell(
                f"Half of the events may come later than a tick of 10 ms explains ({late}): {reason}"
            )
        return Verdict(HOLDS, reason)
    if own.bursts_lo_per_event > 0.5:
        raise CannotTell(
            f"Half of the events come not surely within a quarter of a tick of 1 ms ({late}): {reason}"
        )
    ends = between(own, "bursts", "per_event", count)
    raise CannotTell(f"Neither surely more than one for two events nor one for all ({ends}): {reason}")


def _together_is_cheaper(table: pd.DataFrame) -> Verdict:
    """Statistic: CPU time an event, by interval.  Control: a timer for each, at times of their own and all at
    the same times, for a common time saves wake-ups without a common timer.  Design: the same jobs.
    Opponent: one thread for all jobs delays them by one another.
    """
    one, each = one_row(table, by="one"), [one_row(table, by=by) for by in ("own", "together")]
    own, together = (ns(row.cpu_ns_per_event) for row in each)
    reason = (
        f"CPU time an event: a timer for each {own} at own times and {together} at the same times, "
        f"one timer {ns(one.cpu_ns_per_event)}."
    )
    if all(one.cpu_ns_hi_per_event < row.cpu_ns_lo_per_event for row in each):
        return Verdict(HOLDS, reason)
    if any(one.cpu_ns_lo_per_event > row.cpu_ns_hi_per_event for row in each):
        return Verdict(FAILS, reason)
    spans = [row for row in each if one.cpu_ns_hi_per_event >= row.cpu_ns_lo_per_event]
    ends = " and ".join(f"{between(row, 'cpu_ns', 'per_event')} at {TIMES[str(row.by)]}" for row in spans)
    raise CannotTell(
        f"One timer's interval ({between(one, 'cpu_ns', 'per_event')}) overlaps with {ends}. {reason}"
    )


CLAIMS = [
    Claim("000-063", "Timer-driven threads all wake at the tick.", WEB_COURSE, "timers.aligned",
          _wake_at_the_tick),
    Claim("aligned", "One timer for all jobs costs less CPU time than a timer for each.",
          "advice in many places", "timers.aligned", _together_is_cheaper),
]  # fmt: skip
