"""Does a switch take longer when more threads are ready to run?  A crowd that yields on one CPU (lab L05).

CFS kept the thread that is next at hand and paid for putting threads into its tree; EEVDF searches the
tree for the next one.  Both grow with the logarithm of the number of ready threads.  Here so many threads are
always ready on one CPU, and each gives way after every step; the time per switch is then the kernel's work,
plus what the crowd's own stacks and records displace from the caches.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from sched_labs import machine, workloads
from sched_labs.core import stats
from sched_labs.core.errors import ParameterError, ThreadLimitError
from sched_labs.core.result import Result
from sched_labs.run import starts
from sched_labs.run.base import Instrument, Run, experiment
from sched_labs.steer import placement

MOST_THREADS = 1024  # the workload's own limit
FEWEST_YIELDS = 20  # of each thread, so that its start and its end are a small part


def summarise(result: Result) -> pd.DataFrame:
    """One row per size of the crowd; medians over trials.

    threads                    how many are ready to run, all on one CPU
    switch_ns, switch_lo_ns, switch_hi_ns   from one switch to the next, with its system call; 95 % interval
    switches_per_yield         as the kernel counted them
    floor_ns                   what one trial differs from the next by, with the smallest crowd
    trials
    """
    data = result.data.assign(each_ns=lambda d: d.elapsed_ns / d.switches.where(d.switches > 0))
    smallest = data[data.threads == data.threads.min()].each_ns.dropna()
    floor = stats.noise_floor(smallest) if len(smallest) else float("inf")
    rows = []
    for threads, part in data.groupby("threads", sort=True):
        each = part.each_ns.dropna()
        if each.empty:
            continue
        rows.append(
            {
                "threads": int(str(threads)),
                **stats.spread("switch", "ns", each),
                "switches_per_yield": float((part.switches / part.yields).median()),
                "floor_ns": floor,
                "trials": len(each),
            }
        )
    return pd.DataFrame(rows)


def instrument(survey: machine.Machine) -> Instrument:
    """The threads' own clocks and the kernel's counts."""
    return Instrument("time per counted switch (getrusage)")


@experiment("crowd.switch", summarise=summarise, instrument=instrument, workloads=("yielder",))
def switch(
    run: Run, *, threads: Sequence[int] | None = None, trials: int | None = None, yields: int | None = None
) -> None:
    """Let crowds of several sizes yield on one CPU, and divide their time by the switches counted.

    threads   how many yield, each from 2 to 1,024; default: by profile
    trials    how often each crowd is measured, each time with new threads; the crowds take turns
    yields    calls of the whole crowd in a trial, at least 20 of each thread

    Data: one row per crowd and trial: threads, yields (of all threads), switches (of all, as getrusage counts
    them) and elapsed_ns, the time from the start of the crowd to its end, median over its threads.
    """
    usual = run.choose(tiny=[2, 16], quick=[2, 8, 32, 128, 512], full=[2**n for n in range(1, 11)])
    crowds = usual if threads is None else list(threads)
    trials = run.choose(tiny=3, quick=6, full=15) if trials is None else trials
    yields = run.choose(tiny=1000, quick=20_000, full=100_000) if yields is None else yields
    if not crowds or any(not isinstance(n, int) or not 2 <= n <= MOST_THREADS for n in crowds):
        raise ParameterError(
            f"threads does not take {threads!r}.", f"Give a list of numbers from 2 to {MOST_THREADS:,}."
        )
    if trials < 1 or not 1 <= yields <= 1_000_000:
        raise ParameterError(
            "trials start at 1, and yields lie between 1 and 1,000,000.",
            "Leave them out to use the profile's.",
        )
    home = placement.quiet_cpu()
    run.begin()
    run.parameters |= {"threads": crowds, "trials": trials, "yields": yields, "cpu": home}
    too_many: set[int] = set()
    for trial, count in starts.each(run, crowds, trials, label=lambda count: f"{count} threads"):
        if count in too_many:
            continue
        of_each = max(FEWEST_YIELDS, yields // count)
        arguments = ["--threads", str(count), "--yields", str(of_each), "--trials", "1"]
        try:
            with workloads.start("yielder", arguments, deadline_s=60) as yielder:
                placement.pin(yielder.tids, [home])
                records = [r for r in yielder.run() if r.text("condition") == "together"]
        except ThreadLimitError:
            too_many.add(count)
            run.note(
                "missing", f"{count} threads may not be started here (pids.max or a limit of processes)."
            )
            continue
        run.add(
            [
                {
                    "threads": count,
                    "trial": trial,
                    "yields": of_each * count,
                    "switches": sum(r["voluntary"] + r["involuntary"] for r in records),
                    "elapsed_ns": float(pd.Series([r["elapsed_ns"] for r in records]).median()),
                }
            ]
        )
