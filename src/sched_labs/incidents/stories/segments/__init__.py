"""Many threads, and every one of them suspected."""

from __future__ import annotations

import random

from ... import parts
from ...story import Change, Program, Story, Variant


def story(draw: random.Random) -> Story:
    rate, cpu_us = draw.randint(30, 36), draw.randint(3800, 4400)
    workers, threads = draw.randint(18, 24), draw.randint(16, 22)
    return Story(
        title="Segments: a hundred thousand viewers, and far too many threads",
        suspect="own-threads",
        target_ms=35,
        grouped=True,
        programs=(
            parts.client("players that fetch segments", rate),
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
            parts.batch("encodes the archive", 300, draw.randint(28, 36)),
        ),
        variants=(
            parts.SPINNING,
            Variant(
                "nice",
                (
                    Change("batch", {"work_us": draw.randint(165, 180) * 1000}),
                    Change("service", nice=draw.randint(14, 17)),
                ),
                "service",
                (
                    parts.GIVE_WAY_MORE,
                    parts.FRONT,
                ),
            ),
            parts.limited(draw.randint(24, 26), 60),
        ),
    )
