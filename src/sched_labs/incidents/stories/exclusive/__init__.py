"""A service with a CPU to spare, which does not help it."""

from __future__ import annotations

import random

from ... import parts
from ...story import Change, Program, Repair, Story, Variant


def story(draw: random.Random) -> Story:
    rate, cpu_us = draw.randint(36, 44), draw.randint(2600, 3200)
    threads, stop_ms = draw.randint(14, 20), draw.randint(205, 220)
    return Story(
        title="Exclusive CPUs: a service with a CPU to spare, whose answers are late",
        suspect="rival",
        target_ms=30,
        grouped=True,
        programs=(
            parts.client("everybody else", rate),
            Program(
                "service",
                "service",
                "looks up prices",
                {"workers": 3, "cpu_us": cpu_us},
                cpus="both",
                knobs=("workers", "linger_ms", "poll_ms"),
            ),
            parts.batch("collects logs", 400, draw.randint(250, 270), threads),
            parts.sampler(stop_ms),
        ),
        variants=(
            Variant(
                "mask",
                (Change("service", cpus="rack"),),
                "service",
                (
                    Repair(
                        "give {service} both CPUs again: taskset -a -cp {rack},{front} {service_pid}",
                        Change("service", cpus="both"),
                    ),
                    parts.FRONT,
                ),
            ),
            parts.limited(draw.randint(30, 34), 150),
            parts.STOPPED,
        ),
    )
