"""Schedulers that a reader writes (sched_ext), run in guests.

from sched_labs import scheduler
result = scheduler.run("mine.bpf.c")         # a light sleeper among hogs, in virtual time
result.summary(); result.plot()              # who waited how long; the timeline
result.data                                  # every decision: who, when, from which queue
scheduler.run(None)                          # the same under the kernel's own scheduler
scheduler.bout(["mine.bpf.c"]).table()       # six workloads against the kernel's own
"""

from __future__ import annotations

import importlib
from typing import Any

_WHERE = {
    "CONTESTS": "contests",
    "EXAMPLES": "compile",
    "INCLUDE": "compile",
    "Bout": "bouts",
    "SchedulerError": "errors",
    "Trial": "trial",
    "bout": "bouts",
    "compare": "bouts",
    "new": "starter",
    "recorded": "record",
    "recorded_bout": "record",
    "run": "trial",
}

__all__ = list(_WHERE)


def __getattr__(name: str) -> Any:
    # On demand: a command that only asks for its options needs none of it.
    if name not in _WHERE:
        raise AttributeError(f"module 'sched_labs.schedulers' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_WHERE[name]}"), name)
    globals()[name] = value
    return value
