"""The service under both settings and without a limit, in turns: in a real group where one can be made."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from statistics import median

import numpy as np

from sched_labs.core import lock
from sched_labs.labs import Judge, compare
from sched_labs.labs.served import Served, served
from sched_labs.limits import bandwidth, cgroups
from sched_labs.topics.cgroup_throttling.service.experiment import calibrate

TODAY = {"threads": 8, "period_us": 100_000, "burst_us": 0}
BETTER = 0.7  # of today's p99
THE_LIMIT = 0.6  # of today's p99: without a limit it is less, or it is not the limit that makes it slow
# Seven batches in two seconds: 286 ms apart, so that they meet a period at seven places, evenly.
BATCH, WORK_US, BATCHES, MS = 16, 4_000, 7, 2_000
NEEDED_US = BATCH * WORK_US
AT_ONCE_US = round(1.4 * NEEDED_US)  # what others were promised
Server = Callable[[dict[str, int], bool], Served]


def real() -> Server:
    loops = calibrate(WORK_US)

    def run(settings: dict[str, int], limited: bool) -> Served:
        limit = {"period_us": settings["period_us"], "burst_us": settings["burst_us"]}
        return served(
            loops=loops, threads=settings["threads"], rate_per_s=BATCH * BATCHES * 1000 // MS, batch=BATCH,
            arrivals="even", duration_ms=MS,
            **limit | {"quota_us": limit["period_us"] // 2} if limited else {},
        )  # fmt: skip

    return run


def simulated(settings: dict[str, int], limited: bool) -> Served:
    period_us = settings["period_us"]
    apart = 1000 * MS / BATCHES
    batches = np.repeat(apart * (np.arange(30 * BATCHES) + 0.5), BATCH)  # a minute
    run = bandwidth.replay(
        period_us // 2 if limited else 2 * period_us,
        period_us,
        batches,
        threads=settings["threads"],
        cpus=2,
        duration_s=30 * MS / 1000,
        burst_us=settings["burst_us"] if limited else 0,
        work_us=WORK_US,
    )
    p50, p99 = run.quantile_us(0.5) / 1000, run.quantile_us(0.99) / 1000
    return Served(p50, p99, run.nr_throttled, run.nr_periods)


def check(judge: Judge) -> None:
    settings = judge.settings("settings.json")
    period_us = int(judge.number(settings, "period_us", 10_000, 1_000_000))
    mine = {
        "threads": int(judge.number(settings, "threads", 1, 16)),
        "period_us": period_us,
        "burst_us": int(judge.number(settings, "burst_us", 0, period_us / 2)),
    }
    judge.need(
        settings.get("predicted_p99_ms") is not None,
        "predicted_p99_ms is empty. Write down which p99 you expect, in ms, before you see it.",
    )
    expected = judge.number(settings, "predicted_p99_ms", 1, 10_000)
    at_once = period_us // 2 + mine["burst_us"]
    told = (
        f"your group may take {at_once / 1000:g} ms of CPU time in one go; a batch needs {NEEDED_US / 1000:g}"
    )
    judge.expect(
        at_once <= AT_ONCE_US,
        good=f"{told}.",
        missing=f"{told}. Meanwhile the others wait, who were promised {AT_ONCE_US / 1000:g} ms at most.",
    )
    able, why = cgroups.possible()
    if able and mine["burst_us"]:
        judge.can_tell(cgroups.can_burst(), "this kernel cannot save quota up: that came with Linux 5.14.")
    if not able:
        judge.remark(f"No group with a quota can be made here, so this was simulated: {why}")
    sides = {"today": (TODAY, True), "mine": (mine, True), "free": (mine, False)}
    runs: dict[str, list[Served]] = {name: [] for name in sides}
    first = int(judge.rng.integers(len(sides)))
    with lock.machine("the lab's service") if able else contextlib.nullcontext():
        serve = real() if able else simulated

        def turn(number: int) -> dict[str, float]:
            for name in np.roll(list(sides), first + number):
                runs[name].append(serve(*sides[name]))
            today = runs["today"][-1].p99_ms
            return {"mine": runs["mine"][-1].p99_ms / today, "free": runs["free"][-1].p99_ms / today}

        found = compare(turn, at_most={"mine": BETTER, "free": THE_LIMIT})
    for name, called in (("today", "today"), ("mine", "with your settings"), ("free", "without a limit")):
        judge.remark(f"{called}: {summary(runs[name])}")
    judge.remark(f"you predicted a p99 of {expected:g} ms.")
    told = f"your p99 is {found['mine'].percent} of today's"
    judge.can_tell(
        found["free"].holds is True,
        f"{told}, but without any limit it is {found['free'].percent}: it is not the limit alone that makes "
        "the service slow now, the machine has other things to do.",
    )
    judge.expect(
        found["mine"].holds,
        good=f"{told}.",
        missing=f"{told}, and at most {BETTER:.0%} should be. "
        "When is the group stopped, and what did it leave unused before?",
        unclear=f"{told}: that leaves open whether it is {BETTER:.0%} at most.",
    )


def summary(runs: list[Served]) -> str:
    """p50 and p99 are medians over the turns; the periods are all of them."""
    p50, p99 = median(run.p50_ms for run in runs), median(run.p99_ms for run in runs)
    throttled, periods = sum(run.throttled_periods for run in runs), sum(run.periods for run in runs)
    counted = f", nr_throttled {throttled} of {periods} periods" if periods else ""
    return f"p50 {p50:.1f} ms, p99 {p99:.1f} ms{counted}"
