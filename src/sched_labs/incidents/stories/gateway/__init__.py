"""One event loop: whoever holds it holds everybody."""

from __future__ import annotations

import random

from ... import parts
from ...story import Change, Program, Story, Variant

_WORKERS = parts.line("let workers serve", "workers", "6")


def story(draw: random.Random) -> Story:
    rate, every = draw.randint(75, 90), draw.randint(17, 21)
    long_us = int(0.62e6 * every / rate)  # in all 0.62 s of every second
    return Story(
        title="The gateway: requests of every kind are late",
        suspect="overload",
        target_ms=30,
        programs=(
            parts.client("everybody", rate),
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
            parts.batch("writes the archive", 400, draw.randint(40, 60)),
        ),
        variants=(
            Variant(
                "blocking-call",
                (Change("service", {"slow_wait_us": long_us}),),
                "service",
                (parts.OFFLOAD, _WORKERS),
            ),
            Variant(
                "long-handler",
                (Change("service", {"slow_cpu_us": long_us * 4 // 5}),),
                "service",
                (parts.OFFLOAD, _WORKERS),
            ),
            Variant(
                "downstream",
                (Change("rates", {"wait_us": long_us}),),
                "rates",
                (parts.OFFLOAD, _WORKERS),
            ),
        ),
    )
