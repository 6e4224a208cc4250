"""Take away what a crash left behind: workloads without an owner, empty groups, half-written files, scratch.

Nothing of this should be there, because every workload ends when its owner does.
`sched-labs clean` is for the day when something is there all the same, and says what it found.

It keeps to what is this user's, for root too.  A helper that root started is among it; one that sudo started
belongs to nobody here, and ends when its program does or at its own deadline.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from .. import machine
from ..core.errors import ResultError
from ..core.store import abandoned, cache_folder, data_folder
from ..limits import cgroups
from ..machine.cgroup import TRIAL
from ..run import scratch
from ..workloads.launch import MARKER, owner_mark


def clean(*, everything: bool = False) -> list[str]:
    """Remove what has no owner any more; sentences about what was removed, and what was left alone and why.

    everything   also end workloads whose owner is alive: a notebook that is measuring loses its run
    """
    said = []
    for pid, owner in _marked():
        alive = _alive(owner)
        if alive and not everything:
            said.append(
                f"Left alone: process {pid}, whose program (process {owner.partition(':')[0]}) is running."
            )
        elif _end(pid):
            said.append(f"Ended: process {pid}, {'on request' if alive else 'which had lost its program'}.")
        else:
            said.append(f"Process {pid} cannot be ended by this user.")
    said += cgroups.clear(everything=everything)
    for group in _groups():
        try:
            group.rmdir()
            said.append(f"Removed: the empty control group {group}.")
        except OSError as error:
            said.append(f"Left alone: the control group {group} ({error.strerror}).")
    for file in _half_written():
        file.unlink(missing_ok=True)
        said.append(f"Removed: {file}, which was never finished.")
    for folder in scratch.abandoned():
        shutil.rmtree(folder, ignore_errors=True)
        said.append(f"Removed: {folder}, whose program is gone.")
    return said


def _marked() -> Iterator[tuple[int, str]]:
    """(pid, owner's mark) of every process of this user that a run started.

    Root could read other users' too, and those of a container, whose owners have other numbers in there and
    so would seem to be gone.
    """
    prefix = f"{MARKER}=".encode()
    numbers = Path("/proc/self/ns/pid").readlink()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if entry.stat().st_uid != os.getuid() or (entry / "ns/pid").readlink() != numbers:
                continue
            words = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue  # out of reach, or gone
        for word in words:
            if word.startswith(prefix):
                yield int(entry.name), word[len(prefix) :].decode(errors="replace")


def _alive(owner: str) -> bool:
    pid = owner.partition(":")[0]
    try:
        # An owner that has ended keeps its number until its parent has asked how.
        return pid.isdecimal() and owner_mark(int(pid)) == owner and not _is_zombie(int(pid))
    except OSError:
        return False


def _end(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    deadline = time.monotonic() + 2
    while time.monotonic() < deadline and Path(f"/proc/{pid}/environ").exists() and not _is_zombie(pid):
        time.sleep(0.01)
    return True


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def _groups() -> list[Path]:
    """Groups that a survey made and was killed over, deepest first, where groups can be made here."""
    found: set[Path] = set()
    for key in ("cgroup.make_in", "cgroup.cpu_mount", "cgroup.cpuset_mount"):
        place = machine.survey().fact(key).value
        if isinstance(place, str) and place.startswith("/"):
            for group in Path(place).glob(f"{TRIAL}*"):
                found |= {group, *(inner for inner in group.rglob("*") if inner.is_dir())}
    return sorted(found, key=lambda group: len(group.parts), reverse=True)


def _half_written() -> list[Path]:
    """Files whose writer was killed, and compilations that were interrupted over an hour ago."""
    hour_ago = time.time() - 3600
    try:
        cache, data = cache_folder(), data_folder()
    except ResultError:
        return []  # no home: nothing was written
    compiled = [
        file
        for file in (cache / "workloads").glob("*/.*")
        if file.is_file() and file.stat().st_mtime < hour_ago
    ]
    return [*compiled, *abandoned(cache), *abandoned(data)]
