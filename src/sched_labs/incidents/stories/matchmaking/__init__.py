"""A pool that works, and works for nothing."""

from __future__ import annotations

import random

from ...story import Change, Program, Repair, Story, Variant


def story(draw: random.Random) -> Story:
    rate, workers = draw.randint(16, 20), draw.randint(36, 44)
    # Of every second, what is done for nothing takes some two thirds; the requests themselves take a tenth.
    for_each_us = int(draw.uniform(0.68, 0.72) * 1e6 / rate)
    return Story(
        title="Matchmaking: the CPU is nearly full, and players wait",
        suspect="overload",
        target_ms=30,
        programs=(
            Program("client", "client", "players", {"rate_per_s": rate}, "service", "front"),
            Program(
                "service",
                "service",
                "makes matches",
                {"workers": workers, "cpu_us": draw.randint(4400, 5200), "slow_every": 1},
                knobs=("workers", "spin", "wake_all", "reuse_memory", "linger_ms", "poll_ms"),
            ),
            Program(
                "batch",
                "batch",
                "sums up the last games",
                {"threads": 1, "period_ms": 300, "work_us": draw.randint(22, 28) * 1000},
                knobs=("threads",),
            ),
        ),
        variants=(
            Variant(
                "herd",
                (Change("service", {"wake_all": 1, "check_us": for_each_us // workers}),),
                "service",
                (
                    Repair(
                        "wake one worker only: `wake_all = no`", Change("service", set={"wake_all": "no"})
                    ),
                    Repair("let two workers do it: `workers = 2`", Change("service", set={"workers": "2"})),
                ),
            ),
            Variant(
                "busy-wait",
                (Change("service", {"spin": 1}),),
                "service",
                (Repair("let workers sleep: `spin = no`", Change("service", set={"spin": "no"})),),
            ),
            Variant(
                "page-faults",
                (Change("service", {"fresh_us": for_each_us}),),
                "service",
                (
                    Repair(
                        "let it keep its memory: `reuse_memory = yes`",
                        Change("service", set={"reuse_memory": "yes"}),
                    ),
                ),
            ),
        ),
    )
