"""The reader's rule beside sending at once, in turns."""

from __future__ import annotations

import tempfile
from pathlib import Path
from statistics import median

from sched_labs.labs import Compared, Judge, compare

HERE = Path(__file__).resolve().parent
SECONDS = 1
FEWER_WAKEUPS, MORE_LATE = 0.25, 0.02
PRINTED = ("fast_events", "fast_late", "slow_events", "slow_late", "received", "wakeups", "elapsed_ns")
HUNG = "The program did not end within a minute: does `send_now` return?"


def late(run: dict[str, int], rate: str) -> float:
    return run[f"{rate}_late"] / run[f"{rate}_events"]


def wakeups(run: dict[str, int]) -> float:
    return run["wakeups"] / (run["fast_events"] + run["slow_events"])


def check(judge: Judge) -> None:
    batch = judge.file("batch.h")
    runs: dict[str, list[dict[str, int]]] = {"mine": [], "at once": []}
    with tempfile.TemporaryDirectory(prefix="sched-labs-") as folder:
        programs = {
            "mine": judge.built(HERE / "events.c", batch, Path(folder) / "mine"),
            "at once": judge.built(HERE / "events.c", HERE / "starter" / "batch.h", Path(folder) / "at-once"),
        }

        def turn(number: int) -> dict[str, float]:
            for side in sorted(programs, reverse=number % 2 == 1):
                runs[side].append(judge.counts([programs[side], SECONDS], PRINTED, hung=HUNG))
            mine, at_once = runs["mine"][-1], runs["at once"][-1]
            judge.need(mine["received"] == mine["fast_events"] + mine["slow_events"], "events were lost.")
            more = {rate: late(mine, rate) - late(at_once, rate) for rate in ("fast", "slow")}
            return {"wakeups": wakeups(mine) / wakeups(at_once)} | more

        # Each rate for itself: the events of the low rate are too few to show in a share of all.
        found = compare(turn, at_most={"wakeups": FEWER_WAKEUPS, "fast": MORE_LATE, "slow": MORE_LATE})
    judge.remark("Every event arrived.")
    told = f"{found['wakeups'].percent} of the wake-ups for an event that sending at once makes"
    judge.expect(
        found["wakeups"].holds,
        good=f"{told}.",
        missing=f"{told}, and at most {FEWER_WAKEUPS:.0%} may be.",
        unclear=f"{told}: that leaves open whether it is {FEWER_WAKEUPS:.0%} at most.",
    )
    for rate, name in (("fast", "high"), ("slow", "low")):
        in_time(judge, name, found[rate], median(late(run, rate) for run in runs["at once"]))


def in_time(judge: Judge, name: str, more: Compared, at_once: float) -> None:
    """How many more events of a rate are late under the reader's rule, in percentage points."""
    low, high = 100 * more.low, 100 * more.high
    told = (
        f"{100 * more.median:.1f} percentage points ({low:.1f} to {high:.1f} in {more.turns} turns) more of "
        f"the events missed the deadline at the {name} rate than the {at_once:.1%} that did when sent at once"
    )
    judge.expect(
        # Where events come late that are sent at once, it is not the rule that makes them late.
        more.holds if more.holds or at_once <= MORE_LATE else None,
        good=f"{told}.",
        missing=f"{told}; {100 * MORE_LATE:g} may be. How long does the oldest one wait under your rule?",
        unclear=f"{told}: that does not tell whether the rule or the machine is to blame.",
    )
