"""The reader's rule against sending at once, in turns."""

from __future__ import annotations

import tempfile
from pathlib import Path
from statistics import median

from sched_labs.labs import Judge

HERE = Path(__file__).resolve().parent
SECONDS, TURNS = 1, 3
FEWER_WAKEUPS, MORE_LATE = 0.25, 0.02
PRINTED = ("fast_events", "fast_late", "slow_events", "slow_late", "received", "wakeups", "elapsed_ns")
HUNG = "The program did not end within a minute: does `send_now` return?"


def run(judge: Judge, program: Path) -> dict[str, int]:
    counted = judge.counts([program, SECONDS], PRINTED, hung=HUNG)
    return counted | {"events": counted["fast_events"] + counted["slow_events"]}


def check(judge: Judge) -> None:
    batch = judge.file("batch.h")
    with tempfile.TemporaryDirectory(prefix="sched-labs-") as folder:
        mine = judge.built(HERE / "events.c", batch, Path(folder) / "mine")
        at_once = judge.built(HERE / "events.c", HERE / "starter" / "batch.h", Path(folder) / "at-once")
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
    # Each rate for itself: the events of the low rate are too few to show in a share of all.
    for rate, name in (("fast", "high"), ("slow", "low")):
        # The best of the turns: other programs make events late too, a wrong rule makes them late every time.
        late = [min(one[f"{rate}_late"] / one[f"{rate}_events"] for one in some) for some in (ours, theirs)]
        said = f"missed the deadline at the {name} rate; sent at once, {late[1]:.1%} did."
        judge.expect(
            late[0] <= late[1] + MORE_LATE,
            good=f"{late[0]:.1%} of the events {said}",
            missing=f"{late[0]:.0%} of the events {said} How long does the oldest one wait under your rule?",
        )
