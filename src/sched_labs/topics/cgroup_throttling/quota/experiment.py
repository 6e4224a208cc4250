"""What does a CPU limit do to threads that never sleep?  Stalls, and how soon they come (labs L12 and L13).

A control group may use `quota_us` of CPU time in every `period_us`.  When it is used up, the kernel takes all
of the group's threads off their CPUs until the next period begins.  The workers' own clocks see each stall as
a gap, and cpu.stat counts it; where the two disagree the run says so.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from sched_labs import machine, workloads
from sched_labs.core import stats
from sched_labs.core.errors import ParameterError, PlacementError
from sched_labs.core.result import Result
from sched_labs.limits import cgroups
from sched_labs.run.base import Instrument, Run, experiment
from sched_labs.steer import placement

GAP_US = 200  # a worker that was off the CPU for longer has a gap
SHARES_PERCENT = (20, 50, 80)
THREADS = (1, 2, 4, 16)
MOST_THREADS = 64
COUNT_TOLERANCE = 0.25  # by how much stalls and throttled periods may differ in number
LEAST_BLOCK_US = 150_000  # so long that the part of a period with which it begins counts for little
TICK_NS = 4_000_000  # where the kernel's is not known: 250 a second


def instrument(survey: machine.Machine) -> Instrument:
    """The workers' clocks and cpu.stat, where a group may be made."""
    able, why = cgroups.possible()
    if able:
        return Instrument(f"the workers' clocks and cpu.stat ({survey.fact('cgroup.version').value})")
    return Instrument("the workers' clocks, without a limit", why.replace("\n", " "))


def tolerance_ns(parameters: dict[str, Any]) -> float:
    """How far a stall may be from the formula: a slice of quota that a CPU holds, and a tick to notice."""
    return float(parameters["slice_ns"] + parameters["tick_ns"])


def summarise_hog(result: Result) -> pd.DataFrame:
    """One row per share and period; share 100 is without a limit.

    share_percent, period_ns, quota_ns
    stalls                    gaps that were at least half as long as the formula's stall, in trials in which
                              cpu.stat counted a throttled period
    stall_ns, stall_lo_ns, stall_hi_ns   their median (over trials, 95 % interval), by the worker's clock
    formula_stall_ns          period - quota, for one thread
    counted_stall_ns          throttled time / throttled periods, as cpu.stat has them
    ran_ns                    CPU time used per period
    tolerance_ns              a slice of quota and a tick
    off_by_ns                 stall - formula
    periods, throttled_periods, throttled_percent   from cpu.stat
    cpu_percent               of one CPU, over all the time: what a dashboard of average use shows
    default_period_ns         that a new group has; missing where none was made, the same in every row
    throttled_field           what cpu.stat calls the throttled time; missing likewise
    trials
    """
    fields = [name for name in result.facts["stat_fields"] if name.startswith("throttled_")]
    blocks = result.tables["blocks"]
    rows = []
    for key, some in blocks.groupby(["share_percent", "period_ns"], sort=True):
        share, period = (int(str(part)) for part in key)
        quota = share * period / 100
        gaps = result.data[(result.data.share_percent == share) & (result.data.period_ns == period)]
        # Without a limit there is nothing to compare with, and every long gap is somebody else's doing.
        # Nor were gaps the limit's doing where cpu.stat counted no throttled period.
        throttled_trials = some.trial[(some.throttled_periods > 0) & (share < 100)]
        long = gaps.gap_ns >= max((period - quota) / 2, 1e6)
        stalls = gaps[long & gaps.trial.isin(throttled_trials)]
        medians = stalls.groupby("trial").gap_ns.median()
        middle = _interval(medians)
        throttled, time = some.throttled_periods.sum(), some.throttled_ns.sum()
        rows.append(
            {
                "share_percent": share,
                "period_ns": period,
                "quota_ns": quota,
                "stalls": len(stalls),
                **stats.in_columns("stall", "ns", middle),
                "formula_stall_ns": period - quota,
                "counted_stall_ns": time / throttled if throttled else np.nan,
                "ran_ns": some.cpu_ns.sum() / (some.elapsed_ns.sum() / period),
                "tolerance_ns": tolerance_ns(result.parameters),
                "off_by_ns": middle.median - (period - quota),
                "periods": some.periods.sum(),
                "throttled_periods": throttled,
                "throttled_percent": 100 * throttled / max(some.periods.sum(), 1),
                "cpu_percent": 100 * some.cpu_ns.sum() / some.elapsed_ns.sum(),
                "default_period_ns": result.facts["default_period_ns"],
                "throttled_field": fields[0] if fields else None,
                "trials": len(some),
            }
        )
    return pd.DataFrame(rows)


def _interval(by_trial: pd.Series[float]) -> stats.Interval:
    """The median and its interval; missing values where there is none."""
    return stats.median_interval(by_trial) if len(by_trial) else stats.Interval(np.nan, np.nan, np.nan)


@experiment(
    "quota.hog", summarise=summarise_hog, instrument=instrument, workloads=("burn",), needs=("cgroup",)
)
def hog(
    run: Run,
    *,
    shares_percent: Sequence[int] = SHARES_PERCENT,
    periods_us: Sequence[int] | None = None,
    trials: int | None = None,
    cycles: int | None = None,
) -> None:
    """Let one thread that never sleeps run under a CPU limit, and note when it did not run.

    shares_percent   quotas as a part of the period, of one CPU: 1 to 99
    periods_us       1,000 to 1,000,000; default: by profile
    trials           how often each cell is measured; in each trial every period is also run without a limit
    cycles           periods per block; default: by profile, and as many as 0.15 s hold of short ones

    Data: one row per gap of more than 0.2 ms in the worker's clock: share_percent (100: without a limit),
    period_ns, trial, at_ns (from the block's start), gap_ns.  The table blocks has, for each
    block share_percent, period_ns, trial, elapsed_ns, cpu_ns, involuntary, and what cpu.stat counted
    (periods, throttled_periods, throttled_ns); and version (of control groups), slice_ns, tick_ns,
    default_period_ns, stat_fields (the names in cpu.stat) and cpu.

    Where no group may be made only the blocks without a limit are run.
    """
    if periods_us is None:
        periods_us = run.choose(
            tiny=(20_000,),
            quick=(10_000, 100_000),
            full=(5_000, 10_000, 20_000, 50_000, 100_000, 500_000),
        )
    trials = run.choose(tiny=2, quick=3, full=9) if trials is None else trials
    few = run.choose(tiny=5, quick=3, full=10)
    _check_list("shares_percent", shares_percent, 1, 99)
    _check_list("periods_us", periods_us, 1, 1 << 30)  # the file's own range is checked with each quota
    for share in shares_percent:
        for period in periods_us:
            cgroups.check_limit(share * period // 100, period, 0)
    if trials < 1 or (cycles is not None and cycles < 2):
        raise ParameterError("trials start at 1 and cycles at 2.", "Leave them out to use the profile's.")
    cpu = placement.quiet_cpu()
    run.begin()
    limited = _take_stock(run)
    last_us = {period: period * (cycles or max(few, LEAST_BLOCK_US // period)) for period in periods_us}
    run.parameters |= {
        "cpu": cpu, "trials": trials, "periods_us": list(periods_us),
        "cycles": [last // period for period, last in last_us.items()],
    }  # fmt: skip
    shares = [100, *(sorted(set(shares_percent), reverse=True) if limited else [])]
    cells = [(trial, period, share) for trial in range(trials) for period in periods_us for share in shares]
    for trial, period, share in run.each(cells, label=lambda c: f"{c[2]} % of {c[1] / 1000:g} ms"):
        quota = share * period // 100 if share < 100 else None
        worker, gaps = _block(1, [cpu], quota, period, last_us[period], limited)
        about = {"share_percent": share, "period_ns": period * 1000, "trial": trial}
        run.add(_gap_rows(about, gaps))
        run.tables["blocks"].append(about | worker)
    _check_stalls(run)


def _check_list(name: str, given: Sequence[int], least: int, most: int) -> None:
    if isinstance(given, (str, int)) or not given:
        raise ParameterError(f"{name} does not take {given!r}.", f"Give a list, such as [{least}, {most}].")
    for value in given:
        if not isinstance(value, int) or not least <= value <= most:
            raise ParameterError(f"{name} takes numbers from {least:,} to {most:,}, not {value!r}.")


def _take_stock(run: Run) -> bool:
    """What the formula's error depends on; whether a group can be made here, with a note where it cannot."""
    run.parameters |= {
        "version": machine.survey().fact("cgroup.version").value,
        "slice_ns": (cgroups.slice_us() or 5000) * 1000,
        "tick_ns": machine.survey().tick_ns or TICK_NS,
    }
    run.facts |= {"stat_fields": [], "default_period_ns": None}
    try:
        with cgroups.group("look") as group:
            group.counted()
            run.facts["default_period_ns"] = group.read_limit().period_us * 1000
            run.facts["stat_fields"] = group.stat_fields()
    except PlacementError as error:
        run.note(
            "missing",
            f"No CPU limit was set, because no control group can be made here: {error.what} {error.remedy}",
        )
        return False
    return True


def _block(
    threads: int, cpus: Sequence[int], quota_us: int | None, period_us: int, last_us: int, grouped: bool
) -> tuple[dict[str, Any], list[list[tuple[int, int]]]]:
    """Run `threads` workers under a limit: (what was counted, for each worker its gaps: at_ns, ns)."""
    words = ["--workers", threads, "--duration-ms", max(1, last_us // 1000), "--threshold-us", GAP_US]
    deadline_s = 30 + 20 * last_us / 1e6
    with contextlib.ExitStack() as stack:
        group = (
            stack.enter_context(cgroups.group("hog", quota_us=quota_us, period_us=period_us))
            if grouped
            else None
        )
        burn = stack.enter_context(
            workloads.start("burn", [str(word) for word in words], deadline_s=deadline_s)
        )
        placement.pin(burn.tids, cpus)
        before = None
        if group:
            group.add(burn.pid)
            before = group.counted()
        records = burn.run()
        counted = group.counted().since(before) if group and before else None
    gaps: list[list[tuple[int, int]]] = [[] for _ in range(threads)]
    for record in records:
        if record.kind == "gap":
            gaps[record["worker"]].append((record["at_ns"], record["ns"]))
    workers = [record for record in records if record.kind == "worker"]
    ends = [at + ns for some in gaps for at, ns in some]
    return {
        # A worker that is held back at the end stops when it is let go.
        "elapsed_ns": max([last_us // 1000 * 1_000_000, *ends]),
        "cpu_ns": sum(record["cpu_ns"] for record in workers),
        "involuntary": sum(record["involuntary"] for record in workers),
        "periods": counted.periods if counted else 0,
        "throttled_periods": counted.throttled_periods if counted else 0,
        "throttled_ns": counted.throttled_ns if counted else 0,
    }, gaps


def _gap_rows(about: dict[str, Any], gaps: Sequence[Sequence[tuple[int, int]]]) -> pd.DataFrame:
    rows = [about | {"at_ns": at, "gap_ns": ns} for some in gaps for at, ns in some]
    # A block without a gap has a row all the same: nothing went missing, for nothing there was.
    return pd.DataFrame(rows or [about | {"at_ns": 0, "gap_ns": 0}])


def _check_stalls(run: Run) -> None:
    """Whether the worker's clock saw as many stalls as cpu.stat has throttled periods."""
    data = pd.concat(run.rows, ignore_index=True)
    for block in run.tables["blocks"]:
        share, period = block["share_percent"], block["period_ns"]
        # A stall that is shorter than a slice and a tick may be no gap at all after an overrun.
        if share == 100 or (1 - share / 100) * period <= tolerance_ns(run.parameters):
            continue
        own = data[
            (data.share_percent == share) & (data.period_ns == period) & (data.trial == block["trial"])
        ]
        # A worker that overran its quota pays in the next period: one long gap, two throttled periods.
        gaps = own.gap_ns[own.gap_ns >= (1 - share / 100) * period / 2]
        seen = int(np.ceil(gaps / period - 0.1).clip(lower=1).sum())
        counted = block["throttled_periods"]
        if abs(seen - counted) > COUNT_TOLERANCE * counted + 1:
            run.note(
                "flag",
                f"With {share} % of {period / 1e6:g} ms the worker's clock saw gaps in {seen} periods of a "
                f"block and cpu.stat counted {counted} throttled periods: something else took the CPU too.",
            )
            return


# ---- threads ----


def summarise_threads(result: Result) -> pd.DataFrame:
    """One row per number of threads.

    threads, cpus             how many; at most min(threads, cpus) run at once
    quota_ns, period_ns
    ran_ns, ran_lo_ns, ran_hi_ns   from the start of a period until no thread of the group ran: median over
                              trials, 95 % interval
    formula_ran_ns            quota / min(threads, cpus)
    stall_ns, stall_lo_ns, stall_hi_ns   the stall, likewise; formula_stall_ns: period - formula_ran_ns
    tolerance_ns              a slice of quota and a tick
    off_by_ns                 ran - formula
    stalls                    how many were seen
    periods, throttled_periods, throttled_percent, cpu_percent   as in quota.hog; of one CPU
    trials
    """
    blocks = result.tables["blocks"]
    cpus, quota, period = (result.parameters[name] for name in ("cpus", "quota_us", "period_us"))
    quota, period, rows = quota * 1000, period * 1000, []
    for key, some in blocks.groupby("threads", sort=True):
        threads = int(str(key))
        # Where cpu.stat counted no throttled period, others kept the threads off the CPUs.
        throttled_trials = some.trial[some.throttled_periods > 0]
        own = result.data[(result.data.threads == threads) & result.data.trial.isin(throttled_trials)]
        seen = own[own.ran_ns > 0]
        ran, stall = (
            seen.groupby("trial")[name].median() if len(seen) else pd.Series(dtype=float)
            for name in ("ran_ns", "stall_ns")
        )
        middle, rest = _interval(ran), _interval(stall)
        formula = quota / min(threads, len(cpus))
        rows.append(
            {
                "threads": threads,
                "cpus": len(cpus),
                "quota_ns": quota,
                "period_ns": period,
                **stats.in_columns("ran", "ns", middle),
                "formula_ran_ns": formula,
                **stats.in_columns("stall", "ns", rest),
                "formula_stall_ns": period - formula,
                "tolerance_ns": tolerance_ns(result.parameters),
                "off_by_ns": middle.median - formula,
                "stalls": len(seen),
                "periods": some.periods.sum(),
                "throttled_periods": some.throttled_periods.sum(),
                "throttled_percent": 100 * some.throttled_periods.sum() / max(some.periods.sum(), 1),
                "cpu_percent": 100 * some.cpu_ns.sum() / some.elapsed_ns.sum(),
                "trials": len(some),
            }
        )
    return pd.DataFrame(rows)


@experiment(
    "quota.threads",
    summarise=summarise_threads,
    instrument=instrument,
    workloads=("burn",),
    needs=("cgroup",),
)
def threads(
    run: Run,
    *,
    threads: Sequence[int] = THREADS,
    quota_us: int = 40_000,
    period_us: int = 100_000,
    cpus: Sequence[int] | None = None,
    trials: int | None = None,
    cycles: int | None = None,
) -> None:
    """Let more and more threads share one quota, and note how soon in each period it is used up.

    threads     how many workers that never sleep, 1 to 64
    quota_us, period_us   the limit of all of them together
    cpus        where they may run; default: every CPU of this process
    trials      how often each number is measured
    cycles      periods per block

    Data: one row per stall, a time in which no worker ran: threads, trial, at_ns (from the block's start),
    stall_ns, and ran_ns, the time since the stall before it ended (0 for the first of a block).  The
    table blocks is as in quota.hog.

    The run records nothing but a note where no group may be made: without a limit there is no stall.
    """
    _check_list("threads", threads, 1, MOST_THREADS)
    cgroups.check_limit(quota_us, period_us, 0)
    allowed = machine.survey().cpus_allowed
    cpus = allowed if cpus is None else sorted(set(cpus))
    _check_list("cpus", cpus, 0, 1 << 16)
    trials = run.choose(tiny=1, quick=3, full=9) if trials is None else trials
    cycles = run.choose(tiny=3, quick=4, full=20) if cycles is None else cycles
    if trials < 1 or cycles < 2:
        raise ParameterError("trials start at 1 and cycles at 2.", "Leave them out to use the profile's.")
    run.begin()
    limited = _take_stock(run)
    run.parameters |= {
        "cpus": list(cpus), "trials": trials, "cycles": cycles, "quota_us": quota_us, "period_us": period_us,
    }  # fmt: skip
    if not limited:
        trials = 1
    if quota_us >= period_us * min(max(threads), len(cpus)):
        run.note("info", "This quota is more than the CPUs can use: nothing will be held back.")
    cells = [(trial, count) for trial in range(trials) for count in threads]
    for trial, count in run.each(cells, label=lambda c: f"{c[1]} threads"):
        quota = quota_us if limited else None
        worker, gaps = _block(count, cpus, quota, period_us, cycles * period_us, limited)
        about = {"threads": count, "trial": trial}
        rows, end = [], None
        for at, ns in together(gaps, least_ns=0.25 * max(period_us - quota_us, 4000) * 1000):
            rows.append(
                about | {"at_ns": at, "stall_ns": ns, "ran_ns": 0 if end is None or not limited else at - end}
            )
            end = at + ns
        run.add(rows or [about | {"at_ns": 0, "stall_ns": 0, "ran_ns": 0}])
        run.tables["blocks"].append(about | worker)


def together(gaps: Sequence[Sequence[tuple[int, int]]], *, least_ns: float) -> Iterator[tuple[int, int]]:
    """(at_ns, ns) of the times of at least least_ns in which every worker had a gap, in order."""
    edges = sorted((edge for some in gaps for at, ns in some for edge in ((at, 1), (at + ns, -1))))
    inside, since = 0, 0
    for at, step in edges:
        if inside == len(gaps) and at - since >= least_ns:
            yield since, at - since
        inside += step
        if inside == len(gaps):
            since = at
