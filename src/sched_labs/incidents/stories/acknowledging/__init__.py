"""Nothing is full, and everything is late."""

from __future__ import annotations

import random

from ... import parts
from ...story import Change, Program, Story, Variant


def story(draw: random.Random) -> Story:
    rate, wait_ms = draw.randint(45, 60), draw.randint(6, 12)
    interval_ms = draw.randint(190, 260)
    return Story(
        title="Acknowledging orders: nothing is full, and everything is late",
        suspect="few-workers",
        target_ms=60,
        programs=(
            parts.client("those who order", rate),
            Program(
                "service",
                "service",
                "acknowledges orders",
                {
                    **{"workers": 4, "cpu_us": 300, "wait_us": 1000 * wait_ms, "lock_us": 200},
                    **{"snapshot_ms": 2, "snapshot_every_ms": 250},
                },
                knobs=("workers", "linger_ms", "poll_ms", "audit_async", "copy_snapshot"),
            ),
            parts.batch("sums up the day", 500, draw.randint(50, 90)),
        ),
        variants=(
            Variant(
                "batching",
                (Change("service", {"linger_ms": interval_ms}),),
                "service",
                (
                    parts.line("send each answer at once", "linger_ms", "0"),
                    parts.line("keep answers for a moment only", "linger_ms", "10"),
                ),
            ),
            parts.polling(interval_ms),
            parts.snapshots(draw.randint(195, 215)),
        ),
    )
