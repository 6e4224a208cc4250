"""Events counted around a measured region only: perf_event_open, in a group, for one thread.

    with perf.Group(["task-clock", "page-faults"]) as group:
        with group.counting():
            ...                     # the region
        counts = group.read()
    counts.value("page-faults"), counts.scaled

A workload counts for itself, because only it knows where its region begins: `arguments(names)` are what its
command line needs (workloads/src/perf.h), and `from_record` reads what it answers.  Hardware events count the
program's own code without the kernel, which is what an ordinary user may do; software events count all of it.

The grouping, scaling and reporting are tested with software events.  The hardware path was never run on a
machine with a PMU.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType

from .. import machine
from ..core.errors import ParameterError, ProbeError
from ..machine import files, syscalls
from ..machine.perf import EVENTS as HARDWARE
from ..workloads import Record

_SOFTWARE_TYPE = 1
SOFTWARE = {
    "task-clock": (_SOFTWARE_TYPE, 1),  # ns that the thread ran
    "page-faults": (_SOFTWARE_TYPE, 2),
    "context-switches": (_SOFTWARE_TYPE, 3),
    "cpu-migrations": (_SOFTWARE_TYPE, 4),
}
EVENTS: dict[str, tuple[int, int]] = HARDWARE | SOFTWARE
MOST = 8  # in one group, as in workloads/src/perf.h

# struct perf_event_attr: type, size, config, period, sample_type, read_format, flags; 64 bytes at first.
_ATTR, _ATTR_BYTES = "=IIQQQQQ16x", 64
_READ_FORMAT = 1 | 2 | 8  # total time enabled, total time running, group
_DISABLED, _EXCLUDE_KERNEL, _EXCLUDE_HV = 1 << 0, 1 << 5, 1 << 6
_CLOEXEC = 1 << 3
_ENABLE, _DISABLE, _WHOLE_GROUP = 0x2400, 0x2401, 1


@dataclass(frozen=True)
class Counts:
    """What a group counted in its region.

    values       event -> count, as the counters say
    enabled_ns   how long the group was switched on
    running_ns   how long it really had counters
    """

    values: Mapping[str, int]
    enabled_ns: int
    running_ns: int

    @property
    def scaled(self) -> bool:
        """Whether the group had to share its counters: then `value` is an estimate, and must be flagged."""
        return self.running_ns < self.enabled_ns

    def value(self, name: str) -> float:
        """The count for the whole region; scaled up where the group counted for a part of it only.

        NaN where it never had a counter.  Raises ParameterError for an event that is not in the group.
        """
        if name not in self.values:
            raise ParameterError(f"{name!r} was not counted.", f"There are: {', '.join(self.values)}.")
        if not self.scaled:
            return float(self.values[name])
        if not self.running_ns:
            return float("nan")
        return self.values[name] * self.enabled_ns / self.running_ns


class Group:
    """Events that are counted together, for one thread and not for those that it starts.

    tid   the thread; 0 is the calling one
    Raises ParameterError for an unknown event, ProbeError, with the reason, where one cannot be counted.
    """

    def __init__(self, names: Sequence[str], tid: int = 0) -> None:
        self.names = _known(names)
        self._fds: list[int] = []
        try:
            for name in self.names:
                self._fds.append(_open(name, tid, self._fds[0] if self._fds else -1))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Group:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count while the `with` lasts.  Regions add up."""
        fcntl.ioctl(self._fds[0], _ENABLE, _WHOLE_GROUP)
        try:
            yield
        finally:
            fcntl.ioctl(self._fds[0], _DISABLE, _WHOLE_GROUP)

    def read(self) -> Counts:
        """What was counted so far."""
        size = 8 * (3 + len(self.names))
        count, enabled, running, *values = struct.unpack(
            f"={3 + len(self.names)}Q", os.read(self._fds[0], size)
        )
        assert count == len(self.names)
        return Counts(dict(zip(self.names, values, strict=True)), enabled, running)

    def close(self) -> None:
        """Give the counters back.  Harmless a second time."""
        while self._fds:
            os.close(self._fds.pop())


def _known(names: Sequence[str]) -> list[str]:
    if isinstance(names, str) or not names or len(set(names)) != len(names) or len(names) > MOST:
        raise ParameterError(
            f"{names!r} is no group of events.", f"Give a list of 1 to {MOST} different ones."
        )
    if unknown := [name for name in names if name not in EVENTS]:
        raise ParameterError(f"There is no event {unknown[0]!r}.", f"There are: {', '.join(EVENTS)}.")
    return list(names)


def _open(name: str, tid: int, leader: int) -> int:
    kind, config = EVENTS[name]
    flags = (
        _EXCLUDE_HV | (0 if kind == _SOFTWARE_TYPE else _EXCLUDE_KERNEL) | (_DISABLED if leader < 0 else 0)
    )
    packed = struct.pack(_ATTR, kind, _ATTR_BYTES, config, 0, 0, _READ_FORMAT, flags)
    attr = ctypes.create_string_buffer(packed, _ATTR_BYTES)
    try:
        return syscalls.call("perf_event_open", attr, tid, -1, leader, _CLOEXEC)
    except OSError as error:
        raise refused(name, error.errno or 0) from error


def refused(name: str, code: int) -> ProbeError:
    """Why an event cannot be counted, and what would help, from the error that perf_event_open gave."""
    level = files.number("/proc/sys/kernel/perf_event_paranoid")
    if code in (errno.EACCES, errno.EPERM):
        kernel = EVENTS.get(name, (0, 0))[0] == _SOFTWARE_TYPE
        return ProbeError(
            f"The event {name} may not be counted: perf_event_paranoid is {level}"
            + (", and this event happens in the kernel." if kernel else "."),
            f"`sudo sysctl kernel.perf_event_paranoid={1 if kernel else 2}` allows it until the next boot; a "
            "container's filter may forbid it all the same.",
        )
    if code in (errno.ENOENT, errno.EOPNOTSUPP, errno.ENODEV, errno.EINVAL):
        return ProbeError(
            f"The event {name} cannot be counted here: this processor, or the hypervisor, does not offer it.",
            "Bare metal has counters, and some hypervisors pass them on to their guests.",
        )
    if code == errno.ENOSYS:
        return ProbeError(f"The event {name} cannot be counted: this kernel has no perf_event_open.")
    if code in (errno.EMFILE, errno.ENFILE, errno.EBUSY):
        return ProbeError(f"The event {name} cannot be counted now: {os.strerror(code)}.", "Try again later.")
    return ProbeError(f"The event {name} cannot be counted: {os.strerror(code)}.")


# ---- for workloads that count for themselves ----


def offered(wanted: Sequence[str]) -> list[str]:
    """Those of these events that really count on this machine, as the survey tried them."""
    counting = machine.survey().fact("pmu.events").value
    return [name for name in _known(wanted) if isinstance(counting, list) and name in counting]


def arguments(names: Sequence[str]) -> list[str]:
    """What a workload's command line needs in order to count these events around its measured region."""
    return [
        word
        for name in (_known(names) if names else [])
        for word in ("--event", f"{name}:{EVENTS[name][0]}:{EVENTS[name][1]}")
    ]


def from_record(record: Record) -> Counts:
    """The counts of a workload's `events` record.  ProbeError, with the reason, where it could not count."""
    if "failed" in record.values:
        raise refused(record.text("failed"), record["errno"])
    values = {name: record[name] for name in record.values if name not in ("enabled_ns", "running_ns")}
    return Counts(values, record["enabled_ns"], record["running_ns"])
