"""Every switch, wake-up and system call of a few processes, for recordings that ship with the book.

For those who keep the book: it needs root and the system's BCC, and says how many events found no room.
Readers' own programs are watched by `sched_labs.probes`, through its privileged helper.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import struct
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ...core.errors import ProbeError
from ...probes import channel
from ...probes.helper import btf

EVENTS = 1 << 15  # for each CPU
KINDS = ("switch", "waking", "wakeup", "enter", "leave")
_HERE = Path(__file__).parent
_HELPER = _HERE.parents[1] / "probes" / "helper"
_POINTS = {"on_switch": "sched_switch", "on_waking": "sched_waking", "on_wakeup": "sched_wakeup"}
_CALLS = {"on_enter": "sys_enter", "on_leave": "sys_exit"}


class Trace:
    """What was seen: `events`, by time: (ns, cpu, kind, tid, other, state); `lost`, for want of room."""

    def __init__(self) -> None:
        self.events: list[tuple[int, int, str, int, int, int]] = []
        self.lost = 0


@contextlib.contextmanager
def record(pids: Sequence[int], *, calls: bool = True) -> Iterator[Trace]:
    """Watch processes until the `with` ends; then the trace is complete.

    calls  their system calls too

    Raises ProbeError without root or BCC, and in a container with process ids of its own.
    """
    if os.geteuid() != 0:
        raise ProbeError("Recording a trace needs root.", "Run it with sudo.", lacking=True)
    if not (able := channel.available()).ok:
        raise ProbeError(able.why, able.remedy, lacking=True)
    bcc = _bcc()
    os.environ["BCC_KERNEL_SOURCE"] = str(_HELPER / "headers")
    offset = _offsets()
    watched = "||".join(f"(pid)=={pid}" for pid in pids)
    cpus = (os.cpu_count() or 1) + 1
    defines = {**offset, "CPUS": cpus, "EVENTS": EVENTS, "WATCHED(pid)": f"({watched})"}
    bpf = bcc.BPF(src_file=str(_HERE / "trace.bpf.c"), cflags=[f"-D{k}={v}" for k, v in defines.items()])
    trace = Trace()
    for function, point in (_POINTS | (_CALLS if calls else {})).items():
        bpf.attach_raw_tracepoint(point.encode(), function.encode())
    try:
        yield trace
    finally:
        for point in (*_POINTS.values(), *(_CALLS.values() if calls else ())):
            bpf.detach_raw_tracepoint(point.encode())
        events = bpf[b"events"]
        for cpu in range(cpus):
            count = bpf[b"written"][ctypes.c_int(cpu)].value
            trace.lost += max(0, count - EVENTS)
            for place in range(min(count, EVENTS)):
                at, what, tid, other, state = struct.unpack(
                    "<QIIII", bytes(events[ctypes.c_int(cpu * EVENTS + place)])
                )
                trace.events.append((at, cpu, KINDS[what], tid, other, state))
        trace.events.sort()
        bpf.cleanup()


def _bcc() -> Any:
    place = Path("/usr/lib/python3/dist-packages/bcc/__init__.py")
    spec = importlib.util.spec_from_file_location(
        "bcc", place, submodule_search_locations=[str(place.parent)]
    )
    if not place.exists() or spec is None or spec.loader is None:
        raise ProbeError(
            "BCC is not installed for the system's Python.", "Install python3-bpfcc.", lacking=True
        )
    module = importlib.util.module_from_spec(spec)
    sys.modules["bcc"] = module
    spec.loader.exec_module(module)
    return module


def _offsets() -> dict[str, int]:
    """Where task_struct keeps what is read, by the helper's reader of BTF."""
    kernel = btf.Btf(Path(btf.PLACE).read_bytes())
    names = {"PID_OFFSET": b"pid", "TGID_OFFSET": b"tgid", "STATE_OFFSET": b"__state"}
    return {name: kernel.must(b"task_struct", field, (4, 8)) for name, field in names.items()}
