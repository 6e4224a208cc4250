"""What do two threads take from each other on one core, on two cores, and on one CPU?  (lab L29)

Two CPUs that are threads of one core (SMT, "hyperthreads") run at the same time and share its units and
caches.  Nothing is switched between them, and each is still slower than alone; how much depends on the work.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from sched_labs import machine, workloads
from sched_labs.core import stats
from sched_labs.core.errors import ParameterError
from sched_labs.core.result import Result
from sched_labs.run import checks, distance, memory
from sched_labs.run.base import Instrument, Run, experiment
from sched_labs.steer import placement

PAIRS = {"alu_alu": ("alu", "alu"), "memory_memory": ("memory", "memory"), "alu_memory": ("alu", "memory")}
PLACEMENTS = ("cores", "siblings", "one_cpu")


def summarise(result: Result) -> pd.DataFrame:
    """One row per pair, placement and kind of work; of a pair of the same work, the mean of the two workers.

    pair, placement, work
    alone_per_s                 units of work in a second when the other does nothing, median over trials
    speed_share, speed_lo_share, speed_hi_share   how fast it is beside the other, of alone, 95 % interval
    floor_share                 what windows alone differ by among each other, of alone
    work_per_cpu_s_share        work in a second of CPU time, of alone: less than 1 without any switch means
                                that the CPU's time itself was worth less
    both_share, both_lo_share, both_hi_share   the speeds of both workers added up: 2 are two whole cores
    switches_per_s              of this work's threads while both worked, voluntary and involuntary
    trials
    """
    rows = []
    for (pair, place), cell in result.data.groupby(["pair", "placement"], sort=False):
        rate = cell.assign(
            per_s=1e9 * cell["units"] / cell["elapsed_ns"],
            per_cpu_s=1e9 * cell["units"] / cell["cpu_ns"],
            switches=cell["voluntary_switches"] + cell["involuntary_switches"],
        ).pivot(index="trial", columns=["worker", "together"], values=["per_s", "per_cpu_s", "switches"])
        rate = rate.dropna()
        if rate.empty:
            continue
        speeds = [rate["per_s"][worker][True] / rate["per_s"][worker][False] for worker in (0, 1)]
        kinds = PAIRS[str(pair)]
        for work in dict.fromkeys(kinds):
            mine = [worker for worker in (0, 1) if kinds[worker] == work]
            alone = sum(rate["per_s"][worker][False] for worker in mine) / len(mine)
            worth = [rate["per_cpu_s"][w][True] / rate["per_cpu_s"][w][False] for w in mine]
            seconds = cell.loc[cell["together"] & cell["worker"].isin(mine), "elapsed_ns"].sum() / 1e9
            rows.append(
                {
                    "pair": pair,
                    "placement": place,
                    "work": work,
                    "alone_per_s": float(alone.median()),
                    **stats.spread("speed", "share", sum(speeds[worker] for worker in mine) / len(mine)),
                    "floor_share": stats.noise_floor(alone) / float(alone.median()),
                    "work_per_cpu_s_share": float(np.median(sum(worth) / len(worth))),
                    **stats.spread("both", "share", speeds[0] + speeds[1]),
                    "switches_per_s": float(sum(rate["switches"][w][True].sum() for w in mine)) / seconds,
                    "trials": len(rate),
                }
            )
    return pd.DataFrame(rows)


def instrument(survey: machine.Machine) -> Instrument:
    """The workers' own counts and clocks."""
    if not survey.smt_siblings(placement.quiet_cpu()):
        return Instrument(
            "work done, without SMT siblings", "a machine that shows two threads of a core adds the siblings"
        )
    return Instrument("work done")


def places(survey: machine.Machine, home: int) -> dict[str, tuple[int, int]]:
    """The CPUs of the two workers in each placement that this machine has."""
    near = distance.partners(survey, home)
    core = next(
        (near[far] for far in ("same_cache", "other_cache", "other_node", "other_cpu") if far in near), None
    )
    found = {"cores": core, "siblings": near.get("smt_sibling"), "one_cpu": home}
    return {name: (home, cpu) for name, cpu in found.items() if cpu is not None}


@experiment("smt.sharing", summarise=summarise, instrument=instrument, workloads=("siblings",))
def sharing(
    run: Run,
    *,
    pairs: Sequence[str] = tuple(PAIRS),
    placements: Sequence[str] = PLACEMENTS,
    working_set_bytes: int | None = None,
    trials: int | None = None,
    window_ms: int | None = None,
) -> None:
    """Let two workers compute at the same time on two cores, on two threads of one core, and on one CPU.

    pairs              of alu_alu, memory_memory, alu_memory
    placements         of cores, siblings (two threads of one core), one_cpu; what is not there is left out
    working_set_bytes  of each worker that walks memory; default: twice the second-level cache
    trials, window_ms  how often, and for how long: each worker alone, and both together, in every trial

    Data: one row per worker and window: pair, placement, trial, worker (0 or 1), work, together, units (of
    work done), elapsed_ns, cpu_ns, voluntary_switches, involuntary_switches, cpu.
    """
    survey = machine.survey()
    home = placement.quiet_cpu()
    for what, chosen, known in (("pairs", pairs, tuple(PAIRS)), ("placements", placements, PLACEMENTS)):
        checks.words(what, chosen, known)
    there = places(survey, home)
    cpus = {name: there[name] for name in placements if name in there}
    if not cpus:
        raise ParameterError(
            f"This machine has none of these placements: {', '.join(placements)}.", "Add one_cpu."
        )
    trials = run.choose(tiny=3, quick=6, full=25) if trials is None else trials
    window_ms = run.choose(tiny=5, quick=20, full=100) if window_ms is None else window_ms
    if trials < 1 or not 1 <= window_ms <= 10_000:
        raise ParameterError("trials start at 1, and window_ms lies between 1 and 10,000 ms.")
    size = 2 * memory.second_level(survey) if working_set_bytes is None else working_set_bytes
    memory.check("working_set_bytes", [size], 4096)
    memory.check_room(size, size, survey)
    run.begin()
    run.parameters |= {"cpus": cpus, "working_set_bytes": size, "trials": trials, "window_ms": window_ms}
    if "siblings" in placements and "siblings" not in cpus:
        run.note(
            "missing",
            f"No CPU that this process may use is another thread of CPU {home}'s core: "
            "sharing a core was not measured."
            + (" A hypervisor may hide it." if survey.fact("host.hypervisor").value else ""),
        )
    if "cores" in placements and "cores" not in cpus:
        run.note("missing", "This process may use one core only: two cores were not measured.")
    cells = [(pair, place) for pair in pairs for place in cpus]
    for pair, place in run.each(cells, label=lambda cell: " ".join(cell).replace("_", " ")):
        words = ["--working-set", size, "--line", survey.line_bytes, "--trials", trials]
        words += ["--window-ms", window_ms, *(word for kind in PAIRS[pair] for word in ("--work", kind))]
        deadline_s = 30 + 4 * trials * 3 * window_ms / 1000
        with workloads.start("siblings", [str(word) for word in words], deadline_s=deadline_s) as workers:
            for tid, cpu in zip(workers.tids, cpus[place], strict=True):
                placement.pin([tid], [cpu])
            windows = workers.run()
        run.add(
            [
                {
                    "pair": pair,
                    "placement": place,
                    "trial": record["trial"],
                    "worker": record["worker"],
                    "work": PAIRS[pair][record["worker"]],
                    "together": bool(record["together"]),
                    "units": record["units"],
                    "elapsed_ns": record["elapsed_ns"],
                    "cpu_ns": record["cpu_ns"],
                    "voluntary_switches": record["voluntary"],
                    "involuntary_switches": record["involuntary"],
                    "cpu": record["cpu"],
                }
                for record in windows
            ]
        )
    _check_cpu_time(run)


def _check_cpu_time(run: Run) -> None:
    """Windows in which a worker alone did not have its CPU for itself say little."""
    data = pd.concat(run.rows)
    alone = data[~data["together"]]
    short = int((alone["cpu_ns"] < 0.9 * alone["elapsed_ns"]).sum())
    if short > 0.1 * len(alone):
        run.note(
            "flag",
            f"In {short} of {len(alone)} windows a worker alone had its CPU for less than 90% of the time.",
        )
