"""Fresh sets of processes: one of four takes the service's CPU, and how busy it is does not say which."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from sched_labs import machine, workloads
from sched_labs.labs import Judge
from sched_labs.steer import placement

LIFE_S = 30
SETTLE_S = 0.4  # so that whoever only adds up CPU time has some to add up
# How much of a CPU the neighbour wants, and how much those two do that run elsewhere: it is the busiest of
# them, the second or the third.  Each place comes up twice, so that none is right more often than another.
WANTED = {1: (0.6, 0.2, 0.08), 2: (0.3, 0.8, 0.1), 3: (0.15, 0.5, 0.4)}
PLACES = {1: "the busiest", 2: "the second", 3: "the third"}
LIGHT = 0.01  # of a CPU wants the fourth, which runs where the service runs and does not matter to it
SETS, TRIES = 6, 3
THREADS, PERIOD_US = 4, 20_000


def started(stack: contextlib.ExitStack, share: float, cpu: int) -> workloads.Workload:
    """A process that wants this share of a CPU, at its barrier.

    All are one program: a leader that sleeps, and threads that work.  Only these are pinned, so that the
    leader may lie on any CPU.
    """
    work_us = max(1, round(share * PERIOD_US / THREADS))
    words = ["--kind", "pool", "--work-us", work_us, "--period-us", PERIOD_US, "--duration-ms", LIFE_S * 1000]
    process = stack.enter_context(workloads.start("mystery", list(map(str, words)), deadline_s=LIFE_S + 10))
    placement.pin(process.tids[1:], [cpu])
    return process


def used_ns(pid: int) -> int:
    """CPU time of all of its threads."""
    return sum(int(path.read_text().split()[0]) for path in Path(f"/proc/{pid}/task").glob("*/schedstat"))


def asked(judge: Judge, answer: Callable[..., Any], rng: np.random.Generator, place: int) -> str | None:
    """One set: "found", or what was named instead; None where the set was not what it should be."""
    here, elsewhere = (int(cpu) for cpu in rng.permutation(machine.survey().cpus_allowed)[:2])
    neighbour, *others = (share * rng.uniform(0.85, 1.15) for share in WANTED[place])
    wanted = {"found": (neighbour, here), "light": (LIGHT, here)}
    wanted |= {f"elsewhere {n}": (share, elsewhere) for n, share in enumerate(others)}
    with contextlib.ExitStack() as stack:
        words = ["--workers", "1", "--duration-ms", str(LIFE_S * 1000)]
        service = stack.enter_context(workloads.start("burn", words, deadline_s=LIFE_S + 10))
        placement.pin(service.tids, [here])
        # They start, and are named, in orders that are drawn, so that neither says anything.
        roles = {name: started(stack, *wanted[name]) for name in map(str, rng.permutation(list(wanted)))}
        for process in (service, *roles.values()):
            process.go()
        time.sleep(SETTLE_S)
        pids = {process.pid: name for name, process in roles.items()}
        named = answer(service.tids[0], [int(pid) for pid in rng.permutation(list(pids))])
        used = {name: used_ns(pid) for pid, name in pids.items()}
    judge.need(named in pids, f"find must return one of the process ids that it gets, not {named!r}.")
    busiest = sorted(used, key=lambda name: -used[name])
    if busiest.index("found") + 1 != place or used["found"] < 5 * used["light"]:
        return None
    return pids[named].partition(" ")[0]


def check(judge: Judge) -> None:
    answer = judge.function("answer.py", "find")
    judge.need(
        len(machine.survey().cpus_allowed) > 1,
        "This lab needs a machine with two CPUs: on one CPU everybody is a neighbour.",
    )
    places = [int(place) for place in judge.rng.permutation(sorted(WANTED) * (SETS // len(WANTED)))]
    said: list[tuple[int, str]] = []
    for place, rng in zip(places, judge.rng.spawn(SETS), strict=True):
        said.append((place, first_good(judge, answer, rng, place)))
    outcomes = Counter(outcome for _, outcome in said)
    found = outcomes["found"]
    judge.expect(
        found == SETS,
        good=f"the neighbour was found in all {SETS} sets: twice it was {', twice '.join(PLACES.values())} "
        "of the four by CPU time.",
        missing=f"the neighbour was found in {found} of {SETS} sets. {advice(said, outcomes)}",
    )


def first_good(judge: Judge, answer: Callable[..., Any], rng: np.random.Generator, place: int) -> str:
    """What was said of the first set in which CPU time fell out as it should."""
    for _ in range(TRIES):
        if outcome := asked(judge, answer, rng, place):
            return outcome
    judge.can_tell(
        False, "other programs take so much CPU time that these processes do not get what they want."
    )
    raise AssertionError


def often(count: int) -> str:
    return {1: "Once", 2: "Twice"}.get(count, f"{count} times")


def advice(said: list[tuple[int, str]], outcomes: Counter[str]) -> str:
    """What the misses have in common, without giving it away."""
    missed = sorted({PLACES[place] for place, outcome in said if outcome != "found"})
    if outcomes["found"] <= SETS // len(WANTED) and outcomes["elsewhere"]:
        return "What do the service and its neighbour share, and what do the others not share with it?"
    told = [f"Where you missed it, it was {' or '.join(missed)} of the four by CPU time."]
    if count := outcomes["elsewhere"]:
        told.append(
            f"{often(count)} the process that you named did not use the service's CPU: "
            "did you look at each of its threads?"
        )
    if count := outcomes["light"]:
        told.append(f"{often(count)} it ran where the service runs, and hardly ever.")
    return " ".join(told)
