"""Where does the kernel put a thread that wakes, and how long until it runs?  (lab L30)

A busy thread wakes sleeping ones.  With idle CPUs around, with every CPU busy, and with workers that may use
the waker's CPU only: each worker notes on which CPU it went to sleep and on which it woke.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import pandas as pd

from .. import knobs, machine, placement, stats, workloads
from ..errors import PlacementError, WorkloadError
from ..machine import files
from ..result import Result
from . import checks
from .base import Instrument, Run, experiment

MOST_WORKERS, MOST_HOGS = 64, 512  # of wakeplace.c
CONDITIONS = {
    "idle CPUs": "the workers may use all CPUs, and only the waker's is busy",
    "low migration cost": "the same, with sched_migration_cost_ns set to a hundredth of its default",
    "every CPU busy": "a hog on each of the other CPUs",
    "bound to an idle CPU": "the workers may use one CPU, which is idle",
    "bound to the waker": "the workers may use the waker's CPU only, while others are idle",
}
LOW_COST_NS = 5_000  # the kernel's default is 500,000
SLOW_NS = 300_000  # several times what an idle CPU takes to wake up, in a virtual machine, too


def summarise(result: Result) -> pd.DataFrame:
    """One row per condition.

    condition              what the workers met
    wakes                  wake-ups that were timed
    p50_ns, p50_lo_ns, p50_hi_ns   from the waker's system call until the worker ran: median over the trials,
                           95 % interval
    p90_ns, p99_ns, p99_lo_ns, p99_hi_ns, max_ns
    on_waker_percent, on_waker_lo_percent, on_waker_hi_percent   wake-ups that ran on the waker's busy CPU
    stayed_percent         wake-ups that ran on the CPU on which the worker had gone to sleep
    slow_percent, slow_lo_percent, slow_hi_percent   wake-ups that took more than 300 µs (SLOW_NS): median
                           over the trials, 95 % interval
    others_idle_percent    how much of the time the other CPUs than the waker's were idle (/proc/stat)
    """
    rows = []
    idle = pd.DataFrame(result.parameters["idle"])
    data = result.data.assign(
        stacked=lambda d: 100.0 * (d["after_cpu"] == d["waker_cpu"]),
        slow=lambda d: 100.0 * (d["wait_ns"] > SLOW_NS),
        stayed=lambda d: 100.0 * (d["after_cpu"] == d["before_cpu"]),
    )
    for condition, cell in data.groupby("condition", sort=False):
        trials = cell.groupby("trial")
        row: dict[str, Any] = {"condition": condition, "wakes": len(cell)}
        for name, q in (("p50", 0.5), ("p99", 0.99)):
            interval = stats.median_interval(trials["wait_ns"].quantile(q))
            row |= {
                f"{name}_ns": interval.median,
                f"{name}_lo_ns": interval.low,
                f"{name}_hi_ns": interval.high,
            }
        stacked, slow = (stats.median_interval(trials[name].mean()) for name in ("stacked", "slow"))
        rows.append(
            row
            | {
                "p90_ns": float(cell["wait_ns"].quantile(0.9)),
                "max_ns": float(cell["wait_ns"].max()),
                "on_waker_percent": stacked.median,
                "on_waker_lo_percent": stacked.low,
                "on_waker_hi_percent": stacked.high,
                "stayed_percent": float(cell["stayed"].mean()),
                "others_idle_percent": float(idle.loc[idle["condition"] == condition, "idle_percent"].mean()),
                "slow_percent": slow.median,
                "slow_lo_percent": slow.low,
                "slow_hi_percent": slow.high,
            }
        )
    return pd.DataFrame(rows)


def instrument(survey: machine.Machine) -> Instrument:
    """The threads' own clocks and sched_getcpu."""
    if len(survey.cpus_allowed) < 2:
        return Instrument("the threads' own clocks, one CPU only", "a second CPU gives the kernel a choice")
    return Instrument("the threads' own clocks and CPU numbers")


@experiment("wakeplace.sweep", summarise=summarise, instrument=instrument)
def sweep(
    run: Run,
    *,
    workers: int = 4,
    gap_us: int = 300,
    trials: int | None = None,
    duration_s: float | None = None,
) -> None:
    """Wake sleeping workers from a busy thread, and see where they run.

    workers     how many there are to wake
    gap_us      between two wake-ups
    trials      how often each condition is measured; the conditions take turns
    duration_s  of each trial

    Data: one row per wake-up: trial, condition, wait_ns (from just before the waker's system call until the
    worker looked at its clock), waker_cpu, before_cpu (where the worker had gone to sleep), after_cpu.
    Method: futex wake and wait, sched_getcpu.  Where there is one CPU, only "bound to the waker" is measured;
    where this user may not move sched_migration_cost_ns, "low migration cost" is left out.  It is put back.
    """
    trials = run.choose(tiny=1, quick=3, full=9) if trials is None else trials
    duration_s = run.choose(tiny=0.05, quick=0.2, full=2.0) if duration_s is None else duration_s
    for name, value, most in (("workers", workers, MOST_WORKERS), ("trials", trials, 1000)):
        checks.whole(name, value, 1, most)
    checks.whole("gap_us", gap_us, 10, 100_000)
    checks.seconds("duration_s", duration_s, 0.01, 20)
    home = placement.quiet_cpu()
    cpus = list(machine.survey().cpus_allowed)
    others = [cpu for cpu in cpus if cpu != home]
    run.begin()
    run.parameters |= {"trials": trials, "duration_s": duration_s, "waker_cpu": home, "cpus": cpus}
    run.parameters["idle"] = []
    chosen = [c for c in CONDITIONS if others or c == "bound to the waker"]
    if not others:
        run.note("missing", "This process may use one CPU only: the kernel has no choice of a CPU here.")
    elif why := _fixed_cost():
        chosen.remove("low migration cost")
        run.note("missing", f"The migration cost was left alone: {why}")
    if len(others) > MOST_HOGS and "every CPU busy" in chosen:
        chosen.remove("every CPU busy")
        run.note("missing", f"There are more than {MOST_HOGS} CPUs: they were not all made busy.")

    words = ["--workers", workers, "--gap-us", gap_us, "--blocks", trials]
    words += ["--duration-ms", round(1000 * duration_s)]
    deadline_s = 60 + 4 * trials * (2 * duration_s + 1)
    with contextlib.ExitStack() as stack:
        started = {}
        for condition in chosen:
            hogs = others if condition == "every CPU busy" else []
            given = [str(word) for word in (*words, "--hogs", len(hogs))]
            workload = stack.enter_context(workloads.start("wakeplace", given, deadline_s=deadline_s))
            waker, sleepers = workload.tids[0], workload.tids[1 : 1 + workers]
            placement.pin([waker], [home])
            where = {"bound to an idle CPU": [placement.other_cpu(home)] if others else [],
                     "bound to the waker": [home]}.get(condition, cpus)  # fmt: skip
            placement.pin(sleepers, where)
            for tid, cpu in zip(workload.tids[1 + workers :], hogs, strict=True):
                placement.pin([tid], [cpu])
            started[condition] = workload
        order = [(trial, condition) for trial in range(trials) for condition in chosen]
        for trial, condition in run.each(order, label=lambda o: o[1]):
            with contextlib.ExitStack() as put_back:
                if condition == "low migration cost":
                    put_back.enter_context(knobs.moved("migration_cost_ns", LOW_COST_NS))
                before = idle_ticks(others)
                started[condition].go()
                _keep(run, trial, condition, started[condition])
            after = idle_ticks(others)
            idle, passed = (now - then for now, then in zip(after, before, strict=True))
            run.parameters["idle"].append(
                {
                    "trial": trial,
                    "condition": condition,
                    "idle_percent": 100 * idle / passed if passed else 0.0,
                }
            )


def _fixed_cost() -> str:
    """Why the migration cost may not be moved here; empty where it may."""
    try:
        knobs.movable("migration_cost_ns")
    except PlacementError as error:
        return error.what
    return ""


def idle_ticks(cpus: Sequence[int]) -> tuple[int, int]:
    """(idle, all) of these CPUs' time so far, in the ticks of /proc/stat; idle includes waiting for disks."""
    idle = passed = 0
    for line in (files.read("/proc/stat") or "").splitlines():
        name, *words = line.split()
        if name.startswith("cpu") and name[3:].isdigit() and int(name[3:]) in cpus:
            numbers = [int(word) for word in words[:8]]  # what follows is counted in these already
            idle, passed = idle + numbers[3] + numbers[4], passed + sum(numbers)
    return idle, passed


def _keep(run: Run, trial: int, condition: str, workload: workloads.Workload) -> None:
    rows = []
    for record in workload.records():
        if record.kind == "end":
            break
        rows.append((trial, condition, record["ns"], record["waker"], record["before"], record["after"]))
    else:
        raise WorkloadError("The workload wakeplace ended in the middle of a block.")
    names = ["trial", "condition", "wait_ns", "waker_cpu", "before_cpu", "after_cpu"]
    run.add(pd.DataFrame(rows, columns=names))
    if record["lost"]:
        run.note("info", f"{record['lost']} wake-ups came after the memory for records was full.")
    if not rows:
        run.note("flag", f"{condition}: no worker was woken in {run.parameters['duration_s']} s.")
