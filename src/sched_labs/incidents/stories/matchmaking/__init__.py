"""A pool that works, and works for nothing."""

from __future__ import annotations

import random

from ... import parts
from ...story import Change, Program, Story, Variant


def story(draw: random.Random) -> Story:
    rate, workers = draw.randint(16, 20), draw.randint(36, 44)
    # Of every second, what is done for nothing takes some two thirds; the requests themselves take a tenth.
    for_each_us = int(draw.uniform(0.68, 0.72) * 1e6 / rate)
    return Story(
        title="Matchmaking: the CPU is nearly full, and players wait",
        suspect="overload",
        target_ms=30,
        programs=(
            parts.client("players", rate),
            Program(
                "service",
                "service",
                "makes matches",
                {"workers": workers, "cpu_us": draw.randint(4400, 5200), "slow_every": 1},
                knobs=("workers", "spin", "wake_all", "reuse_memory", "linger_ms", "poll_ms"),
            ),
            parts.batch("sums up the last games", 300, draw.randint(22, 28)),
        ),
        variants=(
            Variant(
                "herd",
                (Change("service", {"wake_all": 1, "check_us": for_each_us // workers}),),
                "service",
                (
                    parts.line("wake one worker only", "wake_all", "no"),
                    parts.line("let two workers do it", "workers", "2"),
                ),
            ),
            parts.SPINNING,
            Variant(
                "page-faults",
                (Change("service", {"fresh_us": for_each_us}),),
                "service",
                (parts.KEEP_MEMORY,),
            ),
        ),
    )
