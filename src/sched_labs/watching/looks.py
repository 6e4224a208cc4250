"""What /proc, /sys and control groups say at one moment: of threads, of groups, of CPUs, of all others.

Nothing here needs privilege for one's own processes.  What cannot be read is None, never zero.  Sources:
Documentation/filesystems/proc.rst, admin-guide/cgroup-v2.rst, accounting/psi.rst.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from ..core.errors import PlacementError
from ..limits.cgroups import PERIOD_US, Counted, Group, Limit, parse_pressure
from ..machine import files
from ..machine.cgroup import hierarchy, lineage
from ..machine.seen import Seen
from .target import PF_KTHREAD, after_name, plain

TICK_NS = 10**9 // os.sysconf("SC_CLK_TCK")
REALTIME = {"1": "FIFO", "2": "RR", "6": "DEADLINE"}

# Where in the kernel a thread sleeps (/proc/PID/task/TID/wchan) -> what it waits for.
SLEEPS = {
    "lock or condition": ("futex", "rt_mutex"),
    "timer": ("nanosleep", "hrtimer"),
    "disk": (
        *("io_", "folio_wait", "wait_on_page", "bit_wait", "blk_", "bio", "rq_qos"),
        *("jbd2", "ext4", "xfs", "btrfs", "nfs"),
    ),
    "network or event": (
        *("epoll", "ep_poll", "poll", "select", "sk_", "skb", "sock", "tcp", "udp", "inet", "unix_"),
        "wait_woken",
    ),
    "pipe": ("pipe",),
    "child": ("do_wait", "wait4", "wait_consider", "vfork", "kernel_clone"),
    "signal": ("sigsuspend", "sigtimedwait", "pause"),
}
OTHER_SLEEP = "an unknown reason"
UNINTERRUPTIBLE = "something uninterruptible"
_FUTEX_CALLS = {"x86_64": "202", "aarch64": "98"}
# glibc waits for a mutex with FUTEX_WAIT (0) or FUTEX_LOCK_PI (6, 13), else with FUTEX_WAIT_BITSET.  Others
# (Go's runtime, musl) wait for work with FUTEX_WAIT too.
_MUTEX_OPERATIONS = (0, 6, 13)
_GLIBC = re.compile(r"/(libc|libpthread)(\.so\.\d|-2\.\d+\.so)$")


@dataclass(frozen=True)
class Thread:
    """What the kernel has counted for a thread since it began; times in ns."""

    pid: int
    tid: int
    name: str
    at_ns: int
    began_ns: int  # on the same clock, in ticks of 10 ms
    run_ns: int
    wait_ns: int
    voluntary: int
    involuntary: int
    minor_faults: int
    major_faults: int
    system_ns: int
    migrations: int | None
    cpu: int
    policy: str
    nice: int
    state: str
    allowed: tuple[int, ...]


def threads(pids: Iterable[int]) -> dict[tuple[int, int], Thread]:
    """Every thread of these processes; those that end meanwhile are left out."""
    found = {}
    for pid in pids:
        for name in files.names(f"/proc/{pid}/task"):
            if thread := _thread(pid, int(name)):
                found[pid, int(name)] = thread
    return found


def _thread(pid: int, tid: int) -> Thread | None:
    folder = f"/proc/{pid}/task/{tid}"
    words, text = after_name(f"{folder}/stat"), files.read(f"{folder}/status")
    scheduled = (files.read(f"{folder}/schedstat") or "").split()
    at_ns = time.monotonic_ns()
    # A thread may end between two of the files.
    if not words or not text or len(scheduled) != 3 or words[0] in "ZX":
        return None
    status = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
    moved = re.search(r"nr_migrations\s*:\s*(\d+)", files.read(f"{folder}/sched") or "")
    return Thread(
        pid=pid,
        tid=tid,
        name=plain(status["Name"]),
        at_ns=at_ns,
        began_ns=at_ns - max(0, time.clock_gettime_ns(time.CLOCK_BOOTTIME) - int(words[19]) * TICK_NS),
        run_ns=int(scheduled[0]),
        wait_ns=int(scheduled[1]),
        voluntary=int(status.get("voluntary_ctxt_switches", 0)),
        involuntary=int(status.get("nonvoluntary_ctxt_switches", 0)),
        minor_faults=int(words[7]),
        major_faults=int(words[9]),
        system_ns=int(words[12]) * TICK_NS,
        migrations=int(moved[1]) if moved else None,
        cpu=int(words[36]),
        policy=words[38],
        nice=int(words[16]),
        state=words[0],
        allowed=tuple(files.cpu_list(status.get("Cpus_allowed_list"))),
    )


def sleep_of(thread: Thread) -> str | None:
    """What a sleeping thread waits for, one of SLEEPS or OTHER_SLEEP; None for one that does not sleep.

    A thread may be woken between two of the files: then they tell of no sleep, and not of an unknown one.
    """
    if thread.state not in "SD":
        return None
    folder = f"/proc/{thread.pid}/task/{thread.tid}"
    where = files.read(f"{folder}/wchan") or ""
    for kind, marks in SLEEPS.items():
        if any(mark in where for mark in marks):
            return _lock_or_condition(thread.pid, folder) if marks[0] == "futex" else kind
    # Of others' threads it is never told.
    if where in ("", "0") and (after_name(f"{folder}/stat") or "R")[0] not in "SD":
        return None
    return UNINTERRUPTIBLE if thread.state == "D" else OTHER_SLEEP


def _lock_or_condition(pid: int, folder: str) -> str | None:
    """Which of both, from the arguments of the system call; it takes the right to trace the process."""
    words = (files.read(f"{folder}/syscall") or "").split()
    if words == ["running"]:
        return None
    if len(words) != 9 or words[0] != _FUTEX_CALLS.get(os.uname().machine):
        return "lock or condition"
    if not _in_glibc(pid, int(words[8], 16)):
        return "lock or condition"
    return "lock" if int(words[2], 16) & 0x7F in _MUTEX_OPERATIONS else "condition"


@functools.lru_cache(maxsize=4096)  # a program waits in few places, and a look at all mappings is dear
def _in_glibc(pid: int, address: int) -> bool:
    """Whether the code at an address of a process is glibc's, as a library."""
    for line in (files.read(f"/proc/{pid}/maps") or "").splitlines():
        first, _, last = line.partition(" ")[0].partition("-")
        if int(first, 16) <= address < int(last, 16):
            return bool(_GLIBC.search(line))
    return False


def timer_slack_ns(tid: int) -> int | None:
    """By how much a thread's timers may be late; None where only root is told."""
    text = files.read(f"/proc/{tid}/timerslack_ns") or ""
    return int(text) if text.strip().isdigit() else None


@dataclass(frozen=True)
class GroupLook:
    """A control group of the cpu controller: its limit and weight, and what was counted for it."""

    path: str  # as /proc/PID/cgroup has it
    quota_us: int | None
    period_us: int
    weight: int | None
    counted: Counted | None
    pressure_us: int | None
    top: bool

    @property
    def cpus(self) -> float | None:
        """How many CPUs the limit is worth."""
        return None if self.quota_us is None else self.quota_us / self.period_us


def groups(pids: Iterable[int]) -> dict[str, str]:
    """{folder: version} of the groups that these processes are in, and of those around them."""
    found: dict[str, str] = {}
    for pid in {group_name(pid): pid for pid in pids}.values():
        if (here := hierarchy(Seen(), "cpu", pid)) and here.group is not None:
            found |= dict.fromkeys(lineage(here), here.version)
    return found


def group(folder: str, version: str) -> GroupLook:
    """One group now.  The topmost of v2 has neither limit nor counters."""
    here = hierarchy(Seen(), "cpu")
    mount = here.mount if here else ""
    one = Group(folder, version)
    limit: Limit | None = None
    counted: Counted | None = None
    weight: int | None = None
    pressure: dict[str, int] | None = None
    with contextlib.suppress(PlacementError):
        limit, counted = one.read_limit(), one.counted()
    with contextlib.suppress(PlacementError):
        weight = one.read_weight() if folder != mount else None
    with contextlib.suppress(PlacementError):
        pressure = one.pressure_us()
    return GroupLook(
        folder.removeprefix(mount) or "/",
        limit.quota_us if limit else None,
        limit.period_us if limit else PERIOD_US,
        weight,
        counted,
        (pressure or {}).get("some"),
        folder == mount,
    )


def group_name(pid: int) -> str:
    """The path of a process's group of the cpu controller, "" where there is none in sight."""
    here = hierarchy(Seen(), "cpu", pid)
    return "" if here is None or here.group is None else here.group.removeprefix(here.mount) or "/"


def weight_of(pid: int) -> int | None:
    """The weight of the group that a process is in, in v2's scale; None for the topmost."""
    here = hierarchy(Seen(), "cpu", pid)
    if here is None or here.group is None or here.group == here.mount:
        return None
    return group(here.group, here.version).weight


def autogroup(pid: int) -> tuple[str, int] | None:
    """(the session's group, its nice value); None where the kernel makes none, or has switched them off."""
    if files.read("/proc/sys/kernel/sched_autogroup_enabled") != "1":
        return None
    words = (files.read(f"/proc/{pid}/autogroup") or "").split()
    return (words[0].lstrip("/"), int(words[2])) if len(words) == 3 else None


@dataclass(frozen=True)
class Cpu:
    """What one CPU did since the start, in ns, in ticks of 10 ms."""

    user_ns: int
    system_ns: int
    idle_ns: int
    irq_ns: int
    softirq_ns: int
    steal_ns: int


def cpus() -> dict[int, Cpu]:
    """Every CPU that is on.  Interrupts are counted apart only where the kernel times them."""
    found = {}
    for line in (files.read("/proc/stat") or "").splitlines():
        name, *words = line.split()
        if name.startswith("cpu") and name != "cpu" and len(words) >= 8:
            user, nice, system, idle, iowait, irq, softirq, steal = (
                int(word) * TICK_NS for word in words[:8]
            )
            found[int(name[3:])] = Cpu(user + nice, system, idle + iowait, irq, softirq, steal)
    return found


def pressure_us() -> int | None:
    """How long some runnable thread of the machine waited for a CPU, since the start."""
    text = files.read("/proc/pressure/cpu")
    return parse_pressure(text).get("some") if text else None


@dataclass(frozen=True)
class Process:
    """A process of the machine, whoever's it is: what it used since it began, in ticks of 10 ms."""

    pid: int
    name: str
    start: str
    run_ns: int
    kernel: bool
    policy: str
    nice: int
    threads: int


def processes() -> dict[int, Process]:
    """Every process that we may see."""
    found = {}
    for name in files.names("/proc"):
        if not name.isdigit():
            continue
        text = files.read(f"/proc/{name}/stat")
        if text:
            head, _, rest = text.rpartition(")")
            words = rest.split()
            found[int(name)] = Process(
                int(name),
                plain(head.partition("(")[2]),
                words[19],
                (int(words[11]) + int(words[12])) * TICK_NS,
                bool(int(words[6]) & PF_KTHREAD),
                words[38],
                int(words[16]),
                int(words[17]),
            )
    return found


def is_ours(pid: int) -> bool:
    """Whether all of a process may be read by us: it is our user's, or we are root."""
    ids = re.search(r"^Uid:\t(\d+)\t(\d+)", files.read(f"/proc/{pid}/status") or "", re.MULTILINE)
    return os.geteuid() == 0 or ids is None or {int(one) for one in ids.groups()} == {os.geteuid()}


def busiest_thread(pid: int) -> Thread | None:
    """The thread of a process that has used the CPU most; it tells policy, nice value and CPUs."""
    own = threads([pid]).values()
    return max(own, key=lambda thread: thread.run_ns, default=None)


@dataclass
class Look:
    """All of it at one moment.  `folders`: groups that are looked at even where no process is in them."""

    pids: list[int]
    folders: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.threads = threads(self.pids)
        self.at_ns = time.monotonic_ns()
        self.cpus = cpus()
        self.pressure_us = pressure_us()
        self.folders = self.folders | groups(self.pids)
        looked = (group(folder, version) for folder, version in self.folders.items())
        self.groups = {look.path: look for look in looked}
        sessions = (autogroup(pid) for pid in self.pids)
        self.session = next((session[0] for session in sessions if session), "")
        self.processes = processes()
