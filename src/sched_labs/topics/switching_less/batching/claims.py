"""What people say about batching, judged on a run."""

from __future__ import annotations

import pandas as pd

from sched_labs.claims.base import FAILS, HOLDS, WEB_COURSE, CannotTell, Claim, Verdict, ns
from sched_labs.claims.helpers import between, count
from sched_labs.core.words import number_text


def _batches(table: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    ordered = table.sort_values("batch_events")
    if len(ordered) < 2:
        raise CannotTell("This run measured one batch size only.")
    small = ordered.iloc[0]
    if small.wakeups_hi_per_event < 0.5 / small.batch_events:
        raise CannotTell(
            "The worker was late for most events, and so had them in batches of its own: "
            f"{count(small.wakeups_per_event)} wake-ups an event, with batches of "
            f"{int(small.batch_events)}."
        )
    return small, ordered.iloc[-1]


def _wakes_divided(table: pd.DataFrame) -> Verdict:
    """Statistic: ratio of wake-ups an event, within a factor of two.  Control: the smallest batch.
    Design: events at fixed times.  Opponent: a late worker makes batches of its own.
    """
    small, large = _batches(table)
    if not large.wakeups_lo_per_event:
        raise CannotTell(
            f"In some trials with batches of {int(large.batch_events):,} nothing woke the worker: "
            "it was late for all of them."
        )
    wanted = large.batch_events / small.batch_events
    least = small.wakeups_lo_per_event / large.wakeups_hi_per_event
    most = small.wakeups_hi_per_event / large.wakeups_lo_per_event
    before, after = small.wakeups_per_event, large.wakeups_per_event
    reason = (
        f"{int(wanted):,} times the batch, wake-ups (voluntary switches) for each event from "
        f"{number_text(before)} to {number_text(after)}: {before / after:,.0f} times fewer "
        f"(interval {least:,.0f} to {most:,.0f}); judged as {int(wanted):,} within a factor of two."
    )
    if least >= wanted / 2 and most <= wanted * 2:
        return Verdict(HOLDS, reason)
    if most < wanted / 2 or least > wanted * 2:
        return Verdict(FAILS, reason)
    raise CannotTell(f"The interval reaches past the factor of two: {reason}")


def _switching_dwarfs_work(table: pd.DataFrame) -> Verdict:
    """Statistic: CPU time an event, small batches against large.  Control: the largest batch, whose work
    it is.  Design: about 10 µs of work an event, and a CPU that may go idle in between: what that costs is in
    it, so that more than the work proves no price of switching, and the sentence can only fail.
    Opponent: on a busy CPU an event costs less beyond its work.
    """
    small, large = _batches(table)
    each_second = 1e9 * small.wakeups_per_event / small.period_ns
    work = large.cpu_ns_per_event
    least = small.cpu_ns_lo_per_event - large.cpu_ns_hi_per_event
    most = small.cpu_ns_hi_per_event - large.cpu_ns_lo_per_event
    reason = (
        f"{ns(small.cpu_ns_per_event)} of CPU time an event in batches of {int(small.batch_events):,}, on a "
        f"CPU that may have gone idle before each, and {ns(work)} in batches of {int(large.batch_events):,} "
        f"(interval of the difference {ns(least)} to {ns(most)})."
    )
    if not 5_000 <= each_second <= 20_000:
        raise CannotTell(f"There were {each_second:,.0f} wake-ups a second, not about 10,000. {reason}")
    if not 8_000 <= work <= 12_500:
        raise CannotTell(f"This run's work was not about 10 µs an event. {reason}")
    if small.cpu_ns_lo_per_event > 2 * large.cpu_ns_hi_per_event:
        raise CannotTell(f"More than the work, but not surely by switching alone: {reason}")
    if small.cpu_ns_hi_per_event < 2 * large.cpu_ns_lo_per_event:
        return Verdict(FAILS, reason)
    raise CannotTell(
        f"The intervals reach across (the work's is {between(large, 'cpu_ns', 'per_event')}). {reason}"
    )


CLAIMS = [
    Claim("000-092", "A batch of a thousand events makes a thousand times fewer wake-ups.", WEB_COURSE,
          "batching.sweep", _wakes_divided),
    Claim("000-091", "At 10,000 wake-ups a second and 10 µs of work for each, switching dwarfs the work.",
          WEB_COURSE, "batching.sweep", _switching_dwarfs_work),
]  # fmt: skip
