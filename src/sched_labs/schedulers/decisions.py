"""From the recorder's bytes to a table of who had the CPU when, and from which queue."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np
import pandas as pd

# struct record of include/recorder.h
_RECORD = np.dtype(
    [
        ("time_ns", "<u8"), ("queue", "<u8"), ("slice_ns", "<u8"), ("vtime", "<u8"),
        ("what", "<u4"), ("cpu", "<i4"), ("pid", "<i4"), ("before", "<i4"), ("comm", "S16"),
    ]
)  # fmt: skip
MOST = 16384
_WOKE, _QUEUED, _SWITCHED = 1, 2, 3
_BUILT_IN = {1 << 63 | 1: "global", 1 << 63 | 2: "local"}
COLUMNS = (
    "start_us", "cpu", "thread", "pid", "after", "waited_us", "queue", "slice_us", "vtime", "ran_us", "then",
)  # fmt: skip


def table(packed: str) -> pd.DataFrame:
    """One row for each time that a thread got a CPU, in that order.

    - start_us: when, since the record began, in the guest's time
    - cpu, thread, pid: who, where
    - after: "wake-up" or "preemption": what it had waited since
    - waited_us: for how long; missing for what waited since before the record
    - queue: from which queue; "local" and "global" are the kernel's; missing under its own scheduler
    - slice_us, vtime: for how long it might run and its place in the queue's order, as it was queued last
    - ran_us: how long it had the CPU; missing where the record ends first
    - then: "slept" or "runnable"

    The idle thread has no rows: where a CPU has none, it was idle.
    """
    records = np.frombuffer(zlib.decompress(base64.b85decode(packed)), dtype=_RECORD)
    rows: list[dict[str, Any]] = []
    running: dict[int, dict[str, Any]] = {}  # by CPU
    ready: dict[int, tuple[float, str]] = {}  # since when, after what, by pid
    queued: dict[int, tuple[str, float, float]] = {}
    began = int(records["time_ns"][0]) if len(records) else 0
    for one in records:
        now_us, pid = (int(one["time_ns"]) - began) / 1e3, int(one["pid"])
        if one["what"] == _WOKE:
            ready[pid] = (now_us, "wake-up")
        elif one["what"] == _QUEUED:
            queue = int(one["queue"])
            queued[pid] = (
                _BUILT_IN.get(queue, str(queue)),
                float(one["slice_ns"]) / 1e3,
                float(one["vtime"]),
            )
        else:
            cpu, runnable = int(one["cpu"]), bool(one["queue"])
            before = running.pop(cpu, None)
            if before:
                before["ran_us"] = now_us - before["start_us"]
                before["then"] = "runnable" if runnable else "slept"
            if runnable and one["before"]:
                ready[int(one["before"])] = (now_us, "preemption")
            if pid:
                since_us, after = ready.pop(pid, (float("nan"), "before"))
                queue_name, slice_us, vtime = queued.get(pid, (None, float("nan"), float("nan")))
                name = one["comm"].decode(errors="replace")
                running[cpu] = {
                    "start_us": now_us, "cpu": cpu, "thread": name, "pid": pid,
                    "after": after, "waited_us": now_us - since_us, "queue": queue_name, "slice_us": slice_us,
                    "vtime": vtime, "ran_us": float("nan"), "then": None,
                }  # fmt: skip
                rows.append(running[cpu])
    return pd.DataFrame(rows, columns=list(COLUMNS))
