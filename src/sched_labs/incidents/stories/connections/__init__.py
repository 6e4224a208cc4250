"""Many connections on a few loops: each loop has a queue of its own, and cannot help another one."""

from __future__ import annotations

import random

from ... import parts
from ...story import Change, Program, Story, Variant


def story(draw: random.Random) -> Story:
    rate, loops = draw.randint(80, 95), draw.randint(6, 8)
    wait_us = int(1.7e6 / rate)  # in all 1.7 s of every second: two loops would do
    return Story(
        title="Connections: scores of them, several loops, and everybody waits",
        suspect="overload",
        target_ms=80,
        programs=(
            Program(
                "client",
                "client",
                "players, over scores of connections",
                {"rate_per_s": rate, "connections": draw.randint(56, 72)},
                "service",
                "front",
            ),
            Program(
                "service",
                "service",
                "the edge, several loops",
                {
                    **{"workers": 0, "loops": loops, "balance": 1, "cpu_us": 700, "wait_us": wait_us},
                    **{"lock_us": 100},
                },
                knobs=("workers", "loops", "balance", "audit_async", "linger_ms", "poll_ms"),
            ),
            parts.batch("compacts the logs", 400, draw.randint(40, 60)),
        ),
        variants=(
            Variant(
                "imbalance",
                (Change("service", {"balance": 0}),),
                "service",
                (
                    parts.line("give connections to the loops in turn", "balance", "yes"),
                    parts.line("let workers serve, so that a loop only receives", "workers", "12"),
                ),
            ),
            Variant(
                "lock",
                (Change("service", {"lock_us": wait_us}),),
                "service",
                (
                    parts.line(
                        "let the audit, which needs the lock, come after the answer", "audit_async", "yes"
                    ),
                ),
            ),
            parts.polling(draw.randint(230, 280)),
        ),
    )
