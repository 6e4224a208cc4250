"""How long do runnable threads wait for a CPU, from an idle machine to a crowded one?  (lab L09)

Workers do a fixed piece of work and then yield, or sleep.  There are half as many as CPUs, as many, and four
times as many; the same workers also share one CPU.  The kernel's count of time slices checks the instrument.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from sched_labs import machine, workloads
from sched_labs.core import stats
from sched_labs.core.errors import ParameterError, ProbeError
from sched_labs.core.result import Result
from sched_labs.probes import runqlat
from sched_labs.probes.waits import CAUSES, Waits, bin_edges_ns, quantile_ns
from sched_labs.run import checks, optional
from sched_labs.run.base import Instrument, Run, experiment
from sched_labs.steer import placement

MODES = ("yield", "sleep")
PLACEMENTS = ("spread", "pinned")
REGIMES = {"light": 0.5, "matched": 1.0, "oversubscribed": 4.0}  # workers per CPU
MOST_CPUS = 32
BIN_BITS = 4  # of the workers' own histogram, as worker.c has it
INTERVAL_S = 0.05  # between two snapshots of the probe
FEWEST = 20  # waits in a block, below which a quantile says nothing
COUNT_TOLERANCE = 0.05
START_WAKES = 8  # waits of a worker around a block: it is woken and put to sleep a few times


def summarise(result: Result) -> pd.DataFrame:
    """One row per mode, placement and regime; medians over the blocks.

    workers, cpus          how many threads, and how many CPUs they may use
    instrument             what timed the waits: bpf (the kernel's side), or self_timed (the workers' clocks)
    waits                  how many that instrument saw, all blocks together
    p50_ns, p50_lo_ns, p50_hi_ns   half of the waits were not longer: median over the blocks, 95 % interval
    p90_ns, p99_ns, max_ns         90 %, 99 % and all of them, median over the blocks (max: of all blocks);
                           missing, like p50, where no block has at least 20 waits
    rounds                 bursts of work, all workers and blocks
    switched_share         of the sched_yield() calls, how many led to a switch; missing in mode sleep
    used_percent           what the workers used of their CPUs; the rest was idle, or other programs had it
    timeslices             how often the kernel switched a worker in (schedstat); missing where it is silent
    counted                the same as the BPF probe counted it: waits that ended; missing without the probe
    schedstat_mean_ns      run delay / time slices, as the kernel counted both
    mean_ns                mean wait by the instrument
    wakeups_per_slice      waits that began with a wake-up, as the probe counted them, per time slice
    """
    blocks = result.tables["blocks"]
    rows = []
    for key, cell in blocks.groupby(["mode", "placement", "regime"], sort=False):
        mode, place, regime = key
        data = result.data
        data = data[(data["mode"] == mode) & (data["placement"] == place) & (data["regime"] == regime)]
        name = "bpf" if cell["counted"].notna().any() else "self_timed"
        data = data[data["instrument"] == name]
        slices = float(cell["timeslices"].sum()) if cell["timeslices"].notna().all() else math.nan
        counted = float(cell["counted"].sum()) if name == "bpf" else math.nan
        woken = float(data.loc[data["cause"] == "wakeup", "waits"].sum())
        middle = (data["bin_low_ns"] + data["bin_high_ns"]) / 2
        waits = int(data["waits"].sum())
        rows.append(
            {
                "mode": mode,
                "placement": place,
                "regime": regime,
                "workers": int(cell["workers"].iloc[0]),
                "cpus": int(cell["cpus"].iloc[0]),
                "instrument": name,
                "waits": waits,
                **_quantiles(data),
                "rounds": int(cell["rounds"].sum()),
                "switched_share": cell["switched"].sum() / cell["rounds"].sum()
                if mode == "yield"
                else math.nan,
                "used_percent": 100
                * float(cell["cpu_ns"].sum())
                / (1e9 * result.parameters["duration_s"] * float(cell["cpus"].sum())),
                "timeslices": slices,
                "counted": counted,
                "schedstat_mean_ns": cell["run_delay_ns"].sum() / slices if slices > 0 else math.nan,
                "mean_ns": float((middle * data["waits"]).sum()) / waits if waits else math.nan,
                "wakeups_per_slice": woken / slices if name == "bpf" and slices > 0 else math.nan,
            }
        )
    return pd.DataFrame(rows)


def _quantiles(data: pd.DataFrame) -> dict[str, float]:
    """p50 with its interval, p90, p99 and max over the blocks that have enough waits."""
    blocks = [block for _, block in data.groupby("trial") if block["waits"].sum() >= FEWEST]
    names = ("p50_ns", "p50_lo_ns", "p50_hi_ns", "p90_ns", "p99_ns", "max_ns")
    if not blocks:
        return dict.fromkeys(names, math.nan)
    half = stats.median_interval([quantile_ns(block, 0.5) for block in blocks])
    tails = [float(np.median([quantile_ns(block, q) for block in blocks])) for q in (0.9, 0.99)]
    longest = float(max(block["bin_high_ns"].max() for block in blocks))
    return dict(zip(names, (*half, *tails, longest), strict=True))


def instrument(survey: machine.Machine) -> Instrument:
    """The BPF probe where this user may have it, the workers' own clocks everywhere."""
    able = runqlat.available()
    if able.ok:
        return Instrument("BPF probe, checked by the kernel's time slices and the workers' own clocks")
    return Instrument("the workers' own clocks and schedstat", f"{able.why} {able.remedy}".strip())


@dataclass
class _Cell:
    """One combination, and the workload that plays it: its threads sleep until their next block."""

    mode: str
    placement: str
    regime: str
    cpus: list[int]
    workload: workloads.Workload

    @property
    def workers(self) -> int:
        return len(self.workload.tids)


@experiment("regimes.sweep", summarise=summarise, instrument=instrument, workloads=("worker",))
def sweep(
    run: Run,
    *,
    modes: Sequence[str] = MODES,
    placements: Sequence[str] = PLACEMENTS,
    cpus: Sequence[int] | None = None,
    burst_us: int = 50,
    pause_us: int = 50,
    trials: int | None = None,
    duration_s: float | None = None,
) -> None:
    """Count every wait of workers that yield or sleep, from an empty machine to a crowded one.

    modes       of yield (a burst, then sched_yield) and sleep (a burst, then a timer sleep)
    placements  of spread (the workers may use all the CPUs) and pinned (the same workers on one of them)
    cpus        which CPUs; default: all that this process may use, at most 32
    burst_us    length of a burst on an idle CPU; the work is fixed, so a late worker does not do less
    pause_us    how long a sleeper sleeps
    trials      how often each combination is measured; the combinations take turns
    duration_s  of one block

    Data: one row per bin that is not empty: trial, mode, placement, regime, workers, instrument (bpf or
    self_timed), cause (wakeup, preempted), bin_low_ns, bin_high_ns (excluded), waits.  A thread that called
    sched_yield and was switched out counts as preempted: it could go on.  The table blocks has one row per
    block: rounds, as the workers counted them, and what the kernel did, cpu_ns, voluntary_switches,
    involuntary_switches, run_delay_ns, timeslices.  The fact burst_ns is how long a round of work takes
    here.  The run is flagged where the probe's count differs from the kernel's count of time slices by more
    than 5 % and eight per worker.
    Method: the regimes of a well-known runqlat demonstration, with a burst of fixed work.
    """
    trials = run.choose(tiny=1, quick=3, full=9) if trials is None else trials
    duration_s = run.choose(tiny=0.03, quick=0.05, full=1.0) if duration_s is None else duration_s
    allowed = list(machine.survey().cpus_allowed)
    if cpus is None and len(allowed) > MOST_CPUS:
        run.note("info", f"{MOST_CPUS} of {len(allowed)} CPUs were used.")
    cpus = sorted(set(allowed[:MOST_CPUS] if cpus is None else cpus))
    _check(modes, placements, cpus, allowed, burst_us, pause_us, trials, duration_s)
    run.begin()
    run.parameters |= {"cpus": cpus, "trials": trials, "duration_s": duration_s}

    words = ["--burst-us", burst_us, "--pause-us", pause_us, "--blocks", trials]
    words += ["--duration-ms", max(1, round(1000 * duration_s))]
    deadline_s = 60 + 12 * trials * (2 * duration_s + 1)
    with contextlib.ExitStack() as stack:
        cells = []
        for mode in modes:
            for place in placements:
                for regime, per_cpu in REGIMES.items():
                    workers = math.ceil(per_cpu * len(cpus))
                    given = [str(word) for word in (*words, "--workers", workers, "--mode", mode)]
                    started = stack.enter_context(workloads.start("worker", given, deadline_s=deadline_s))
                    where = cpus if place == "spread" else [_one(cpus)]
                    placement.pin(started.tids, where)
                    cells.append(_Cell(mode, place, regime, where, started))
        counts = _Counts(run, stack, [cell.workload.pid for cell in cells], deadline_s)
        turns = [(trial, cell) for trial in range(trials) for cell in cells]
        for trial, cell in run.each(turns, label=lambda t: f"{t[1].mode}, {t[1].regime}, {t[1].placement}"):
            cell.workload.go()
            records = list(_until_the_end(cell.workload))
            _keep(run, trial, cell, records, counts)
    _check_counts(run)


def _one(cpus: Sequence[int]) -> int:
    quiet = placement.quiet_cpu()
    return quiet if quiet in cpus else cpus[-1]


def _check(
    modes: Sequence[str],
    placements: Sequence[str],
    cpus: Sequence[int],
    allowed: Sequence[int],
    burst_us: int,
    pause_us: int,
    trials: int,
    duration_s: float,
) -> None:
    for what, chosen, known in (("modes", modes, MODES), ("placements", placements, PLACEMENTS)):
        checks.words(what, chosen, known)
    if not cpus or not set(cpus) <= set(allowed) or len(cpus) > MOST_CPUS:
        raise ParameterError(
            f"cpus does not take {list(cpus)!r}.",
            f"Give at most {MOST_CPUS} of: {', '.join(map(str, allowed))}.",
        )
    limits = {
        "burst_us": (burst_us, 1, 100_000),
        "pause_us": (pause_us, 1, 1_000_000),
        "trials": (trials, 1, 1000),
    }
    for name, (value, least, most) in limits.items():
        checks.whole(name, value, least, most)
    checks.seconds("duration_s", duration_s, 0.001, 60)


class _Counts:
    """What the probe counted from one block's end to the next's; nothing where there is no probe.

    One probe watches all the workloads.  Between two blocks every worker sleeps, so a snapshot taken there
    parts one block's waits from the next one's.
    """

    def __init__(self, run: Run, stack: contextlib.ExitStack, pids: Sequence[int], duration_s: float) -> None:
        self._last: Waits | None = None
        self._watch = optional.probe(
            run,
            stack,
            runqlat.available(),
            lambda: runqlat.watch(pids, duration_s=min(duration_s, 3600), interval_s=INTERVAL_S),
            "The kernel's own view of the waits is missing",
            "The workers' clocks and schedstat were used instead.",
        )
        if self._watch:
            self._watch.start()
            self._opened = time.monotonic_ns()

    def since(self) -> dict[str, dict[int, int]] | None:
        """{cause: {bin: waits}} since the last call."""
        if self._watch is None:
            return None
        now = time.monotonic_ns() - self._opened
        before, snapshot = self._last, self._last
        for so_far in self._watch:  # it ends early when the last workload has ended: that count is complete
            snapshot = so_far
            if so_far.window_ns >= now:
                break
        if snapshot is None:
            raise ProbeError("The BPF probe ended before it had counted anything.", "Run it again.")
        self._last = snapshot
        return {
            cause: {
                number: waits - (before.counts.get(cause, {}).get(number, 0) if before else 0)
                for number, waits in snapshot.counts.get(cause, {}).items()
            }
            for cause in CAUSES
        }

    @property
    def bin_bits(self) -> int:
        assert self._last is not None
        return self._last.bin_bits


def _until_the_end(workload: workloads.Workload) -> Iterator[workloads.Record]:
    for record in workload.records():
        yield record
        if record.kind == "end":
            return


def _keep(run: Run, trial: int, cell: _Cell, records: Sequence[workloads.Record], counts: _Counts) -> None:
    """A block's bins as rows, and what was counted in it into the run's parameters."""
    same = {
        "trial": trial,
        "mode": cell.mode,
        "placement": cell.placement,
        "regime": cell.regime,
        "workers": cell.workers,
    }
    counted = counts.since()
    timed: dict[str, Counter[int]] = {cause: Counter() for cause in CAUSES}
    sums: Counter[str] = Counter()
    scheduled = True
    for record in records:
        if record.kind == "bin":
            timed[record.text("cause")][record["number"]] += record["waits"]
        elif record.kind == "burst":
            run.facts.setdefault("burst_ns", record["ns"])
        elif record.kind == "worker":
            scheduled = scheduled and "timeslices" in record.values
            for key in ("rounds", "switched", "cpu_ns", "voluntary", "involuntary"):
                sums[key] += record[key]
            if scheduled:
                sums["wait_ns"] += record["wait_ns"]
                sums["timeslices"] += record["timeslices"]
    if not scheduled:
        run.note("missing", "This kernel keeps no run delay for threads (CONFIG_SCHED_INFO).")
    run.add(_rows(same, "self_timed", timed, BIN_BITS))
    if counted is not None:
        run.add(_rows(same, "bpf", counted, counts.bin_bits))
    run.tables["blocks"].append(
        same
        | {
            "cpus": len(cell.cpus),
            "rounds": sums["rounds"],
            "switched": sums["switched"],
            "cpu_ns": sums["cpu_ns"],
            "voluntary_switches": sums["voluntary"],
            "involuntary_switches": sums["involuntary"],
            "run_delay_ns": sums["wait_ns"] if scheduled else None,
            "timeslices": sums["timeslices"] if scheduled else None,
            "counted": None if counted is None else sum(sum(bins.values()) for bins in counted.values()),
        }
    )


def _rows(
    same: dict[str, Any], instrument: str, bins: Mapping[str, Mapping[int, int]], bits: int
) -> pd.DataFrame:
    rows = [
        (*same.values(), instrument, cause, *bin_edges_ns(number, bits), waits)
        for cause in CAUSES
        for number, waits in sorted(bins[cause].items())
        if waits
    ]
    names = [*same, "instrument", "cause", "bin_low_ns", "bin_high_ns", "waits"]
    whole = ("trial", "workers", "bin_low_ns", "bin_high_ns", "waits")
    return pd.DataFrame(rows, columns=names).astype(dict.fromkeys(whole, "int64"))


def _check_counts(run: Run) -> None:
    """Whether the probe saw as many waits end as the kernel switched workers in."""
    for block in run.tables["blocks"]:
        counted, slices = block["counted"], block["timeslices"]
        if counted is None or slices is None:
            continue
        if abs(counted - slices) > COUNT_TOLERANCE * slices + START_WAKES * block["workers"]:
            run.note(
                "flag",
                f"{block['mode']}, {block['regime']}, {block['placement']}: in one block the probe "
                f"counted {counted} waits, the kernel {slices} time slices.",
            )
