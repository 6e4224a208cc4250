"""A machine that keeps its house in order, at the wrong moment."""

from __future__ import annotations

import random

from ... import parts
from ...story import Change, Program, Story, Variant


def story(draw: random.Random) -> Story:
    rate, cpu_us = draw.randint(15, 18), draw.randint(3000, 3600)
    many, much_us = draw.randint(26, 32), draw.randint(170, 185) * 1000
    return Story(
        title="Housekeeping: a kernel's worker is said to take the CPU",
        suspect="rival",
        target_ms=35,
        programs=(
            parts.client("the plant's sensors", rate),
            Program(
                "service",
                "service",
                "decides for the plant's valves",
                {
                    **{"workers": 3, "cpu_us": cpu_us, "threads": 1, "period_ms": 300, "work_us": 18_000},
                    **{"publish": draw.randint(560, 640), "port": (port := draw.randint(20_000, 30_000))},
                },
                knobs=("workers", "threads", "publish", "linger_ms", "poll_ms"),
            ),
            parts.batch("keeps the house: rotates logs, compacts, scrubs", 400, draw.randint(26, 34)),
            parts.listener("collects what is published", 0, port),
        ),
        variants=(
            parts.OVERHEARD,
            Variant(
                "own-threads",
                (Change("service", {"threads": many, "work_us": much_us}),),
                "service",
                (
                    parts.line("let its own housekeeping have one thread", "threads", "1"),
                    parts.line("let it have two", "threads", "2"),
                ),
            ),
            parts.first_in_line(draw.randint(290, 305)),
        ),
    )
