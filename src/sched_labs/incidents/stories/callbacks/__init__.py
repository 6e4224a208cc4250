"""One thread answers everybody: the queue is before it, and not in any list of the scheduler."""

from __future__ import annotations

import random

from ...story import Change, Program, Repair, Story, Variant


def story(draw: random.Random) -> Story:
    rate, every = draw.randint(75, 90), draw.randint(17, 21)
    interval_ms = draw.randint(190, 260)
    return Story(
        title="Callbacks: payments that are done, and are not told so",
        suspect="blocking-call",
        target_ms=35,
        programs=(
            Program("client", "client", "the banks", {"rate_per_s": rate}, "service", "front"),
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
            Program(
                "batch",
                "batch",
                "writes the day's statements",
                {"threads": 1, "period_ms": 400, "work_us": draw.randint(40, 60) * 1000},
                knobs=("threads",),
            ),
        ),
        variants=(
            Variant(
                "lock",
                (Change("service", {"snapshot_ms": draw.randint(200, 230)}),),
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
            Variant(
                "page-faults",
                # more than half of every second, a few times in it
                (Change("service", {"fresh_us": int(0.56e6 * every / rate)}),),
                "service",
                (
                    Repair(
                        "let it keep its memory: `reuse_memory = yes`",
                        Change("service", set={"reuse_memory": "yes"}),
                    ),
                    Repair(
                        "give the long requests a thread of their own: `offload_slow = yes`",
                        Change("service", set={"offload_slow": "yes"}),
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
        ),
    )
