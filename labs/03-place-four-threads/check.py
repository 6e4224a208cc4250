"""The reader's placement against the best of all, measured now, in turns."""

from __future__ import annotations

import contextlib
import itertools
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from sched_labs import machine, workloads
from sched_labs.labs import Judge, compare
from sched_labs.steer import placement

GOOD_ENOUGH = 0.7  # of what the best placement gets done
UNDISTURBED = 0.8  # of a CPU: who only computes gets at least that, where nobody else does much
TURNS = 3
Way = list[tuple[int, int]]
LOOK_S = 0.4
TALK = ["--by", "pipe", "--between", "threads", "--trials", "1", "--round-trips", "3000"]
COMPUTE = ["--workers", "2", "--duration-ms", "150"]


@dataclass(frozen=True)
class Pair:
    """What a reader's function is told of a pair."""

    tids: tuple[int, int]
    voluntary_per_s: float
    cpu_share: float


def start(stack: contextlib.ExitStack, kind: str, arguments: list[str]) -> workloads.Workload:
    return stack.enter_context(workloads.start(kind, arguments, deadline_s=60))


def counted(kind: str) -> tuple[float, float]:
    """What a pair of this kind does while it is free: voluntary switches a second, largest CPU share."""
    # A ping-pong goes through its system calls alone and then in exchange, in turns: of both, many times.
    talk = [*TALK[:4], "--trials", "2000", "--round-trips", "500"]
    arguments = talk if kind == "pingpong" else ["--workers", "2", "--duration-ms", "5000"]
    with contextlib.ExitStack() as stack:
        pair = start(stack, kind, arguments)
        pair.go()
        time.sleep(0.2)
        before = [look(pair.pid, tid) for tid in pair.tids]
        time.sleep(LOOK_S)
        after = [look(pair.pid, tid) for tid in pair.tids]
    switches = sum(b[0] - a[0] for a, b in zip(before, after, strict=True))
    share = max(b[1] - a[1] for a, b in zip(before, after, strict=True)) / LOOK_S / 1e9
    return switches / LOOK_S, share


def look(pid: int, tid: int) -> tuple[int, int]:
    task = Path(f"/proc/{pid}/task/{tid}")
    status = (task / "status").read_text()
    voluntary = int(status.partition("voluntary_ctxt_switches:")[2].split()[0])
    return voluntary, int((task / "schedstat").read_text().split()[0])


def done(kind: str, count: int, where: Way) -> float:
    """Work per second of `count` pairs, of which pair n has its sides on the CPUs where[n]."""
    with contextlib.ExitStack() as stack:
        pairs = [start(stack, kind, TALK if kind == "pingpong" else COMPUTE) for _ in range(count)]
        for pair, cpus in zip(pairs, where, strict=True):
            for tid, cpu in zip(pair.tids, cpus, strict=True):
                placement.pin([tid], [cpu])
        for pair in pairs:
            pair.go()
        records = [list(pair.records()) for pair in pairs]
    if kind == "burn":
        return float(sum(r["chunks"] for some in records for r in some if r.kind == "worker"))
    blocks = [r for some in records for r in some if r.kind == "block" and r.text("condition") == "exchange"]
    return sum(block["round_trips"] / block["elapsed_ns"] for block in blocks)


def check(judge: Judge) -> None:
    answer = judge.function("answer.py", "place")
    allowed = machine.survey().cpus_allowed
    judge.need(len(allowed) > 1, "This lab needs a machine with two CPUs.")
    cpus = [int(cpu) for cpu in judge.rng.permutation(allowed)[:2]]
    for kind, count, what in (("pingpong", 2, "two pairs that speak"), ("burn", 1, "a pair that computes")):
        switches, share = counted(kind)
        judge.can_tell(
            kind == "pingpong" or share >= UNDISTURBED,
            f"threads that only compute, and may go where they want, get no more than {share:.0%} of a CPU "
            "here: other programs need the CPUs.",
        )
        names = [int(name) for name in judge.rng.permutation(range(1, 2 * count + 1))]
        pairs = [Pair((names[2 * n], names[2 * n + 1]), switches, share) for n in range(count)]
        named = answer(pairs, list(cpus))
        judge.need(
            isinstance(named, dict) and set(named) == set(names) and set(named.values()) <= set(cpus),
            f"place must say a CPU of {cpus} for each of the threads {sorted(names)}, not {named!r}.",
        )
        mine = [(named[pair.tids[0]], named[pair.tids[1]]) for pair in pairs]
        best = best_way(kind, count, cpus)

        def turn(
            number: int, kind: str = kind, count: int = count, sides: tuple[Way, Way] = (mine, best)
        ) -> dict[str, float]:
            first = number % 2  # who goes first
            work = {side: done(kind, count, sides[side]) for side in (first, 1 - first)}
            return {"work": work[0] / work[1]}

        work = compare(turn, at_least={"work": GOOD_ENOUGH})["work"]
        told = f"{what}: {work.percent} of what the best placement gets done"
        judge.expect(
            work.holds,
            good=f"{told}.",
            missing=f"{told}; at least {GOOD_ENOUGH:.0%} should be. What does each thread wait for?",
            unclear=f"{told}: that leaves open whether it is {GOOD_ENOUGH:.0%}.",
        )


def best_way(kind: str, count: int, cpus: list[int]) -> Way:
    """The placement that got most done in a few turns; those that only swap the CPUs are one."""
    ways = [list(way) for way in itertools.product(itertools.product(cpus, repeat=2), repeat=count)]
    ways = [way for way in ways if way[0][0] == cpus[0]]
    work = [[done(kind, count, way) for way in ways] for _ in range(TURNS)]
    return ways[max(range(len(ways)), key=lambda number: median(turn[number] for turn in work))]
