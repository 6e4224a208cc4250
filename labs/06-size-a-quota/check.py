"""Services drawn at random, by simulation, and a real one where a group may be made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Real
from statistics import median
from typing import Any

import numpy as np

from sched_labs.core import lock
from sched_labs.labs import Judge, compare
from sched_labs.labs.served import cpus, served
from sched_labs.limits import bandwidth, cgroups
from sched_labs.topics.cgroup_throttling.service.experiment import calibrate

SLOWER, DEARER, REAL_SLOWER = 2.0, 1.5, 4.0
# The work of a request in µs, and the load in CPUs: small requests at a high load need little more than their
# average, large ones at a low load twice as much, so that no one factor fits both.
KINDS = ((1_000, 0.6, 0.7), (10_000, 0.25, 0.35), (5_000, 0.3, 0.7), (2_000, 0.3, 0.7))
DRAWS, SECONDS = 3, 60
FINE = 0.005  # of a quota: how precisely the smallest one is looked for
REAL = {"arrivals_per_s": 100, "work_us": 4_000, "threads": 4, "period_us": 100_000}
REAL_MS = 2_000


def asked(judge: Judge, answer: Callable[..., Any], service: dict[str, Any]) -> float:
    most = service["cpus"] * service["period_us"]
    quota = answer(dict(service))
    judge.need(
        isinstance(quota, Real) and 1000 <= quota <= most,
        f"quota_us must return a number from 1000 to {most}, not {quota!r}.",
    )
    return float(quota)


def drawn(rng: np.random.Generator) -> list[dict[str, Any]]:
    """One service of each kind, in any order."""
    services = []
    for work_us, low, high in rng.permutation(KINDS):
        cpus_there = int(rng.choice([2, 4]))
        services.append(
            {
                "arrivals_per_s": round(rng.uniform(low, high) * 1e6 / work_us),
                "work_us": int(work_us),
                "threads": 2 * cpus_there,
                "cpus": cpus_there,
                "period_us": 100_000,
            }
        )
    return services


class Tail:
    """How many times longer the p99 is under a quota than without: median over draws of the arrivals."""

    def __init__(self, service: dict[str, Any], seeds: Sequence[int]) -> None:
        self.service, self.seeds = service, seeds
        self.most = service["cpus"] * service["period_us"]
        self.free = [self._us(self.most, seed) for seed in seeds]

    def _us(self, quota: float, seed: int) -> float:
        given = {key: self.service[key] for key in ("threads", "cpus", "arrivals_per_s", "work_us")}
        run = bandwidth.simulate(
            round(quota), self.service["period_us"], duration_s=SECONDS, seed=seed, **given
        )
        return run.quantile_us(0.99)

    def times(self, quota: float) -> float:
        pairs = zip(self.seeds, self.free, strict=True)
        return round(median(self._us(quota, seed) / free for seed, free in pairs), 2)

    def enough(self) -> float:
        """The smallest quota under which it is SLOWER times at most."""
        # No quota below the average does it, and one of all CPUs is no limit.
        low = self.service["arrivals_per_s"] * self.service["work_us"] * self.service["period_us"] / 1e6
        high = float(self.most)
        while high - low > FINE * low:
            middle = (low + high) / 2
            if self.times(middle) <= SLOWER:
                high = middle
            else:
                low = middle
        return high


def check(judge: Judge) -> None:
    answer = judge.function("answer.py", "quota_us")
    simulated(judge, answer)
    able, why = cgroups.possible()
    if able:
        real(judge, answer)
    else:
        judge.remark(f"No group with a quota can be made here, so no real service was run: {why}")


def simulated(judge: Judge, answer: Callable[..., Any]) -> None:
    """One service of each kind under the reader's quota."""
    slow, dear = [], []
    for service in drawn(judge.rng):
        quota = asked(judge, answer, service)
        tail = Tail(service, [int(seed) for seed in judge.rng.integers(1_000_000, size=DRAWS)])
        about = f"{service['arrivals_per_s']} requests a second of {service['work_us'] / 1000:g} ms"
        slow.append((tail.times(quota), about))
        dear.append((round(quota / tail.enough(), 2), about))
    (times, about), (factor, of) = max(slow), max(dear)
    judge.expect(
        times <= SLOWER,
        good=f"the tail is at most {times:.2f} times what it is without a limit.",
        missing=f"with {about} the tail is {times:.2f} times what it is without a limit, and {SLOWER:g} may "
        "be. Does the load come evenly?",
    )
    judge.expect(
        factor <= DEARER,
        good=f"no quota is more than {factor:.2f} times what is needed.",
        missing=f"with {of} your quota is {factor:.2f} times what would be enough, and {DEARER:g} may be.",
    )


def real(judge: Judge, answer: Callable[..., Any]) -> None:
    """A real service under the reader's quota, and without one, with the same requests, in turns."""
    service: dict[str, Any] = REAL | {"cpus": len(cpus())}
    quota = round(asked(judge, answer, service))
    average = service["arrivals_per_s"] * service["work_us"] * service["period_us"] // 1_000_000
    judge.need(
        quota >= average, f"for the real service you gave {quota} µs, and it needs {average} µs on average."
    )
    first_seed = int(judge.rng.integers(1_000_000))
    with lock.machine("the lab's service"):
        loops = calibrate(service["work_us"])

        def turn(number: int) -> dict[str, float]:
            p99 = {}
            for limit in sorted((None, quota), key=bool, reverse=number % 2 == 1):
                p99[limit] = served(
                    loops=loops,
                    threads=service["threads"],
                    rate_per_s=service["arrivals_per_s"],
                    duration_ms=REAL_MS,
                    seed=first_seed + number,
                    quota_us=limit,
                ).p99_ms
            return {"tail": p99[quota] / p99[None]}

        tail = compare(turn, at_most={"tail": REAL_SLOWER})["tail"]
    told = f"under your quota the p99 of a real service is {tail} times what it is without"
    judge.expect(
        tail.holds,
        good=f"{told}.",
        missing=f"{told}, and {REAL_SLOWER:g} may be.",
        unclear=f"{told}: that leaves open whether it is {REAL_SLOWER:g} at most.",
    )
