"""The holder of a lock has used its CPU quota up: for how long does a process wait that has no quota?"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import pandas as pd

from sched_labs import machine, workloads
from sched_labs.core import stats
from sched_labs.core.errors import ParameterError
from sched_labs.core.result import Result
from sched_labs.limits import cgroups
from sched_labs.run import checks, starts
from sched_labs.run.base import Instrument, Run, experiment
from sched_labs.steer import placement, policies

MOST_HAND_OVERS = 1000  # of holder.c
USED = 2.6  # quotas in a trial: it is stopped twice, whenever its first period ends
USED_OF_TWO = 1.6  # where as much again was saved up: it is not stopped, also where a tick ends late


@dataclass(frozen=True)
class Situation:
    """Which lock it is, whether the holder's group has a quota, and whether that may be saved up."""

    lock: str
    quota: bool = True
    burst: bool = False


SITUATIONS = {
    "mutex": Situation("mutex", quota=False),
    "mutex, quota": Situation("mutex"),
    "mutex, quota + burst": Situation("mutex", burst=True),
    "inherit, quota": Situation("inherit"),
    "file": Situation("file", quota=False),
    "file, quota": Situation("file"),
}


def summarise(result: Result) -> pd.DataFrame:
    """One row per situation; 95 % intervals over trials.

    situation    mutex (the C library's ordinary one), inherit (PTHREAD_PRIO_INHERIT, and the waiter is a
                 real-time thread), file (the kernel's lock of a file that both write); "quota": the holder's
                 group has one; "quota + burst": and has saved up as much again
    p50_ns, p50_lo_ns, p50_hi_ns, p90_ns, p90_lo_ns, p90_hi_ns   from when the waiter asked for the lock until
                 it had it: half of the times, and 90 % of them, all trials together
    max_ns       the longest
    mean_ns      the mean
    stopped_percent    of all waits together, what is beyond the CPU time that the holder needed: at least in
                 so large a part of them it had no CPU
    throttled_percent  trials in which the group was throttled; missing without a quota
    needed_percent     of what the group had when a trial began, its quota and what was saved up: CPU time of
                 all holds, in the trial where it was most; missing without a quota
    hand_overs   behind the quantiles
    trials
    """
    groups = result.tables.get("groups", pd.DataFrame({"situation": [], "throttled_periods": []}))
    rows = []
    for situation, cell in result.data.groupby("situation", sort=False):
        throttled = groups[groups.situation == situation].throttled_periods > 0
        given = SITUATIONS[str(situation)]
        had_ns = 1000 * result.parameters["quota_us"] * (1 + given.burst) if given.quota else float("nan")
        stopped_ns = (cell.wait_ns - cell.hold_cpu_ns).clip(lower=0)
        quantiles = {
            name: stats.pooled_quantile(cell.wait_ns, cell.trial, q)
            for name, q in (("p50", 0.5), ("p90", 0.9))
        }
        rows.append(
            {
                "situation": situation,
                **stats.in_columns("p50", "ns", quantiles["p50"]),
                **stats.in_columns("p90", "ns", quantiles["p90"]),
                "max_ns": int(cell.wait_ns.max()),
                "mean_ns": float(cell.wait_ns.mean()),
                "stopped_percent": 100 * stopped_ns.sum() / cell.wait_ns.sum(),
                "throttled_percent": 100 * float(throttled.mean()) if len(throttled) else float("nan"),
                "needed_percent": 100 * cell.groupby("trial").hold_cpu_ns.sum().max() / had_ns,
                "hand_overs": len(cell),
                "trials": cell.trial.nunique(),
            }
        )
    return pd.DataFrame(rows)


def instrument(survey: machine.Machine) -> Instrument:
    """The waiter's clock, the holder's CPU clock and its group's cpu.stat, where a group may be made."""
    able, why = cgroups.possible()
    if able:
        version = survey.fact("cgroup.version").value
        return Instrument(f"the waiter's clock, the holder's CPU clock and cpu.stat ({version})")
    return Instrument("the waiter's clock and the holder's CPU clock", why.replace("\n", " "))


@experiment(
    "holder.waits", summarise=summarise, instrument=instrument, workloads=("holder",), needs=("cgroup",)
)
def waits(
    run: Run,
    *,
    quota_us: int = 10_000,
    period_us: int = cgroups.PERIOD_US,
    hold_us: int = 4000,
    hand_overs: int | None = None,
    trials: int | None = None,
) -> None:
    """Let a process without a limit wait for a lock, whose holder's group has a CPU quota and has none.

    quota_us, period_us  of the holder's group, where it has one
    hold_us     how much work the holder does with the lock
    hand_overs  how often the waiter asks for it in each trial; default: until the holder has used more than
                two quotas; where there is a burst, less than the quota and the burst
    trials      how often each situation is measured, each time with a new start in a new group, whose quota
                is whole; they take turns

    The waiter asks a tenth of hold_us after the holder began.  It has a CPU of its own where there are two.
    What cannot be had is left out with a note: a group, a burst (before Linux 5.14), a real-time waiter.

    Data: one row per hand-over: situation, trial, wait_ns, hold_cpu_ns (CPU time that the holder needed for
    what it did with the lock).  The table groups has periods, throttled_periods and throttled_ns (cpu.stat)
    of each trial with a quota.
    Method: throttle_cfs_rq() and throttle_cfs_rq_work() in kernel/sched/fair.c of Linux 6.12 and 6.18.
    """
    trials = run.choose(tiny=1, quick=6, full=24) if trials is None else trials
    cgroups.check_limit(quota_us, period_us, quota_us)
    checks.whole("hold_us", hold_us, 100, 10_000)
    if hand_overs is None:
        hand_overs = max(2, round(USED * quota_us / hold_us))
        if hand_overs > MOST_HAND_OVERS:
            raise ParameterError(
                f"A quota of {quota_us:,} µs is used up after {hand_overs:,} holds of {hold_us:,} µs; "
                f"{MOST_HAND_OVERS:,} are the most.",
                "Give a longer hold_us, a smaller quota_us, or hand_overs.",
            )
    if quota_us >= period_us:
        raise ParameterError(
            f"quota_us has to be less than period_us, {period_us:,}: with more the holder is never stopped.",
            "Give less.",
        )
    checks.whole("hand_overs", hand_overs, 1, MOST_HAND_OVERS)
    checks.whole("trials", trials, 1, 1000)
    within_burst = min(hand_overs, max(1, round(USED_OF_TWO * quota_us / hold_us)))
    cpu = placement.quiet_cpu()
    alone = len(machine.survey().cpus_allowed) < 2
    waiters_cpu = cpu if alone else placement.other_cpu(cpu)
    run.begin()
    run.parameters |= {"hand_overs": hand_overs, "trials": trials, "cpu": cpu, "waiters_cpu": waiters_cpu}
    apart_us = hold_us // 10  # of the holder's own work between two holds, at most
    work_s = 1e-6 * hand_overs * (hold_us + apart_us)
    deadline_s = 30 + 10 * work_s * period_us / quota_us
    for trial, name in starts.each(run, possible(run), trials, label=str):
        given = SITUATIONS[name]
        words = ["--lock", given.lock, "--priority", policies.FIFO.priority, "--hold-us", hold_us]
        words += ["--apart-us", apart_us, "--hand-overs", within_burst if given.burst else hand_overs]
        words += ["--seed", trial]
        row = {"situation": name, "trial": trial}
        with contextlib.ExitStack() as stack:
            group = None
            if given.quota:
                burst_us = quota_us if given.burst else 0
                limited = cgroups.group("holder", quota_us=quota_us, period_us=period_us, burst_us=burst_us)
                group = stack.enter_context(limited)
            both = stack.enter_context(
                workloads.start("holder", [str(word) for word in words], deadline_s=deadline_s)
            )
            placement.pin(both.tids[:1], [cpu])
            placement.pin(both.tids[1:], [waiters_cpu])
            if group:
                group.add(both.pid)
            handed = both.run()
            if group:
                counted = group.counted()
                run.tables["groups"].append(
                    row
                    | {
                        "periods": counted.periods,
                        "throttled_periods": counted.throttled_periods,
                        "throttled_ns": counted.throttled_ns,
                    }
                )
        run.add([row | {"wait_ns": one["wait_ns"], "hold_cpu_ns": one["hold_cpu_ns"]} for one in handed])


def possible(run: Run) -> list[str]:
    """The situations that this machine can make; a note for each thing that it lacks."""
    chosen = dict(SITUATIONS)
    able, why = cgroups.possible()
    if not able:
        run.note("missing", f"No group could be made, so the holder had no quota: {why}")
        return [name for name, given in chosen.items() if not given.quota]
    if not cgroups.can_burst():
        run.note("missing", "This kernel cannot save quota up: cpu.max.burst came with Linux 5.14.")
        chosen = {name: given for name, given in chosen.items() if not given.burst}
    tried = policies.tries([policies.FIFO]).iloc[0]
    if not tried.granted:
        run.note("missing", f"No real-time waiter, so no inheritance: {tried.because}.")
        chosen = {name: given for name, given in chosen.items() if given.lock != "inherit"}
    return list(chosen)
