"""What the window means: one finding for each reason, with its size, its evidence, and what to try.

Waits for a CPU come first, the largest on top; then what is no fault of the scheduler's, unless it takes many
times as long.  The same part of
the waiting time is never told twice: a mask that crowds its threads is not also a fault of these threads.
"""

from __future__ import annotations

import math
from dataclasses import asdict, replace

import pandas as pd

from ..causes import SHORT_NS, Causes
from ..seen import Seen
from . import limits, neighbours, price, queues, sleeps, timing
from .base import LEAST_MS, LEAST_SHARE, PAGES, Finding
from .limits import container
from .price import Costs

__all__ = ["Costs", "Finding", "container", "findings", "table"]

MANY_TIMES = 10.0  # as long as the largest wait for a CPU: what takes that is told of first
ONLY_FOR_LOCKS = 0.3  # of what it wanted: with less waiting for a CPU, locks are told of first
WAITS = (
    *(queues.yields, limits.quota, neighbours.realtime, queues.mask, queues.own_threads),
    *(neighbours.rival, neighbours.kernel, neighbours.interrupts, neighbours.steal),
)
OWN_TIME = (sleeps.disk, sleeps.faults, timing.slack)
OTHERS = (sleeps.migrations, timing.client)


def findings(seen: Seen, causes: Causes, costs: Costs) -> list[Finding]:
    """All that were found, the first to look at on top.  `costs`: what a switch costs on this machine."""
    waits = [one for find in WAITS for one in find(seen, causes) if _matters(one)]
    waits.sort(key=lambda one: -one.size_ms_per_s)
    locks = list(sleeps.locks(seen))
    shared = [one for one in neighbours.own_client(seen, causes) if _matters(one)]
    own = [one for find in OWN_TIME for one in find(seen)]
    larger = [one for one in own if waits and one.size_ms_per_s >= MANY_TIMES * waits[0].size_ms_per_s]
    own = [one for one in own if one not in larger]
    others = [*shared, *own, *(one for find in OTHERS for one in find(seen)), *timing.idle(seen, causes)]
    others.sort(key=lambda one: -one.size_ms_per_s if one.size_ms_per_s == one.size_ms_per_s else 0.0)
    others += price.price(seen, costs)
    found = [*locks, *waits, *others] if _locks_first(locks, waits) else [*waits, *locks, *others]
    if waits:
        return sorted(larger, key=lambda one: -one.size_ms_per_s) + found
    nothing = _nothing(seen, causes)
    if shared and found[0] is shared[0]:
        return [_beside_its_client(nothing, shared[0]), *found[1:]]
    return [*found, nothing]


def _beside_its_client(nothing: Finding, shared: Finding) -> Finding:
    """Both as one: a reader who asks why a server waits is not to be left with the half of it."""
    title = f"{nothing.title.removesuffix('.')}: {shared.title[0].lower()}{shared.title[1:]}"
    evidence = f"{nothing.evidence} {shared.evidence}"
    return replace(shared, name=nothing.name, title=title, evidence=evidence, scheduling=True)


def _locks_first(locks: list[Finding], waits: list[Finding]) -> bool:
    """Whether the locks are to be looked at before the waits for a CPU.

    Whoever holds a lock and is kept from its CPU lets the others wait for the lock: then the CPU comes first.
    But threads that are woken at a lock also wait for a CPU, for each other.
    """
    if not locks or not waits or waits[0].share <= ONLY_FOR_LOCKS:
        return True
    return waits[0].name == "own_threads" and locks[0].size_ms_per_s > waits[0].size_ms_per_s


def table(found: list[Finding]) -> pd.DataFrame:
    """One row per finding, its fields as columns."""
    return pd.DataFrame([asdict(one) for one in found])


def _matters(one: Finding) -> bool:
    return one.size_ms_per_s >= LEAST_MS and one.share >= LEAST_SHARE


def _nothing(seen: Seen, causes: Causes) -> Finding:
    share = f", {seen.waiting / seen.wanted:.1%} of what it wanted" if seen.waiting >= LEAST_MS else ""
    doing = [f"ran {seen.running:,.0f} ms"]
    doing += [f"slept {ms:,.0f} ms for {kind}" for kind, ms in list(seen.asleep.items())[:2] if ms >= 1]
    short = ""
    if causes.exact:
        ms = sum(causes.short.values())
        short = f" Of its waits {ms:,.1f} ms are ones below {SHORT_NS // 1000} µs, the price of waking up."
    own = causes.long.get("same_program", 0.0)
    if own >= LEAST_SHARE * seen.wanted and own >= LEAST_MS and queues.fits(seen):
        short += (
            f" {own:,.0f} ms are waits for its own threads, which are no more than its CPUs: others had the "
            "other CPUs then, or two of its threads were left on one."
        )
        if causes.room and causes.room >= own / 2:
            short += (
                " During half of them or more another CPU was idle at some moment: bind them and compare."
            )
    return Finding(
        "nothing",
        "Nothing is wrong with scheduling here.",
        causes.long_sum,
        math.nan,
        f"It waited for a CPU {seen.waiting:,.1f} ms of every second{share}. Its threads together "
        f"{', '.join(doing)}.{short}",
        "A slow moment may have come before or after: watch longer.",
        "Look at what it sleeps for, or at the code that it runs: `perf top -p PID`.",
        PAGES["wait"],
        True,
    )
