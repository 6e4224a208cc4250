"""Three fresh sets of processes: one shares the service's CPU, another is busier elsewhere, two are light."""

from __future__ import annotations

import contextlib
import time

from sched_labs import machine, placement, workloads
from sched_labs.labs import Judge

ROUNDS = 3
LIFE_S = 30
SETTLE_S = 0.4  # so that whoever only adds up CPU time has some to add up
AHEAD_S = 0.4  # by which the busy one is older: it is the busiest also where others use its CPU


def burn(stack: contextlib.ExitStack, workers: int, cpus: list[int]) -> workloads.Workload:
    arguments = ["--workers", str(workers), "--duration-ms", str(LIFE_S * 1000)]
    started = stack.enter_context(workloads.start("burn", arguments, deadline_s=LIFE_S + 10))
    placement.pin(started.tids, cpus)
    started.go()
    return started


def sleeper(stack: contextlib.ExitStack, cpus: list[int]) -> workloads.Workload:
    arguments = ["--hogs", "0", "--wakes", str(LIFE_S * 100), "--period-us", "10000", "--work-us", "50"]
    started = stack.enter_context(workloads.start("sleeper", arguments, deadline_s=LIFE_S + 10))
    placement.pin(started.tids, cpus)
    started.go()
    return started


def check(judge: Judge) -> None:
    answer = judge.function("answer.py", "find")
    cpus = machine.survey().cpus_allowed
    judge.need(len(cpus) > 1, "This lab needs a machine with two CPUs: on one CPU everybody is a neighbour.")
    for number in range(1, ROUNDS + 1):
        with contextlib.ExitStack() as stack:
            place = [int(cpu) for cpu in judge.rng.permutation(cpus)[:2]]
            # Two workers on a CPU of their own: as busy as a process can be there, and harmless here.
            busy = burn(stack, 2, place[1:])
            time.sleep(AHEAD_S)
            service = burn(stack, 1, place[:1])
            noisy = burn(stack, 1, place[:1])
            others = [busy, sleeper(stack, place[:1]), sleeper(stack, place[1:])]
            pids = [process.pid for process in (noisy, *others)]
            time.sleep(SETTLE_S)
            named = answer(service.tids[0], [int(pid) for pid in judge.rng.permutation(pids)])
            judge.expect(
                named == noisy.pid,
                good=f"round {number}: found.",
                missing=f"round {number}: it is another one. What do the service and its neighbour share?",
            )
