"""The reader's lock against the convoy, in turns."""

from __future__ import annotations

import tempfile
from pathlib import Path
from statistics import median

from sched_labs.labs import Judge

HERE = Path(__file__).resolve().parent
THREADS, ITEMS, TURNS = 16, 1500, 3
FEWER_SWITCHES = 0.5
PRINTED = ("items", "overlaps", "elapsed_ns", "switches", "cpu_ns")
HUNG = "The threads did not come to an end within a minute: is the lock given back?"


def run(judge: Judge, program: Path) -> dict[str, int]:
    return judge.counts([program, THREADS, ITEMS], PRINTED, hung=HUNG)


def check(judge: Judge) -> None:
    lock = judge.file("lock.h")
    with tempfile.TemporaryDirectory(prefix="sched-labs-") as folder:
        mine = judge.built(HERE / "queue.c", lock, Path(folder) / "mine")
        convoy = judge.built(HERE / "queue.c", HERE / "starter" / "lock.h", Path(folder) / "convoy")
        ours, theirs = [], []
        for _ in range(TURNS):
            theirs.append(run(judge, convoy))
            ours.append(run(judge, mine))
    wanted = THREADS * ITEMS
    right = judge.expect(
        all(one["items"] == wanted and one["overlaps"] == 0 for one in ours),
        good=f"all {wanted} items arrived, and no two threads were inside at once.",
        missing="two threads were inside at once, or items were lost: this is no lock.",
    )
    if not right:
        return
    switches, convoys = (median(one["switches"] for one in some) / wanted for some in (ours, theirs))
    judge.expect(
        switches <= FEWER_SWITCHES * convoys,
        good=f"{switches:.2f} switches for an item, the convoy {convoys:.2f}.",
        missing=f"{switches:.2f} switches for an item, the convoy {convoys:.2f}. "
        "Who gets the lock while the thread that was woken is still on its way?",
    )
    time, convoy_time = (median(one["elapsed_ns"] for one in some) for some in (ours, theirs))
    judge.expect(
        time <= convoy_time,
        good=f"{time / convoy_time:.0%} of the convoy's time.",
        missing=f"it takes {time / convoy_time:.0%} of the convoy's time.",
    )
    cpu, convoy_cpu = (median(one["cpu_ns"] for one in some) for some in (ours, theirs))
    judge.remark(f"It used {cpu / convoy_cpu:.0%} of the CPU time that the convoy used.")
