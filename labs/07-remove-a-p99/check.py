"""The service under both settings, in turns: in a real group where one can be made, else simulated."""

from __future__ import annotations

from statistics import median
from typing import Any

import numpy as np

from sched_labs import bandwidth, cgroups, lock, machine, placement, workloads
from sched_labs.experiments.service import calibrate
from sched_labs.labs import Judge

TODAY = {"threads": 8, "period_us": 100_000, "burst_us": 0}
BETTER = 0.7
BATCH, WORK_US, BATCHES_PER_S, SECONDS, TURNS = 8, 4_000, 6, 3, 3


def served(settings: dict[str, Any], loops: int, seed: int) -> tuple[float, int]:
    """p99 of the latency in ms, and requests that nobody had taken at the end."""
    arguments = {
        "--threads": settings["threads"], "--duration-ms": 1000 * SECONDS,
        "--rate-per-s": BATCH * BATCHES_PER_S, "--batch": BATCH, "--loops": loops, "--seed": seed,
        "--arrivals": "poisson",
    }  # fmt: skip
    words = [str(word) for pair in arguments.items() for word in pair]
    quota = settings["period_us"] // 2
    with (
        cgroups.group(
            "lab", quota_us=quota, period_us=settings["period_us"], burst_us=settings["burst_us"]
        ) as group,
        workloads.start("service", words, deadline_s=60) as service,
    ):
        group.add(service.pid)
        placement.pin(service.tids, machine.survey().cpus_allowed[-2:])
        records = service.run()
    latencies = [r["end_ns"] - r["arrival_ns"] for r in records if r.kind == "request" and r["end_ns"] >= 0]
    waiting = sum(r["waiting"] for r in records if r.kind == "service")
    return float(np.quantile(latencies, 0.99)) / 1e6, waiting


def simulated(settings: dict[str, Any], seed: int) -> tuple[float, int]:
    # As many batches as the rate says, each at any time: so the arrivals of the real service are drawn too.
    batches = np.sort(np.random.default_rng(seed).uniform(0, 60e6, 60 * BATCHES_PER_S))
    run = bandwidth.replay(
        settings["period_us"] // 2,
        settings["period_us"],
        np.repeat(batches, BATCH),
        threads=settings["threads"],
        cpus=2,
        duration_s=60,
        burst_us=settings["burst_us"],
        work_us=WORK_US,
    )
    return run.quantile_us(0.99) / 1000, run.in_flight


def check(judge: Judge) -> None:
    settings = judge.settings("settings.json")
    mine: dict[str, Any] = {
        "threads": int(judge.number(settings, "threads", 1, 16)),
        "period_us": int(judge.number(settings, "period_us", 10_000, 1_000_000)),
    }
    mine["burst_us"] = int(judge.number(settings, "burst_us", 0, mine["period_us"] / 2))
    able, why = cgroups.possible()
    with lock.machine("the lab's service"):
        loops = calibrate(WORK_US) if able else 0
        ours, theirs, left, left_today = [], [], 0, 0
        for turn in range(TURNS):
            for settings_now, into in ((TODAY, theirs), (mine, ours)):
                seed = judge.seed * TURNS + turn + 1
                tail, waiting = served(settings_now, loops, seed) if able else simulated(settings_now, seed)
                into.append(tail)
                if settings_now is mine:
                    left += waiting
                else:
                    left_today += waiting
    allowed = TURNS * BATCH  # a batch may come shortly before the end of a run
    judge.need(
        left_today <= allowed,
        f"this machine had not even half a CPU for the service: under today's settings {left_today} requests "
        f"were left waiting, and at most {allowed} should be. Check again when it has less to do.",
    )
    if not able:
        judge.remark(f"No group with a quota can be made here, so this was simulated: {why}")
    ratio = median(a / b for a, b in zip(ours, theirs, strict=True))
    judge.expect(
        ratio <= BETTER,
        good=f"one request in a hundred took {median(ours):.0f} ms or more, today {median(theirs):.0f} ms.",
        missing=f"your p99 is {ratio:.0%} of today's. "
        "When is the group stopped, and what did it leave unused before?",
    )
    judge.expect(
        left <= allowed,
        good=f"{left} requests were still waiting when the runs ended, of {allowed} that may.",
        missing=f"{left} requests were still waiting when the runs ended; at most {allowed} may.",
    )
