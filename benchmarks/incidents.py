"""How often players find the cause of an incident: one who follows the book's order, and some who do not.

    python benchmarks/incidents.py --seeds 3 [--story ledger segments] [--cause lock]
    python benchmarks/incidents.py --seeds 20 --kept benchmarks/recorded/incidents.jsonl --minutes 8

Starts one variant after the other, about 25 seconds each; those with the fewest plays come first.
What did not start, as on a machine that is too busy, counts for nobody, and is tried again next time.
"""

from __future__ import annotations

import argparse
import inspect
import math
import sys
import tempfile
import time
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
import incident_players
import incident_room
from incident_room import started
from kept import Kept
from table import wilson

from sched_labs.core.closure import closure
from sched_labs.incidents import program, story
from sched_labs.kernels.contents import essence
from sched_labs.run import kept
from sched_labs.workloads.build import SHARED

BOOK = "the book"
NAIVE = ("top CPU", "most switches", "the story")


@cache
def fingerprint(name: str) -> str:
    """What a play of this story comes from: plays of an older state say nothing of this one."""
    modules = closure(
        [f"sched_labs.incidents.{one}" for one in ("stage", "judge", "evidence", f"stories.{name}")]
    )
    python = [*modules.values(), *(Path(str(one.__file__)) for one in (incident_players, incident_room))]
    sources = [path.read_bytes() for path in sorted(python)] + [inspect.getsource(play).encode()]
    native = (program.SOURCE, SHARED / "lab.h", SHARED / "work.h")
    return kept.digest((essence(source).decode() for source in sources), native)[:16]


def play(name: str, cause: str, seed: int) -> dict[str, Any]:
    """What each player blames; of who follows the book also the value, and whether the judge took it."""
    with (
        tempfile.TemporaryDirectory() as folder,
        pytest.MonkeyPatch.context() as patch,
        started(Path(folder), patch, name, "--seed", str(seed), "--cause", cause) as room,
    ):
        blamed, value = incident_players.by_the_book(room.status)
        status = room.status()  # of the seconds in which that player looked
        said = room.say("answer", blamed, "--evidence", f"{value:.2f}")
        return {
            BOOK: blamed,
            "value": round(value, 2),
            "accepted": said.returncode == 0,
            "top CPU": incident_players.top_cpu(status),
            "most switches": incident_players.most_switches(status),
            "the story": story.plan(name, seed).story.suspect,
            "level": status["now"]["level"],
            "level while well": status["healthy"]["level"],
            "others' share": status["now"]["others_share"],
        }


def rate(hits: int, plays: int) -> str:
    """How many plays are right, and between which rates the true one lies (Wilson's interval, 95 %)."""
    low, high = wilson(hits, plays)
    return f"{hits:>4} of {plays:<4}{low:>5.0%} to {high:<6.0%}"


def show(found: dict[tuple[str, str], list[dict[str, Any]]]) -> None:
    """A line for each variant, and one for each player over all of them."""
    print(f"\n{'':<31}{BOOK:<27}{'evidence too':<27}{'  '.join(NAIVE)}")
    total = Counter[str]()
    for (name, cause), plays in found.items():
        right = Counter(who for one in plays for who in (BOOK, *NAIVE) if one[who] == cause)
        right["evidence too"] = sum(one["accepted"] for one in plays)
        total += right
        naive = "  ".join(f"{right[who]:>{len(who)}}" for who in NAIVE)
        print(
            f"{name + ' ' + cause:<31}{rate(right[BOOK], len(plays))}"
            f"{rate(right['evidence too'], len(plays))}{naive}"
        )
    print()
    for who in (BOOK, "evidence too", *NAIVE):
        print(f"{'all variants, ' + who:<31}{rate(total[who], sum(map(len, found.values())))}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--story", nargs="+", choices=story.names(), default=story.names())
    parser.add_argument("--cause", nargs="+", help="only variants with one of these")
    parser.add_argument("--kept", type=Path, metavar="FILE", help="keep the plays there, and go on from it")
    parser.add_argument("--minutes", type=float, default=math.inf, help="start no further play after these")
    options = parser.parse_args()
    said = {name: Kept(options.kept, fingerprint(name)) for name in options.story}
    variants = [
        (name, one.cause)
        for name in options.story
        for one in story.plan(name, 0).story.variants
        if not options.cause or one.cause in options.cause
    ]
    seeds, end_s = range(1, options.seeds + 1), time.monotonic() + 60 * options.minutes
    for seed in seeds:  # so that all have as many where the time does not suffice
        for name, cause in variants:
            if not said[name].has(f"{name} {cause}", seed) and time.monotonic() < end_s:
                try:
                    one = play(name, cause, seed)
                except pytest.fail.Exception as error:  # it did not start
                    print(f"{name} {cause}, seed {seed}: not played: {str(error)[-300:]}", flush=True)
                    continue
                said[name].add(f"{name} {cause}", seed, one)
                print(f"{name} {cause}, seed {seed}: {one}", flush=True)
    show({(name, cause): said[name].of(f"{name} {cause}", seeds) for name, cause in variants})


if __name__ == "__main__":
    main()
