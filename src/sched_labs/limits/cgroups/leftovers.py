"""What a killed program leaves: taken away by its guard, by the next run, or by `sched-labs clean`."""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from ...core.errors import PlacementError
from ...machine import files
from ...machine.cgroup import hierarchy, lineage
from ...machine.seen import Seen
from ...workloads.launch import owner_mark
from .folders import PARENT, find_homes, remove

_OURS = re.compile(r"(\d+)\.(\d+)-[a-z0-9-]+")


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
    homes = find_homes()
    for folder, lives in left_behind():
        if lives and not everything:
            said.append(f"Left alone: the control group {folder}, whose program is running.")
            continue
        try:
            remove(folder, homes)
            said.append(f"Removed: the control group {folder}.")
        except PlacementError as error:
            said.append(f"Left alone: {error.what}")
    for parent in _parents():
        if not any(files.is_folder(f"{parent}/{name}") for name in files.names(parent)):
            with contextlib.suppress(PlacementError):
                remove(parent, homes)
                said.append(f"Removed: the empty control group {parent}.")
    return said


def sweep(owner: int, *, within_s: float = 10.0) -> None:
    """Take away the groups of a program that has just been killed, as soon as the kernel has ended it."""
    end = time.monotonic() + within_s
    while any(f"/{owner}." in folder for folder, _ in left_behind()) and time.monotonic() < end:
        clear()
        time.sleep(0.05)


class Guard:
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
        home = str(Path(__file__).parents[3])
        try:
            guard = subprocess.Popen(
                [sys.executable, "-I", "-c", cls._CODE, home, str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # a notebook's server ends a kernel together with its process group
            )
        except OSError as error:
            raise PlacementError(
                f"No process could be started that takes control groups away if this one is killed: "
                f"{sys.executable} ({error.strerror}).",
                "Use a Python that this user may run.",
            ) from error
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
