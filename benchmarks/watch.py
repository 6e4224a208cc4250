"""Does `watch` name the true cause?  Constructed programs, sick and healthy, several seeds each.

    python benchmarks/watch.py --seeds 20 [--seconds 3] [--only quota mask] [--without-helper]
    python benchmarks/watch.py --cost          # what watching adds to a switch

One line per case: how often the first finding was the true one, and what else came out on top.  Of a healthy
program every finding about a wait for a CPU is a false alarm.  Where another program of this machine was busy
and was named, that is neither: such a run is not judged, and counted apart.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import statistics
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import troubles

from sched_labs import machine, workloads
from sched_labs.probes import peers, runqlat, switches, timeline
from sched_labs.steer import placement
from sched_labs.watching.program import watch

NO_HELPER = runqlat.Availability(False, "It was switched off for this bench.", "-")


NOT_JUDGED = "not judged"
BUSY_MS_PER_S = 100.0  # of CPU time that programs used which this bench did not start


def judged(
    pid: int, seconds: float, *, sick: bool, names: tuple[str, ...], never: tuple[str, ...] = ()
) -> str:
    """The name of the finding on top; of a healthy program, of one that blames the scheduling, if any, or
    that it must not be told of (`never`).
    """
    found = watch(pid=pid, seconds=seconds, progress=False, save=False)
    rows = found.records("findings")
    blaming = [
        str(row["name"])
        for row in rows
        if row["name"] in never or (row["scheduling"] and row["name"] != "nothing")
    ]
    name = str(rows[0]["name"]) if sick else (blaming or ["nothing"])[0]
    strangers = [row for row in found.records("rivals") if "/sched-labs" not in row["group"]]
    busy = sum(row["cpu_ms_per_s"] for row in strangers) >= BUSY_MS_PER_S
    return NOT_JUDGED if name == "rival" and name not in names and busy else name


def verdict(case: troubles.Case, seed: int, seconds: float) -> str:
    """What was said of one constructed program."""
    with case.running(seed) as pid:
        return judged(pid, seconds, sick=case.sick, names=case.names, never=case.never)


ROUND_TRIPS = 20_000
TURNS = 7


@contextlib.contextmanager
def unwatched(pid: int) -> Iterator[None]:
    yield


@contextlib.contextmanager
def histogram(pid: int) -> Iterator[None]:
    with runqlat.watch([pid], 60, 30) as probe:
        probe.start()
        yield


@contextlib.contextmanager
def watched(pid: int, stacks: bool = False) -> Iterator[None]:
    """The two probes of a watch; its looks at /proc are reported by each watch itself."""
    with (
        runqlat.watch([pid], 60, 30, scope="family", attribution=True, bins="log2") as waits,
        switches.watch([pid], 60, scope="family", stacks=stacks) as edges,
    ):
        waits.start()
        edges.start()
        yield


@contextlib.contextmanager
def with_turns(pid: int) -> Iterator[None]:
    with watched(pid), timeline.watch([pid], 60, scope="family") as turns:
        turns.start()
        yield


@contextlib.contextmanager
def theirs(pid: int, name: str) -> Iterator[None]:
    """Another tool, which has to be there."""
    with peers.running(name, None if name == "perf" else pid):
        yield


def there(name: str) -> bool:
    try:
        return bool(peers.command(name))
    except peers.PeerError:
        return False


WAYS = {
    "unwatched": unwatched,
    "histogram alone": histogram,
    "watch": watched,
    "watch --timeline": with_turns,
    "watch --stacks": lambda pid: watched(pid, stacks=True),
}
PEERS = {"runqlat -p": "runqlat", "perf sched record": "perf"}


def cost() -> None:
    """CPU time of a switch of a ping-pong on one CPU, in turns, and what each way of watching adds."""
    ways = WAYS | {said: functools.partial(theirs, name=name) for said, name in PEERS.items() if there(name)}
    found: dict[str, list[float]] = {name: [] for name in ways}
    cpu = machine.survey().cpus_allowed[-1]
    words = ["--by", "pipe", "--between", "threads", "--trials", "3", "--round-trips", str(ROUND_TRIPS)]
    with troubles.apart() as group:
        for _ in range(TURNS):
            for name, way in ways.items():
                with workloads.start("pingpong", words, deadline_s=60) as pair:
                    placement.pin(pair.tids, [cpu])
                    group.add(pair.pid)
                    with way(pair.pid):
                        records = pair.run()
                blocks = [one for one in records if one.values.get("condition") == "exchange"]
                found[name].append(
                    min(one["cpu_ns"] / (one["voluntary"] + one["involuntary"]) for one in blocks)
                )
    base = statistics.median(found["unwatched"])
    for name, values in found.items():
        middle = statistics.median(values)
        print(
            f"{name:<18}{middle:8,.0f} ns of CPU for a switch ({min(values):,.0f} to {max(values):,.0f}), "
            f"{middle - base:+,.0f} ns"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--only", nargs="+", default=[], metavar="CASE", help="a part of its name")
    parser.add_argument("--without-helper", action="store_true", help="what an ordinary user sees")
    parser.add_argument("--cost", action="store_true", help="what watching adds to a switch")
    options = parser.parse_args()
    if why := troubles.lacking():
        sys.exit(f"The programs cannot be started here: {why}.")
    if options.cost:
        cost()
        return 0
    if options.without_helper:
        mock.patch.object(runqlat, "available", return_value=NO_HELPER).start()
    hits, tries = Counter[bool](), Counter[bool]()
    for case in troubles.SICK + troubles.HEALTHY:
        if options.only and not any(word in case.name for word in options.only):
            continue
        seen = Counter(verdict(case, seed, options.seconds) for seed in range(options.seeds))
        judged = options.seeds - seen[NOT_JUDGED]
        right = sum(seen[name] for name in case.names)
        hits[case.sick] += right
        tries[case.sick] += judged
        others = ", ".join(f"{name} {times}" for name, times in seen.most_common() if name not in case.names)
        print(f"{case.name:<22}{right:>4} of {judged}  {others}", flush=True)
    if tries[True]:
        print(f"true cause on top: {hits[True]} of {tries[True]} ({hits[True] / tries[True]:.0%})")
    if tries[False]:
        alarms = tries[False] - hits[False]
        print(f"false alarms: {alarms} of {tries[False]} ({alarms / tries[False]:.0%})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
