"""What people say about throttle, judged on a run."""

from __future__ import annotations

import pandas as pd

from sched_labs.claims.base import FAILS, CannotTell, Claim, Verdict, ns

BELIEF = "a common belief"
TIMELINE = "throttle.timeline"


def _range(percent: pd.Series[float]) -> str:
    low, high = f"{percent.min():.0f}", f"{percent.max():.0f}"
    return f"{low} %" if low == high else f"between {low} and {high} %"


def _like_a_slower_cpu(table: pd.DataFrame) -> Verdict:
    """Statistic: share of requests that met a throttling, p50 and p99.  Control: the others, in the same
    run.  Design: open loop, so that waiting counts.  Opponent: a service at its limit all the time
    would be slow all the time, by waiting and not as on a slower CPU: no run shows that it is true.
    """
    seen = table[table.held_percent.notna()]
    if seen.empty:
        raise CannotTell("The throttled intervals were not watched from inside the kernel (BPF).")
    if seen.throttled_periods.sum() == 0:
        raise CannotTell("No period was throttled.")
    held = _range(seen.held_percent)
    if (seen.held_percent >= 95).all():
        raise CannotTell(f"Too few did not meet a throttled group: {held} of the requests did.")
    reason = (
        f"{held} of the requests met a throttled group, and half of them took longer than "
        f"{ns(seen.held_p50_ns.min())}; 99 of 100 of the others took less than {ns(seen.other_p99_ns.max())}."
    )
    if (seen.other_p99_ns < seen.held_p50_ns).all():
        return Verdict(FAILS, reason)
    raise CannotTell(f"The two times are not far enough apart: {reason}")


CLAIMS = [
    Claim("slower-cpu", "A CPU limit slows every request down, as a slower CPU would.", BELIEF, TIMELINE,
          _like_a_slower_cpu),
]  # fmt: skip
