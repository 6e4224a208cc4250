"""A pool of workers that mostly waits: for a lock, for each other, or for somebody else."""

from __future__ import annotations

import random

from ... import parts
from ...story import Change, Program, Story, Variant


def story(draw: random.Random) -> Story:
    rate = draw.randint(50, 70)
    workers, wait_ms = draw.randint(5, 8), draw.randint(16, 24)
    # Each of these asks for a little more than there is: 1.2 seconds of every second.
    one_by_one_us = int(1.2e6 / rate)
    few = draw.randint(1, 2)
    slow_us = int(few * 1.3e6 / rate)
    return Story(
        title="The ledger: bookings hang, and the CPU is idle",
        suspect="lock",
        target_ms=70,
        programs=(
            parts.client("the shops' checkouts", rate),
            Program(
                "service",
                "service",
                "the ledger",
                {
                    **{"workers": workers, "cpu_us": 300, "wait_us": 1000 * wait_ms, "lock_us": 300},
                    **{"ask_every": 1, "threads": 0},
                },
                "rates",
                knobs=("workers", "audit_async", "linger_ms", "poll_ms"),
            ),
            Program(
                "rates",
                "service",
                "rates of the day",
                {"workers": 1, "cpu_us": 200, "wait_us": 1500},
                knobs=("workers", "linger_ms", "poll_ms"),
            ),
            parts.batch("compresses yesterday's bookings", 500, draw.randint(80, 140)),
        ),
        variants=(
            Variant(
                "lock",
                (Change("service", {"lock_us": one_by_one_us}),),
                "service",
                (
                    parts.line(
                        "let the audit, which holds the lock, come after the answer", "audit_async", "yes"
                    ),
                ),
            ),
            Variant(
                "few-workers",
                (Change("service", {"workers": few, "wait_us": slow_us}),),
                "service",
                (
                    parts.line("give the pool more workers", "workers", "12"),
                    parts.line("give the pool many more", "workers", "24"),
                ),
            ),
            Variant(
                "downstream",
                (Change("rates", {"wait_us": one_by_one_us}),),
                "rates",
                (
                    parts.line(
                        "let the other program serve several at a time",
                        "workers",
                        "6",
                        "rates",
                        " in its file",
                    ),
                ),
            ),
        ),
    )
