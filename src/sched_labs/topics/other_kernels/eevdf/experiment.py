"""Waking in the middle of somebody's turn: how long does a thread wait, and by which rule of the scheduler?

Two threads share a CPU.  One computes, and has turns of a slice that it was given; the other one wakes at a
chosen moment of such a turn.  By what EEVDF owes the one that wakes, and by its slice, it comes at once or
waits.  Nothing of the kernel's is changed: features are turned in guests only, by the job
`kernels.jobs.pieces`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from sched_labs import machine, workloads
from sched_labs.core import stats
from sched_labs.core.errors import SchedLabError
from sched_labs.core.result import Result
from sched_labs.run import checks, starts
from sched_labs.run.base import Instrument, Run, experiment
from sched_labs.steer import placement, policies

AT_ONCE_US = 100  # longer than a timer, an interrupt and a switch take
NOTHING = "nothing"
MOST_PHASES = 200
WORK_US = 500  # shorter than any slice here, so that the sleeper is not taken off the CPU while it works
# For what the start left the kernel to do: as long as a guest needs, whose virtual time skips it, and here.
SETTLE_US, SETTLE_HERE_US = 200_000, 20_000
LONGEST_TICK_US = 10_000  # of Linux: HZ=100


@dataclass(frozen=True)
class Situation:
    """What came before the wake-up, and whether the one that wakes has a shorter slice."""

    before: str
    short: bool = False


SITUATIONS = {
    "equal": Situation("worked"),
    "short": Situation("worked", short=True),
    "owed": Situation("waited"),
}


def summarise(result: Result) -> pd.DataFrame:
    """One row per feature that was off and situation; each number is the median of the trials' own, with its
    95 % interval over trials.

    off        the feature that was turned off; "nothing" where none was (guests have HRTICK on)
    situation  equal (the one that wakes has just had the CPU, both have the same slice), short (the same, and
               its slice is shorter), owed (same slices; it had to wait before, and slept before it had all
               that it was owed)
    at_once_percent, at_once_lo_percent, at_once_hi_percent   of the wake-ups: those less than 100 µs late
    waited_percent, waited_lo_percent, waited_hi_percent   how long a wake-up waited on average, in hundredths
               of a turn of the thread that had the CPU
    rest_ratio, rest_lo_ratio, rest_hi_ratio   the wait divided by what was left of the turn, the median
    wakes      how many wake-ups
    """
    turn_ns = 1000 * result.parameters["turn_us"]
    rows = []
    for key, cell in result.data.groupby(["off", "situation"], sort=False):
        at_once = (cell.late_ns < 1000 * AT_ONCE_US).groupby(cell.trial).mean()
        waited = cell.late_ns.groupby(cell.trial).mean() / turn_ns
        rest = (cell.late_ns / (turn_ns - cell.phase_ns)).groupby(cell.trial).median()
        rows.append(
            {
                "off": key[0],
                "situation": key[1],
                **stats.spread("at_once", "percent", 100 * at_once),
                **stats.spread("waited", "percent", 100 * waited),
                **stats.spread("rest", "ratio", rest),
                "wakes": len(cell),
            }
        )
    return pd.DataFrame(rows)


def instrument(survey: machine.Machine) -> Instrument:
    """The sleeper's own clock, on a kernel where a thread can have a slice of its own."""
    return Instrument("the sleeper's own clock", "Features are turned off in guests: the chapter shows them.")


@experiment("eevdf.phases", summarise=summarise, instrument=instrument, workloads=("phase",))
def phases(
    run: Run,
    *,
    turn_us: int = 6000,
    short_us: int = 1500,
    phases: int = 12,
    trials: int | None = None,
) -> None:
    """Wake a thread at chosen moments of another one's turn, and note how long it waits for the CPU.

    turn_us   the slice of the thread that has the CPU, set with sched_setattr(2)
    short_us  the shorter slice of the one that wakes, where it has one; otherwise it has the same
    phases    at how many moments of the turn, evenly spread
    trials    how often each situation is measured, each time with a new start; they take turns

    Raises SchedLabError where no thread can have a slice of its own: that came with EEVDF in 6.12.

    Data: one row per wake-up: off ("nothing": the kernel is as it is), situation, trial, phase_ns (since the
    other one's turn began), late_ns, joined_ns (how late the sleeper got the CPU before that turn).
    Method: `phase.c` lets each thread begin a round by waking alone, so that neither carries a lag over.
    """
    trials = run.choose(tiny=1, quick=6, full=12) if trials is None else trials
    checks.whole("turn_us", turn_us, 2000, 50_000)
    checks.whole("short_us", short_us, 2 * WORK_US, turn_us - 1)
    checks.whole("phases", phases, 2, MOST_PHASES)
    checks.whole("trials", trials, 1, 1000)
    tried = policies.tries([policies.slice_of(1000 * turn_us)]).iloc[0]
    if not tried.granted:
        raise SchedLabError(
            f"No thread can have a slice of its own here: {tried.because}.",
            "Name a kernel that has them: kernel='6.12'.",
            lacking=True,
        )
    cpu = placement.quiet_cpu()
    run.begin()
    run.parameters |= {"trials": trials, "cpu": cpu}
    tick_us = round((machine.survey().tick_ns or 1000 * LONGEST_TICK_US) / 1000)
    for trial, name in starts.each(run, SITUATIONS, trials, label=str):
        rows = wakes(
            name, cpu, turn_us=turn_us, short_us=short_us, phases=phases, tick_us=tick_us,
            settle_us=SETTLE_HERE_US,
        )  # fmt: skip
        run.add([{"off": NOTHING, "situation": name, "trial": trial} | row for row in rows])


def wakes(
    name: str,
    cpu: int,
    *,
    turn_us: int,
    short_us: int,
    phases: int,
    tick_us: int = LONGEST_TICK_US,
    settle_us: int = SETTLE_US,
) -> list[dict[str, Any]]:
    """One wake-up at each phase in the situation of that name: phase_ns, late_ns, joined_ns."""
    given = SITUATIONS[name]
    step_us = turn_us // phases
    # Holds a wait before, a phase and a wait, each as long as a turn and the rest of a tick, and to spare;
    # in full 20 ms, which every usual tick divides.
    round_us = 20_000 * (1 + (3 * turn_us + 3 * tick_us + 4_000) // 20_000)
    words = ["--before", given.before, "--work-us", WORK_US, "--phases", phases, "--step-us", step_us]
    words += ["--first-us", step_us // 2, "--round-us", round_us, "--settle-us", settle_us]
    deadline_s = 30 + 3 * phases * round_us / 1e6
    with workloads.start("phase", [str(word) for word in words], deadline_s=deadline_s) as threads:
        placement.pin(threads.tids, [cpu])
        sleeper, hog = threads.tids
        policies.apply(sleeper, policies.slice_of(1000 * (short_us if given.short else turn_us)))
        policies.apply(hog, policies.slice_of(1000 * turn_us))
        return [
            {"phase_ns": one["phase_ns"], "late_ns": one["late_ns"], "joined_ns": one["before_ns"]}
            for one in threads.run()
        ]
