"""What had the CPU while threads waited for it?  Every nanosecond of every wait, by who occupied the CPU.

One program has a light sleeper, which works a little and sleeps again, and it may have threads that never
sleep.  It shares one CPU with nobody, with its own burners, and with a rival program besides.  The histograms
of the three waits may look alike; what the waits are made of does not.
"""

from __future__ import annotations

import contextlib
import math
import time
from typing import Any

import pandas as pd

from sched_labs import machine, workloads
from sched_labs.core.errors import ParameterError, ProbeError
from sched_labs.core.result import Result
from sched_labs.core.stats import Interval, median_interval
from sched_labs.probes import runqlat, schedstat
from sched_labs.probes.waits import OCCUPANTS, Attribution, Waits, bin_edges_ns, bin_of
from sched_labs.run import checks
from sched_labs.run.base import Instrument, Run, experiment
from sched_labs.steer import placement

CONDITIONS = ("alone", "own_threads", "rival")
PERIOD_US = 2017  # no multiple of a tick
WORK_US = 100
START_S = 0.3  # by then the hogs have settled, and the light thread has begun (sleeper.c: 0.25 s at most)
SPARE_S = 2.0  # the program would go on for so long: all its threads are there when the window closes
MOST_BURNERS = 16
LONGEST_S = 120.0
COUNT_TOLERANCE = 0.05  # by how much the counted waits may differ from the kernel's count of switches


def summarise(result: Result) -> pd.DataFrame:
    """One row per condition and occupant of the CPU.

    condition            alone, own_threads, rival
    occupied_by          what had the CPU; one of probes.waits.OCCUPANTS
    share                its part of all waiting time of the condition, all trials together; they add up.
                         Missing without BPF, but for unattributed, which has it all then
    share_lo, share_hi   where that lies by trials: 95 % interval of their median, drawn out to the share
    part_ns              its part in sum over the trials
    waits                how many waits the condition had, the same in each of its rows
    wait_mean_ns         the mean wait of the condition, the same in each of its rows
    attributed           whether the waiting time is attributed at all (it needs the BPF probe)
    """
    rows = []
    trials = result.tables["trials_counted"]
    attributed = result.facts["instrument"] == "bpf"
    for condition in [name for name in CONDITIONS if (result.data["condition"] == name).any()]:
        data = result.data[result.data["condition"] == condition]
        counted = trials[trials["condition"] == condition]
        each = data.groupby("trial")["part_ns"].sum()
        waits = int(counted["waits"].sum())
        for occupant in OCCUPANTS:
            parts = data[data["occupied_by"] == occupant].groupby("trial")["part_ns"].sum()
            trial = median_interval((parts.reindex(each.index, fill_value=0) / each).to_numpy())
            share = float(parts.sum() / each.sum())
            if not attributed and occupant != "unattributed":
                share, trial = math.nan, Interval(math.nan, math.nan, math.nan)
            rows.append(
                {
                    "condition": condition,
                    "occupied_by": occupant,
                    "share": share,
                    "share_lo": min(share, trial.low),
                    "share_hi": max(share, trial.high),
                    "part_ns": int(parts.sum()),
                    "waits": waits,
                    "wait_mean_ns": float(each.sum() / waits) if waits else math.nan,
                    "attributed": attributed,
                }
            )
    return pd.DataFrame(rows)


def instrument(survey: machine.Machine) -> Instrument:
    """The BPF probe with its accounts; without it only how long threads waited in sum."""
    able = runqlat.available()
    if able.ok:
        return Instrument("BPF probe that accounts for every nanosecond of a wait")
    return Instrument(
        "schedstat: how long threads waited in sum, and not for what", f"{able.why} {able.remedy}".strip()
    )


@experiment("attribution.waits", summarise=summarise, instrument=instrument, workloads=("burn", "sleeper"))
def waits(
    run: Run,
    *,
    burners: int | None = None,
    rivals: int | None = None,
    cpu: int | None = None,
    duration_s: float | None = None,
) -> None:
    """Let a program wait for a CPU alone, among its own threads, and beside a rival; attribute every wait.

    burners     threads of the program that never sleep, in the last two conditions; default 2
    rivals      threads of the rival program; default 2
    cpu         the CPU that they share; default: a quiet one
    duration_s  for how long each trial of a condition is watched, from when the light thread has begun;
                default: by profile

    Data: one row per trial, condition, cause (wakeup, preempted), bin and occupant: trial, condition, cause,
    bin_low_ns, bin_high_ns (excluded; the bin of the whole wait, four to a power of two), occupied_by,
    part_ns.  Without BPF there is one row per trial and condition: the program's run delay, cause "unknown",
    the bin that of the mean wait, occupied by "unattributed".

    Facts: instrument ("bpf" or "schedstat"); interrupts, the kinds that this kernel lets us tell from the
    thread that they interrupt.  The table trials_counted has one row per trial and condition with waits,
    wait_ns (their sum, exact), could and later (waits with another idle CPU, see probes.attribution), moved
    (waits that changed CPU), held (that began with the CPU quota used up), stolen_ns (a bound on what the
    hypervisor took of all CPUs) and lost.  schedstat knows
    only the first two.  Whether another CPU was idle is not asked: these threads are bound to one.
    """
    burners = 2 if burners is None else burners
    rivals = 2 if rivals is None else rivals
    duration_s = run.choose(tiny=0.15, quick=0.15, full=4.0) if duration_s is None else duration_s
    cpu = placement.quiet_cpu() if cpu is None else cpu
    _check(burners, rivals, cpu, duration_s)
    trials = run.choose(tiny=1, quick=3, full=9)
    run.begin()
    wanted = _probe(run)
    run.parameters |= {
        "burners": burners,
        "rivals": rivals,
        "cpu": cpu,
        "duration_s": duration_s,
        "trials": trials,
        "period_us": PERIOD_US,
        "work_us": WORK_US,
    }
    run.facts |= {"instrument": "bpf" if wanted else "schedstat"}
    steps = [
        (trial, condition)
        for trial in range(trials)
        for condition in (CONDITIONS if trial % 2 == 0 else reversed(CONDITIONS))
    ]
    for trial, condition in run.each(steps, label=lambda step: step[1].replace("_", " ")):
        hogs = 0 if condition == "alone" else burners
        rows = _block(run, condition, hogs, rivals if condition == "rival" else 0, cpu, duration_s, wanted)
        run.add([{"trial": trial, "condition": condition, **row} for row in rows])
        run.tables["trials_counted"][-1] |= {"trial": trial}
    _check_lost(run)


def _check(burners: int, rivals: int, cpu: int, duration_s: float) -> None:
    for name, value in (("burners", burners), ("rivals", rivals)):
        if not isinstance(value, int) or not 1 <= value <= MOST_BURNERS:
            raise ParameterError(f"{name} must be a number from 1 to {MOST_BURNERS}, not {value!r}.")
    checks.seconds("duration_s", duration_s, 0.05, LONGEST_S)
    checks.cpu(cpu)


def _probe(run: Run) -> bool:
    able = runqlat.available()
    if not able.ok:
        run.note(
            "missing",
            f"What had the CPU during the waits is missing: {able.why} "
            f"Only their sum is known (schedstat). {able.remedy}".strip(),
        )
    return able.ok


def _block(
    run: Run, condition: str, hogs: int, rivals: int, cpu: int, duration_s: float, wanted: bool
) -> list[dict[str, Any]]:
    """One trial of one condition."""
    wakes = math.ceil((START_S + duration_s + SPARE_S) * 1e6 / PERIOD_US)
    sleeping = ["--hogs", str(hogs), "--period-us", str(PERIOD_US), "--wakes", str(wakes)]
    sleeping += ["--work-us", str(WORK_US)]
    deadline_s = 4 * duration_s + 30
    with contextlib.ExitStack() as stack:
        if rivals:
            longer = ["--workers", str(rivals), "--duration-ms", str(math.ceil(1000 * deadline_s))]
            rival = stack.enter_context(workloads.start("burn", longer, deadline_s=deadline_s + 5))
            placement.pin(rival.tids, [cpu])
            rival.go()
        program = stack.enter_context(workloads.start("sleeper", sleeping, deadline_s=deadline_s))
        placement.pin(program.tids, [cpu])
        sums = stack.enter_context(schedstat.watch([program.pid])) if schedstat.available().ok else None
        probe = None
        if wanted:
            try:
                probe = stack.enter_context(
                    runqlat.watch([program.pid], deadline_s, interval_s=30, attribution=True)
                )
            except ProbeError as error:
                raise ProbeError(error.what, f"{error.remedy} Without BPF: schedstat.".strip()) from error
            run.facts["interrupts"] = probe.interrupts
        elif sums is None:
            raise ProbeError("This kernel keeps no run delay either (CONFIG_SCHED_INFO).")
        # The window is a piece of the time that the light thread runs: neither start nor end is in it.
        program.go()
        time.sleep(START_S)
        for watch in (probe, sums):
            if watch:
                watch.start()
        time.sleep(duration_s)
        waits, delays = probe.stop() if probe else None, sums.stop() if sums else None
        if delays and delays.ended:
            run.note("flag", "The program had ended before its window closed: waits are missing.")
        if waits:
            return _attributed(run, condition, waits, delays)
        assert delays
        return _in_sum(run, condition, delays)


def _in_sum(run: Run, condition: str, delays: schedstat.Delays) -> list[dict[str, Any]]:
    """One row with the run delay of the program's threads."""
    delay, slices = int(delays.data["wait_ns"].sum()), int(delays.data["timeslices"].sum())
    run.tables["trials_counted"].append({"condition": condition, "waits": slices, "wait_ns": delay})
    low, high = bin_edges_ns(bin_of(delay // max(1, slices), 2), 2)
    row = {"cause": "unknown", "bin_low_ns": low, "bin_high_ns": high, "occupied_by": "unattributed"}
    return [row | {"part_ns": delay}] if delay else []


def _attributed(
    run: Run, condition: str, waits: Waits, delays: schedstat.Delays | None
) -> list[dict[str, Any]]:
    found = waits.attribution
    assert isinstance(found, Attribution)
    counted = {
        "condition": condition,
        "waits": waits.total,
        "wait_ns": found.sum_ns,
        "moved": sum(share.moved for share in found.shares.values()),
        "held": sum(share.held for share in found.shares.values()),
        "stolen_ns": found.stolen_ns,
        "lost": waits.lost,
    }
    run.tables["trials_counted"].append(counted)
    if delays:
        _check_counts(run, waits, delays)
    return [{str(name): value for name, value in row.items()} for row in found.data.to_dict("records")]


def _check_counts(run: Run, waits: Waits, delays: schedstat.Delays) -> None:
    """Whether the probe counted about as many waits as the kernel counted times that a thread got the CPU."""
    # The two windows are not exactly the same one.
    switches = round(delays.data["timeslices"].sum() * waits.window_ns / delays.window_ns)
    if abs(waits.total - switches) > COUNT_TOLERANCE * switches + 10 * len(delays.data):
        run.note("flag", f"The probe counted {waits.total} waits, the kernel {switches} switches.")


def _check_lost(run: Run) -> None:
    counted = pd.DataFrame(run.tables["trials_counted"])
    if "lost" in counted and counted["lost"].sum() > 0.01 * counted["waits"].sum():
        run.note("flag", f"The probe could not count {int(counted['lost'].sum())} waits.")
