"""A full CPU: who has it, and by which right?"""

from __future__ import annotations

import random

from ... import parts
from ...story import Change, Program, Story, Variant


def story(draw: random.Random) -> Story:
    rate, cpu_us = draw.randint(24, 30), draw.randint(3600, 4400)
    many, much_us = draw.randint(22, 30), draw.randint(165, 180) * 1000
    return Story(
        title="Encoding: the CPU is full, and previews are late",
        suspect="overload",
        target_ms=35,
        programs=(
            parts.client("people who watch previews", rate),
            Program(
                "service",
                "service",
                "serves previews and encodes them",
                {"workers": 4, "cpu_us": cpu_us, "threads": 1, "period_ms": 300, "work_us": 24_000},
                knobs=("workers", "threads", "linger_ms"),
            ),
            parts.batch("encodes whole films", 300, draw.randint(26, 34)),
        ),
        variants=(
            Variant(
                "rival",
                (Change("batch", {"threads": many, "work_us": much_us}),),
                "batch",
                (
                    parts.ONE_THREAD,
                    parts.GIVE_WAY,
                    parts.FRONT,
                ),
            ),
            Variant(
                "nice",
                (Change("batch", {"work_us": much_us}), Change("service", nice=draw.randint(14, 17))),
                "service",
                (
                    parts.GIVE_WAY_MORE,
                    parts.FRONT,
                ),
            ),
            Variant(
                "own-threads",
                (Change("service", {"threads": many, "work_us": much_us}),),
                "service",
                (
                    parts.line("let it encode with one thread", "threads", "1"),
                    parts.line("let it encode with two", "threads", "2"),
                ),
            ),
        ),
    )
