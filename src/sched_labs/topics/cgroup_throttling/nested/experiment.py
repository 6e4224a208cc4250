"""Whose quota is it?  Groups inside a group that has a limit, as containers inside a pod (lab L13).

A limit holds for everything below it.  A thread runs only while every group above it has quota left, and each
of these groups counts its own throttled periods: the one that a thread is in may have nothing to tell.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import pandas as pd

from sched_labs import machine, workloads
from sched_labs.core import stats
from sched_labs.core.errors import ParameterError
from sched_labs.core.result import Result
from sched_labs.limits import cgroups
from sched_labs.run import checks
from sched_labs.run.base import Instrument, Run, experiment
from sched_labs.steer import placement

# For each: whether the group has a limit of its own, and whether a sibling is busy.
CONDITIONS = {"alone": (True, False), "sibling": (True, True), "no_own_limit": (False, True)}
GAP_US = 200


def summarise(result: Result) -> pd.DataFrame:
    """One row per condition; all that is said is about the first of the two inner groups.

    condition
    own_limit_percent         of one CPU; missing without a limit of its own
    outer_limit_percent       of the group around it, shared by all that is inside
    cpu_percent, cpu_lo_percent, cpu_hi_percent   of one CPU that the inner group had: median over trials,
                              95 % interval
    own_throttled_percent     throttled periods in its own cpu.stat; missing where that counted no periods
    outer_throttled_percent   those in the cpu.stat of the group around it
    longest_gap_ns            the longest time in which its thread did not run, median over trials
    trials
    """
    p, rows = result.parameters, []
    for name in dict.fromkeys(result.data.condition):
        own = result.data[result.data.condition == name]
        periods = own.own_periods.sum()
        rows.append(
            {
                "condition": name,
                "own_limit_percent": 100 * p["inner_us"] / p["period_us"] if CONDITIONS[name][0] else None,
                "outer_limit_percent": 100 * p["outer_us"] / p["period_us"],
                **stats.spread("cpu", "percent", 100 * own.cpu_ns / own.elapsed_ns),
                "own_throttled_percent": 100 * own.own_throttled.sum() / periods if periods else None,
                "outer_throttled_percent": 100 * own.outer_throttled.sum() / max(own.outer_periods.sum(), 1),
                "longest_gap_ns": float(own.longest_gap_ns.median()),
                "trials": len(own),
            }
        )
    table = pd.DataFrame(rows)
    missing = ["own_limit_percent", "own_throttled_percent"]
    return table.astype(dict.fromkeys(missing, float))


def instrument(survey: machine.Machine) -> Instrument:
    """The worker's clock, and the cpu.stat of both groups where they may be made."""
    able, why = cgroups.possible()
    if able:
        return Instrument(f"the worker's clock and both cpu.stat ({survey.fact('cgroup.version').value})")
    return Instrument("none: no group can be made", why.replace("\n", " "))


@experiment(
    "nested.groups", summarise=summarise, instrument=instrument, workloads=("burn",), needs=("cgroup",)
)
def groups(
    run: Run,
    *,
    outer_us: int = 25_000,
    inner_us: int = 20_000,
    period_us: int = 50_000,
    conditions: Sequence[str] = tuple(CONDITIONS),
    trials: int | None = None,
    cycles: int | None = None,
) -> None:
    """Run a thread that never sleeps in a group inside a limited group, alone and beside a busy sibling.

    outer_us     quota of the group around them, of one CPU in each period
    inner_us     quota of each inner group that has one, at most the outer's: v1 refuses more
    conditions   of alone (nobody is in the sibling), sibling (it is as busy), no_own_limit (a busy sibling,
                 and neither has a limit of its own)
    period_us    of all the quotas
    trials, cycles   how often each condition is run, and for how many periods

    All threads run on one CPU, so that two of them use no more of it than one.

    Data: one row per run: condition, trial, elapsed_ns, cpu_ns, longest_gap_ns, own_periods, own_throttled,
    outer_periods, outer_throttled (cpu.stat's nr_periods and nr_throttled).

    Raises PlacementError where no group can be made.
    """
    checks.words("conditions", conditions, CONDITIONS)
    cgroups.check_limit(outer_us, period_us, 0)
    cgroups.check_limit(inner_us, period_us, 0)
    if inner_us > outer_us:
        raise ParameterError(
            f"inner_us may not be more than outer_us, {outer_us:,}: cpu.cfs_quota_us of v1 refuses it.",
            "Give at most the outer quota.",
        )
    trials = run.choose(tiny=1, quick=3, full=9) if trials is None else trials
    cycles = run.choose(tiny=4, quick=6, full=40) if cycles is None else cycles
    if trials < 1 or cycles < 2:
        raise ParameterError("trials start at 1 and cycles at 2.", "Leave them out to use the profile's.")
    run.begin()
    with cgroups.group("outer") as outer, cgroups.group("inner", inside=outer) as inner:
        inner.counted()
    chosen = [name for name in CONDITIONS if name in conditions]
    run.parameters |= {
        "outer_us": outer_us, "inner_us": inner_us, "period_us": period_us, "trials": trials,
        "cpu": placement.quiet_cpu(),
    }  # fmt: skip
    cells = [(trial, name) for trial in range(trials) for name in chosen]
    for trial, name in run.each(cells, label=lambda cell: cell[1].replace("_", " ")):
        seen = _block(name, run.parameters, cycles * period_us // 1000)
        run.add([{"condition": name, "trial": trial} | seen])


def _block(name: str, p: dict[str, Any], milliseconds: int) -> dict[str, Any]:
    limited, busy = CONDITIONS[name]
    with contextlib.ExitStack() as stack:
        outer = stack.enter_context(cgroups.group("outer", quota_us=p["outer_us"], period_us=p["period_us"]))
        quota = {"quota_us": p["inner_us"] if limited else None, "period_us": p["period_us"]}
        own, other = (
            stack.enter_context(cgroups.group(word, inside=outer, **quota)) for word in ("one", "two")
        )
        if busy:
            rival = stack.enter_context(_hog(4 * milliseconds + 10_000, p["cpu"]))
            other.add(rival.pid)
            rival.go()
        hog = stack.enter_context(_hog(milliseconds, p["cpu"]))
        own.add(hog.pid)
        inside, around = own.counted(), outer.counted()
        records = hog.run()
        inside, around = own.counted().since(inside), outer.counted().since(around)
    worker = next(record for record in records if record.kind == "worker")
    gaps = [(record["at_ns"], record["ns"]) for record in records if record.kind == "gap"]
    return {
        "elapsed_ns": max([milliseconds * 1_000_000, *(at + ns for at, ns in gaps)]),
        "cpu_ns": worker["cpu_ns"],
        "longest_gap_ns": max((ns for _, ns in gaps), default=0),
        "own_periods": inside.periods,
        "own_throttled": inside.throttled_periods,
        "outer_periods": around.periods,
        "outer_throttled": around.throttled_periods,
    }


def _hog(milliseconds: int, cpu: int) -> workloads.Workload:
    words = ["--workers", "1", "--duration-ms", str(milliseconds), "--threshold-us", str(GAP_US)]
    hog = workloads.start("burn", words, deadline_s=30 + 20 * milliseconds / 1000)
    placement.pin(hog.tids, [cpu])
    return hog
