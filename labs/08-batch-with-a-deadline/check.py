"""The reader's rule against sending at once, in turns."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from statistics import median

from sched_labs.labs import Judge

HERE = Path(__file__).resolve().parent
SECONDS, TURNS = 1, 3
FEWER_WAKEUPS, MORE_LATE = 0.25, 0.02


def built(judge: Judge, batch: Path, into: Path) -> Path:
    into.mkdir()
    shutil.copy(batch, into / "batch.h")
    shutil.copy(HERE / "events.c", into / "events.c")
    compiler = shutil.which("cc") or shutil.which("gcc")
    judge.need(compiler is not None, "There is no C compiler here; scripts/provision.sh installs one.")
    made = subprocess.run(
        [str(compiler), "-O2", "-pthread", "-o", into / "events", into / "events.c"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    judge.need(made.returncode == 0, f"batch.h does not compile:\n{made.stderr.strip()[:2000]}")
    return into / "events"


def run(judge: Judge, program: Path) -> dict[str, int]:
    ended = subprocess.run([program, str(SECONDS)], capture_output=True, text=True, check=False)
    judge.need(ended.returncode == 0, f"The program ended with status {ended.returncode}.")
    names = ("events", "received", "late", "wakeups", "elapsed_ns")
    return dict(zip(names, map(int, ended.stdout.split()), strict=True))


def check(judge: Judge) -> None:
    batch = judge.folder / "batch.h"
    judge.need(batch.is_file(), "batch.h is not there.")
    with tempfile.TemporaryDirectory(prefix="sched-labs-") as folder:
        mine = built(judge, batch, Path(folder) / "mine")
        at_once = built(judge, HERE / "starter" / "batch.h", Path(folder) / "at-once")
        ours, theirs = [], []
        for _ in range(TURNS):
            theirs.append(run(judge, at_once))
            ours.append(run(judge, mine))
    judge.expect(
        all(one["received"] == one["events"] for one in ours),
        good="every event arrived.",
        missing="events were lost.",
    )
    rates = [median(one["wakeups"] / one["events"] for one in some) for some in (ours, theirs)]
    judge.expect(
        rates[0] <= FEWER_WAKEUPS * rates[1],
        good=f"{rates[0]:.3f} wake-ups for an event instead of {rates[1]:.2f}.",
        missing=f"{rates[0]:.3f} wake-ups for an event; sending at once makes {rates[1]:.2f}.",
    )
    # The best of the turns: other programs make events late too, a wrong rule makes them late every time.
    late = [min(one["late"] / one["events"] for one in some) for some in (ours, theirs)]
    judge.expect(
        late[0] <= late[1] + MORE_LATE,
        good=f"{late[0]:.1%} of the events missed the deadline; sent at once, {late[1]:.1%} did.",
        missing=f"{late[0]:.0%} of the events missed the deadline; sent at once, {late[1]:.1%} did. "
        "What does your rule do while few events come?",
    )
