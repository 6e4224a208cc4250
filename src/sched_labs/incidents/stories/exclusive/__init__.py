"""A service with a CPU to spare, which does not help it."""

from __future__ import annotations

import random

from ...story import Change, Program, Repair, Story, Variant


def story(draw: random.Random) -> Story:
    rate, cpu_us = draw.randint(36, 44), draw.randint(2600, 3200)
    threads, stop_ms = draw.randint(14, 20), draw.randint(170, 190)
    return Story(
        title="Exclusive CPUs: a service with a CPU to spare, whose answers are late",
        suspect="rival",
        target_ms=30,
        grouped=True,
        programs=(
            Program("client", "client", "everybody else", {"rate_per_s": rate}, "service", "front"),
            Program(
                "service",
                "service",
                "looks up prices",
                {"workers": 3, "cpu_us": cpu_us},
                cpus="both",
                knobs=("workers", "linger_ms", "poll_ms"),
            ),
            Program(
                "batch",
                "batch",
                "collects logs",
                {"threads": threads, "period_ms": 400, "work_us": draw.randint(250, 270) * 1000},
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
                "mask",
                (Change("service", cpus="rack"),),
                "service",
                (
                    Repair(
                        "give {service} both CPUs again: taskset -a -cp {rack},{front} {service_pid}",
                        Change("service", cpus="both"),
                    ),
                    Repair(
                        "give {service} CPU {front}: taskset -a -cp {front} {service_pid}",
                        Change("service", cpus="front"),
                    ),
                ),
            ),
            Variant(
                "quota",
                (Change("service", quota_us=draw.randint(30, 34) * 1000),),
                "service",
                (
                    Repair("take the limit of the group away", Change("service", quota_us=0)),
                    Repair(
                        "give the group 150 ms in each period of 100 ms", Change("service", quota_us=150_000)
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
        ),
    )
