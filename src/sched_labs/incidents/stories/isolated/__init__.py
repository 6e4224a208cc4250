"""A CPU that is said to be isolated, and a tick that is said to spoil it."""

from __future__ import annotations

import random

from ... import parts
from ...story import Change, Program, Story, Variant


def story(draw: random.Random) -> Story:
    rate, wait_ms = draw.randint(26, 30), draw.randint(48, 54)
    return Story(
        title="The isolated CPU: answers are late on a CPU of one's own",
        suspect="interrupts",
        target_ms=110,
        programs=(
            parts.client("the line's controllers", rate),
            Program(
                "service",
                "service",
                "moves a robot's arm",
                {
                    **{"workers": draw.randint(28, 34), "cpu_us": draw.randint(3200, 3800)},
                    **{"wait_us": 1000 * wait_ms},
                },
                knobs=("workers", "slack_ms", "linger_ms", "poll_ms"),
            ),
            parts.batch("looks after the machine, now and then", 400, draw.randint(26, 34)),
        ),
        variants=(
            Variant(
                "few-workers",
                (Change("service", {"workers": 1}),),
                "service",
                (
                    parts.line("give the pool more workers", "workers", "12"),
                    parts.line("give the pool many more", "workers", "24"),
                ),
            ),
            Variant(
                "batching",
                (Change("service", {"linger_ms": draw.randint(300, 360)}),),
                "service",
                (
                    parts.line("send each answer at once", "linger_ms", "0"),
                    parts.line("keep answers for a moment only", "linger_ms", "8"),
                ),
            ),
            parts.first_in_line(draw.randint(290, 305)),
            Variant(
                "timer-slack",
                (Change("service", {"slack_ms": draw.randint(380, 460)}),),
                "service",
                (
                    parts.line("let its timers be as late as everybody's", "slack_ms", "0"),
                    parts.line("let them be a little late only", "slack_ms", "2"),
                ),
                needs=("priority",),
            ),
        ),
    )
