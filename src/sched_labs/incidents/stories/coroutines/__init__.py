"""One thread for everybody, in Python: it waits for the storage with coroutines, and for others without."""

from __future__ import annotations

import random

from ... import parts
from ...story import Change, Program, Story, Variant


def story(draw: random.Random) -> Story:
    rate = draw.randint(26, 32)
    return Story(
        title="Coroutines: more throughput than ever, until the release after",
        suspect="overload",
        target_ms=150,
        programs=(
            parts.client("readers of the catalogue", rate),
            Program(
                "service",
                "coroutines",
                "shows the catalogue, coroutines in Python",
                {
                    **{"workers": 16, "cpu_us": 600, "asks": 8, "wait_us": 12_000},
                    **{"slow_every": 2, "slow_wait_us": 1000, "period_ms": 750, "work_us": 22_500},
                },
                knobs=("workers", "offload_slow", "await_slow", "native", "switch_us"),
            ),
            parts.batch("makes thumbnails", 400, draw.randint(30, 45)),
        ),
        variants=(
            Variant(
                "gil",
                # most of each second; the loop asks for the interpreter's lock at each answer of the storage
                (Change("service", {"work_us": draw.randint(490, 525) * 1000, "switch_us": 25_000}),),
                "service",
                (
                    parts.line("ask for the interpreter's lock sooner", "switch_us", "100"),
                    parts.line("let a library in C sum up, without that lock", "native", "yes"),
                ),
            ),
            Variant(
                "blocking-call",
                # most of every second, some sixty milliseconds at a time: awaited, they leave room for more
                (Change("service", {"slow_wait_us": int(0.85e6 * 2 / rate)}),),
                "service",
                (
                    parts.line("give the long calls a thread of their own", "offload_slow", "yes"),
                    parts.line("await them", "await_slow", "yes"),
                ),
            ),
            Variant(
                "few-workers",
                (Change("service", {"workers": 1, "wait_us": int(1.4e6 / rate)}),),
                "service",
                (
                    parts.line("allow more connections to the storage", "workers", "12"),
                    parts.line("allow many more", "workers", "24"),
                ),
            ),
        ),
    )
