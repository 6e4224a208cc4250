"""The reader's lock against the convoy, in turns."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from statistics import median

from sched_labs.labs import Judge

HERE = Path(__file__).resolve().parent
THREADS, ITEMS, TURNS = 16, 1500, 3
FEWER_SWITCHES = 0.5


def built(judge: Judge, lock: Path, into: Path) -> Path:
    into.mkdir()
    shutil.copy(lock, into / "lock.h")
    shutil.copy(HERE / "queue.c", into / "queue.c")
    compiler = shutil.which("cc") or shutil.which("gcc")
    judge.need(compiler is not None, "There is no C compiler here; scripts/provision.sh installs one.")
    made = subprocess.run(
        [str(compiler), "-O2", "-pthread", "-o", into / "queue", into / "queue.c"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    judge.need(made.returncode == 0, f"lock.h does not compile:\n{made.stderr.strip()[:2000]}")
    return into / "queue"


def run(judge: Judge, program: Path) -> tuple[int, int, int, int, int]:
    command = [program, str(THREADS), str(ITEMS)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    judge.need(
        ended.returncode == 0,
        "The threads did not come to an end within a minute: is the lock given back?"
        if ended.returncode == -14
        else f"The program ended with status {ended.returncode}.",
    )
    items, overlaps, elapsed_ns, switches, cpu_ns = (int(word) for word in ended.stdout.split())
    return items, overlaps, elapsed_ns, switches, cpu_ns


def check(judge: Judge) -> None:
    lock = judge.folder / "lock.h"
    judge.need(lock.is_file(), "lock.h is not there.")
    with tempfile.TemporaryDirectory(prefix="sched-labs-") as folder:
        mine = built(judge, lock, Path(folder) / "mine")
        convoy = built(judge, HERE / "starter" / "lock.h", Path(folder) / "convoy")
        ours, theirs = [], []
        for _ in range(TURNS):
            theirs.append(run(judge, convoy))
            ours.append(run(judge, mine))
    wanted = THREADS * ITEMS
    right = judge.expect(
        all(items == wanted and overlaps == 0 for items, overlaps, *_ in ours),
        good=f"all {wanted} items arrived, and no two threads were inside at once.",
        missing="two threads were inside at once, or items were lost: this is no lock.",
    )
    if not right:
        return
    switches, convoys = (median(one[3] for one in some) / wanted for some in (ours, theirs))
    judge.expect(
        switches <= FEWER_SWITCHES * convoys,
        good=f"{switches:.2f} switches for an item, the convoy {convoys:.2f}.",
        missing=f"{switches:.2f} switches for an item, the convoy {convoys:.2f}. "
        "Who gets the lock while the thread that was woken is still on its way?",
    )
    time, convoy_time = (median(one[2] for one in some) for some in (ours, theirs))
    judge.expect(
        time <= convoy_time,
        good=f"{time / convoy_time:.0%} of the convoy's time.",
        missing=f"it takes {time / convoy_time:.0%} of the convoy's time.",
    )
    cpu, convoy_cpu = (median(one[4] for one in some) for some in (ours, theirs))
    judge.remark(f"It used {cpu / convoy_cpu:.0%} of the CPU time that the convoy used.")
