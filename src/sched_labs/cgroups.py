"""CPU control groups: make one, limit it, put processes in, read what the kernel counted, take it away again.

    with cgroups.group("service", quota_us=50_000) as limited, workloads.start("burn") as burn:
        limited.add(burn.pid)
        before = limited.counted()
        burn.run()
        print(limited.counted().since(before))

One interface for both versions, in the kernel's own units:

| here                    | v2                    | v1                                    |
| ----------------------- | --------------------- | ------------------------------------- |
| quota_us, period_us     | cpu.max               | cpu.cfs_quota_us, cpu.cfs_period_us   |
| burst_us (from 5.14)    | cpu.max.burst         | cpu.cfs_burst_us                      |
| weight (100 by default) | cpu.weight            | cpu.shares (1024 by default)          |
| counted()               | cpu.stat (in µs)      | cpu.stat (in ns)                      |
| pressure_us()           | cpu.pressure          | none                                  |
| cpus                    | cpuset.cpus           | cpuset.cpus in a hierarchy of its own |

Everything is inside one parent group, `sched-labs`, in the first place where this user may make groups.  A
group's name tells whose it is (process number and start time).  Should this program be killed, a guard that
sleeps at the end of a pipe takes its groups away; and the next run and `sched-labs clean` look once more.
Where a controller had to be switched on for our groups (v2), the parent's name says so (`sched-labs+cpu`),
and it is switched off with the last of them.

Source of names and limits: Documentation/admin-guide/cgroup-v2.rst and Documentation/scheduler/sched-bwc.rst.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .errors import ParameterError, PlacementError, ProbeError
from .machine import files
from .machine.cgroup import Hierarchy, hierarchy, lineage, place_for
from .machine.seen import Seen
from .workloads.launch import owner_mark

PARENT = "sched-labs"
PERIOD_US = 100_000  # what the kernel gives a new group
LEAST_US, LONGEST_PERIOD_US = 1_000, 1_000_000  # of quota and period, as the kernel has them
WEIGHT, SHARES = 100, 1024  # what a new group has, in v2's and in v1's scale
PARTITIONS = ("root", "isolated")
SLICE = "/proc/sys/kernel/sched_cfs_bandwidth_slice_us"

_REMOVED_WITHIN_S = 2.0  # a process that was killed leaves its group a moment later
_OURS = re.compile(r"(\d+)\.(\d+)-[a-z0-9-]+")
_WHO = (
    "Start the notebook with `systemd-run --user --scope`, or let scripts/provision.sh install the "
    "privileged helper."
)
_WHICH_PARTITION = (
    "Give the group CPUs that no other partition has, and leave some to everybody else; below the topmost "
    "group partitions came with Linux 6.7."
)
_WHY = {
    errno.EROFS: "it is mounted read-only",
    errno.EACCES: "this user may not write it",
    errno.EPERM: "this user may not write it",
    errno.EBUSY: "it is in use",
    errno.ESRCH: "that process has ended",
}


class Limit(NamedTuple):
    """What a group may use: quota_us (None: no limit) in every period_us, and burst_us saved up beyond it."""

    quota_us: int | None
    period_us: int
    burst_us: int


class Counted(NamedTuple):
    """What the kernel counted for a group.

    periods              in which the group had something to run under a quota
    throttled_periods    of them, those in which it ran out of quota
    throttled_ns         how long, summed over the CPUs that were held back
    bursts, burst_ns     periods that used saved-up quota, and how much; None before 5.14
    """

    periods: int
    throttled_periods: int
    throttled_ns: int
    bursts: int | None
    burst_ns: int | None

    def since(self, before: Counted) -> Counted:
        """What was added since an earlier look."""
        return Counted(
            *(
                None if now is None or then is None else now - then
                for now, then in zip(self, before, strict=True)
            )  # type: ignore[arg-type]
        )


class Group:
    """One group: its folder, and on v1 its folder in the cpuset hierarchy where it has CPUs of its own."""

    def __init__(self, path: str, version: str, cpuset_path: str | None = None) -> None:
        self.path = path
        self.version = version
        self.cpuset_path = path if version == "v2" else cpuset_path

    def __repr__(self) -> str:
        return f"<Group {self.path} ({self.version})>"

    @property
    def folders(self) -> list[str]:
        """Where a process has to be written to be in this group."""
        return list(dict.fromkeys(folder for folder in (self.path, self.cpuset_path) if folder))

    # ---- limits ----

    def limit(self, quota_us: int | None, period_us: int = PERIOD_US, burst_us: int = 0) -> None:
        """Let the group use `quota_us` of CPU time in every `period_us`; None takes the limit away.

        burst_us   how much unused quota it may save up for later periods, at most the quota; from kernel 5.14
        Raises ParameterError, naming the file and its range, and PlacementError for what the kernel refuses.
        """
        check_limit(quota_us, period_us, burst_us, self.version)
        burst = self._file("cpu.max.burst", "cpu.cfs_burst_us")
        if files.exists(burst):
            _write(burst, "0")  # the kernel refuses a quota below the burst that is set
        if self.version == "v2":
            _write(f"{self.path}/cpu.max", f"{'max' if quota_us is None else quota_us} {period_us}")
        else:
            # Each file is checked with the other's present value: without a quota any period passes.
            _write(f"{self.path}/cpu.cfs_quota_us", "-1")
            _write(f"{self.path}/cpu.cfs_period_us", str(period_us))
            if quota_us is not None:
                _write(f"{self.path}/cpu.cfs_quota_us", str(quota_us))
        if burst_us:
            _write(burst, str(burst_us))

    def read_limit(self) -> Limit:
        """The limit as the kernel has it."""
        burst = files.number(self._file("cpu.max.burst", "cpu.cfs_burst_us")) or 0
        if self.version == "v2":
            quota, period = _read(f"{self.path}/cpu.max").split()
        else:
            quota, period = _read(f"{self.path}/cpu.cfs_quota_us"), _read(f"{self.path}/cpu.cfs_period_us")
        return Limit(None if quota in ("max", "-1") else int(quota), int(period), burst)

    def weigh(self, weight: int) -> None:
        """How much of a busy CPU the group gets beside its neighbours, who have 100: 1 to 10,000."""
        if not 1 <= weight <= 10_000:
            raise ParameterError(
                f"{self._file('cpu.weight', 'cpu.shares')} takes a weight from 1 to 10,000, not {weight}.",
                f"A group without a weight has {WEIGHT}.",
            )
        if self.version == "v2":
            _write(f"{self.path}/cpu.weight", str(weight))
        else:
            _write(f"{self.path}/cpu.shares", str(max(2, round(weight * SHARES / WEIGHT))))

    def read_weight(self) -> int:
        """The weight in v2's scale."""
        if self.version == "v2":
            return int(_read(f"{self.path}/cpu.weight"))
        return round(int(_read(f"{self.path}/cpu.shares")) * WEIGHT / SHARES)

    def confine(self, cpus: Sequence[int]) -> None:
        """Let the group run on these CPUs only.  Raises PlacementError where it has no cpuset controller."""
        if not self.cpuset_path or not files.exists(f"{self.cpuset_path}/cpuset.cpus"):
            raise PlacementError(
                f"{self.path} has no cpuset controller.", "Make the group with cpus=, where it is mounted."
            )
        if not cpus:
            raise ParameterError(f"{self.cpuset_path}/cpuset.cpus takes at least one CPU.")
        _write(f"{self.cpuset_path}/cpuset.cpus", files.cpu_ranges(list(cpus)))

    def isolate(self) -> None:
        """Take the group's CPUs away from everybody else, and from load balancing: an isolated partition."""
        self.partition("isolated")

    def partition(self, kind: str) -> None:
        """Take the group's CPUs away from everybody else: as a "root", or "isolated" from load balancing too.

        The group has CPUs of its own already (`confine`).  Raises PlacementError, with the kernel's reason,
        on v1, on kernels that allow it only directly below the root group (before 6.7), beside isolcpus,
        and where others need the CPUs.
        """
        if kind not in PARTITIONS:
            raise ParameterError(
                f"cpuset.cpus.partition does not take {kind!r}.", f"Give one of: {', '.join(PARTITIONS)}."
            )
        if (files.read("/sys/devices/system/cpu/isolated") or "").strip():
            # Seen on Linux 6.12: the kernel can crash when partitions are made beside isolcpus.
            raise PlacementError(
                "This kernel was booted with isolcpus, and partitions do not go together with it.",
                "Boot without isolcpus.",
            )
        path = f"{self.cpuset_path}/cpuset.cpus.partition"
        if self.version != "v2" or not files.exists(path):
            raise PlacementError(
                "Partitions came with cgroup v2 and Linux 5.0, and the cgroups here have none.",
                "Boot a kernel that has them, with cgroup v2.",
            )
        cpus = _read(f"{self.path}/cpuset.cpus")
        for folder in (self.path.rpartition("/")[0], self.path):
            if files.exists(f"{folder}/cpuset.cpus.exclusive"):
                _write(f"{folder}/cpuset.cpus.exclusive", cpus)
        _write(path, kind)
        if (state := _read(path)) != kind:
            raise PlacementError(
                f"{path} does not take {kind!r} for CPUs {cpus}; it says: {state}.",
                _WHICH_PARTITION,
            )

    # ---- processes ----

    def add(self, pid: int) -> None:
        """Move a process with all its threads into the group; what it forks from now on is in it too."""
        for folder in self.folders:
            _write(f"{folder}/cgroup.procs", str(pid))

    def pids(self) -> list[int]:
        """The processes that are in the group."""
        return [int(word) for word in (files.read(f"{self.path}/cgroup.procs") or "").split()]

    # ---- what the kernel counted ----

    def counted(self) -> Counted:
        """The numbers of cpu.stat since the group was made, times in ns on both versions."""
        path = f"{self.path}/cpu.stat"
        return parse_counted(_read(path), path)

    def stat_fields(self) -> list[str]:
        """What this kernel calls the numbers in cpu.stat."""
        return [line.partition(" ")[0] for line in _read(f"{self.path}/cpu.stat").splitlines()]

    def pressure_us(self) -> dict[str, int] | None:
        """Time in µs in which some, or all, of the group's runnable threads waited for a CPU (cpu.pressure).

        None on v1, which has no pressure by group, and on kernels without it.
        """
        text = files.read(f"{self.path}/cpu.pressure")
        return parse_pressure(text) if text else None

    def _file(self, v2: str, v1: str) -> str:
        return f"{self.path}/{v2 if self.version == 'v2' else v1}"


def check_limit(quota_us: int | None, period_us: int, burst_us: int, version: str | None = None) -> None:
    """Raises ParameterError for a limit that no kernel takes, naming the file and its range.

    version   of control groups, whose files are named: v1 or v2; None: the one that steers the CPU here
    """
    if version is None:
        here = hierarchy(Seen(), "cpu")
        version = here.version if here else "v2"
    v2 = version == "v2"
    if not LEAST_US <= period_us <= LONGEST_PERIOD_US:
        raise ParameterError(
            f"{'cpu.max' if v2 else 'cpu.cfs_period_us'} takes a period from {LEAST_US:,} to "
            f"{LONGEST_PERIOD_US:,} µs, not {period_us:,}.",
            f"A group without one has {PERIOD_US:,} µs.",
        )
    if quota_us is not None and quota_us < LEAST_US:
        raise ParameterError(
            f"{'cpu.max' if v2 else 'cpu.cfs_quota_us'} takes a quota of {LEAST_US:,} µs or more, "
            f"not {quota_us:,}.",
            "Choose a longer period for a smaller share.",
        )
    if not 0 <= burst_us <= (quota_us or 0):
        raise ParameterError(
            f"{'cpu.max.burst' if v2 else 'cpu.cfs_burst_us'} takes 0 µs up to the quota "
            f"({'none is set' if quota_us is None else f'{quota_us:,} µs'}), not {burst_us:,}.",
        )


def parse_counted(text: str, path: str = "cpu.stat") -> Counted:
    """cpu.stat of either version.  Raises PlacementError for a file that counts no periods."""
    values = {}
    for line in text.splitlines():
        name, _, number = line.partition(" ")
        values[name] = int(number)
    try:
        micro = "throttled_usec" in values
        return Counted(
            values["nr_periods"],
            values["nr_throttled"],
            values["throttled_usec"] * 1000 if micro else values["throttled_time"],
            values.get("nr_bursts"),
            values["burst_usec"] * 1000 if "burst_usec" in values else values.get("burst_time"),
        )
    except KeyError as missing:
        raise PlacementError(
            f"{path} has no {missing.args[0]}.", "The cpu controller is not switched on for this group."
        ) from None


def parse_pressure(text: str) -> dict[str, int]:
    """A pressure file: {"some": µs, "full": µs} since the group was made, or since boot."""
    found = {}
    for line in text.splitlines():
        kind, _, rest = line.partition(" ")
        if total := re.search(r"total=(\d+)", rest):
            found[kind] = int(total[1])
    return found


def slice_us() -> int | None:
    """How much of its quota a group hands to a CPU at a time (sched_cfs_bandwidth_slice_us)."""
    return files.number(SLICE)


# ---- making and removing ----


def possible() -> tuple[bool, str]:
    """(True, "") where this user can make a group with a quota now, else (False, why not)."""
    try:
        with group("possible"):
            return True, ""
    except PlacementError as error:
        return False, str(error)


def can_burst() -> bool:
    """Whether a group can save quota up for later periods.  Raises PlacementError where none can be made."""
    with group("possible") as found:
        return files.exists(found._file("cpu.max.burst", "cpu.cfs_burst_us"))


@contextlib.contextmanager
def group(
    name: str,
    *,
    quota_us: int | None = None,
    period_us: int = PERIOD_US,
    burst_us: int = 0,
    weight: int | None = None,
    cpus: Sequence[int] | None = None,
    inside: Group | None = None,
) -> Iterator[Group]:
    """Make a group for one `with`; processes that are still in it at the end go back to where we are.

    name     letters, digits and hyphens
    weight   in v2's scale; None leaves the kernel's 100
    cpus     the CPUs that it may run on; on v1 that makes a second group, in the cpuset hierarchy
    inside   the group that it is made in, whose limits hold for it too; on v2 that one can hold no processes

    Raises ParameterError for a limit that no kernel takes, and PlacementError, naming the file, for a group
    that exists, a read-only mount, a controller that is not there, and everything that the kernel refuses.
    """
    if not re.fullmatch(r"[a-z0-9-]+", name):
        raise ParameterError(f"A group cannot be called {name!r}.", "Use letters, digits and hyphens.")
    check_limit(quota_us, period_us, burst_us)
    _Guard.watch()
    _Loan.take()
    clear()
    homes = _homes()  # before anybody puts this very process into the group
    made: list[str] = []
    try:
        found = _make(name, inside, cpus is not None, made)
        if quota_us is not None or period_us != PERIOD_US:
            found.limit(quota_us, period_us, burst_us)
        if weight is not None:
            found.weigh(weight)
        if cpus is not None:
            found.confine(cpus)
        yield found
    finally:
        for folder in reversed(made):
            _remove(folder, homes)


def _make(name: str, inside: Group | None, with_cpus: bool, made: list[str]) -> Group:
    """The folders of a group; each goes into `made` as soon as it is there."""
    seen = Seen()
    full = f"{owner_mark().replace(':', '.')}-{name}"
    controllers = ("cpu", "cpuset") if with_cpus else ("cpu",)
    if inside:
        if inside.version == "v2":
            _switch_on(inside.path, controllers)
        made.append(_mkdir(f"{inside.path}/{full}"))
        found = Group(made[-1], inside.version)
        if with_cpus and found.version == "v1":
            found.cpuset_path = _make_v1_cpuset(seen, full, inside.cpuset_path, made)
        return found
    cpu = _steered(seen, "cpu")
    made.append(_mkdir_below(_parent(cpu, controllers), full, controllers if cpu.version == "v2" else ()))
    found = Group(made[-1], cpu.version)
    if with_cpus and cpu.version == "v1":
        found.cpuset_path = _make_v1_cpuset(seen, full, None, made)
    return found


def _make_v1_cpuset(seen: Seen, full: str, above: str | None, made: list[str]) -> str:
    """The same group in the cpuset hierarchy, with all the CPUs and memory of the one that it is in."""
    found = _steered(seen, "cpuset")
    if found.version != "v1":
        raise PlacementError(
            "The cpu controller is in a v1 hierarchy and cpuset in a v2 one.",
            "Boot with one version of control groups.",
            lacking=True,
        )
    parent = above or _parent(found, ("cpuset",))
    if above is None:
        with contextlib.suppress(FileExistsError):
            _mkdir_plain(parent)
        _inherit_cpus(parent)
    made.append(_mkdir(f"{parent}/{full}"))
    _inherit_cpus(made[-1])
    return made[-1]


def _inherit_cpus(folder: str) -> None:
    """A new v1 cpuset is empty, and takes no process before it has CPUs and memory nodes."""
    above = folder.rpartition("/")[0]
    for name in ("cpuset.cpus", "cpuset.mems"):
        if not files.read(f"{folder}/{name}"):
            _write(f"{folder}/{name}", _read(f"{above}/{name}"))


def _steered(seen: Seen, controller: str) -> Hierarchy:
    found = hierarchy(seen, controller)
    if found:
        return found
    mounted = ", ".join(f"{point} ({kind})" for _, point, kind, _ in seen.mounts if kind.startswith("cgroup"))
    raise PlacementError(
        f"No mounted hierarchy of control groups has the {controller} controller; mounted: "
        f"{mounted or 'none'}.",
        "Mount one, such as: mount -t cgroup2 none /sys/fs/cgroup.",
        lacking=True,
    )


def _parent(found: Hierarchy, controllers: Sequence[str]) -> str:
    """Where our parent group goes: its path, with what must be switched on above it in its name."""
    folder, missing, why = place_for(found, controllers)
    if folder is None:
        raise PlacementError(_no_place(found, why), _WHO, lacking=True)
    return f"{folder}/{PARENT}{''.join(f'+{name}' for name in missing)}"


def _no_place(found: Hierarchy, why: str) -> str:
    folder = found.group or found.mount
    with contextlib.suppress(FileNotFoundError):  # a recorded machine's tree may end above the group
        if os.statvfs(files.place(folder)).f_flag & os.ST_RDONLY:
            why = "it is mounted read-only"
    return f"No control group can be made in {folder} or above it: {why}."


def _mkdir_below(parent: str, full: str, controllers: Sequence[str]) -> str:
    """Make the group in its parent, and the parent too where it is not there (or was just taken away)."""
    for attempt in range(5):
        above, name = parent.rpartition("/")[::2]
        if switched := name.split("+")[1:]:
            _switch_on(above, switched)
        if not files.exists(parent):
            with contextlib.suppress(FileExistsError):
                _mkdir_plain(parent)
        try:
            _switch_on(parent, controllers)
            return _mkdir(f"{parent}/{full}")
        except (FileNotFoundError, PlacementError):
            if files.exists(parent) or attempt == 4:
                raise
    raise AssertionError("unreachable")


def _switch_on(folder: str, controllers: Sequence[str]) -> None:
    on = (files.read(f"{folder}/cgroup.subtree_control") or "").split()
    for name in controllers:
        if name not in on:
            _write(f"{folder}/cgroup.subtree_control", f"+{name}")


def _writable(path: str) -> Path:
    """The real place of a folder to be made.  Raises PlacementError where the one above it is read-only."""
    place = files.place(path)
    if place.parent.exists() and os.statvfs(place.parent).f_flag & os.ST_RDONLY:
        raise PlacementError(
            f"{path} cannot be made: {_WHY[errno.EROFS]}.", "Remount it, or leave the container that does so."
        )
    return place


def _mkdir_plain(path: str) -> None:
    """Raises PlacementError, but FileExistsError and FileNotFoundError as they are."""
    try:
        _writable(path).mkdir()
    except (FileExistsError, FileNotFoundError):
        raise
    except OSError as error:
        raise PlacementError(f"{path} cannot be made: {_reason(error)}.", _WHO) from error


def _mkdir(path: str) -> str:
    try:
        _mkdir_plain(path)
    except FileExistsError:
        raise PlacementError(
            f"The control group {path} exists already.", "Choose another name, or run `sched-labs clean`."
        ) from None
    return path


def _remove(folder: str, homes: dict[str, list[str]]) -> None:
    """Empty a group, its inner groups first, and take it away, and our parent with the last group in it."""
    for inner in files.names(folder):
        if files.is_folder(f"{folder}/{inner}"):
            _remove(f"{folder}/{inner}", homes)
    end = time.monotonic() + _REMOVED_WITHIN_S
    while True:
        _move_out(folder, homes)
        try:
            files.place(folder).rmdir()
            break
        except FileNotFoundError:
            break
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > end:
                raise PlacementError(
                    f"The control group {folder} cannot be removed: {_reason(error)}.",
                    "Run `sched-labs clean`.",
                ) from error
        time.sleep(0.005)
    above, _, name = folder.rpartition("/")[0].rpartition("/")
    if name.partition("+")[0] == PARENT:
        try:
            files.place(f"{above}/{name}").rmdir()
        except OSError:
            return  # another program's group is in it, or it has gone
        for controller in name.split("+")[1:]:
            with contextlib.suppress(PlacementError):  # somebody else uses it by now
                _write(f"{above}/cgroup.subtree_control", f"-{controller}")


def _move_out(folder: str, homes: dict[str, list[str]]) -> None:
    """Its processes go to where this program is, or to one of the groups above it that takes them."""
    places = [home for mount, line in homes.items() if folder.startswith(f"{mount}/") for home in line]
    for pid in (files.read(f"{folder}/cgroup.procs") or "").split():
        for home in places:
            try:
                _write(f"{home}/cgroup.procs", pid)
                break
            except PlacementError:
                continue  # it has ended, or this group takes no processes


def _homes() -> dict[str, list[str]]:
    """For each mounted hierarchy, where processes can go that leave a group of ours: this program's group and
    those above it.
    """
    seen = Seen()
    found = [hierarchy(seen, controller) for controller in ("cpu", "cpuset")]
    return {each.mount: lineage(each) for each in found if each}


# ---- what a killed program left ----


def left_behind() -> Iterator[tuple[str, bool]]:
    """(folder, whether the program that made it still runs) of every group of ours, deepest first."""
    found: dict[str, bool] = {}
    for parent in _parents():
        for name in files.names(parent):
            if not files.is_folder(f"{parent}/{name}"):
                continue
            mark = _OURS.fullmatch(name)
            found[f"{parent}/{name}"] = bool(mark) and _lives(int(mark[1]), mark[2])  # type: ignore[index]
    yield from found.items()


def _parents() -> list[str]:
    """Our parent groups, wherever they can be: in this process's line, and in the place for new groups."""
    seen, places = Seen(), []
    for controller in ("cpu", "cpuset"):
        if found := hierarchy(seen, controller):
            places += [*lineage(found), found.mount]
            if found.version == "v2":
                uid = os.getuid()
                places.append(f"{found.mount}/user.slice/user-{uid}.slice/user@{uid}.service")
    return [
        f"{place}/{name}"
        for place in dict.fromkeys(places)
        for name in files.names(place)
        if name.partition("+")[0] == PARENT and files.is_folder(f"{place}/{name}")
    ]


def _lives(pid: int, start: str) -> bool:
    try:
        return owner_mark(pid) == f"{pid}:{start}" and not _has_ended(pid)
    except OSError:
        return False


def _has_ended(pid: int) -> bool:
    """A process that was killed keeps its number until its parent asks how it ended."""
    return (files.read(f"/proc/{pid}/stat") or "").rpartition(")")[2].split()[:1] == ["Z"]


def clear(*, everything: bool = False) -> list[str]:
    """Remove the groups whose program has gone; sentences about what was removed and what was left alone.

    everything   also those of programs that run
    """
    said = []
    homes = _homes()
    for folder, lives in left_behind():
        if lives and not everything:
            said.append(f"Left alone: the control group {folder}, whose program is running.")
            continue
        try:
            _remove(folder, homes)
            said.append(f"Removed: the control group {folder}.")
        except PlacementError as error:
            said.append(f"Left alone: {error.what}")
    for parent in _parents():
        if not any(files.is_folder(f"{parent}/{name}") for name in files.names(parent)):
            with contextlib.suppress(PlacementError):
                _remove(parent, homes)
                said.append(f"Removed: the empty control group {parent}.")
    return said


class _Loan:
    """A group of this user's own, lent by the privileged helper where no other can be had; until the end."""

    _channel: Any = None
    _asked_by: int | None = None

    @classmethod
    def take(cls) -> None:
        """Ask for it, once in each program, if it is needed.  What cannot be lent is told by who needs it."""
        from .probes.channel import Channel  # which needs what only runs with a helper need

        if os.getuid() == 0 or (cls._asked_by == os.getpid() and not (cls._channel and cls._channel.ended)):
            return
        try:
            _parent(_steered(Seen(), "cpu"), ("cpu",))
            return
        except PlacementError:
            pass
        cls._asked_by, cls._channel = os.getpid(), None
        try:
            request = {
                "probe": "groups", "version": 3, "scope": "processes", "pids": [os.getpid()],
                "duration_s": 3600, "interval_s": 60,
            }  # fmt: skip
            cls._channel = Channel(request)
        except ProbeError:
            return  # not installed, or not for this user: then there is none
        atexit.register(cls._channel.close)


class _Guard:
    """A process that outlives this one by a moment: what a SIGKILL leaves behind, it takes away."""

    _CODE = (
        "import sys\n"
        "print(flush=True)\n"
        "if not sys.stdin.read():\n"
        "    sys.path.insert(0, sys.argv[1])\n"
        "    from sched_labs import cgroups\n"
        "    cgroups.sweep(int(sys.argv[2]))\n"
    )
    _of: int | None = None  # a forked child has groups, and so a guard, of its own

    @classmethod
    def watch(cls) -> None:
        """Start the guard, once in each program, and wait until it sleeps: it disturbs no measurement."""
        if cls._of == os.getpid():
            return
        home = str(Path(__file__).parents[1])
        guard = subprocess.Popen(
            [sys.executable, "-I", "-c", cls._CODE, home, str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # a notebook's server ends a kernel together with its process group
        )
        assert guard.stdout
        guard.stdout.readline()
        guard.stdout.close()
        cls._of = os.getpid()
        atexit.register(cls._dismiss, guard, os.getpid())

    @staticmethod
    def _dismiss(guard: subprocess.Popen[bytes], owner: int) -> None:
        """A program that ends by itself has left nothing: any word on the pipe says so."""
        if os.getpid() == owner:
            guard.communicate(b"bye")


def sweep(owner: int, *, within_s: float = 10.0) -> None:
    """Take away the groups of a program that has just been killed, as soon as the kernel has ended it."""
    end = time.monotonic() + within_s
    while any(f"/{owner}." in folder for folder, _ in left_behind()) and time.monotonic() < end:
        clear()
        time.sleep(0.05)


# ---- the kernel's files ----


def _read(path: str) -> str:
    text, why = files.look(path)
    if text is None:
        raise PlacementError(f"{path} cannot be read: {why}.", "Is the controller switched on here?")
    return text


def _write(path: str, text: str) -> None:
    """Write one of the kernel's files; never creates one."""
    try:
        handle = os.open(files.place(path), os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
        try:
            os.write(handle, text.encode())
        finally:
            os.close(handle)
    except OSError as error:
        remedy = ""
        if error.errno == errno.ENOENT and "burst" in path:
            remedy = "Saved-up quota came with kernel 5.14."
        elif error.errno == errno.EINVAL and "cfs_" in path:
            remedy = "On v1 a group may not have a larger share than the group that it is in."
        elif error.errno == errno.EINVAL and path.endswith("cpuset.cpus.partition"):
            remedy = _WHICH_PARTITION
        elif error.errno == errno.EINVAL and "cgroup.procs" in path:
            remedy = "A real-time thread cannot enter a group without cpu.rt_runtime_us."
        elif error.errno in (errno.EACCES, errno.EPERM):
            remedy = _WHO
        raise PlacementError(f"{path} does not take {text!r}: {_reason(error)}.", remedy) from error


def _reason(error: OSError) -> str:
    return _WHY.get(error.errno or 0, (error.strerror or str(error)).lower())
