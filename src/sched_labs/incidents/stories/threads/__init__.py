"""Hundreds of threads: what they cost is neither their number nor their stacks."""

from __future__ import annotations

import random

from ... import parts
from ...story import Change, Program, Story, Variant


def story(draw: random.Random) -> Story:
    rate, workers, many = draw.randint(16, 20), draw.randint(190, 230), draw.randint(110, 140)
    # Of every second, what is done for nothing takes some two thirds; the requests themselves take a tenth.
    for_each_us = int(draw.uniform(0.68, 0.72) * 1e6 / rate)
    return Story(
        title="Threads: hundreds of them, and somebody has counted their stacks",
        suspect="page-faults",
        target_ms=30,
        programs=(
            parts.client("machines in the field", rate),
            Program(
                "service",
                "service",
                "listens to machines, a thread for each",
                {
                    **{"workers": workers, "cpu_us": draw.randint(4400, 5200), "slow_every": 1},
                    **{"threads": 1, "period_ms": 300, "work_us": 18_000},
                },
                knobs=("workers", "threads", "wake_all", "yield", "reuse_memory", "linger_ms"),
            ),
            parts.batch("packs yesterday's readings", 300, draw.randint(22, 28)),
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
            Variant(
                "yield",
                (Change("service", {"yield": 1, "check_us": draw.randint(180, 220)}),),
                "service",
                (parts.line("let workers without work sleep", "yield", "no"),),
            ),
            Variant(
                "own-threads",
                (Change("service", {"threads": many, "work_us": draw.randint(195, 205) * 1000}),),
                "service",
                (
                    parts.line("let it sum up with one thread", "threads", "1"),
                    parts.line("let it sum up with two", "threads", "2"),
                ),
            ),
            Variant(
                "page-faults",
                (Change("service", {"fresh_us": for_each_us}),),
                "service",
                (parts.KEEP_MEMORY,),
            ),
        ),
    )
