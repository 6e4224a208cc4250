"""Where does the kernel put a thread that wakes, and how long until it runs?  (lab L30)

A busy thread wakes sleeping ones.  With idle CPUs around, with every CPU busy, and with workers that may use
the waker's CPU only: each worker notes on which CPU it went to sleep and on which it woke.

Where the CPU on which a worker slept is idle, the kernel takes it without any search.  So one condition lets
the workers sleep on a CPU that a hog keeps busy, while a third one is idle.

Where the BPF probe is allowed, it takes each wake-up apart, from sched_waking on the waker's CPU on.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from sched_labs import machine, workloads
from sched_labs.core import stats
from sched_labs.core.errors import PlacementError, WorkloadError
from sched_labs.core.result import Result
from sched_labs.machine import files
from sched_labs.probes import wakeups
from sched_labs.run import checks, optional
from sched_labs.run.base import Instrument, Run, experiment
from sched_labs.steer import knobs, placement

MOST_WORKERS, MOST_HOGS = 64, 512  # of wakeplace.c
CONDITIONS = {
    "idle CPUs": "the workers may use all CPUs, and only the waker's is busy",
    "previous CPU busy": "the workers sleep on a CPU with a hog, and a third one is idle",
    "low migration cost": "the same, with sched_migration_cost_ns set to a hundredth of its default",
    "every CPU busy": "a hog on each of the other CPUs",
    "bound to an idle CPU": "the workers may use one CPU, which is idle",
    "bound to the waker": "the workers may use the waker's CPU only, while others are idle",
}
BACK_TO_A_HOG = ("previous CPU busy", "low migration cost")
LOW_COST_NS = 5_000  # the kernel's default is 500,000
# From the waker's system call to the worker's first look at its clock: by the event that ends each part.
PARTS = ("to_waking_ns", "to_wakeup_ns", "to_switch_ns", "to_running_ns")
SLOW_NS = 300_000  # several times what an idle CPU takes to wake up, in a virtual machine, too


def summarise(result: Result) -> pd.DataFrame:
    """One row per condition.

    condition              what the workers met
    wakes                  wake-ups that were timed
    p50_ns, p50_lo_ns, p50_hi_ns   from the waker's system call until the worker ran: median over the trials,
                           95 % interval
    p90_ns, p99_ns, p99_lo_ns, p99_hi_ns   the same of other quantiles
    max_ns                 the longest of all trials
    to_waking_p50_ns, to_wakeup_p50_ns, to_switch_p50_ns, to_running_p50_ns   half of the wake-ups took at
                           most so long for each part (see the data of `sweep`), all trials together; missing
                           without the BPF probe.  Medians of parts need not add up to the median of the whole
    on_waker_percent, on_waker_lo_percent, on_waker_hi_percent   wake-ups that ran on the waker's busy CPU
    stayed_percent         wake-ups that ran on the CPU on which the worker had gone to sleep
    slow_percent, slow_lo_percent, slow_hi_percent   wake-ups that took more than 300 µs (SLOW_NS): median
                           over the trials, 95 % interval
    others_idle_percent    how much of the time the CPUs were idle that neither the waker nor, where there
                           are CPUs without one, a hog has (/proc/stat); missing where there is one CPU only
    """
    rows = []
    idle = result.tables["idle"]
    known = result.data.reindex(columns=list(dict.fromkeys([*result.data, *PARTS])))
    data = known.assign(
        stacked=lambda d: 100.0 * (d["after_cpu"] == d["waker_cpu"]),
        slow=lambda d: 100.0 * (d["wait_ns"] > SLOW_NS),
        stayed=lambda d: 100.0 * (d["after_cpu"] == d["before_cpu"]),
    )
    for condition, cell in data.groupby("condition", sort=False):
        trials = cell.groupby("trial")
        row: dict[str, Any] = {"condition": condition, "wakes": len(cell)}
        for name, q in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99)):
            row |= {**stats.spread(f"{name}", "ns", trials["wait_ns"].quantile(q))}
        stacked, slow = (stats.median_interval(trials[name].mean()) for name in ("stacked", "slow"))
        rows.append(
            row
            | {
                "max_ns": float(cell["wait_ns"].max()),
                **stats.in_columns("on_waker", "percent", stacked),
                "stayed_percent": float(cell["stayed"].mean()),
                "others_idle_percent": float(idle.loc[idle["condition"] == condition, "idle_percent"].mean()),
                **stats.in_columns("slow", "percent", slow),
            }
            | {f"{part[:-3]}_p50_ns": float(cell[part].median()) for part in PARTS}
        )
    return pd.DataFrame(rows).drop(columns=["p90_lo_ns", "p90_hi_ns"])


def instrument(survey: machine.Machine) -> Instrument:
    """The threads' own clocks and sched_getcpu; the BPF probe takes the wake-ups apart."""
    if len(survey.cpus_allowed) < 2:
        return Instrument("the threads' own clocks, one CPU only", "a second CPU gives the kernel a choice")
    able = wakeups.available()
    if able.ok:
        why = _fixed_cost() if len(survey.cpus_allowed) > 2 else ""
        return Instrument(
            "the threads' own clocks and CPU numbers, and a BPF probe of each wake-up's parts",
            f"the migration cost would be moved, too, but {why}" if why else "",
        )
    return Instrument("the threads' own clocks and CPU numbers", f"{able.why} {able.remedy}".strip())


@experiment("wakeplace.sweep", summarise=summarise, instrument=instrument, workloads=("wakeplace",))
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
    worker looked at its clock), waker_cpu, before_cpu (where the worker had gone to sleep), after_cpu; and
    its four parts, missing where the BPF probe is or has not seen it: to_waking_ns (until sched_waking: the
    waker's way into the kernel), to_wakeup_ns (from there until sched_wakeup: a CPU is chosen, and the thread
    put into its queue; an idle CPU does that itself, when an interrupt has told it), to_switch_ns (until
    sched_switch: in the queue), to_running_ns (the switch, and the way out of the kernel).
    The table idle has the idle_percent of the other CPUs in each trial and condition.
    Method: futex wake and wait, sched_getcpu.  Where there is one CPU, only "bound to the waker" is measured;
    "previous CPU busy" and "low migration cost" need three; where this user may not move
    sched_migration_cost_ns, the latter is left out.  It is put back.
    """
    trials = run.choose(tiny=1, quick=6, full=9) if trials is None else trials
    duration_s = run.choose(tiny=0.05, quick=0.12, full=2.0) if duration_s is None else duration_s
    for name, value, most in (("workers", workers, MOST_WORKERS), ("trials", trials, 1000)):
        checks.whole(name, value, 1, most)
    checks.whole("gap_us", gap_us, 10, 100_000)
    checks.seconds("duration_s", duration_s, 0.01, 20)
    home = placement.quiet_cpu()
    cpus = list(machine.survey().cpus_allowed)
    others = [cpu for cpu in cpus if cpu != home]
    run.begin()
    run.parameters |= {"trials": trials, "duration_s": duration_s, "waker_cpu": home, "cpus": cpus}
    chosen = [c for c in CONDITIONS if others or c == "bound to the waker"]
    if not others:
        run.note("missing", "This process may use one CPU only: the kernel has no choice of a CPU here.")
    elif len(others) == 1:
        chosen = [c for c in chosen if c not in ("previous CPU busy", "low migration cost")]
        run.note("missing", "There are two CPUs: no third one to find idle when the first two are busy.")
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
            hogs = hogs_of(condition, others)
            back = ("--back-to", hogs[0]) if condition in BACK_TO_A_HOG else ()
            given = [str(word) for word in (*words, "--hogs", len(hogs), *back)]
            workload = stack.enter_context(workloads.start("wakeplace", given, deadline_s=deadline_s))
            waker, sleepers = workload.tids[0], workload.tids[1 : 1 + workers]
            placement.pin([waker], [home])
            where = {"bound to an idle CPU": [placement.other_cpu(home)] if others else [],
                     "bound to the waker": [home]}.get(condition, cpus)  # fmt: skip
            placement.pin(sleepers, where)
            for tid, cpu in zip(workload.tids[1 + workers :], hogs, strict=True):
                placement.pin([tid], [cpu])
            started[condition] = workload
        pids = [workload.pid for workload in started.values()]
        watch = optional.probe(
            run,
            stack,
            wakeups.available(),
            lambda: wakeups.watch(pids, deadline_s),
            "The parts of the wake-ups were not seen",
        )
        if watch:
            watch.start()
        order = [(trial, condition) for trial in range(trials) for condition in chosen]
        try:
            for trial, condition in run.each(order, label=lambda o: o[1]):
                with contextlib.ExitStack() as put_back:
                    if condition == "low migration cost":
                        put_back.enter_context(knobs.moved("migration_cost_ns", LOW_COST_NS))
                    free = [cpu for cpu in others if cpu not in hogs_of(condition, others)] or others
                    before = idle_ticks(free)
                    started[condition].go()
                    _keep(run, trial, condition, started[condition])
                after = idle_ticks(free)
                idle, passed = (now - then for now, then in zip(after, before, strict=True))
                run.tables["idle"].append(
                    {
                        "trial": trial,
                        "condition": condition,
                        "idle_percent": 100 * idle / passed if passed else math.nan,
                    }
                )
        finally:
            _take_apart(run, watch.stop() if watch else None)


def hogs_of(condition: str, others: Sequence[int]) -> list[int]:
    """The CPUs on which a condition wants a hog."""
    if condition in BACK_TO_A_HOG:
        return list(others[:1])
    return list(others) if condition == "every CPU busy" else []


def _take_apart(run: Run, seen: wakeups.Wakeups | None) -> None:
    """Give each wake-up its parts, and take away what was needed to find them."""
    for number, rows in enumerate(run.rows):
        known = parts(rows, seen.data) if seen else rows
        run.rows[number] = known.drop(columns=["tid", "at_ns"])
    if seen and seen.lost:
        run.note(
            "info", f"The parts of {seen.lost} wake-ups were not kept, because the probe's table was full."
        )


def parts(wakes: pd.DataFrame, seen: pd.DataFrame) -> pd.DataFrame:
    """The wake-ups (tid, at_ns, wait_ns) with the PARTS of each; missing where none of the `seen` belongs to
    it.

    To a wake-up belongs what the probe saw of the same thread between the waker's system call and the moment
    when the thread ran.
    """
    keys = ["tid", "at_ns", "wait_ns"]  # a block without any wake-up has columns of no type
    wakes = wakes.astype(dict.fromkeys(keys, "int64"))
    order = wakes.reset_index().sort_values("at_ns", kind="stable")
    both = pd.merge_asof(
        order, seen[["tid", "waking_ns", "wakeup_ns", "switch_ns"]], left_on="at_ns", right_on="waking_ns",
        by="tid", direction="forward",
    )  # fmt: skip
    both = both.set_index("index").loc[wakes.index]
    stations = ["at_ns", "waking_ns", "wakeup_ns", "switch_ns"]
    until = both["at_ns"] + both["wait_ns"]
    inside = both["switch_ns"] <= until
    ends = [*(both[name] for name in stations[1:]), until]
    return wakes.assign(
        **{
            part: (end - both[begin]).where(inside)
            for part, begin, end in zip(PARTS, stations, ends, strict=True)
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
        told = (record[name] for name in ("ns", "waker", "before", "after", "tid", "at"))
        rows.append((trial, condition, *told))
    else:
        raise WorkloadError("The workload wakeplace ended in the middle of a block.")
    names = ["trial", "condition", "wait_ns", "waker_cpu", "before_cpu", "after_cpu", "tid", "at_ns"]
    run.add(pd.DataFrame(rows, columns=names).assign(**dict.fromkeys(PARTS, math.nan)))
    if record["lost"]:
        run.note("info", f"{record['lost']} wake-ups came after the memory for records was full.")
    if not rows:
        run.note("flag", f"{condition}: no worker was woken in {run.parameters['duration_s']} s.")
