"""Control groups: which version steers the CPU, where, and whether this user can make one."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import files
from .facts import NOT_LOOKED, Fact, look
from .seen import Seen

TRIAL = "sched-labs-look-"
"""How the empty group is called that a survey makes and takes away again; the process number follows."""

WANTED = {"cpu": ("cpu.max", "cpu.cfs_quota_us"), "cpuset": ("cpuset.cpus",)}
"""One of these files tells that a group has the controller."""


@dataclass(frozen=True)
class Hierarchy:
    """Where one controller is steered. `group` is a process's folder, None where it is out of sight."""

    version: str  # "v1" or "v2"
    mount: str
    group: str | None


def hierarchy(seen: Seen, controller: str, process: int | str = "self") -> Hierarchy | None:
    """The mounted hierarchy that has a controller (cpu, cpuset, memory), None where none has it.

    Its group is that of a process, by default our own.
    """
    own = {}
    for line in (files.read(f"/proc/{process}/cgroup") or "").splitlines():
        _, names, path = [*line.split(":", 2), "", ""][:3]
        for name in names.split(","):
            own[name] = path
    for root, point, kind, options in seen.mounts:
        if kind == "cgroup" and controller in options.split(","):
            return Hierarchy("v1", point, group_folder(root, point, own.get(controller)))
    for root, point, kind, _ in seen.mounts:
        if kind == "cgroup2" and controller in (files.read(f"{point}/cgroup.controllers") or "").split():
            return Hierarchy("v2", point, group_folder(root, point, own.get("")))
    return None


def group_folder(root: str, point: str, path: str | None) -> str | None:
    """Where the group `path` of /proc/self/cgroup is, in a mount at `point` that shows only `root`."""
    if path is None or path.startswith("/.."):
        return None
    root = root.rstrip("/")
    if root and not (path == root or path.startswith(root + "/")):
        return None
    return f"{point}{path[len(root) :]}".rstrip("/")


def lineage(found: Hierarchy) -> list[str]:
    """The group's folder and those above it, up to the mount."""
    if found.group is None:
        return [found.mount]
    folders, folder = [], found.group
    while folder.startswith(found.mount):
        folders.append(folder)
        if folder == found.mount:
            break
        folder = folder.rpartition("/")[0]
    return folders


@look(
    {
        "cgroup.version": "control groups steering the CPU",
        "cgroup.controllers": "controllers",
        "cgroup.cpu_mount": "where the cpu controller is",
        "cgroup.cpu_group": "this process's group there",
        "cgroup.cpuset_mount": "where the cpuset controller is",
        "cgroup.task_group": "where this process's nice values count",
        "cgroup.cpu_limit": "CPU quota on this process",
        "cgroup.memory_limit_bytes": "memory limit on this process",
    }
)
def look_groups(seen: Seen) -> Iterator[Fact]:
    cpu, cpuset = hierarchy(seen, "cpu"), hierarchy(seen, "cpuset")
    source = "/proc/self/mountinfo"
    kinds = {kind for _, _, kind, _ in seen.mounts if kind in ("cgroup", "cgroup2")}
    none = "no control groups are mounted" if not kinds else "no mounted hierarchy has the cpu controller"
    remark = (
        "a v2 hierarchy is mounted beside it" if cpu and cpu.version == "v1" and "cgroup2" in kinds else ""
    )
    yield Fact("cgroup.version", cpu.version if cpu else None, "", source, remark if cpu else none)
    yield Fact("cgroup.controllers", controllers(seen), "", source, "" if kinds else none)
    yield Fact("cgroup.cpu_mount", cpu.mount if cpu else None, "", source, "" if cpu else none)
    hidden = "the group is outside of what this container sees" if cpu else none
    group = cpu.group if cpu else None
    yield Fact("cgroup.cpu_group", group, "", "/proc/self/cgroup", "" if group else hidden)
    none = "no mounted hierarchy has the cpuset controller"
    yield Fact("cgroup.cpuset_mount", cpuset.mount if cpuset else None, "", source, "" if cpuset else none)
    yield task_group(cpu)
    yield cpu_limit(cpu)
    yield memory_limit(hierarchy(seen, "memory"))


def task_group(found: Hierarchy | None) -> Fact:
    """Within what nice values are held against each other: the scheduler weighs groups first, then threads.

    A thread's group is the nearest control group that has the cpu controller.  In the root group it is the
    session's autogroup, where the kernel makes those (task_wants_autogroup() in kernel/sched/autogroup.c).
    The root of a v2 hierarchy has no such files; what a container sees as the root has them.  On v1 every
    group has them; the root alone cgroup.sane_behavior (CFTYPE_ONLY_ON_ROOT, kernel/cgroup/cgroup-v1.c).
    """
    key, source = "cgroup.task_group", "/proc/self/cgroup and /proc/self/autogroup"
    if found and not found.group:
        return Fact(key, None, "", source, "the group is outside of what this container sees")
    for folder in lineage(found) if found else []:
        root_of_v1 = files.read(f"{folder}/cgroup.sane_behavior") is not None
        if not root_of_v1 and any(files.read(f"{folder}/{name}") for name in ("cpu.weight", *WANTED["cpu"])):
            return Fact(key, "its control group", "", source, folder)
    if files.read("/proc/sys/kernel/sched_autogroup_enabled") == "1":
        mark = (files.read("/proc/self/autogroup") or "").partition(" ")[0]
        return Fact(key, "its session (autogroup)", "", source, mark.lstrip("/"))
    return Fact(key, "the whole machine", "", source)


def controllers(seen: Seen) -> list[str]:
    """Every controller that a mounted hierarchy has."""
    found: list[str] = []
    for _, point, kind, options in seen.mounts:
        if kind == "cgroup2":
            found += (files.read(f"{point}/cgroup.controllers") or "").split()
        elif kind == "cgroup":
            found += [o for o in options.split(",") if o not in ("rw", "ro") and "=" not in o]
    return list(dict.fromkeys(found))


def cpu_limit(found: Hierarchy | None) -> Fact:
    """The tightest quota over the group and those above it, in CPUs; "none" where there is none."""
    key, limits = "cgroup.cpu_limit", []
    for folder in lineage(found) if found else []:
        if found and found.version == "v2":
            words = (files.read(f"{folder}/cpu.max") or "").split()
            pair = words if len(words) == 2 else None
        else:
            quota, period = (
                files.read(f"{folder}/cpu.cfs_quota_us"),
                files.read(f"{folder}/cpu.cfs_period_us"),
            )
            pair = [quota, period] if quota and period else None
        if pair and pair[0] not in ("max", "-1") and int(pair[1]) > 0:
            limits.append(int(pair[0]) / int(pair[1]))
    if not found:
        return Fact(key, None, "CPUs", "", "no cpu controller is mounted")
    source = f"{found.group or found.mount} and the groups above it"
    return Fact(key, round(min(limits), 3) if limits else "none", "CPUs" if limits else "", source)


def memory_limit(found: Hierarchy | None) -> Fact:
    """The tightest memory limit over the group and those above it; "none" where there is none."""
    key, limits = "cgroup.memory_limit_bytes", []
    for folder in lineage(found) if found else []:
        for name in ("memory.max", "memory.limit_in_bytes"):
            limit = files.number(f"{folder}/{name}")
            # v1 writes "no limit" as the largest number of whole pages.
            if limit is not None and limit < 1 << 62:
                limits.append(limit)
    if not found:
        return Fact(key, None, "bytes", "", "no memory controller is mounted")
    source = f"{found.group or found.mount} and the groups above it"
    return Fact(key, min(limits) if limits else "none", "bytes" if limits else "", source)


@look(
    {
        "cgroup.can_make": "this user can make a group with a CPU quota",
        "cgroup.make_in": "where such a group can be made",
        "cgroup.can_make_cpuset": "this user can make a group with its own CPUs",
        "cgroup.delegated": "this user's delegated groups",
    }
)
def look_making(seen: Seen) -> Iterator[Fact]:
    keys = ("cgroup.can_make", "cgroup.make_in", "cgroup.can_make_cpuset", "cgroup.delegated")
    if not seen.live:
        for key in keys:
            yield Fact(key, None, "", "", NOT_LOOKED)
        return
    source = "an empty group made and taken away again"
    cpu = hierarchy(seen, "cpu")
    folder, _, why = place_for(cpu, ("cpu",))
    yield Fact("cgroup.can_make", folder is not None, "", source, why)
    yield Fact("cgroup.make_in", folder, "", source, why if folder is None else "")
    folder, _, why = place_for(hierarchy(seen, "cpuset"), ("cpuset",))
    yield Fact("cgroup.can_make_cpuset", folder is not None, "", source, why)
    own = _delegated(cpu)
    yield Fact("cgroup.delegated", own or "none", "", "owner of the user's service group", "")


def _delegated(found: Hierarchy | None) -> str | None:
    """The group that systemd hands to this user (user@UID.service, v2 only), where the user owns it."""
    if not found or found.version != "v2":
        return None
    uid = os.getuid()
    folder = f"{found.mount}/user.slice/user-{uid}.slice/user@{uid}.service"
    try:
        return folder if Path(folder).stat().st_uid == uid else None
    except OSError:
        return None


def try_making(found: Hierarchy | None, wanted: tuple[str, ...]) -> tuple[str | None, str]:
    """(folder in which a group with one of the `wanted` files can be made, remark) or (None, why nowhere).

    Tries the group of this process, those above it, then the user's delegated one. That a process may be
    moved there is checked by access only: in v2 it takes writing `cgroup.procs` of the nearest common group.
    """
    if found is None:
        return None, "no hierarchy with this controller is mounted"
    line = lineage(found)
    delegated = _delegated(found)
    reasons = []
    for folder in [*line, *([delegated] if delegated and delegated not in line else [])]:
        trial = Path(folder) / f"{TRIAL}{os.getpid()}"
        try:
            trial.mkdir()
        except FileExistsError:
            pass  # left by a process of our number that was killed right here; it goes below
        except OSError as error:
            denied = error.errno in (errno.EACCES, errno.EPERM)
            told = (error.strerror or str(error)).lower()
            reasons.append("this user may not make groups here" if denied else told)
            continue
        try:
            there = any((trial / name).exists() for name in wanted)
        finally:
            with contextlib.suppress(OSError):
                trial.rmdir()
        if not there:
            reasons.append("the controller is not switched on for groups inside")
            continue
        if found.version == "v2":
            common = next(above for above in line if folder == above or folder.startswith(above + "/"))
            if not os.access(f"{common}/cgroup.procs", os.W_OK):
                reasons.append(
                    "this process may not be moved there; `systemd-run --user --scope` starts one that may"
                )
                continue
        return folder, ""
    return None, "; ".join(dict.fromkeys(reasons)) or "no group is in sight"


def place_for(found: Hierarchy | None, controllers: Sequence[str]) -> tuple[str | None, tuple[str, ...], str]:
    """(folder in which a group with these controllers can be made, those to be switched on there, remark), or
    (None, (), why nowhere).

    On v2 a group has a controller's files only where it is switched on above it.  Where it is not, whoever
    may write cgroup.subtree_control can do that, in a group without processes or in the topmost.
    """
    folder, why = try_making(found, WANTED[controllers[0]])
    if found is None or found.version == "v1":
        return folder, (), why
    for place in [folder] if folder else lineage(found)[::-1]:
        there = (files.read(f"{place}/cgroup.controllers") or "").split()
        on = (files.read(f"{place}/cgroup.subtree_control") or "").split()
        missing = tuple(name for name in controllers if name not in on)
        mine = os.access(files.place(place), os.W_OK | os.X_OK)
        if not mine or not all(name in there for name in controllers):
            continue
        steers = os.access(files.place(f"{place}/cgroup.subtree_control"), os.W_OK)
        if not missing or (steers and not _holds_processes(place, found)):
            return place, missing, f"{' and '.join(missing)} must be switched on there" if missing else ""
    return None, (), why


def _holds_processes(folder: str, found: Hierarchy) -> bool:
    """Whether a v2 group has processes of its own; then only the root lets controllers be switched on."""
    return folder != found.mount and bool(files.read(f"{folder}/cgroup.procs"))
