"""One event loop: whoever holds it holds everybody."""

from __future__ import annotations

import random

from ...story import Change, Program, Repair, Story, Variant

_OFFLOAD = Repair(
    "give the long requests a thread of their own: `offload_slow = yes`",
    Change("service", set={"offload_slow": "yes"}),
)
_WORKERS = Repair("let workers serve: `workers = 6`", Change("service", set={"workers": "6"}))


def story(draw: random.Random) -> Story:
    rate, every = draw.randint(75, 90), draw.randint(17, 21)
    long_us = int(0.62e6 * every / rate)  # in all 0.62 s of every second
    return Story(
        title="The gateway: requests of every kind are late",
        suspect="overload",
        target_ms=30,
        programs=(
            Program("client", "client", "everybody", {"rate_per_s": rate}, "service", "front"),
            Program(
                "service",
                "service",
                "the gateway, an event loop",
                {
                    **{"workers": 0, "cpu_us": 400, "slow_every": every, "slow_cpu_us": 1500},
                    **{"slow_wait_us": 500, "ask_every": every},
                },
                "rates",
                knobs=("workers", "offload_slow", "linger_ms", "poll_ms"),
            ),
            Program(
                "rates",
                "service",
                "computes quotes",
                {"workers": 1, "cpu_us": 1200},
                knobs=("workers", "linger_ms", "poll_ms"),
            ),
            Program(
                "batch",
                "batch",
                "writes the archive",
                {"threads": 1, "period_ms": 400, "work_us": draw.randint(40, 60) * 1000},
                knobs=("threads",),
            ),
        ),
        variants=(
            Variant(
                "blocking-call",
                (Change("service", {"slow_wait_us": long_us}),),
                "service",
                (_OFFLOAD, _WORKERS),
            ),
            Variant(
                "long-handler",
                (Change("service", {"slow_cpu_us": long_us * 4 // 5}),),
                "service",
                (_OFFLOAD, _WORKERS),
            ),
            Variant(
                "downstream",
                (Change("rates", {"wait_us": long_us}),),
                "rates",
                (_OFFLOAD, _WORKERS),
            ),
        ),
    )
