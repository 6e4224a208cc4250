"""A collection of switch benchmarks, replayed: what it assumes, and what the kernel counts (lab L06).

The collection is tsuna/contextswitch (B. Sigoure, 2010): timesyscall, timectxsw, timetctxsw and timetctxsw2,
run by its cpubench.sh in three settings of CPU affinity.  The loops are written anew here.  They do the same
things in the same order, under the normal policy; the settings are those that the script really makes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import product

import pandas as pd

from sched_labs import machine, workloads
from sched_labs.core import stats
from sched_labs.core.errors import ParameterError
from sched_labs.core.result import Result
from sched_labs.machine import files
from sched_labs.run import checks, starts
from sched_labs.run.base import Instrument, Run, experiment
from sched_labs.steer import placement

LOOPS = ("system_call", "process_futex", "thread_futex", "thread_yield")
AFFINITIES = ("none", "affinity", "cpu_0")
FEWEST_SWITCHES = 0.1  # in one iteration; with fewer there is nothing to divide by
# Of a loop in one start; their median leaves out the first, in which the kernel may still be placing threads.
TURNS = 3
# An iteration of the futex loops takes so long that fewer will do; the others need some hundredths of a
# second before the kernel has had time to spread two busy threads over the CPUs.
ITERATIONS = {
    "tiny": {"futex": 30, "other": 300},
    "quick": {"futex": 600, "other": 20_000},
    "full": {"futex": 5_000, "other": 100_000},
}


def summarise(result: Result) -> pd.DataFrame:
    """One row per loop and setting.

    loop, affinity                  see `counted`
    cpus                            the CPUs that both sides really could use, as the kernel writes a list
    last_cpu                        the last CPU of this machine
    assumed_per_iteration           operations in one iteration, as the collection divides
    counted_per_iteration           switches in one iteration, as the kernel counted them for both sides
    published_ns, published_lo_ns, published_hi_ns   time / assumed operations: median over trials of the
                                    median over a trial's turns, 95 % interval
    counted_ns, counted_lo_ns, counted_hi_ns   time / counted switches, of the turns that had some; missing
                                    where most turns had hardly any
    trials
    """
    data = result.data.assign(switches=lambda d: d.voluntary_switches + d.involuntary_switches)
    rows = []
    for (loop, affinity), cell in data.groupby(["loop", "affinity"], sort=False):
        per_iteration = cell.switches / cell.iterations
        some = per_iteration.median() >= FEWEST_SWITCHES
        switching = cell[per_iteration >= FEWEST_SWITCHES]
        per_switch = _by_trial(switching, switching.elapsed_ns / switching.switches)
        counted = stats.median_interval(per_switch) if some else None
        rows.append(
            {
                "loop": loop,
                "affinity": affinity,
                "cpus": cell.cpus.iloc[0],
                "last_cpu": result.facts["last_cpu"],
                "assumed_per_iteration": float((cell.assumed_operations / cell.iterations).iloc[0]),
                "counted_per_iteration": float(per_iteration.median()),
                **stats.spread("published", "ns", _by_trial(cell, cell.elapsed_ns / cell.assumed_operations)),
                **stats.in_columns("counted", "ns", counted),
                "trials": cell.trial.nunique(),
            }
        )
    return pd.DataFrame(rows)


def _by_trial(cell: pd.DataFrame, values: pd.Series) -> pd.Series:
    return values.groupby(cell.trial).median()


def instrument(survey: machine.Machine) -> Instrument:
    """Wall clock and the kernel's own switch counts."""
    return Instrument("clock and counted switches (getrusage)")


@experiment("loops.counted", summarise=summarise, instrument=instrument, workloads=("loops",))
def counted(
    run: Run,
    *,
    loops: Sequence[str] = LOOPS,
    affinities: Sequence[str] = AFFINITIES,
    trials: int | None = None,
    iterations: int | None = None,
) -> None:
    """Run the loops of the collection, and count the switches that it only assumes.

    loops       system_call    timesyscall: gettid
                process_futex  timectxsw: two processes, a futex and yields
                thread_futex   timetctxsw: the same between two threads
                thread_yield   timetctxsw2: two threads that yield
    affinities  none           "No CPU affinity": every CPU that this process may use
                affinity       "With CPU affinity": the CPU whose number is that of sockets, less one
                cpu_0          "With CPU affinity to CPU 0": every CPU of NUMA node 0
    trials      how often each loop is started in each setting, as a collection's programs are; it runs three
                turns
    iterations  of one turn; default: by profile, more of them where one is short

    Data: one row per trial and turn: cpus (the mask read back from both threads), iterations,
    assumed_operations, elapsed_ns, voluntary_switches and involuntary_switches of both sides together.
    The fact last_cpu is the last CPU of this machine.
    """
    trials = run.choose(tiny=3, quick=5, full=15) if trials is None else trials
    for what, chosen, known in (("loops", loops, LOOPS), ("affinities", affinities, AFFINITIES)):
        checks.words(what, chosen, known)
    if trials < 1 or (iterations is not None and iterations < 1):
        raise ParameterError("trials and iterations start at 1.", "Leave them out to use the profile's.")
    survey = machine.survey()
    masks = _masks(run, survey, affinities)
    last = max(cpu.number for cpu in survey.cpus)
    run.begin()
    run.parameters |= {"trials": trials}
    run.facts |= {"last_cpu": last}

    cells = product(masks, loops)
    for trial, (affinity, loop) in starts.each(
        run, cells, trials, label=lambda cell: f"{cell[1]}, {cell[0]}".replace("_", " ")
    ):
        count = iterations or ITERATIONS[run.profile]["futex" if "futex" in loop else "other"]
        arguments = ["--loop", loop, "--trials", str(TURNS), "--iterations", str(count)]
        with workloads.start("loops", arguments, deadline_s=120) as workload:
            placement.pin(workload.tids, masks[affinity])
            cpus = {files.cpu_ranges(sorted(os.sched_getaffinity(tid))) for tid in workload.tids}
            blocks = workload.run()
        run.add(
            [
                {
                    "loop": loop,
                    "affinity": affinity,
                    "cpus": " / ".join(sorted(cpus)),
                    "trial": trial,
                    "turn": block["trial"],
                    "iterations": block["iterations"],
                    "assumed_operations": block["assumed"],
                    "elapsed_ns": block["elapsed_ns"],
                    "voluntary_switches": block["voluntary"],
                    "involuntary_switches": block["involuntary"],
                }
                for block in blocks
            ]
        )


def _masks(run: Run, survey: machine.Machine, affinities: Sequence[str]) -> dict[str, list[int]]:
    """The CPUs that the script's three settings mean on this machine, without those we may not use."""
    sockets = survey.fact("cpu.sockets").value
    node_0 = [cpu for node in survey.nodes if node.number == 0 for cpu in node.cpus]
    meant = {
        "none": list(survey.cpus_allowed),
        "affinity": [sockets - 1] if isinstance(sockets, int) else [],
        "cpu_0": node_0,
    }
    masks = {}
    for affinity in affinities:
        cpus = [cpu for cpu in meant[affinity] if cpu in survey.cpus_allowed]
        if cpus:
            masks[affinity] = cpus
        else:
            run.note(
                "missing",
                f"The setting {affinity!r} means CPUs {meant[affinity] or 'that nothing here names'}; this "
                "process may use none of them, so it was left out.",
            )
    if not masks:
        raise ParameterError(
            "None of these settings means a CPU that this process may use.", "Add the affinity none."
        )
    return masks
