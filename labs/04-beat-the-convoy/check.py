"""The reader's lock beside the convoy, in turns."""

from __future__ import annotations

import tempfile
from pathlib import Path
from statistics import median

from sched_labs.labs import Judge, compare

HERE = Path(__file__).resolve().parent
THREADS, ITEMS = 16, 3000
MOST_SWITCHES = 0.1  # for an item; a convoy makes one at least
PRINTED = ("items", "overlaps", "elapsed_ns", "switches", "cpu_ns")
HUNG = "The threads did not come to an end within a minute: is the lock given back?"


def check(judge: Judge) -> None:
    lock = judge.file("lock.h")
    wanted = THREADS * ITEMS
    runs: dict[str, list[dict[str, int]]] = {"mine": [], "convoy": []}
    with tempfile.TemporaryDirectory(prefix="sched-labs-") as folder:
        programs = {
            "mine": judge.built(HERE / "queue.c", lock, Path(folder) / "mine"),
            "convoy": judge.built(HERE / "queue.c", HERE / "starter" / "lock.h", Path(folder) / "convoy"),
        }

        def turn(number: int) -> dict[str, float]:
            for side in sorted(programs, reverse=number % 2 == 1):
                runs[side].append(judge.counts([programs[side], THREADS, ITEMS], PRINTED, hung=HUNG))
            mine, convoy = runs["mine"][-1], runs["convoy"][-1]
            judge.need(
                mine["items"] == wanted and mine["overlaps"] == 0,
                "two threads were inside at once, or items were lost: this is no lock.",
            )
            return {
                "switches": mine["switches"] / wanted,
                "time": mine["elapsed_ns"] / convoy["elapsed_ns"],
                "cpu": mine["cpu_ns"] / convoy["cpu_ns"],
            }

        found = compare(turn, at_most={"switches": MOST_SWITCHES, "time": 1, "cpu": float("inf")})
    judge.expect(
        True,
        good=f"all {wanted} items arrived each time, and no two threads were inside at once.",
        missing="",
    )
    convoy = median(one["switches"] for one in runs["convoy"]) / wanted
    told = f"{found['switches']} switches for an item; the convoy makes {convoy:.3f}"
    judge.expect(
        found["switches"].holds,
        good=f"{told}.",
        missing=f"{told}, and at most {MOST_SWITCHES} may be. "
        "Who gets the lock while the thread that was woken is still on its way?",
        unclear=f"{told}: that leaves open whether it is {MOST_SWITCHES} at most.",
    )
    told = f"it takes {found['time'].percent} of the convoy's time"
    judge.expect(
        found["time"].holds,
        good=f"{told}.",
        missing=f"{told}.",
        unclear=f"{told}: that leaves open which is quicker.",
    )
    judge.remark(f"It uses {found['cpu'].percent} of the CPU time that the convoy uses.")
