"""A matcher, and one who looks at it ten times a second: how much can a look cost?"""

from __future__ import annotations

import random

from ... import parts
from ...story import Change, Program, Story, Variant


def story(draw: random.Random) -> Story:
    rate, workers = draw.randint(16, 20), draw.randint(56, 62)
    return Story(
        title="The observer: a matcher is slow since somebody looks at it",
        suspect="stopped",
        target_ms=30,
        programs=(
            parts.client("members of the exchange", rate),
            Program(
                "service",
                "service",
                "matches orders",
                {
                    **{"workers": workers, "cpu_us": draw.randint(3600, 4200)},
                    **{"publish": draw.randint(560, 640), "port": (port := draw.randint(20_000, 30_000))},
                },
                knobs=("workers", "spin", "yield", "publish", "linger_ms", "poll_ms"),
            ),
            parts.batch("settles yesterday's trades", 300, draw.randint(22, 28)),
            parts.listener("profiles the matcher", draw.randint(215, 235), port),
        ),
        variants=(
            parts.STOPPED,
            parts.OVERHEARD,
            Variant(
                "yield",
                (Change("service", {"yield": 1, "check_us": draw.randint(420, 460)}),),
                "service",
                (
                    parts.line("let workers without work sleep", "yield", "no"),
                    parts.line("let two workers do it", "workers", "2"),
                ),
            ),
        ),
    )
