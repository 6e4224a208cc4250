"""What does a hand-over cost inside one thread, and what through the kernel?  (lab L15)"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pandas as pd

from sched_labs import machine, workloads
from sched_labs.core import stats
from sched_labs.core.errors import ParameterError, WorkloadError
from sched_labs.core.result import Result
from sched_labs.run import languages
from sched_labs.run.base import Instrument, Run, experiment
from sched_labs.steer import placement

IN_C = ("call", "stack", "ucontext")
IN_KERNEL = ("pipe", "futex")
_PYTHON = Path(__file__).with_name("python_hops.py")


def summarise(result: Result) -> pd.DataFrame:
    """One row per way to hand over.

    by                       call (a function call: nothing is handed over), stack, ucontext, greenlet,
                             asyncio, go_1 and go_2 (channels, one and two of Go's processors), futex, pipe
    ns_per_hop, ns_lo_per_hop, ns_hi_per_hop   wall time: median over trials, 95 % interval
    floor_ns                 what two trials differ by without a cause
    kernel_switches_per_hop, kernel_switches_lo_per_hop, kernel_switches_hi_per_hop   as counted
    times_stack              how many hops of our stack switch one such hop lasts; missing without it
    trials
    """
    rows = []
    data = result.data.assign(
        per_hop=lambda d: d.elapsed_ns / d.hops,
        switches=lambda d: (d.voluntary_switches + d.involuntary_switches) / d.hops,
    )
    own = data[data["by"] == "stack"].per_hop.median()
    for by, part in data.groupby("by", sort=False):
        time, switches = stats.median_interval(part.per_hop), stats.median_interval(part.switches)
        rows.append(
            {
                "by": by,
                **stats.in_columns("ns", "per_hop", time),
                "floor_ns": stats.noise_floor(part.per_hop),
                **stats.in_columns("kernel_switches", "per_hop", switches),
                "times_stack": time.median / own if own else np.nan,
                "trials": len(part),
            }
        )
    return pd.DataFrame(rows)


def instrument(survey: machine.Machine) -> Instrument:
    """Wall clock and counted switches; Go beside the others where it is installed."""
    if languages.missing("go"):
        return Instrument("clock and counted switches", "go would add its channels")
    return Instrument("clock and counted switches, Go's channels too")


@experiment("hops.compared", summarise=summarise, instrument=instrument, workloads=("hops", "pingpong"))
def compared(run: Run, *, trials: int | None = None, hops: int | None = None) -> None:
    """Hand a turn back and forth inside one thread in several ways, and through the kernel.

    trials  how often each way is measured
    hops    of the stack switch in a trial; slower ways make fewer, so that each lasts about as long

    All are pinned to one CPU, but for Go and Python, which stay where the scheduler puts them.  The ways
    follow each other, in starts of their own; half of the trials of futex and pipe come last.
    Data: one row per way and trial: by, trial, hops, elapsed_ns, cpu_ns, voluntary_switches and
    involuntary_switches (of the whole process; of both sides for futex and pipe).
    """
    trials = run.choose(tiny=3, quick=9, full=25) if trials is None else trials
    hops = run.choose(tiny=20_000, quick=500_000, full=10_000_000) if hops is None else hops
    if trials < 1 or not 1000 <= hops <= 1_000_000_000:
        raise ParameterError(
            f"{trials} trials of {hops} hops cannot be measured.",
            "Give 1 or more, of 1,000 to 1,000,000,000.",
        )
    run.begin()
    run.parameters |= {"trials": trials, "hops": hops, "cpu": placement.quiet_cpu()}
    # The kernel's ways are what others are compared with: half of their trials before these, half after.
    earlier, later = range((trials + 1) // 2), range((trials + 1) // 2, trials)
    ways: dict[str, Callable[[], None]] = {
        "in C": lambda: _c(run, trials, hops),
        "through the kernel": lambda: _kernel(run, earlier, hops),
        "Python": lambda: _python(run, trials, hops),
        "Go": lambda: _go(run, trials, hops),
        "through the kernel again": lambda: _kernel(run, later, hops),
    }
    for name in run.each(ways, label=str):
        ways[name]()


def _c(run: Run, trials: int, hops: int) -> None:
    with workloads.start("hops", ["--trials", str(trials), "--hops", str(hops)], deadline_s=300) as one:
        placement.pin(one.tids, [placement.quiet_cpu()])
        run.add(_rows(one.run()))


def _kernel(run: Run, trials: range, hops: int) -> None:
    trips = max(hops // 400, 50)
    for mechanism in IN_KERNEL if trials else ():
        arguments = ["--by", mechanism, "--trials", str(len(trials)), "--round-trips", str(trips)]
        with workloads.start("pingpong", arguments, deadline_s=300) as pingpong:
            placement.pin(pingpong.tids, [placement.quiet_cpu()])
            blocks = [block for block in pingpong.run() if block.text("condition") == "exchange"]
        run.add(
            [
                {
                    "by": mechanism,
                    "trial": trials[block["trial"]],
                    "hops": 2 * block["round_trips"],
                    "elapsed_ns": block["elapsed_ns"],
                    "cpu_ns": block["cpu_ns"],
                    "voluntary_switches": block["voluntary"],
                    "involuntary_switches": block["involuntary"],
                }
                for block in blocks
            ]
        )


def _python(run: Run, trials: int, hops: int) -> None:
    command = [sys.executable, str(_PYTHON), str(trials), str(max(hops // 50, 100))]
    found = _rows(languages.run(command, deadline_s=300))
    if "greenlet" not in set(found["by"]):
        run.note("missing", "greenlet was not measured: `pip install greenlet` adds it.")
    run.add(found)


def _go(run: Run, trials: int, hops: int) -> None:
    if languages.missing("go"):
        run.note("missing", "Go's channels were not measured: go is not installed.")
        return
    try:
        command = [*languages.go(Path(__file__).with_name("hops.go")), str(trials), str(max(hops // 20, 100))]
        run.add(_rows(languages.run(command, deadline_s=300)))
    except WorkloadError as error:
        run.note("missing", f"Go's channels were not measured: {error.what}")


def _rows(records: Iterable[workloads.Record]) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "by": record.text("by"),
                "trial": record["trial"],
                "hops": record["hops"],
                "elapsed_ns": record["elapsed_ns"],
                "cpu_ns": record["cpu_ns"],
                "voluntary_switches": record["voluntary"],
                "involuntary_switches": record["involuntary"],
            }
            for record in records
        ]
    )
