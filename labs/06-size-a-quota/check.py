"""Services drawn at random, by simulation, and a real one where a group may be made."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np

from sched_labs import bandwidth, cgroups, machine
from sched_labs.experiments import service as experiment
from sched_labs.labs import Judge

SERVICES = 4
SLOWER, DEARER = 2.0, 1.5
STEPS = np.arange(0.05, 1.001, 0.05)


def tail_us(service: dict[str, Any], quota: float, seed: int) -> float:
    given = {key: service[key] for key in ("threads", "cpus", "arrivals_per_s", "work_us")}
    run = bandwidth.simulate(round(quota), service["period_us"], duration_s=60, seed=seed, **given)
    return run.quantile_us(0.99)


def asked(judge: Judge, answer: Callable[..., Any], service: dict[str, Any]) -> float:
    most = service["cpus"] * service["period_us"]
    quota = answer(dict(service))
    judge.need(
        isinstance(quota, Real) and 1000 <= quota <= most,
        f"quota_us must return a number from 1000 to {most}, not {quota!r}.",
    )
    return float(quota)


def check(judge: Judge) -> None:
    answer = judge.function("answer.py", "quota_us")
    slow, dear = [], []
    for _ in range(SERVICES):
        cpus = int(judge.rng.choice([2, 4]))
        work_us = int(judge.rng.choice([2_000, 5_000, 8_000]))
        load = float(judge.rng.uniform(0.3, 0.7))  # of one CPU
        service = {
            "arrivals_per_s": round(load * 1e6 / work_us),
            "work_us": work_us,
            "threads": 2 * cpus,
            "cpus": cpus,
            "period_us": 100_000,
        }
        seed = int(judge.rng.integers(1000))
        most = cpus * service["period_us"]
        quota = asked(judge, answer, service)
        free = tail_us(service, most, seed)
        slow.append(tail_us(service, quota, seed) / free)
        enough = next(most * step for step in STEPS if tail_us(service, most * step, seed) <= SLOWER * free)
        dear.append(quota / enough)
    judge.expect(
        max(slow) <= SLOWER,
        good=f"the tail is at most {max(slow):.1f} times what it is without a limit.",
        missing=f"under one of your quotas the tail is {max(slow):.0f} times what it is without a limit. "
        "Does the load come evenly?",
    )
    judge.expect(
        max(dear) <= DEARER,
        good=f"no quota is more than {max(dear):.1f} times what is needed.",
        missing=f"one of your quotas is {max(dear):.1f} times what would be enough.",
    )
    able, why = cgroups.possible()
    if not able:
        judge.remark(f"No group with a quota can be made here, so no real service was run: {why}")
        return
    service = {"arrivals_per_s": 100, "work_us": 4_000, "threads": 4, "period_us": 100_000}
    service["cpus"] = min(2, len(machine.survey().cpus_allowed))
    quota = round(asked(judge, answer, service))
    demand = max(1, round(100 * 0.4 * service["period_us"] / quota))
    judge.need(demand <= 100, "the real service would need more than your quota on average.")
    table = experiment.latency(
        quota_us=quota, period_us=service["period_us"], demands_percent=[demand], work_us=4_000, threads=4,
        batch=1, limits=["none", "quota"], neighbours=["idle"], trials=5, duration_s=1.0,
        save=False, progress=False,
    ).summary().set_index("limit")  # fmt: skip
    ratio = float(table.p99_ns["quota"] / table.p99_ns["none"])
    judge.expect(
        ratio <= 2 * SLOWER,  # a few hundred requests: their tail is known to a factor
        good=f"a real service under your quota has a tail of {ratio:.1f} times what it has without.",
        missing=f"a real service under your quota has a tail of {ratio:.0f} times what it has without.",
    )
