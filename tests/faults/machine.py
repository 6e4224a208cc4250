"""What befalls a whole machine in the middle of a run: tried in a guest, whose machine is nobody's.

`play` is the guest's half.  Its kernel mounts cgroup v2 and nothing else.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from sched_labs.core.errors import SchedLabError
from sched_labs.limits.cgroups import leftovers
from sched_labs.topics.cgroup_throttling.quota import experiment as quota
from sched_labs.topics.context_switch.context_switch import experiment as ping_pong
from sched_labs.workloads.launch import MARKER, Workload

_GROUPS = Path("/sys/fs/cgroup")
_LAST_CPU = Path("/sys/devices/system/cpu/cpu1/online")
_DAY_S = 86_400.0


def _last_cpu(state: str) -> None:
    """Take the last CPU away, or give it back.

    The kernel is busy while a driver that starts has switched hotplug off (`cpu_hotplug_disable()`): again.
    """
    end = time.monotonic() + 10
    while True:
        try:
            _LAST_CPU.write_text(state)
            return
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > end:
                raise
        time.sleep(0.05)


def _cpu_goes() -> None:
    _last_cpu("0")


def _clock_is_set() -> None:
    time.clock_settime(time.CLOCK_REALTIME, time.time() - _DAY_S)


def _group_is_removed() -> None:
    for name, _ in leftovers.left_behind():
        group = Path(name)
        (group / "cgroup.kill").write_text("1")
        end = time.monotonic() + 10
        while group.exists() and time.monotonic() < end:
            with contextlib.suppress(OSError):
                group.rmdir()


FAULTS: dict[str, Callable[[], None]] = {
    "a CPU goes": _cpu_goes,
    "the clock is set": _clock_is_set,
    "its group is removed": _group_is_removed,
}
# Short ones: an emulated machine takes its time.
RUNS: dict[str, Callable[..., Any]] = {
    "quota.hog": partial(quota.hog, shares_percent=[50], trials=1),
    "context_switch": partial(ping_pong.matrix, mechanisms=["pipe"], between=["processes"], trials=1),
}


def play() -> dict[str, dict[str, Any]]:
    """Every fault in the middle of every run: how it ended, what is left; and how runs end after all that."""
    told = {
        f"{kind}: {fault}": _case(kind, fault)
        for kind in RUNS
        for fault in FAULTS
        if kind == "quota.hog" or fault != "its group is removed"
    }
    return told | {f"{kind}: nothing": {"ended": _run(kind)} for kind in RUNS}


def _case(kind: str, fault: str) -> dict[str, Any]:
    before, go = _switched_on(), Workload.go

    def befallen(self: Workload) -> None:
        Workload.go = go  # type: ignore[method-assign]
        go(self)
        FAULTS[fault]()

    Workload.go = befallen  # type: ignore[method-assign]
    try:
        ended = _run(kind)
    finally:
        Workload.go = go  # type: ignore[method-assign]
        _last_cpu("1")
        if fault == "the clock is set":
            time.clock_settime(time.CLOCK_REALTIME, time.time() + _DAY_S)
    left = [str(path) for path in _GROUPS.glob("**/sched-labs*")] + _marked()
    return {"ended": ended, "left": left, "groups": [before, _switched_on()]}


def _run(kind: str) -> list[str]:
    """What became of it: "result" and what it says that it lacks, "error" and its words, or "traceback"."""
    try:
        found = RUNS[kind](profile="tiny", save=False)
    except SchedLabError as error:
        return ["error", str(error)]
    except Exception:
        return ["traceback", traceback.format_exc()[-1500:]]
    return ["result", *(note.text for note in found.notes if note.level != "info")]


def _switched_on() -> dict[str, str]:
    return {
        str(file.parent): file.read_text().strip()
        for file in sorted(_GROUPS.glob("**/cgroup.subtree_control"))
    }


def _marked() -> list[str]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if int(entry.name) != os.getpid() and f"{MARKER}=".encode() in (entry / "environ").read_bytes():
                found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
    return found
