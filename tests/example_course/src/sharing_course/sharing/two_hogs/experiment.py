"""How is one CPU shared between a thread and a nicer one?"""

from __future__ import annotations

import os
from collections.abc import Sequence

import pandas as pd

from sched_labs import machine, workloads
from sched_labs.core.errors import ParameterError
from sched_labs.core.result import Result
from sched_labs.core.stats import spread
from sched_labs.run import starts
from sched_labs.run.base import Instrument, Run, experiment
from sched_labs.steer import placement

STEP = 1.25  # for each unit of difference in nice values, see sched(7)


def summarise(result: Result) -> pd.DataFrame:
    """One row per nice value of the second thread; medians over trials and 95 % intervals.

    nice
    share_percent, share_lo_percent, share_hi_percent   what it got of the CPU time of both
    weights_percent   what it gets where each step of nice counts 1.25 times
    trials
    """
    share = 100 * result.data.second_ns / (result.data.first_ns + result.data.second_ns)
    return pd.DataFrame(
        [
            {
                "nice": nice,
                **spread("share", "percent", part),
                "weights_percent": 100 / (1 + STEP ** int(str(nice))),
                "trials": len(part),
            }
            for nice, part in share.groupby(result.data.nice)
        ]
    )


def instrument(survey: machine.Machine) -> Instrument:
    """The threads' own CPU time."""
    return Instrument("CPU time of both threads")


@experiment("two_hogs.shares", summarise=summarise, instrument=instrument, workloads=("two_hogs",))
def shares(
    run: Run,
    *,
    nices: Sequence[int] = (0, 5, 10),
    trials: int | None = None,
    duration_ms: int | None = None,
) -> None:
    """Let two threads compute on one CPU, the second one at several nice values.

    nices        of the second thread; the first one is at 0
    trials       how often, each time in a new start of the program; default: by profile
    duration_ms  how long both compute; default: by profile

    Data: one row per trial and nice value: nice, trial, first_ns and second_ns, the CPU time of the threads.
    """
    trials = run.choose(tiny=2, quick=9, full=15) if trials is None else trials
    duration_ms = run.choose(tiny=60, quick=200, full=1000) if duration_ms is None else duration_ms
    if not nices or not all(0 <= nice <= 19 for nice in nices):
        raise ParameterError(f"nices does not take {nices!r}.", "Give a list of numbers from 0 to 19.")
    cpu = placement.quiet_cpu()
    run.begin()
    run.parameters |= {"trials": trials, "duration_ms": duration_ms, "cpu": cpu}
    for trial, nice in starts.each(run, nices, trials, label=lambda nice: f"nice {nice}"):
        with workloads.start("two_hogs", ["--duration-ms", str(duration_ms)]) as program:
            placement.pin(program.tids, [cpu])
            os.setpriority(os.PRIO_PROCESS, program.tids[1], nice)
            first, second = program.run()
        row = {"nice": nice, "trial": trial, "first_ns": first["cpu_ns"], "second_ns": second["cpu_ns"]}
        run.add([row])
