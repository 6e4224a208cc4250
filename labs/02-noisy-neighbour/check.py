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


# The busy one and the neighbour are one program with the same arguments: only what they do to the service
# tells which is which.  Two workers get most of a CPU also where somebody else uses it.
BURN = ("burn", "--workers", "2", "--duration-ms", str(LIFE_S * 1000))
SERVICE = ("burn", "--workers", "1", "--duration-ms", str(LIFE_S * 1000))
SLEEPER = ("sleeper", "--hogs", "0", "--wakes", str(LIFE_S * 100), "--period-us", "10000", "--work-us", "50")


def started(
    stack: contextlib.ExitStack, judge: Judge, wanted: dict[str, tuple[tuple[str, ...], int]]
) -> dict[str, workloads.Workload]:
    """Processes that wait at their barriers, on their CPUs.

    They start in an order that is drawn, so that their ids say nothing.
    """
    processes = {}
    for name in map(str, judge.rng.permutation(list(wanted))):
        (program, *arguments), cpu = wanted[name]
        process = stack.enter_context(workloads.start(program, arguments, deadline_s=LIFE_S + 10))
        placement.pin(process.tids, [cpu])
        processes[name] = process
    return processes


def check(judge: Judge) -> None:
    answer = judge.function("answer.py", "find")
    cpus = machine.survey().cpus_allowed
    judge.need(len(cpus) > 1, "This lab needs a machine with two CPUs: on one CPU everybody is a neighbour.")
    for number in range(1, ROUNDS + 1):
        with contextlib.ExitStack() as stack:
            here, elsewhere = (int(cpu) for cpu in judge.rng.permutation(cpus)[:2])
            processes = started(
                stack,
                judge,
                {
                    "service": (SERVICE, here),
                    "noisy": (BURN, here),
                    "busy": (BURN, elsewhere),  # as busy as a process can be on one CPU, and harmless here
                    "light here": (SLEEPER, here),
                    "light elsewhere": (SLEEPER, elsewhere),
                },
            )
            processes["busy"].go()
            time.sleep(AHEAD_S)
            for name in ("service", "noisy", "light here", "light elsewhere"):
                processes[name].go()
            time.sleep(SETTLE_S)
            service, noisy = processes.pop("service"), processes["noisy"]
            pids = judge.rng.permutation([process.pid for process in processes.values()])
            named = answer(service.tids[0], [int(pid) for pid in pids])
            judge.expect(
                named == noisy.pid,
                good=f"round {number}: found.",
                missing=f"round {number}: it is another one. What do the service and its neighbour share?",
            )
