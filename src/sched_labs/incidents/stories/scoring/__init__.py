"""Some requests are quick, some are not, and on average the CPU is idle."""

from __future__ import annotations

import random

from ...story import Change, Program, Repair, Story, Variant


def story(draw: random.Random) -> Story:
    rate, cpu_us = draw.randint(36, 44), draw.randint(2600, 3200)
    quota_us = draw.randint(30, 33) * 1000
    many, stop_ms = draw.randint(22, 30), draw.randint(160, 185)
    return Story(
        title="Scoring: many payments take ten times as long as the others",
        suspect="quota",
        target_ms=30,
        grouped=True,
        programs=(
            Program("client", "client", "the payments", {"rate_per_s": rate}, "service", "front"),
            Program(
                "service",
                "service",
                "scores payments",
                {"workers": 3, "cpu_us": cpu_us, "threads": 1, "period_ms": 300, "work_us": 30_000},
                knobs=("workers", "threads", "linger_ms", "poll_ms"),
            ),
            Program(
                "batch",
                "batch",
                "prepares tomorrow's models",
                {"threads": 1, "period_ms": 300, "work_us": draw.randint(28, 36) * 1000},
                knobs=("threads",),
            ),
            Program(
                "sampler",
                "sampler",
                "keeps an eye on everybody",
                {"period_ms": 300, "work_us": 300, "stop_ms": stop_ms, "freeze": 0},
                "service",
                knobs=("freeze",),
            ),
        ),
        variants=(
            Variant(
                "quota",
                (Change("service", quota_us=quota_us),),
                "service",
                (
                    Repair("take the limit of the group away", Change("service", quota_us=0)),
                    Repair(
                        "give the group 60 ms in each period of 100 ms", Change("service", quota_us=60_000)
                    ),
                ),
                needs=("group",),
            ),
            Variant(
                "stopped",
                (Change("sampler", {"freeze": 1}),),
                "service",
                (
                    Repair(
                        "let {sampler} look at others without stopping them: `freeze = no` in its file",
                        Change("sampler", set={"freeze": "no"}),
                    ),
                ),
            ),
            Variant(
                "rival",
                (Change("batch", {"threads": many, "work_us": 150_000}),),
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
        ),
    )
