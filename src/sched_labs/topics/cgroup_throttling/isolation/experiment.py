"""Who can still take a CPU from its owner?  Affinity, cpusets and partitions against intruders (lab L37)."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from typing import Any

import pandas as pd

from sched_labs import machine, workloads
from sched_labs.core import stats
from sched_labs.core.errors import ParameterError, PlacementError
from sched_labs.core.result import Result
from sched_labs.limits import cgroups
from sched_labs.run import checks
from sched_labs.run.base import Instrument, Run, experiment
from sched_labs.steer import placement

# What is done for the victim, and what the intruders may do.
CONDITIONS = {
    "alone": "there is no intruder",
    "affinity": "the victim is pinned, intruders go anywhere",
    "cpusets": "the victim has a cpuset, the intruders have one with the other CPUs",
    "outside": "the victim has a cpuset, the intruders are in none",
    "outside_pinned": "the victim has a cpuset, an intruder in none is pinned to the same CPU",
    "partition": "the victim's cpuset is an isolated partition, the intruders are in none",
}
GAP_US = 200
MOST_INTRUDERS = 64


def summarise(result: Result) -> pd.DataFrame:
    """One row per condition.

    condition
    cpu_percent, cpu_lo_percent, cpu_hi_percent   of its CPU that the victim had: median over trials, 95 %
                                interval
    longest_gap_ns              the longest time off the CPU in any trial
    preempted_per_s             involuntary switches of the victim
    trials
    """
    rows = []
    for name in dict.fromkeys(result.data.condition):
        own = result.data[result.data.condition == name]
        rows.append(
            {
                "condition": name,
                **stats.spread("cpu", "percent", 100 * own.cpu_ns / own.elapsed_ns),
                "longest_gap_ns": float(own.longest_gap_ns.max()),
                "preempted_per_s": 1e9 * own.involuntary.sum() / own.elapsed_ns.sum(),
                "trials": len(own),
            }
        )
    return pd.DataFrame(rows)


def instrument(survey: machine.Machine) -> Instrument:
    """The victim's own clock; cpusets where this user may make them."""
    found = survey.fact("cgroup.can_make_cpuset")
    # What the helper lends an ordinary user has cpusets too; the survey does not ask for that.
    able = bool(found.value) or (os.getuid() != 0 and cgroups.possible()[0])
    return Instrument(f"the victim's clock{' and cpusets' if able else ''}", "" if able else found.why)


@experiment(
    "isolation.cpuset", summarise=summarise, instrument=instrument, workloads=("burn",), needs=("cgroup",)
)
def cpuset(
    run: Run,
    *,
    conditions: Sequence[str] = tuple(CONDITIONS),
    intruders: int | None = None,
    trials: int | None = None,
    duration_s: float | None = None,
) -> None:
    """Give a thread that never sleeps a CPU, by affinity, cpuset or partition, and let intruders try for it.

    conditions   of alone, affinity, cpusets, outside, outside_pinned, partition
    intruders    threads that never sleep; default: two for each CPU, and no more than 64
    trials, duration_s   how often each condition is run, and for how long

    Data: one row per run of the victim: condition, trial, elapsed_ns, cpu_ns, involuntary, gaps (of more than
    0.2 ms), longest_gap_ns.  The parameters also hold cpu, the victim's, and others.

    A condition that this machine or user cannot have is left out with a note.
    """
    checks.words("conditions", conditions, CONDITIONS)
    cpus = machine.survey().cpus_allowed
    intruders = min(2 * len(cpus), MOST_INTRUDERS) if intruders is None else intruders
    if not 1 <= intruders <= MOST_INTRUDERS:
        raise ParameterError(f"intruders must be 1 to {MOST_INTRUDERS}, not {intruders!r}.")
    trials = run.choose(tiny=2, quick=3, full=9) if trials is None else trials
    duration_s = run.choose(tiny=0.1, quick=0.2, full=1.0) if duration_s is None else duration_s
    if trials < 1 or not 0.05 <= duration_s <= 60:
        raise ParameterError("trials start at 1, and duration_s lies between 0.05 and 60 s.")
    cpu = placement.quiet_cpu()
    others = [number for number in cpus if number != cpu]
    run.begin()
    run.parameters |= {"cpu": cpu, "others": others, "trials": trials, "intruders": intruders}
    possible = [name for name in CONDITIONS if name in conditions]
    if not others:
        possible = [name for name in possible if name in ("alone", "affinity")]
        run.note("missing", "This process may use one CPU only: there is no other for the intruders.")
    dropped: set[str] = set()
    cells = [(trial, name) for trial in range(trials) for name in possible]
    for trial, name in run.each(cells, label=lambda cell: cell[1].replace("_", " ")):
        if name in dropped:
            continue
        try:
            run.add([{"condition": name, "trial": trial} | _block(name, cpu, others, intruders, duration_s)])
        except PlacementError as error:
            dropped.add(name)
            run.note("missing", f"{name.replace('_', ' ')}: {error.what}")


def _block(name: str, cpu: int, others: Sequence[int], intruders: int, duration_s: float) -> dict[str, Any]:
    with contextlib.ExitStack() as stack:
        group = None
        if name not in ("alone", "affinity"):
            group = stack.enter_context(cgroups.group("victim", cpus=[cpu]))
        victim = stack.enter_context(_hogs(1, duration_s))
        if group:
            group.add(victim.pid)
            if name == "partition":
                group.isolate()
        else:
            placement.pin(victim.tids, [cpu])
        if name != "alone":
            count = 1 if name == "outside_pinned" else intruders
            hogs = stack.enter_context(_hogs(count, 4 * duration_s + 10))
            if name == "cpusets":
                stack.enter_context(cgroups.group("pool", cpus=others)).add(hogs.pid)
            elif name == "outside_pinned":
                placement.pin(hogs.tids, [cpu])
            hogs.go()
        records = victim.run()
    worker = next(record for record in records if record.kind == "worker")
    gaps = [(record["at_ns"], record["ns"]) for record in records if record.kind == "gap"]
    return {
        "elapsed_ns": max([round(1e9 * duration_s), *(at + ns for at, ns in gaps)]),
        "cpu_ns": worker["cpu_ns"],
        "involuntary": worker["involuntary"],
        "gaps": len(gaps),
        "longest_gap_ns": max((ns for _, ns in gaps), default=0),
    }


def _hogs(count: int, duration_s: float) -> workloads.Workload:
    words = ["--workers", count, "--duration-ms", round(1000 * duration_s), "--threshold-us", GAP_US]
    return workloads.start("burn", [str(word) for word in words], deadline_s=30 + 5 * duration_s)
