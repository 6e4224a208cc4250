"""Its own threads, and where they may run: yields, a mask that crowds them, too many of them."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from ...machine.files import cpu_ranges
from ...probes.status import SHORT_STINT_NS
from ..causes import Causes
from ..seen import Seen
from .base import LEAST_MS, PAGES, Finding, how, names, share_of

IDLE_ELSEWHERE = 0.3  # of the time of CPUs that it may not use: then it would not have waited for a rival
YIELDS_PER_S = 1000.0
TOGETHER_MS = 20.0  # of every second: whatever wakes several threads at once has them wait for each other
FOUR_FIFTHS = 0.8  # of what it wanted: those few that hardly want a CPU crowd nobody


def yields(seen: Seen, causes: Causes) -> Iterator[Finding]:
    rows = _yielding(seen)
    rate = float(rows["involuntary_per_s"].sum())
    if not _yields_often(seen):
        return
    waited = float(rows["waiting_ms_per_s"].sum())
    stint_us = float(rows["running_ms_per_s"].sum()) * 1e3 / rate
    yield Finding(
        "yields",
        f"{names(rows)} gives its CPU away {rate:,.0f} times a second: sched_yield in a loop.",
        waited,
        share_of(waited, seen, causes),
        f"{rate:,.0f} involuntary switches a second, after {stint_us:,.1f} µs on the CPU each; no slice "
        "ends so soon, and the kernel counts a yield as involuntary.",
        "A thread that is preempted by each one that it wakes: that one sleeps soon; one that yields stays "
        "runnable. Only the helper tells them apart.",
        "Let it block instead of yielding: a futex, a condition, or a lock that sleeps.",
        PAGES["switch"],
    )


def _yielding(seen: Seen) -> pd.DataFrame:
    rows = seen.threads
    involuntary, voluntary = rows["involuntary_per_s"], rows["voluntary_per_s"]
    stint_ns = rows["running_ms_per_s"] * 1e6 / (involuntary + voluntary).clip(lower=1e-9)
    often = (involuntary > 10 * voluntary) & (involuntary > YIELDS_PER_S / 4)
    rows = rows[often & (stint_ns < SHORT_STINT_NS)]
    # A thread may also be preempted each time by the one that it has just woken, which then sleeps.
    running = seen.handed_over_running(set(rows["tid"]))
    return rows if running is None or running > 0.5 else rows.iloc[:0]


def _yields_often(seen: Seen) -> bool:
    return float(_yielding(seen)["involuntary_per_s"].sum()) >= YIELDS_PER_S


def _outside(seen: Seen) -> pd.DataFrame:
    """The CPUs that it may not use."""
    return seen.cpus[~seen.cpus["allowed"].astype(bool)] if len(seen.cpus) else seen.cpus


def spared(seen: Seen, causes: Causes) -> float:
    """ms of every second of its waits for other programs that CPUs would have spared it which it may not use.

    All, where these were idle often enough; of fuller ones as much as they were idle.
    """
    others, outside = causes.long.get("other_task", 0.0), _outside(seen)
    if outside.empty:
        return 0.0
    each = outside["idle_ms_per_s"]
    return others if each.mean() >= 1000 * IDLE_ELSEWHERE else min(others, float(each.sum()))


def only(seen: Seen) -> str:
    """Which CPUs a mask leaves it, as the end of a sentence; "" where there is none."""
    if _outside(seen).empty:
        return ""
    return f"may use CPU {cpu_ranges(sorted(seen.allowed))} only, {len(seen.allowed)} of {len(seen.cpus)}"


def mask(seen: Seen, causes: Causes) -> Iterator[Finding]:
    outside = _outside(seen)
    if outside.empty or _yields_often(seen):
        return
    lost = causes.long.get("same_program", 0.0) + spared(seen, causes)
    idle = outside["idle_ms_per_s"].mean()
    used = f"stood idle for {idle:,.0f} ms of every second"
    if idle < 1000 * IDLE_ELSEWHERE:
        used = f"was busy with others, and stood idle for {idle:,.0f} ms of every second"
    beside, attempt = _beside(seen, causes), "Widen the mask or the cpuset"
    attempt += "." if fits(seen) else ", or run as many busy threads as it has CPUs."
    yield Finding(
        "mask",
        f"It {only(seen)}.",
        lost,
        share_of(lost, seen, causes),
        f"Cpus_allowed_list. Its threads wanted {seen.wanted / 1000:.1f} CPUs. CPU "
        f"{cpu_ranges([int(cpu) for cpu in outside['cpu']])}, which it may not use, {used}."
        f"{beside} The waits are {how(causes)}.",
        "Its own affinity (taskset, a thread library) and a cpuset of its group look alike: compare "
        "Cpus_allowed_list of the process with cpuset.cpus.effective of its group.",
        attempt,
        PAGES["mask"],
    )


def _beside(seen: Seen, causes: Causes) -> str:
    """Who has the CPUs that it may use, where others do, as a sentence."""
    others = causes.long.get("other_task", 0.0)
    rows = seen.rivals[~seen.rivals["kernel"] & (seen.rivals["policy"] == "OTHER")]
    if rows.empty or others < LEAST_MS:
        return ""
    top = rows.iloc[0]
    others_are = f"others, such as {top['name']} (process {top['pid']})"
    return f" On CPU {cpu_ranges(sorted(seen.allowed))} it waited {others:,.0f} ms for {others_are}."


def fits(seen: Seen) -> bool:
    """Whether it has no more threads that want a CPU than it has CPUs."""
    want = (seen.threads["running_ms_per_s"] + seen.threads["waiting_ms_per_s"]).sort_values(ascending=False)
    before = want.cumsum() - want
    return int((before < FOUR_FIFTHS * want.sum()).sum()) <= len(seen.allowed)


def own_threads(seen: Seen, causes: Causes) -> Iterator[Finding]:
    if len(_outside(seen)) or _yields_often(seen):
        return  # told of already
    if fits(seen):
        return  # fewer threads would not help
    lost = causes.long.get("same_program", 0.0)
    if lost < TOGETHER_MS:
        return
    rows = seen.threads
    want = rows["running_ms_per_s"] + rows["waiting_ms_per_s"]
    busy, most = int((want > 100).sum()), len(seen.allowed)
    title = f"{busy} busy threads share {most} CPUs"
    attempt = f"Run at most {max(1, most)} busy threads; a larger pool only queues inside the kernel."
    if busy <= most:
        title = "they want the CPUs at the same moments"
        attempt = "Let them not all be woken at once: spread their timers, or hand the work to fewer threads."
    room = ""
    if causes.room is not None and causes.room > 0.5 * lost:
        room = " During most of these waits another CPU that they may use was idle at some moment."
    yield Finding(
        "own_threads",
        f"Its own threads wait for each other: {title}.",
        lost,
        share_of(lost, seen, causes),
        f"Its threads wanted {seen.wanted / 1000:.1f} CPUs and got {seen.running / 1000:.1f}; the waits are "
        f"{how(causes)}.{room}",
        "A rival takes the CPU as well; then its own threads alone would fit.",
        attempt,
        PAGES["threads"],
    )
