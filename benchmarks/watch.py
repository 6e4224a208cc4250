"""Does `watch` name the true cause?  Constructed programs, sick and healthy, several seeds each.

    python benchmarks/watch.py --seeds 20 [--seconds 3] [--only quota mask] [--without-helper]
    python benchmarks/watch.py --seeds 20 --kept runs.jsonl --minutes 5     # again, until all are there
    python benchmarks/watch.py --cost [--keep FILE]       # what watching adds to a switch, and what others do

One line per case: how often the first finding was the true one, and what else came out on top.  Of a healthy
program every finding about a wait for a CPU is a false alarm.  Where a rival is named, and other programs of
this machine had a CPU for as long as it is said to have cost, that is neither: such a run is not judged, and
counted apart.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import troubles
from kept import Kept
from run import added_interval
from table import Line, NotMeasurable, conclude, remark_on

from sched_labs import machine, workloads
from sched_labs.probes import peers, runqlat, switches, timeline
from sched_labs.run.surroundings import Surroundings
from sched_labs.steer import placement
from sched_labs.watching.program import watch

NO_HELPER = runqlat.Availability(False, "It was switched off for this bench.", "-")


NOT_JUDGED = "not judged"


@dataclass(frozen=True)
class Said:
    """What a watch said of a program: the finding by which it is judged, and all of them with the rivals."""

    name: str
    findings: list[dict[str, Any]] = field(default_factory=list)
    rivals: list[dict[str, Any]] = field(default_factory=list)


def judged(
    pid: int, seconds: float, *, sick: bool, names: tuple[str, ...], never: tuple[str, ...] = ()
) -> Said:
    """By the finding on top; a healthy program by one that blames the scheduling, if any, or that it must
    not be told of (`never`).
    """
    found = watch(pid=pid, seconds=seconds, progress=False, save=False)
    told = partial(Said, findings=found.records("findings"), rivals=found.records("rivals"))
    rows = found.records("findings")
    blaming = [
        str(row["name"])
        for row in rows
        if row["name"] in never or (row["scheduling"] and row["name"] != "nothing")
    ]
    name = str(rows[0]["name"]) if sick else (blaming or ["nothing"])[0]
    if name != "rival" or name in names:
        return told(name)
    (size,) = (row["size_ms_per_s"] for row in rows if row["name"] == name)
    ours = f"/{os.getpid()}."  # how the groups begin that this bench makes
    strangers = [row for row in found.records("rivals") if ours not in row["group"]]
    return told(NOT_JUDGED if sum(row["cpu_ms_per_s"] for row in strangers) >= size else name)


def verdict(case: troubles.Case, seed: int, seconds: float) -> Said:
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
def causes(pid: int) -> Iterator[None]:
    with runqlat.watch([pid], 60, 30, scope="family", attribution=True, bins="log2") as waits:
        waits.start()
        yield


@contextlib.contextmanager
def watched(pid: int) -> Iterator[None]:
    """The probe of a watch; its looks at /proc are reported by each watch itself."""
    with runqlat.watch([pid], 60, 30, scope="family", attribution=True, bins="log2", edges=True) as waits:
        waits.start()
        yield


@contextlib.contextmanager
def with_stacks(pid: int) -> Iterator[None]:
    with causes(pid), switches.watch([pid], 60, scope="family", stacks=True) as places:
        places.start()
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


# What is loaded, and the most that it may add of what runqlat adds.
WAYS = {
    "histogram alone": (histogram, 0.5),
    "histogram and causes": (causes, 0.5),
    "watch (these, and who followed whom)": (watched, 0.5),
    "watch --timeline": (with_turns, 1.5),
    "watch --stacks": (with_stacks, None),
}
PEER = "libbpf-tools runqlat -p"
PEERS = {PEER: "runqlat", "perf sched record": "perf"}


def cost() -> list[Line]:
    """CPU time of a switch of a ping-pong on one CPU, in turns, and what each way of watching adds."""
    ways: dict[str, Any] = {"unwatched": unwatched} | {name: way for name, (way, _) in WAYS.items()}
    ways |= {said: partial(theirs, name=name) for said, name in PEERS.items() if there(name)}
    found: dict[str, list[float]] = {name: [] for name in ways}
    cpu = machine.survey().cpus_allowed[-1]
    words = ["--by", "pipe", "--between", "threads", "--trials", "3", "--round-trips", str(ROUND_TRIPS)]
    with troubles.apart() as group:
        for _ in range(TURNS):
            for name, way in random.sample(list(ways.items()), len(ways)):  # see table.alternate
                with workloads.start("pingpong", words, deadline_s=60) as pair:
                    placement.pin(pair.tids, [cpu])
                    group.add(pair.pid)
                    with way(pair.pid):
                        records = pair.run()
                blocks = [one for one in records if one.values.get("condition") == "exchange"]
                found[name].append(
                    min(one["cpu_ns"] / (one["voluntary"] + one["involuntary"]) for one in blocks)
                )
    free, peer = found.pop("unwatched"), found.get(PEER)
    base, lines = statistics.median(free), list[Line]()
    for name, values in found.items():
        added = f"{statistics.median(values) - base:+,.0f} ns to a switch of {base:,.0f} ns of CPU"
        most = WAYS[name][1] if name in WAYS else None
        what, target = f"added by {name} / by {PEER}", "none" if most is None else f"<= {most:g}"
        if peer is None:
            lines.append(Line(what, "not measurable", target, None, f"{added}; runqlat is not here"))
        elif name != PEER:
            try:
                share, low, high = added_interval(values, peer, free)
            except NotMeasurable as error:
                lines.append(Line(what, "not measurable", target, None, str(error)))
                continue
            spans = most is not None and low <= most < high
            ok = None if most is None else share <= most
            value = f"{share:.2f} [{low:.2f}, {high:.2f}]"
            lines.append(Line(what, value, target, ok, added + remark_on(spans)))
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--only", nargs="+", default=[], metavar="CASE", help="a part of its name")
    parser.add_argument("--without-helper", action="store_true", help="what an ordinary user sees")
    parser.add_argument(
        "--kept", type=Path, metavar="FILE", help="keep what was said there, and go on from it"
    )
    parser.add_argument("--minutes", type=float, default=math.inf, help="start no further run after these")
    parser.add_argument("--cost", action="store_true", help="what watching adds to a switch")
    parser.add_argument(
        "--keep", type=Path, metavar="FILE", help="write the table of --cost there, for the book"
    )
    options = parser.parse_args()
    if why := troubles.lacking():
        sys.exit(f"The programs cannot be started here: {why}.")
    if options.cost:
        around = Surroundings()
        lines = cost()
        doubts = Surroundings.doubts(around.since())
        return conclude("python benchmarks/watch.py --cost", lines, doubts, options.keep)
    if options.without_helper:
        mock.patch.object(runqlat, "available", return_value=NO_HELPER).start()
    said = Kept(options.kept, f"{options.seconds:g} s" + " without helper" * options.without_helper)
    cases = [
        case
        for case in troubles.SICK + troubles.HEALTHY
        if not options.only or any(word in case.name for word in options.only)
    ]
    end_s = time.monotonic() + 60 * options.minutes
    for seed in range(options.seeds):  # so that all have as many where the time does not suffice
        for case in cases:
            if not said.has(case.name, seed) and time.monotonic() < end_s:
                said.add(case.name, seed, asdict(verdict(case, seed, options.seconds)))
    hits, tries = Counter[bool](), Counter[bool]()
    for case in cases:
        seen = Counter(str(row["name"]) for row in said.of(case.name, range(options.seeds)))
        judged = seen.total() - seen[NOT_JUDGED]
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
