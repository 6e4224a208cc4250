"""The book's small service for a moment in a control group, as the labs on CPU limits need it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .. import machine, workloads
from ..limits import cgroups
from ..steer import placement


class Served(NamedTuple):
    """Latency of the requests in ms, from when they were due, and what cpu.stat counted meanwhile.

    A request that no thread had taken at the end counts with the time that it had waited until then.
    """

    p50_ms: float
    p99_ms: float
    throttled_periods: int
    periods: int


def cpus() -> list[int]:
    """The CPUs that the service runs on: two where there are two."""
    return machine.survey().cpus_allowed[-2:]


def served(
    *,
    loops: int,
    threads: int,
    rate_per_s: int,
    duration_ms: int,
    batch: int = 1,
    arrivals: str = "poisson",
    seed: int = 1,
    quota_us: int | None = None,
    period_us: int = cgroups.PERIOD_US,
    burst_us: int = 0,
) -> Served:
    """Run it once; `loops` of work for each request (service.calibrate), without a quota or with one.

    Raises PlacementError where no group can be made.
    """
    words = {
        "--threads": threads, "--duration-ms": duration_ms, "--rate-per-s": rate_per_s, "--batch": batch,
        "--loops": loops, "--seed": seed, "--arrivals": arrivals,
    }  # fmt: skip
    with (
        cgroups.group("lab", quota_us=quota_us, period_us=period_us, burst_us=burst_us) as group,
        workloads.start(
            "service",
            [str(word) for pair in words.items() for word in pair],
            deadline_s=duration_ms / 1000 + 30,
        ) as service,
    ):
        group.add(service.pid)
        placement.pin(service.tids, cpus())
        before = group.counted()
        records = service.run()
        counted = group.counted().since(before)
    end = next(record["elapsed_ns"] for record in records if record.kind == "service")
    latencies = [
        (record["end_ns"] if record["end_ns"] >= 0 else end) - record["arrival_ns"]
        for record in records
        if record.kind == "request"
    ]
    p50, p99 = np.quantile(latencies, (0.5, 0.99)) / 1e6
    return Served(float(p50), float(p99), counted.throttled_periods, counted.periods)
