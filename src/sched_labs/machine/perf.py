"""Hardware counters: which events really count. perf may open an event that then never counts, so we try."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import time
from collections.abc import Iterator

from . import files, syscalls
from .facts import NOT_LOOKED, Fact, look
from .seen import Seen

_PARANOID = "/proc/sys/kernel/perf_event_paranoid"

_HARDWARE, _SOFTWARE, _HW_CACHE = 0, 1, 3


def _cache(which: int, result: int) -> int:
    """A read of a cache (L1D 0, last level 2, data TLB 3) that hit or missed (access 0, miss 1)."""
    return which | 0 << 8 | result << 16


# perf's names -> (type, config), from include/uapi/linux/perf_event.h.
EVENTS = {
    "cycles": (_HARDWARE, 0),
    "instructions": (_HARDWARE, 1),
    "cache-references": (_HARDWARE, 2),
    "cache-misses": (_HARDWARE, 3),
    "branches": (_HARDWARE, 4),
    "branch-misses": (_HARDWARE, 5),
    "L1-dcache-loads": (_HW_CACHE, _cache(0, 0)),
    "L1-dcache-load-misses": (_HW_CACHE, _cache(0, 1)),
    "LLC-loads": (_HW_CACHE, _cache(2, 0)),
    "LLC-load-misses": (_HW_CACHE, _cache(2, 1)),
    "dTLB-load-misses": (_HW_CACHE, _cache(3, 1)),
}

_EXCLUDE_KERNEL_AND_HV = 1 << 5 | 1 << 6
_READ_TIMES = 1 | 2  # PERF_FORMAT_TOTAL_TIME_ENABLED | _RUNNING


def count(kind: int, config: int, *, user_only: bool = True, sleep: bool = False) -> tuple[int | None, str]:
    """Count one event over a little work of this thread: (count, "") or (None, why it does not)."""
    # struct perf_event_attr, first published size: type, size, config, period, sample, read_format, flags.
    flags = _EXCLUDE_KERNEL_AND_HV if user_only else 0
    fields = struct.pack("=IIQQQQQ16x", kind, 64, config, 0, 0, _READ_TIMES, flags)
    attr = ctypes.create_string_buffer(fields, 64)
    try:
        fd = syscalls.call("perf_event_open", attr, 0, -1, -1, 0)
    except OSError as error:
        return None, _why(error)
    try:
        if sleep:
            time.sleep(0.0002)
        else:
            _work()
        value, enabled, running = struct.unpack("=QQQ", os.read(fd, 24))
    except OSError as error:
        return None, _why(error)
    finally:
        os.close(fd)
    if value:
        return value, ""
    if enabled and not running:
        return None, "opens, but no counter was free for it"
    return None, "opens, but does not count"


def _work() -> int:
    """A little of everything that the events count: branches, and a walk over 1 MiB, beyond what L1 holds."""
    block = bytearray(1 << 20)
    return sum(block[:: 1 << 9]) + sum(i & 3 for i in range(2000))


def _why(error: OSError) -> str:
    if error.errno in (errno.ENOENT, errno.EOPNOTSUPP, errno.ENODEV, errno.EINVAL):
        return "this processor, or the hypervisor, does not offer it"
    if error.errno in (errno.EACCES, errno.EPERM):
        return "not permitted: perf_event_paranoid or a container's filter forbids it"
    if error.errno == errno.ENOSYS:
        return "this kernel or container has no perf_event_open"
    return (error.strerror or str(error)).lower()


@look(
    {
        "pmu.available": "hardware counters (PMU)",
        "pmu.events": "hardware events that really count",
        "pmu.missing": "hardware events that do not count",
        "pmu.name": "PMUs that the kernel shows",
        "pmu.paranoid": "perf_event_paranoid",
        "pmu.context_switches": "perf counts context switches for this user",
    }
)
def look_counters(seen: Seen) -> Iterator[Fact]:
    source = "perf_event_open, then counting a little work"
    if not seen.live:
        for key in ("pmu.available", "pmu.events", "pmu.missing", "pmu.context_switches"):
            yield Fact(key, None, "", "", NOT_LOOKED)
    else:
        tried = {name: count(*event) for name, event in EVENTS.items()}
        counting = [name for name, (value, _) in tried.items() if value]
        missing = [name for name, (value, _) in tried.items() if not value]
        reasons = "; ".join(dict.fromkeys(why for value, why in tried.values() if not value))
        # Cycles are what every PMU counts; one that answers anything else only is still one.
        yield Fact("pmu.available", bool(counting), "", source, "" if counting else reasons)
        yield Fact("pmu.events", counting, "", source)
        yield Fact("pmu.missing", missing, "", source, reasons)
        switches, why = count(_SOFTWARE, 3, user_only=False, sleep=True)
        yield Fact("pmu.context_switches", bool(switches), "", "perf_event_open, then a short sleep", why)
    devices = files.names("/sys/bus/event_source/devices")
    cpus = [d for d in devices if d.startswith(("cpu", "arm")) or d.endswith("_pmu")]
    none = "" if cpus else "the kernel shows no PMU of the processor"
    yield Fact("pmu.name", ", ".join(cpus) or "none", "", "/sys/bus/event_source/devices", none)
    level, why = files.number(_PARANOID), files.look(_PARANOID)[1]
    remarks = {
        2: "user code of one's own processes only",
        3: "nothing without privilege",
        4: "nothing without privilege",
    }
    remark = why or (remarks.get(level, "") if level is not None else "not a number")
    yield Fact("pmu.paranoid", level, "", _PARANOID, remark)
