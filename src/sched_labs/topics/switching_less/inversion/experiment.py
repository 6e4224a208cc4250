"""A thread with priority waits for a lock whose holder has none: for how long, and for whom?"""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from sched_labs import machine, workloads
from sched_labs.core import stats
from sched_labs.core.result import Result
from sched_labs.run import checks, starts
from sched_labs.run.base import Instrument, Run, experiment
from sched_labs.steer import placement, policies

LOCKS = ("mutex", "inherit", "raise")
MOST_HOGS, MOST_HAND_OVERS = 8, 1000  # of inversion.c
APART_US = (
    3000  # of the holder's own work, at most: about a slice, so that requests come anywhere in its turn
)


@dataclass(frozen=True)
class Situation:
    """Who else is there; `real_time`: whether the waiter is, and so whether the kernel has to permit it."""

    hogs: bool = True
    nice: bool = True
    real_time: bool = True
    locks: tuple[str, ...] = LOCKS


SITUATIONS = {
    "no hog": Situation(hogs=False, nice=False),
    "hog": Situation(nice=False, locks=("mutex", "inherit")),
    "nice": Situation(),
    "ordinary": Situation(real_time=False, locks=("mutex", "inherit")),
}


def summarise(result: Result) -> pd.DataFrame:
    """One row per situation and lock; 95 % intervals over trials.

    situation    no hog; hog (one or several want the CPU, too); nice (the same, and the holder has a nice
                 value); ordinary (the same, and the waiter is no real-time thread)
    lock         mutex (the C library's ordinary one), inherit (PTHREAD_PRIO_INHERIT), raise (the holder makes
                 itself real-time before it takes the lock)
    p50_ns, p50_lo_ns, p50_hi_ns, p90_ns, p90_lo_ns, p90_hi_ns   from when the waiter was asked to take the
                 lock until it had it: half of the times, and 90 % of them, all trials together
    max_ns       the longest
    hogs_percent of all waits together, the part in which hogs had the CPU
    lock_ns, lock_lo_ns, lock_hi_ns   for the holder, to take and release the lock when nobody else wants it
    hand_overs   behind the quantiles
    trials
    """
    costs = result.tables["costs"]
    rows = []
    for key, cell in result.data.groupby(["situation", "lock"], sort=False):
        cost = costs[(costs.situation == key[0]) & (costs.lock == key[1])]
        quantiles = {
            name: stats.pooled_quantile(cell.wait_ns, cell.trial, q)
            for name, q in (("p50", 0.5), ("p90", 0.9))
        }
        rows.append(
            {
                "situation": key[0],
                "lock": key[1],
                **stats.in_columns("p50", "ns", quantiles["p50"]),
                **stats.in_columns("p90", "ns", quantiles["p90"]),
                "max_ns": int(cell.wait_ns.max()),
                "hogs_percent": 100 * cell.hogs_ns.sum() / cell.wait_ns.sum(),
                **stats.spread("lock", "ns", cost.pair_ns),
                "hand_overs": len(cell),
                "trials": cell.trial.nunique(),
            }
        )
    return pd.DataFrame(rows)


def instrument(survey: machine.Machine) -> Instrument:
    """The waiter's clock and the hogs' CPU clocks; a real-time waiter where this user may have one."""
    fact = survey.fact("policy.fifo")
    if fact.value:
        return Instrument("the waiter's clock and the hogs' CPU clocks")
    return Instrument("the waiter's clock, without a real-time waiter", f"SCHED_FIFO {fact.why}")


@experiment(
    "inversion.waits",
    summarise=summarise,
    instrument=instrument,
    workloads=("inversion",),
    needs=("priority",),
)
def waits(
    run: Run,
    *,
    hogs: int = 1,
    nice: int = 10,
    hold_us: int = 200,
    hand_overs: int | None = None,
    trials: int | None = None,
) -> None:
    """Let a thread wait for a lock that is held for a fixed amount of work, with and without hogs on its CPU.

    hogs        how many threads compute all the time and never touch the lock
    nice        the holder's nice value where it has one, 1 to 19 (0 would be the situation before)
    hold_us     how much work the holder does with the lock
    hand_overs  how often the waiter asks for it in each trial
    trials      how often each situation and lock is measured, each time with a new start; they take turns

    The waiter is SCHED_FIFO; without the right to have that, only the situation without it is measured.
    It sleeps, takes the lock and sleeps again, so the CPU is never a real-time thread's for longer than the
    lock is held.

    Data: one row per hand-over: situation, lock, trial, wait_ns, hogs_ns (what of the wait the hogs had the
    CPU).  The table costs has pair_ns: to take the lock and release it before anybody else wants it, for each
    situation, lock and trial.
    Method: a lock with PTHREAD_PRIO_INHERIT, Sha, Rajkumar and Lehoczky, IEEE Transactions on Computers 39
    (1990); FUTEX_LOCK_PI, futex(2).
    """
    hand_overs = run.choose(tiny=2, quick=4, full=20) if hand_overs is None else hand_overs
    trials = run.choose(tiny=1, quick=6, full=12) if trials is None else trials
    checks.whole("hogs", hogs, 1, MOST_HOGS)
    checks.whole("nice", nice, 1, 19)
    checks.whole("hold_us", hold_us, 1, 10_000)
    checks.whole("hand_overs", hand_overs, 1, MOST_HAND_OVERS)
    checks.whole("trials", trials, 1, 1000)
    cpu = placement.quiet_cpu()
    run.begin()
    run.parameters |= {"hand_overs": hand_overs, "trials": trials, "cpu": cpu}
    chosen = dict(SITUATIONS)
    tried = policies.tries([policies.FIFO]).iloc[0]
    if not tried.granted:
        chosen = {name: given for name, given in chosen.items() if not given.real_time}
        run.note("missing", f"No real-time waiter: {tried.because}. An ordinary one was measured.")
    cells = [(name, lock) for name, given in chosen.items() for lock in given.locks]
    # A holder of nice 19 has a sixty-eighth of the CPU beside one hog.
    deadline_s = 30 + hand_overs * (1 + hogs)
    for trial, (name, lock) in starts.each(run, cells, trials, label=lambda cell: f"{cell[0]}, {cell[1]}"):
        given = chosen[name]
        words = ["--lock", lock, "--priority", policies.FIFO.priority * given.real_time]
        words += ["--nice", nice * given.nice, "--hogs", hogs * given.hogs, "--hold-us", hold_us]
        words += ["--apart-us", APART_US, "--hand-overs", hand_overs, "--seed", trial]
        with workloads.start("inversion", [str(word) for word in words], deadline_s=deadline_s) as threads:
            placement.pin(threads.tids, [cpu])
            cost, *handed = threads.run()
        row = {"situation": name, "lock": lock, "trial": trial}
        run.tables["costs"].append(row | {"pair_ns": cost["elapsed_ns"] / cost["pairs"]})
        run.add([row | {"wait_ns": one["wait_ns"], "hogs_ns": one["hogs_ns"]} for one in handed])
