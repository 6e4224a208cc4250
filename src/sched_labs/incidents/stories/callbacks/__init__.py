"""One thread answers everybody: the queue is before it, and not in any list of the scheduler."""

from __future__ import annotations

import random

from ... import parts
from ...story import Change, Program, Story, Variant


def story(draw: random.Random) -> Story:
    rate, every = draw.randint(75, 90), draw.randint(17, 21)
    interval_ms = draw.randint(190, 260)
    return Story(
        title="Callbacks: payments that are done, and are not told so",
        suspect="blocking-call",
        target_ms=35,
        programs=(
            parts.client("the banks", rate),
            Program(
                "service",
                "service",
                "tells shops what became of payments, an event loop",
                {
                    **{"workers": 0, "cpu_us": 400, "slow_every": every, "slow_cpu_us": 1500},
                    **{"lock_us": 0, "snapshot_ms": 2, "snapshot_every_ms": 300},
                },
                knobs=(
                    "offload_slow",
                    "audit_async",
                    "copy_snapshot",
                    "reuse_memory",
                    "linger_ms",
                    "poll_ms",
                ),
            ),
            parts.batch("writes the day's statements", 400, draw.randint(40, 60)),
        ),
        variants=(
            parts.snapshots(draw.randint(225, 245)),
            Variant(
                "page-faults",
                # two thirds of every second, a few times in it
                (Change("service", {"fresh_us": int(0.66e6 * every / rate)}),),
                "service",
                (
                    parts.KEEP_MEMORY,
                    parts.OFFLOAD,
                ),
            ),
            parts.polling(interval_ms),
        ),
    )
