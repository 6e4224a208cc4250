"""A full CPU: who has it, and by which right?"""

from __future__ import annotations

import random

from ...story import Change, Program, Repair, Story, Variant


def story(draw: random.Random) -> Story:
    rate, cpu_us = draw.randint(24, 30), draw.randint(3600, 4400)
    many, much_us = draw.randint(22, 30), draw.randint(165, 180) * 1000
    return Story(
        title="Encoding: the CPU is full, and previews are late",
        suspect="overload",
        target_ms=35,
        programs=(
            Program(
                "client", "client", "people who watch previews", {"rate_per_s": rate}, "service", "front"
            ),
            Program(
                "service",
                "service",
                "serves previews and encodes them",
                {"workers": 4, "cpu_us": cpu_us, "threads": 1, "period_ms": 300, "work_us": 24_000},
                knobs=("workers", "threads", "linger_ms"),
            ),
            Program(
                "batch",
                "batch",
                "encodes whole films",
                {"threads": 1, "period_ms": 300, "work_us": draw.randint(26, 34) * 1000},
                knobs=("threads",),
            ),
        ),
        variants=(
            Variant(
                "rival",
                (Change("batch", {"threads": many, "work_us": much_us}),),
                "batch",
                (
                    Repair(
                        "let {batch} work with one thread: `threads = 1`",
                        Change("batch", set={"threads": "1"}),
                    ),
                    Repair("let {batch} give way: renice all its threads to 19", Change("batch", nice=19)),
                    Repair(
                        "give {service} CPU {front}: taskset -a -cp {front} {service_pid}",
                        Change("service", cpus="front"),
                    ),
                ),
            ),
            Variant(
                "nice",
                (Change("batch", {"work_us": much_us}), Change("service", nice=draw.randint(14, 17))),
                "service",
                (
                    Repair(
                        "let {batch} give way still more: renice all its threads to 19",
                        Change("batch", nice=19),
                    ),
                    Repair(
                        "give {service} CPU {front}: taskset -a -cp {front} {service_pid}",
                        Change("service", cpus="front"),
                    ),
                ),
            ),
            Variant(
                "own-threads",
                (Change("service", {"threads": many, "work_us": much_us}),),
                "service",
                (
                    Repair(
                        "let it encode with one thread: `threads = 1`",
                        Change("service", set={"threads": "1"}),
                    ),
                    Repair("let it encode with two: `threads = 2`", Change("service", set={"threads": "2"})),
                ),
            ),
        ),
    )
