"""Nothing is full, and everything is late."""

from __future__ import annotations

import random

from ...story import Change, Program, Repair, Story, Variant


def story(draw: random.Random) -> Story:
    rate, wait_ms = draw.randint(45, 60), draw.randint(6, 12)
    interval_ms = draw.randint(190, 260)
    return Story(
        title="Acknowledging orders: nothing is full, and everything is late",
        suspect="few-workers",
        target_ms=60,
        programs=(
            Program("client", "client", "those who order", {"rate_per_s": rate}, "service", "front"),
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
            Program(
                "batch",
                "batch",
                "sums up the day",
                {"threads": 1, "period_ms": 500, "work_us": draw.randint(50, 90) * 1000},
                knobs=("threads",),
            ),
        ),
        variants=(
            Variant(
                "batching",
                (Change("service", {"linger_ms": interval_ms}),),
                "service",
                (
                    Repair(
                        "send each answer at once: `linger_ms = 0`", Change("service", set={"linger_ms": "0"})
                    ),
                    Repair(
                        "keep answers for a moment only: `linger_ms = 10`",
                        Change("service", set={"linger_ms": "10"}),
                    ),
                ),
            ),
            Variant(
                "polling",
                (Change("service", {"poll_ms": interval_ms}),),
                "service",
                (
                    Repair("be woken by requests: `poll_ms = 0`", Change("service", set={"poll_ms": "0"})),
                    Repair("look more often: `poll_ms = 5`", Change("service", set={"poll_ms": "5"})),
                ),
            ),
            Variant(
                "lock",
                (Change("service", {"snapshot_ms": draw.randint(195, 215)}),),
                "service",
                (
                    Repair(
                        "take snapshots of a copy: `copy_snapshot = yes`",
                        Change("service", set={"copy_snapshot": "yes"}),
                    ),
                    Repair(
                        "let the audit, which needs the lock, come after the answer: `audit_async = yes`",
                        Change("service", set={"audit_async": "yes"}),
                    ),
                ),
            ),
        ),
    )
