"""The folders of our groups: where they can be, how they are made, and how they are emptied and removed."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Sequence
from pathlib import Path

from ...core.errors import PlacementError
from ...machine import files
from ...machine.cgroup import Hierarchy, hierarchy, lineage, place_for
from ...machine.seen import Seen
from ...workloads.launch import owner_mark
from .group import Group
from .kernelfiles import WHO, WHY, read, reason, write

PARENT = "sched-labs"
_REMOVED_WITHIN_S = 2.0  # a process that was killed leaves its group a moment later


def make(name: str, inside: Group | None, with_cpus: bool, made: list[str]) -> Group:
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
    cpu = steered(seen, "cpu")
    made.append(_mkdir_below(parent_for(cpu, controllers), full, controllers if cpu.version == "v2" else ()))
    found = Group(made[-1], cpu.version)
    if with_cpus and cpu.version == "v1":
        found.cpuset_path = _make_v1_cpuset(seen, full, None, made)
    return found


def _make_v1_cpuset(seen: Seen, full: str, above: str | None, made: list[str]) -> str:
    """The same group in the cpuset hierarchy, with all the CPUs and memory of the one that it is in."""
    found = steered(seen, "cpuset")
    if found.version != "v1":
        raise PlacementError(
            "The cpu controller is in a v1 hierarchy and cpuset in a v2 one.",
            "Boot with one version of control groups.",
            lacking=True,
        )
    parent = above or parent_for(found, ("cpuset",))
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
            write(f"{folder}/{name}", read(f"{above}/{name}"))


def steered(seen: Seen, controller: str) -> Hierarchy:
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


def parent_for(found: Hierarchy, controllers: Sequence[str]) -> str:
    """Where our parent group goes: its path, with what must be switched on above it in its name."""
    folder, missing, why = place_for(found, controllers)
    if folder is None:
        raise PlacementError(_no_place(found, why), WHO, lacking=True)
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
            write(f"{folder}/cgroup.subtree_control", f"+{name}")


def _writable(path: str) -> Path:
    """The real place of a folder to be made.  Raises PlacementError where the one above it is read-only."""
    place = files.place(path)
    if place.parent.exists() and os.statvfs(place.parent).f_flag & os.ST_RDONLY:
        raise PlacementError(
            f"{path} cannot be made: {WHY[errno.EROFS]}.", "Remount it, or leave the container that does so."
        )
    return place


def _mkdir_plain(path: str) -> None:
    """Raises PlacementError, but FileExistsError and FileNotFoundError as they are."""
    try:
        _writable(path).mkdir()
    except (FileExistsError, FileNotFoundError):
        raise
    except OSError as error:
        raise PlacementError(f"{path} cannot be made: {reason(error)}.", WHO) from error


def _mkdir(path: str) -> str:
    try:
        _mkdir_plain(path)
    except FileExistsError:
        raise PlacementError(
            f"The control group {path} exists already.", "Choose another name, or run `sched-labs clean`."
        ) from None
    return path


def remove(folder: str, homes: dict[str, list[str]]) -> None:
    """Empty a group, its inner groups first, and take it away, and our parent with the last group in it."""
    for inner in files.names(folder):
        if files.is_folder(f"{folder}/{inner}"):
            remove(f"{folder}/{inner}", homes)
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
                    f"The control group {folder} cannot be removed: {reason(error)}.",
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
                write(f"{above}/cgroup.subtree_control", f"-{controller}")


def _move_out(folder: str, homes: dict[str, list[str]]) -> None:
    """Its processes go to where this program is, or to one of the groups above it that takes them."""
    places = [home for mount, line in homes.items() if folder.startswith(f"{mount}/") for home in line]
    for pid in (files.read(f"{folder}/cgroup.procs") or "").split():
        for home in places:
            try:
                write(f"{home}/cgroup.procs", pid)
                break
            except PlacementError:
                continue  # it has ended, or this group takes no processes


def find_homes() -> dict[str, list[str]]:
    """For each mounted hierarchy, where processes can go that leave a group of ours: this program's group and
    those above it.
    """
    seen = Seen()
    found = [hierarchy(seen, controller) for controller in ("cpu", "cpuset")]
    return {each.mount: lineage(each) for each in found if each}
