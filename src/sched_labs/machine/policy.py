"""Which scheduling policies this user may set: each is tried on a thread that ends with the try."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator

from . import cgroup, files, syscalls
from .facts import NOT_LOOKED, Fact, look
from .seen import Seen

_CAP_SYS_NICE = 23
_OTHER, _FIFO, _RR, _BATCH, _IDLE, _DEADLINE = 0, 1, 2, 3, 5, 6
_SLICE_NS = 3_000_000


def _on_a_thread(attempt: Callable[[], bool]) -> tuple[bool, OSError | None]:
    """Run an attempt on a thread of its own; its policy ends with it."""
    outcome: list[tuple[bool, OSError | None]] = []

    def run() -> None:
        try:
            outcome.append((attempt(), None))
        except OSError as error:
            outcome.append((False, error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if not outcome:
        raise RuntimeError("a policy was tried and the attempt did not answer")
    return outcome[0]


def _set(policy: int, priority: int = 0) -> bool:
    os.sched_setscheduler(0, policy, os.sched_param(priority))
    return os.sched_getscheduler(0) == policy


def _set_deadline() -> bool:
    wish = syscalls.SchedAttr(
        syscalls.SCHED_ATTR_BYTES, _DEADLINE, 0, 0, 0, 1_000_000, 10_000_000, 10_000_000
    )
    syscalls.call("sched_setattr", 0, wish, 0)
    return True


def _raise_nice() -> bool:
    thread = threading.get_native_id()
    before = os.getpriority(os.PRIO_PROCESS, thread)
    if before == -20:
        return True
    os.setpriority(os.PRIO_PROCESS, thread, before - 1)
    return os.getpriority(os.PRIO_PROCESS, thread) == before - 1


def _set_slice() -> bool:
    """Ask for a slice of our own: EEVDF from 6.12 on grants it; older kernels take the call and ignore it."""
    attr = syscalls.SchedAttr()
    syscalls.call("sched_getattr", 0, attr, syscalls.SCHED_ATTR_BYTES, 0)
    attr.sched_policy, attr.sched_flags, attr.sched_runtime = _OTHER, 0, _SLICE_NS
    attr.sched_deadline = attr.sched_period = attr.sched_priority = 0
    syscalls.call("sched_setattr", 0, attr, 0)
    syscalls.call("sched_getattr", 0, attr, syscalls.SCHED_ATTR_BYTES, 0)
    return int(attr.sched_runtime) == _SLICE_NS


_TRIES: dict[str, Callable[[], bool]] = {
    "policy.fifo": lambda: _set(_FIFO, 1),
    "policy.rr": lambda: _set(_RR, 1),
    "policy.deadline": _set_deadline,
    "policy.batch": lambda: _set(_BATCH),
    "policy.idle": lambda: _set(_IDLE),
    "policy.nice_negative": _raise_nice,
    "policy.slice": _set_slice,
}


@look(
    {
        "policy.fifo": "SCHED_FIFO",
        "policy.rr": "SCHED_RR",
        "policy.deadline": "SCHED_DEADLINE",
        "policy.batch": "SCHED_BATCH",
        "policy.idle": "SCHED_IDLE",
        "policy.nice_negative": "a better nice value than now",
        "policy.slice": "a slice of one's own (sched_setattr)",
    }
)
def look_policies(seen: Seen) -> Iterator[Fact]:
    for key, attempt in _TRIES.items():
        if not seen.live:
            yield Fact(key, None, "", "", NOT_LOOKED)
            continue
        works, error = _on_a_thread(attempt)
        why = _why(key, error, seen) if error else "" if works else "the kernel takes the wish and ignores it"
        yield Fact(key, works, "", "tried on a thread of its own", why)


def _why(key: str, error: OSError, seen: Seen) -> str:
    if error.errno == errno.EBUSY:
        return "the kernel has no bandwidth left to promise (deadline admission control)"
    if error.errno in (errno.ENOSYS, errno.EINVAL):
        return "this kernel or container does not offer it"
    if error.errno not in (errno.EPERM, errno.EACCES):
        return (error.strerror or str(error)).lower()
    privileged = seen.capable(_CAP_SYS_NICE)
    if key == "policy.nice_negative":
        return "needs CAP_SYS_NICE or a higher RLIMIT_NICE"
    if key == "policy.deadline":
        narrow = "its CPUs are fewer than the machine's, or a container's filter forbids it"
        return narrow if privileged else "needs CAP_SYS_NICE; no limit can stand in for it"
    if key in ("policy.fifo", "policy.rr"):
        if not privileged and not _rtprio(seen):
            return "needs CAP_SYS_NICE, or a limit RLIMIT_RTPRIO above 0 (see limits.conf)"
        runtime, where = _rt_runtime(seen)
        if runtime == 0:
            return f"RT_GROUP_SCHED: {where} is 0: no real-time task in this group, not even root's"
        if seen.configured("RT_GROUP_SCHED"):
            return "RT_GROUP_SCHED is built in and this group was given no real-time runtime"
    return "not permitted here; a container's filter may forbid it"


def _rtprio(seen: Seen) -> int | None:
    """The soft limit of the real-time priority, None where the kernel does not tell."""
    for line in (files.read("/proc/self/limits") or "").splitlines():
        if line.startswith("Max realtime priority"):
            soft = line.split()[3]
            return 99 if soft == "unlimited" else int(soft)
    return None


def _rt_runtime(seen: Seen) -> tuple[int | None, str]:
    """(real-time runtime of this process's cpu group in µs, its file); None where groups have none."""
    found = cgroup.hierarchy(seen, "cpu")
    path = f"{found.group}/cpu.rt_runtime_us" if found and found.group else "cpu.rt_runtime_us"
    return files.number(path) if found and found.group else None, path


@look(
    {
        "policy.rtprio_limit": "RLIMIT_RTPRIO",
        "policy.cap_sys_nice": "CAP_SYS_NICE",
        "policy.rt_group_sched": "RT_GROUP_SCHED",
        "policy.rt_group_runtime_us": "real-time runtime of this process's group",
    }
)
def look_limits(seen: Seen) -> Iterator[Fact]:
    limit = _rtprio(seen)
    yield Fact("policy.rtprio_limit", limit, "", "/proc/self/limits", "" if limit is not None else "not told")
    nice = seen.capable(_CAP_SYS_NICE)
    yield Fact(
        "policy.cap_sys_nice", nice, "", "/proc/self/status (CapEff)", "" if nice is not None else "not told"
    )
    runtime, where = _rt_runtime(seen)
    built = True if runtime is not None else seen.configured("RT_GROUP_SCHED")
    why = "" if built is not None else "only the kernel's configuration or a v1 cpu group tells"
    yield Fact(
        "policy.rt_group_sched", built, "", where if runtime is not None else seen.config_path or "", why
    )
    why = "" if runtime is not None else "this group has no such file"
    yield Fact("policy.rt_group_runtime_us", runtime, "us", where, why)
