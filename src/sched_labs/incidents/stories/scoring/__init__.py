"""Some requests are quick, some are not, and on average the CPU is idle."""

from __future__ import annotations

import random

from ... import parts
from ...story import Change, Program, Story, Variant


def story(draw: random.Random) -> Story:
    rate, cpu_us = draw.randint(36, 44), draw.randint(2600, 3200)
    quota_ms = draw.randint(30, 33)
    many, stop_ms = draw.randint(22, 30), draw.randint(160, 185)
    return Story(
        title="Scoring: many payments take ten times as long as the others",
        suspect="quota",
        target_ms=30,
        grouped=True,
        programs=(
            parts.client("the payments", rate),
            Program(
                "service",
                "service",
                "scores payments",
                {"workers": 3, "cpu_us": cpu_us, "threads": 1, "period_ms": 300, "work_us": 30_000},
                knobs=("workers", "threads", "linger_ms", "poll_ms"),
            ),
            parts.batch("prepares tomorrow's models", 300, draw.randint(28, 36)),
            parts.sampler(stop_ms),
        ),
        variants=(
            parts.limited(quota_ms, 60),
            parts.STOPPED,
            Variant(
                "rival",
                (Change("batch", {"threads": many, "work_us": 150_000}),),
                "batch",
                (
                    parts.ONE_THREAD,
                    parts.GIVE_WAY,
                    parts.FRONT,
                ),
            ),
        ),
    )
