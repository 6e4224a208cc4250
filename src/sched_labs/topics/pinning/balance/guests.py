"""Who moved the hogs, on guests whose kernels count it: recorded runs of `balance.spread`, shipped with it.

Each was made by `run_experiment("balance.spread", KERNEL, …, cpus=…, append="schedstats=enable")` of
`sched_labs.kernels`.  The guests were emulated: who moved how many holds, and the times say little.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from sched_labs.core.result import Result, from_json

WORDS = {
    "newly idle": "by_a_cpu_going_idle",
    "idle": "by_or_for_an_idle_cpu",
    "busy": "by_a_busy_cpu",
    "running": "by_active_balance",
}


def runs() -> list[Result]:
    """The recorded runs, by kernel and number of CPUs."""
    files = sorted(Path(__file__).parent.glob("guest-*.json"))
    return [from_json(path.read_text(encoding="utf-8"), path.name) for path in files]


def movers() -> pd.DataFrame:
    """One row per guest and situation: how many threads were moved in one start, the mean over the starts.

    kernel, cpus, situation   of balance.spread
    by_a_cpu_going_idle, by_or_for_an_idle_cpu, by_a_busy_cpu, by_active_balance   threads moved in a start
                by each kind of balancing, of all programs (lb_gained and alb_pushed of /proc/schedstat)
    starts      behind it
    """
    tables = []
    for run in runs():
        counted = run.tables["movers"]
        means = counted.pivot_table(values="threads", index="situation", columns="by", sort=False)
        table = means.rename(columns=WORDS)[[*WORDS.values()]].rename_axis(columns=None)
        table.insert(0, "cpus", len(run.parameters["cpus"]))
        table.insert(0, "kernel", run.parameters["kernel"])
        tables.append(table.assign(starts=counted.trial.nunique()).reset_index())
    return pd.concat(tables, ignore_index=True)
