"""The same waits on other kernels: recorded guests, shipped with the experiment.

Each was made by `run_experiment("holder.waits", KERNEL, {"trials": 12}, "vm-emulated")` of
`sched_labs.kernels`.  The guests were emulated: their times hold from some milliseconds up.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from sched_labs.core.result import Result, from_json

SITUATIONS = ("mutex", "mutex, quota", "file", "file, quota")


def runs() -> list[Result]:
    """The recorded runs, oldest kernel first."""
    folder = Path(__file__).parent
    files = {path.stem.removeprefix("guest-"): path for path in folder.glob("guest-*.json")}
    oldest_first = sorted(files, key=lambda kernel: [int(part) for part in kernel.split(".")])
    return [
        from_json(files[kernel].read_text(encoding="utf-8"), files[kernel].name) for kernel in oldest_first
    ]


def waits() -> pd.DataFrame:
    """One row per kernel: what one wait in ten takes at least (p90), without and with a quota on the holder.

    kernel, mutex_ms, mutex_quota_ms, file_ms, file_quota_ms
    """
    rows = []
    for run in runs():
        p90 = run.summary().set_index("situation").p90_ns / 1e6
        columns = {f"{name.replace(', ', '_')}_ms": p90[name] for name in SITUATIONS}
        rows.append({"kernel": run.parameters["kernel"], **columns})
    return pd.DataFrame(rows)
