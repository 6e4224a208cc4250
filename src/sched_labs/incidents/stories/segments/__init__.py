"""Many threads, and every one of them suspected."""

from __future__ import annotations

import random

from ...story import Change, Program, Repair, Story, Variant


def story(draw: random.Random) -> Story:
    rate, cpu_us = draw.randint(30, 36), draw.randint(3800, 4400)
    workers, threads = draw.randint(18, 24), draw.randint(16, 22)
    return Story(
        title="Segments: a hundred thousand viewers, and far too many threads",
        suspect="own-threads",
        target_ms=35,
        grouped=True,
        programs=(
            Program(
                "client", "client", "players that fetch segments", {"rate_per_s": rate}, "service", "front"
            ),
            Program(
                "service",
                "service",
                "cuts and sends segments of a stream",
                {
                    **{"workers": workers, "cpu_us": cpu_us},
                    **{"threads": threads, "period_ms": 300, "work_us": 24_000},
                },
                knobs=("workers", "threads", "spin", "linger_ms", "poll_ms"),
            ),
            Program(
                "batch",
                "batch",
                "encodes the archive",
                {"threads": 1, "period_ms": 300, "work_us": draw.randint(28, 36) * 1000},
                knobs=("threads",),
            ),
        ),
        variants=(
            Variant(
                "busy-wait",
                (Change("service", {"spin": 1}),),
                "service",
                (Repair("let workers sleep: `spin = no`", Change("service", set={"spin": "no"})),),
            ),
            Variant(
                "nice",
                (
                    Change("batch", {"work_us": draw.randint(165, 180) * 1000}),
                    Change("service", nice=draw.randint(14, 17)),
                ),
                "service",
                (
                    Repair(
                        "let {batch} give way still more: renice all its threads to 19",
                        Change("batch", nice=19),
                    ),
                    Repair(
                        "give {service} CPU {front}: taskset -a -cp {front} {service_pid}",
                        Change("service", cpus="front"),
                    ),
                ),
            ),
            Variant(
                "quota",
                (Change("service", quota_us=draw.randint(24, 26) * 1000),),
                "service",
                (
                    Repair("take the limit of the group away", Change("service", quota_us=0)),
                    Repair(
                        "give the group 60 ms in each period of 100 ms", Change("service", quota_us=60_000)
                    ),
                ),
                needs=("group",),
            ),
        ),
    )
