"""How long may a thread run before it is the next one's turn, and how long is a round?  (lab L11)

Threads that never sleep share one CPU.  Each looks at its clock all the time, and so sees every time that it
was off the CPU: between two such gaps it ran, and that stretch is a stint.  No privilege is needed for it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from sched_labs import machine, workloads
from sched_labs.core import stats
from sched_labs.core.errors import ParameterError, PlacementError
from sched_labs.core.result import Result
from sched_labs.run import checks
from sched_labs.run.base import Instrument, Run, experiment
from sched_labs.steer import knobs, placement, policies

MOST_HOGS = 64  # of burn.c
MOST_GAPS = 200_000  # a worker keeps this many
CUSTOM_AMONG = 4  # hogs, where slices of their own are tried, and a longer one of the kernel's
ROUNDS = 6  # of those slices at least in a trial, whose first and last turns are cut off
KERNELS = ("base_slice_ns", "min_granularity_ns")  # the kernel's own slice: EEVDF's knob, and CFS's nearest


def summarise(result: Result) -> pd.DataFrame:
    """One row per number of hogs, wished slice and moved slice; intervals over the trials.

    hogs                   threads that never sleep on the CPU
    wished_slice_ns        the slice that they asked for; missing where they took the kernel's own
    moved_slice_ns         what the kernel's slice had been set to meanwhile; missing where it was left alone
    turns                  stints that began and ended inside the run
    stint_p50_ns, stint_lo_ns, stint_hi_ns   half of the stints were not longer; 95 % interval
    stint_p10_ns, stint_p90_ns               a tenth, nine tenths of them were not longer
    gap_p50_ns, gap_lo_ns, gap_hi_ns         the same of the gaps: what a hog waits for its next turn
    gap_p90_ns, gap_max_ns
    gaps_per_stint         gap_p50_ns / stint_p50_ns: N - 1 where everybody takes a turn of the same length
    used_percent           what the hogs used of the CPU; other programs had the rest
    slice_ns               the kernel's own slice, as the machine survey found it; missing if unknown
    tick_ns                the period of its tick; missing if unknown
    """
    rows = []
    data = result.data.assign(wish=result.data["wished_slice_ns"].fillna(0), moved=0.0)
    if "moved_slice_ns" in data:  # runs kept before the knob was moved have none
        data["moved"] = data["moved_slice_ns"].fillna(0)
    for key, cell in data.groupby(["hogs", "wish", "moved"]):
        hogs, wish, moved = (float(part) for part in key)  # type: ignore[arg-type]
        trials = cell.groupby("trial")
        stint = stats.median_interval(trials["stint_ns"].median())
        gap = stats.median_interval(trials["gap_ns"].median())
        rows.append(
            {
                "hogs": int(hogs),
                "wished_slice_ns": wish or math.nan,
                "moved_slice_ns": moved or math.nan,
                "turns": len(cell),
                "stint_p50_ns": stint.median,
                "stint_lo_ns": stint.low,
                "stint_hi_ns": stint.high,
                "stint_p10_ns": float(cell["stint_ns"].quantile(0.1)),
                "stint_p90_ns": float(cell["stint_ns"].quantile(0.9)),
                "gap_p50_ns": gap.median,
                "gap_lo_ns": gap.low,
                "gap_hi_ns": gap.high,
                "gap_p90_ns": float(cell["gap_ns"].quantile(0.9)),
                "gap_max_ns": float(cell["gap_ns"].max()),
                "gaps_per_stint": gap.median / stint.median,
                "used_percent": _used_percent(result, int(hogs), wish, moved),
                "slice_ns": float(result.machine.get("slice_ns") or math.nan),
                "tick_ns": 1e9 / result.machine["hz"] if result.machine.get("hz") else math.nan,
            }
        )
    order = ["moved_slice_ns", "wished_slice_ns", "hogs"]
    return pd.DataFrame(rows).sort_values(order, na_position="first", ignore_index=True)


def _used_percent(result: Result, hogs: int, wish: float, moved: float) -> float:
    used = result.tables["used"]
    cell = used[(used["hogs"] == hogs) & (used["wished_slice_ns"].fillna(0) == wish)]
    if "moved_slice_ns" in cell:
        cell = cell[cell["moved_slice_ns"].fillna(0) == moved]
    # In runs kept before long slices were given long trials, all trials were alike.
    lasted_s = cell["duration_s"].mean() if "duration_s" in cell else result.parameters["duration_s"]
    return 100 * float(cell["cpu_ns"].mean() / (1e9 * lasted_s))


def instrument(survey: machine.Machine) -> Instrument:
    """The hogs' own clocks and the kernel's count of involuntary switches: nothing else is needed."""
    why = _fixed(_slice_knob())
    return Instrument(
        "the hogs' own clocks and counted switches",
        f"the kernel's slice would be moved, too, but {why}" if why else "",
    )


def _slice_knob() -> str:
    """The name of the knob that is this kernel's slice."""
    return KERNELS[0] if machine.survey().fact("kernel.scheduler").value != "CFS" else KERNELS[1]


def _fixed(knob: str) -> str:
    """Why this user may not move a knob, or an empty text."""
    try:
        knobs.movable(knob)
    except PlacementError as error:
        return error.what
    return ""


@experiment("slices.sweep", summarise=summarise, instrument=instrument, workloads=("burn",))
def sweep(
    run: Run,
    *,
    hogs: Sequence[int] | None = None,
    wished_slices_ns: Sequence[int] = (500_000, 20_000_000),
    moved_slice_ns: int | None = 25_000_000,
    trials: int | None = None,
    duration_s: float | None = None,
) -> None:
    """Let 2, 4, 8 ... threads that never sleep share one CPU, and time their turns.

    hogs              how many; several numbers
    wished_slices_ns  slices that four hogs ask for with sched_setattr, beside the kernel's own; EEVDF from
                      6.12 on grants them, other kernels ignore the wish and are left out with a note
    moved_slice_ns    what the kernel's own slice is set to for one more row of four hogs, and put back; None:
                      leave it alone.  Left out with a note where this user may not, or where it is longer
    trials            how often each is measured; the numbers take turns
    duration_s        of each trial; one with long slices lasts long enough for six rounds of them

    Data: one row per turn: trial, hogs, wished_slice_ns, moved_slice_ns, worker, stint_ns (how long it ran),
    gap_ns (how long it had waited before that).  A gap in which the kernel counted no involuntary switch was
    an interrupt, or a hypervisor that ran somebody else: the stint goes on over it.  So it does where another
    program borrowed the CPU and the same hog went on.  The table used has the cpu_ns of all hogs in each
    trial of duration_s.  The run is flagged where the gaps that the hogs saw and the kernel's count of
    involuntary switches differ by more than a tenth.
    """
    hogs = hogs or run.choose(tiny=(2, 4), quick=(2, 4, 6, 8), full=(2, 3, 4, 6, 8, 16, 32))
    trials = run.choose(tiny=1, quick=3, full=9) if trials is None else trials
    duration_s = run.choose(tiny=0.25, quick=0.25, full=2.0) if duration_s is None else duration_s
    _check(hogs, wished_slices_ns, trials, duration_s)
    cpu = placement.quiet_cpu()
    granted = []
    for wish in wished_slices_ns:
        tried = policies.tries([policies.slice_of(wish)]).iloc[0]
        if tried["granted"]:
            granted.append(wish)
        else:
            run.note("missing", f"Slices of one's own were not measured: {tried['because']}.")
    cells: list[tuple[int, int | None, str]] = [(number, None, "") for number in sorted(set(hogs))]
    cells += [(CUSTOM_AMONG, wish, "") for wish in sorted(granted)]
    if moved_slice_ns is not None and (knob := _movable(run, moved_slice_ns)):
        cells.append((CUSTOM_AMONG, None, knob))
    run.begin()
    run.parameters |= {"hogs": sorted(set(hogs)), "trials": trials, "duration_s": duration_s, "cpu": cpu}
    order = [(trial, *cell) for trial in range(trials) for cell in cells]
    for trial, number, asked, knob in run.each(order, label=lambda t: f"{t[1]} hogs"):
        if knob and moved_slice_ns is not None:
            with knobs.moved(knob, moved_slice_ns) as before:
                run.facts["slice_before_ns"] = before
                _measure(run, trial, number, asked, moved_slice_ns, cpu, duration_s)
        else:
            _measure(run, trial, number, asked, None, cpu, duration_s)


def _movable(run: Run, value_ns: int) -> str:
    """The knob that is this kernel's slice, if it may be moved up to a value; else "", with a note on why."""
    least, most = knobs.LIMITS_NS[KERNELS[0]]
    if isinstance(value_ns, bool) or not isinstance(value_ns, int) or not least <= value_ns <= most:
        raise ParameterError(f"moved_slice_ns must be a number from {least} to {most}, not {value_ns!r}.")
    name = _slice_knob()
    if why := _fixed(name):
        run.note("missing", f"The kernel's slice was left alone: {why}")
        return ""
    _, now = knobs.movable(name)
    if now >= value_ns:
        run.note("info", f"The kernel's slice was left alone: it is {now / 1e6:g} ms already.")
        return ""
    return name


def _check(hogs: Sequence[int], wished: Sequence[int], trials: int, duration_s: float) -> None:
    if isinstance(hogs, int) or not all(isinstance(n, int) and 2 <= n <= MOST_HOGS for n in hogs):
        raise ParameterError(f"hogs must be numbers from 2 to {MOST_HOGS}, not {hogs!r}.", "Give a list.")
    if isinstance(wished, int) or not all(isinstance(ns, int) for ns in wished):
        raise ParameterError(f"wished_slices_ns must be a list of numbers, not {wished!r}.")
    for ns in wished:
        policies.slice_of(ns)  # says what is wrong with it
    checks.whole("trials", trials, 1, 1000)
    checks.seconds("duration_s", duration_s, 0.01, 60)


def _measure(
    run: Run, trial: int, hogs: int, wish: int | None, moved: int | None, cpu: int, duration_s: float
) -> None:
    duration_s = max(duration_s, ROUNDS * hogs * (wish or moved or 0) / 1e9)
    words = ["--workers", hogs, "--duration-ms", math.ceil(1000 * duration_s), "--most-gaps",
             min(MOST_GAPS, math.ceil(20_000 * duration_s) + 1000)]  # fmt: skip
    given = [str(word) for word in words]
    with workloads.start("burn", given, deadline_s=30 + 5 * duration_s) as burn:
        placement.pin(burn.tids, [cpu])
        if wish:
            for tid in burn.tids:
                policies.apply(tid, policies.slice_of(wish))
        records = burn.run()
    cpu_ns = sum(record["cpu_ns"] for record in records if record.kind == "worker")
    run.tables["used"].append(
        {
            "hogs": hogs,
            "wished_slice_ns": wish,
            "moved_slice_ns": moved,
            "cpu_ns": cpu_ns,
            "duration_s": duration_s,
        }
    )
    switches = sum(record["involuntary"] for record in records if record.kind == "worker")
    seen = [r for r in records if r.kind == "gap" and r["switches"] > 0]
    gaps = len(seen)
    table = turns(
        pd.DataFrame(
            [(r["worker"], r["at_ns"], r["ns"]) for r in seen],
            columns=["worker", "at_ns", "ns"],
            dtype="int64",
        )
    )
    table.insert(0, "trial", trial)
    table.insert(1, "hogs", hogs)
    table.insert(2, "wished_slice_ns", float(wish) if wish else math.nan)
    table.insert(3, "moved_slice_ns", float(moved) if moved else math.nan)
    run.add(table)
    # The last switches of a worker may come when it has stopped looking.
    if abs(gaps - switches) > 0.1 * switches + 2 * hogs:
        run.note("flag", f"{hogs} hogs saw {gaps} gaps, the kernel counted {switches} involuntary switches.")


def turns(gaps: pd.DataFrame) -> pd.DataFrame:
    """From the gaps that hogs saw (worker, at_ns, ns) to their turns (worker, stint_ns, gap_ns).

    Between two gaps a hog ran.  Where the same hog runs before and after a gap, another program borrowed the
    CPU and gave it back: that is one turn, and the borrowed time is neither stint nor wait.  The first and
    the last turn of each hog are cut off by the ends of the trial and left out.
    """
    ran = gaps.sort_values(["worker", "at_ns"])
    ran = pd.DataFrame(
        {
            "worker": ran["worker"],
            "begin_ns": ran["at_ns"] + ran["ns"],
            "end_ns": ran.groupby("worker")["at_ns"].shift(-1),
        }
    ).dropna()
    ran = ran.astype("int64").sort_values("begin_ns", ignore_index=True)
    ran["stint_ns"] = ran["end_ns"] - ran["begin_ns"]
    number = (ran["worker"] != ran["worker"].shift()).cumsum().rename("turn")
    turn = ran.groupby(number).agg(
        worker=("worker", "first"), begin_ns=("begin_ns", "first"), end_ns=("end_ns", "last"),
        stint_ns=("stint_ns", "sum"),
    )  # fmt: skip
    turn["gap_ns"] = turn["begin_ns"] - turn.groupby("worker")["end_ns"].shift()
    complete = turn.groupby("worker").cumcount(ascending=False) > 0
    found = turn[complete].dropna()
    return found[["worker", "stint_ns", "gap_ns"]].astype("int64").reset_index(drop=True)
