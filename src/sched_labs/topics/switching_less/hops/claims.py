"""What people say about hops, judged on a run."""

from __future__ import annotations

from functools import partial

import pandas as pd

from sched_labs.claims.base import FAILS, HOLDS, WEB_COURSE, CannotTell, Claim, Verdict, ns
from sched_labs.claims.helpers import count, holds_or_fails, one_row, some

COROUTINE_ARTICLE = "an article on a web service with coroutines, quoted in a collection of switch benchmarks"
THREAD_COST_ARTICLE = "an article on the costs of threads"
FEW = 0.1  # switches for each item: nothing that happens at every item
NAMES_OF_HOPS = {
    "go_1": "a Go channel on 1 P",
    "stack": "a stack switch",
    "greenlet": "greenlet",
    "asyncio": "asyncio",
}


def _like_a_call(table: pd.DataFrame) -> Verdict:
    """Statistic: time a hop, by interval, against 10 ns.  Control: a function call.  Design: a
    bare stack switch, and coroutines that are built on a runtime.  Opponent: the bare one is like a call.
    """
    ways = some(table[table["by"].isin(NAMES_OF_HOPS)], "This run measured no coroutine.")
    dear = ways[ways.ns_lo_per_hop > 10]
    told = ways if dear.empty else dear
    said = ", ".join(f"{NAMES_OF_HOPS[str(way.by)]} {ns(way.ns_per_hop)}" for _, way in told.iterrows())
    if len(dear):
        near = ways[ways.ns_hi_per_hop <= 10]
        like = [f"{NAMES_OF_HOPS[str(way.by)]} {ns(way.ns_per_hop)}" for _, way in near.iterrows()]
        said += f"; like a call: {', '.join(like)}" if like else ""
        return Verdict(FAILS, f"{said}.")
    if (ways.ns_hi_per_hop <= 10).all():
        return Verdict(HOLDS, f"{said}.")
    dearest = ways.sort_values("ns_hi_per_hop").iloc[-1]
    raise CannotTell(
        f"The intervals span 10 ns ({ns(dearest.ns_lo_per_hop)} to {ns(dearest.ns_hi_per_hop)}, "
        f"{NAMES_OF_HOPS[str(dearest.by)]}): {said}."
    )


def _kernel_count(table: pd.DataFrame, by: str) -> tuple[float, float, str]:
    way = one_row(table, NAMES_OF_HOPS[by], by=by)
    text = f"Switches in the kernel for each hop: {count(way.kernel_switches_per_hop)} ({NAMES_OF_HOPS[by]})"
    return way.kernel_switches_lo_per_hop, way.kernel_switches_hi_per_hop, text


def _spans_few(least: float, most: float) -> str:
    return f"The interval spans {FEW} ({count(least)} to {count(most)}):"


def _kernel_sees(table: pd.DataFrame, by: str) -> Verdict:
    """Statistic: kernel switches a hop, by interval.  Control: a pipe, which makes one at every hop.
    Design: one thread with nobody to hand over to.  Opponent: a hop that waits for input does reach the
    kernel.
    """
    least, most, text = _kernel_count(table, by)
    return holds_or_fails(least >= FEW, most < FEW, f"{text}.", _spans_few(least, most))


def _goroutines_avoid_it(table: pd.DataFrame) -> Verdict:
    """Statistic: kernel switches a hop, by interval.  Control: a pipe.  Design: one processor for Go.
    Opponent: with several, idle ones are woken.
    """
    least, most, text = _kernel_count(table, "go_1")
    return holds_or_fails(most < FEW, least >= FEW, f"{text}.", _spans_few(least, most))


def _channels_and_pipes(table: pd.DataFrame) -> Verdict:
    """Statistic: ratio of times a hop, by interval.  Control: a pipe between two threads on one CPU.
    Design: unbuffered channels.  Opponent: buffered ones hop less often.
    """
    channel, pipe = one_row(table, NAMES_OF_HOPS["go_1"], by="go_1"), one_row(table, "a pipe", by="pipe")
    least, most = pipe.ns_lo_per_hop / channel.ns_hi_per_hop, pipe.ns_hi_per_hop / channel.ns_lo_per_hop
    text = (
        f"pipe {ns(pipe.ns_per_hop)}, {NAMES_OF_HOPS['go_1']} {ns(channel.ns_per_hop)}: "
        f"{pipe.ns_per_hop / channel.ns_per_hop:.2f} times (interval {least:.2f} to {most:.2f})"
    )
    return holds_or_fails(least >= 7, most < 7, f"{text}.", "The interval spans seven times:")


HOPS = "hops.compared"
CLAIMS = [
    Claim("004-039", "Switching between coroutines is like a function call, a few nanoseconds.",
          COROUTINE_ARTICLE, HOPS, _like_a_call),
    Claim("000-066", "Switching between goroutines shows up in the kernel's switch rate.", WEB_COURSE, HOPS,
          partial(_kernel_sees, by="go_1")),
    Claim("003-015", "Goroutines hand over without a switch in the kernel.", THREAD_COST_ARTICLE, HOPS,
          _goroutines_avoid_it),
    Claim("003-014", "Go's channels hand over at least seven times as fast as pipes.", THREAD_COST_ARTICLE,
          HOPS, _channels_and_pipes),
    Claim("000-136", "await asyncio.sleep(0) makes a switch in the kernel.", WEB_COURSE, HOPS,
          partial(_kernel_sees, by="asyncio")),
]  # fmt: skip
