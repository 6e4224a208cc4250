"""What interrupts a thread that is alone?  The tick, found from gaps in its own clock (lab L26).

One thread computes and looks at its clock all the time.  Where two looks are more than a microsecond or so
apart, something else had the CPU: an interrupt, another thread, or a hypervisor.  The period that the gaps
share is searched in their points in time; the kernel's counts of interrupts say which kind it was.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from sched_labs import machine, workloads
from sched_labs.core import stats
from sched_labs.core.result import Result
from sched_labs.machine import clock, files
from sched_labs.run import checks
from sched_labs.run.base import Instrument, Run, experiment
from sched_labs.steer import placement

CHUNK = 20  # steps of burn.c between two looks at the clock: some tens of nanoseconds
MOST_GAPS = 200_000
LOWEST_HZ, HIGHEST_HZ = 50.0, 2500.0  # slower than any tick that is built, faster than any
BINS = 40  # of a period; two neighbours count as one place in it
STRONG = 0.8  # the part of a comb's teeth from which its period counts as found, beyond what chance fills
# Where gaps are many, some comb is full by chance: hundreds of thousands are tried, by frequency and place.
LUCK = 1e-9


def summarise(result: Result) -> pd.DataFrame:
    """One row.

    trials, duration_ns    how often, and how long each time
    gaps                   how many there were, all trials together
    gap_p50_ns, gap_p99_ns, gap_max_ns   half, 99 %, all of them were not longer
    lost_percent           part of the time that the gaps took
    period_ns, period_lo_ns, period_hi_ns   the period that the gaps share: median over the trials, 95 %
                           interval; missing where no trial found one
    strength               the part of the period's points in time at which there was a gap; without a period,
                           of the fullest comb's
    in_phase_p50_ns        half of the regular gaps are not longer: at each of the period's points in time the
                           longest gap within a twentieth of a period counts as the regular one
    tick_ns                1 / HZ as the machine survey measured it; missing if unknown
    timer_interrupts       interrupts of the CPU's own timer, from before the thread computes until its
                           records have been read: some more than in duration_ns; missing where not told
    device_interrupts      interrupts of devices on this CPU, likewise
    arch, hypervisor       the processor's architecture and what is below this kernel, which decide what
                           tracepoint its timer passes
    interrupts_per_period  the CPU's own timer interrupts for each period of the gaps: about one where these
                           are this kernel's ticks, and too many by those around a trial; fewer where a
                           hypervisor takes the CPU away in a period of its own; missing without either
    switches               times that the thread was switched out
    """
    data, known = result.data, result.parameters | result.facts
    periods = result.records("found")
    found = [t for t in periods if math.isfinite(t["period_ns"] or math.nan) and t["strength"] >= STRONG]
    period = stats.median_interval([t["period_ns"] for t in found]) if found else (math.nan,) * 3
    phase = _in_phase(data, found, period[0])
    total = known["duration_ns"] * len(periods)
    hz = result.machine.get("hz")
    return pd.DataFrame(
        [
            {
                "trials": len(periods),
                "duration_ns": known["duration_ns"],
                "gaps": len(data),
                "gap_p50_ns": float(data["gap_ns"].median()),
                "gap_p99_ns": float(data["gap_ns"].quantile(0.99)),
                "gap_max_ns": float(data["gap_ns"].max()),
                "lost_percent": 100 * float(data["gap_ns"].sum()) / total,
                "period_ns": period[0],
                "period_lo_ns": period[1],
                "period_hi_ns": period[2],
                "strength": float(np.median([t["strength"] for t in found or periods])),
                "in_phase_p50_ns": phase,
                "tick_ns": 1e9 / hz if hz else math.nan,
                "timer_interrupts": _or_nan(known["timer_interrupts"]),
                "device_interrupts": _or_nan(known["device_interrupts"]),
                "arch": result.machine.get("arch"),
                "hypervisor": result.machine.get("hypervisor"),
                "interrupts_per_period": _or_nan(known["timer_interrupts"]) * period[0] / total,
                "switches": int(data["switches"].sum()),
            }
        ]
    )


def _or_nan(value: int | None) -> float:
    return math.nan if value is None else float(value)


def _in_phase(data: pd.DataFrame, found: Sequence[dict[str, Any]], period_ns: float) -> float:
    """The median of the regular gaps: at each of the period's points in time the longest gap there.

    Where gaps are many, most of those within a twentieth of a period of such a point are there by chance.
    A trial that found another period has other points.
    """
    regular = []
    for trial in [t for t in found if abs(t["period_ns"] / period_ns - 1) < 0.02] or found:
        rows = data[(data["trial"] == trial["trial"]) & (data["switches"] == 0)]
        turn = rows["at_ns"] / trial["period_ns"] - trial["phase"]
        point = turn.round()
        regular.append(rows.loc[(turn - point).abs() < 0.05, "gap_ns"].groupby(point).max())
    gaps = pd.concat(regular) if regular else pd.Series(dtype=float)
    return float(gaps.median()) if len(gaps) else math.nan


def instrument(survey: machine.Machine) -> Instrument:
    """The thread's own clock and the kernel's counts of interrupts."""
    return Instrument("the thread's own clock and /proc/interrupts")


@experiment("ticks.gaps", summarise=summarise, instrument=instrument, workloads=("burn",))
def gaps(
    run: Run, *, cpu: int | None = None, trials: int | None = None, duration_s: float | None = None
) -> None:
    """Let one thread compute alone, and find what interrupts it, and how regularly.

    cpu         where it computes; default: a quiet CPU
    trials      how often; each trial searches its own period
    duration_s  of each trial; the period is known the better, the longer it is

    Data: one row per gap: trial, at_ns (from the trial's start), gap_ns (with the few tens of nanoseconds of
    work that were under way), switches (times that the thread was switched out in it).
    The table found has each trial's period_ns, phase and strength.  Facts: threshold_ns, from which on a
    pause is a gap; timer_interrupts and device_interrupts of this CPU meanwhile, as the kernel counts them.
    Method: the points in time of the gaps without a switch are folded with every period from 0.4 to 20 ms;
    the shortest one counts for which at least 80 % of the teeth of one comb have a gap, beyond what so many
    gaps fill by chance.  A comb of half the period would be half empty.
    """
    trials = run.choose(tiny=1, quick=3, full=9) if trials is None else trials
    duration_s = run.choose(tiny=0.3, quick=0.4, full=3.0) if duration_s is None else duration_s
    checks.whole("trials", trials, 1, 1000)
    checks.seconds("duration_s", duration_s, 0.05, 60)
    cpu = placement.quiet_cpu() if cpu is None else cpu
    checks.cpu(cpu)
    run.begin()
    run.parameters |= {"cpu": cpu, "trials": trials, "duration_ns": round(1e9 * duration_s)}
    run.facts |= {"timer_interrupts": None, "device_interrupts": None}
    timer: int | None = 0
    device: int | None = 0
    for trial in run.each(range(trials), label=lambda n: f"trial {n + 1}"):
        words = ["--workers", 1, "--chunk", CHUNK, "--threshold-us", 1, "--most-gaps", MOST_GAPS]
        words += ["--duration-ms", round(1000 * duration_s)]
        with workloads.start("burn", [str(word) for word in words], deadline_s=30 + 3 * duration_s) as burn:
            placement.pin(burn.tids, [cpu])
            before = interrupts(cpu)
            records = burn.run()
            after = interrupts(cpu)
        seen = [record for record in records if record.kind == "gap"]
        table = pd.DataFrame(
            {
                "trial": trial,
                "at_ns": [record["at_ns"] for record in seen],
                "gap_ns": [record["ns"] for record in seen],
                "switches": [record["switches"] for record in seen],
            }
        )
        run.add(table)
        run.facts["threshold_ns"] = next(r["threshold_ns"] for r in records if r.kind == "chunk")
        alone = table["switches"] == 0
        away_ns = float(table.loc[~alone, "gap_ns"].sum())
        period_ns, phase, strength = period(
            table.loc[alone, "at_ns"].to_numpy(float), 1e9 * duration_s - away_ns
        )
        run.tables["found"].append(
            {
                "trial": trial,
                "period_ns": period_ns if math.isfinite(period_ns) else None,
                "phase": phase,
                "strength": strength,
            }
        )
        if before is None or after is None or timer is None or device is None:
            timer = device = None
        else:
            timer += after[0] - before[0]
            device += after[1] - before[1]
    if timer is None:
        run.note("missing", "/proc/interrupts does not tell this CPU's interrupts here.")
    away = sum(rows.loc[rows["switches"] > 0, "gap_ns"].sum() for rows in run.rows)
    if away > 0.1 * trials * run.parameters["duration_ns"]:
        run.note("flag", "Other programs had this CPU for more than a tenth of the time: it was not alone.")
    run.facts |= {"timer_interrupts": timer, "device_interrupts": device}


def period(at_ns: NDArray[np.float64], watched_ns: float) -> tuple[float, float, float]:
    """The shortest period whose comb the points in time fill: (period in ns, phase in turns, strength).

    watched_ns is the time in which points could be seen.  Strength is the part of the comb's teeth that have
    a point.  NaN where no comb is filled beyond chance, with the strength of the fullest, and where nearly
    all of the time belonged to others: less than one period of the slowest comb is no time to see one.
    """
    if at_ns.size < 8 or watched_ns * LOWEST_HZ < 1e9:
        return math.nan, 0.0, 0.0
    start, at_s = float(at_ns[0]), (at_ns - at_ns[0]) / 1e9
    watched_s = watched_ns / 1e9
    best = (0.0, math.nan, 0.0)  # strength, Hz, phase
    step_hz = 0.1 / watched_s
    frequency_hz = HIGHEST_HZ
    while frequency_hz > LOWEST_HZ:
        strength, phase = _filled(at_s, frequency_hz, watched_s)
        if _stands_out(at_s, frequency_hz, watched_s, strength):
            fine = np.linspace(frequency_hz - 2 * step_hz, frequency_hz + step_hz, 61)
            tried = [(*_filled(at_s, f, watched_s), float(f)) for f in fine]
            strength, phase, frequency_hz = _shortest(max(tried), at_s, watched_s, step_hz)
            return 1e9 / frequency_hz, (phase + start * frequency_hz / 1e9) % 1, min(1.0, strength)
        best = max(best, (strength, frequency_hz, phase))
        frequency_hz -= step_hz
    return math.nan, 0.0, min(1.0, best[0])


def _stands_out(at_s: NDArray[np.float64], frequency_hz: float, watched_s: float, strength: float) -> bool:
    """Whether a comb is full, and more of it than the points would fill wherever its teeth stood."""
    if strength < STRONG:
        return False
    teeth, strength = watched_s * frequency_hz, min(1.0, strength)
    # The part of the time with a point less than a tooth's width before: points that keep a distance from
    # one another, as the gaps of one source may, fill more teeth than as many that fall independently.
    covered_s = float(np.minimum(np.diff(at_s), 2 / BINS / frequency_hz).sum())
    chance = min(1.0, covered_s / watched_s)  # of a point in a tooth
    if strength - chance < STRONG * (1 - chance):
        return False
    # Chernoff's bound: so many teeth or more have a point by chance with at most this probability.
    told = strength * math.log(strength / chance) if chance else math.inf
    told += (1 - strength) * math.log((1 - strength) / (1 - chance)) if strength < 1 else 0.0
    return math.exp(-teeth * told) < LUCK


def _shortest(
    comb: tuple[float, float, float], at_s: NDArray[np.float64], watched_s: float, step_hz: float
) -> tuple[float, float, float]:
    """The comb (strength, phase, Hz) or one of so many times its teeth, where that is filled, too.

    Steps between the frequencies that are tried smear a tooth over some bins, so that the shortest period may
    have been passed over and a multiple of it found.
    """
    for times in range(int(HIGHEST_HZ / comb[2]), 1, -1):
        fine = np.linspace(times * comb[2] - step_hz, times * comb[2] + step_hz, 61)
        tried = max((*_filled(at_s, f, watched_s), float(f)) for f in fine)
        if _stands_out(at_s, tried[2], watched_s, tried[0]):
            return tried
    return comb


def _filled(at_s: NDArray[np.float64], frequency_hz: float, watched_s: float) -> tuple[float, float]:
    """How many of a comb's teeth have a point, where most of them have, and the phase of that place."""
    turns = at_s * frequency_hz
    tooth = np.floor(turns)
    place = ((turns - tooth) * BINS).astype(int)
    counts = np.bincount(place, minlength=BINS)
    pairs = counts + np.roll(counts, -1)
    fullest = int(np.argmax(pairs))
    in_place = (place == fullest) | (place == (fullest + 1) % BINS)
    teeth = np.unique(np.round(turns[in_place] - (fullest + 1) / BINS)).size
    return teeth / (watched_s * frequency_hz), (fullest + 1) / BINS % 1


def interrupts(cpu: int) -> tuple[int, int] | None:
    """(of the CPU's own timer, of devices) on a CPU so far; None where the kernel does not tell."""
    text = files.read("/proc/interrupts")
    lines = (text or "").splitlines()
    names = lines[0].split() if lines else []
    if f"CPU{cpu}" not in names:
        return None
    column = names.index(f"CPU{cpu}")
    timer, device, told = 0, 0, False
    for line in lines[1:]:
        label, _, rest = line.partition(":")
        words = rest.split()
        if len(words) <= len(names) or not words[column].isdigit():
            continue
        count = int(words[column])
        if clock.counts_a_tick(label.strip(), " ".join(words[len(names) :])):
            timer, told = timer + count, True
        elif label.strip().isdigit():
            device += count
    return (timer, device) if told else None
