"""Run an experiment, and look what it starts and what it leaves behind."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .. import workloads
from ..core.result import Result
from ..limits.cgroups.leftovers import left_behind
from ..machine.seen import Seen
from ..machine.tunables import look_tunables
from ..run.base import Experiment
from ..workloads.launch import MARKER, owner_mark

_PATIENCE_S = 10.0  # for what has been killed to be gone
# Settings of this process that an experiment may change while it runs.
_OWN = {
    "the CPUs that it may use": lambda: sorted(os.sched_getaffinity(0)),
    "its policy": lambda: (os.sched_getscheduler(0), os.sched_getparam(0).sched_priority),
    "its nice value": lambda: os.getpriority(os.PRIO_PROCESS, 0),
    "its working folder": lambda: str(Path.cwd()),
    "its handler of Ctrl-C": lambda: signal.getsignal(signal.SIGINT),
}


@dataclass
class Watched:
    """A run, the programs that it started (by their names), and sentences about what it left behind."""

    result: Result
    programs: set[str] = field(default_factory=set)
    left: list[str] = field(default_factory=list)


def watched(experiment: Experiment, **parameters: Any) -> Watched:
    """Run an experiment, by default tiny and not kept, and say what it started and left behind.

    Raises what the experiment raises.
    """
    before = _settings()
    with _programs() as programs:
        given: dict[str, Any] = {"profile": "tiny", "progress": False, "save": False}
        result = experiment(**given | parameters)
    return Watched(result, programs, [*_still_there(), *_changed(before)])


@contextmanager
def _programs() -> Iterator[set[str]]:
    start, names = workloads.start, set[str]()

    def noting(name: str, *arguments: Any, **options: Any) -> workloads.Workload:
        names.add(name)
        return start(name, *arguments, **options)

    workloads.start = noting
    try:
        yield names
    finally:
        workloads.start = start


def _still_there() -> list[str]:
    end = time.monotonic() + _PATIENCE_S
    while (found := [*_processes(), *_groups()]) and time.monotonic() < end:
        time.sleep(0.02)
    return found


def _processes() -> Iterator[str]:
    mark = f"{MARKER}={owner_mark()}".encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    name = (entry / "comm").read_text().strip()
                    yield f"Its process {entry.name} ({name}) still runs."
            except OSError:
                continue  # gone, or another user's


def _groups() -> Iterator[str]:
    mark = owner_mark().replace(":", ".")
    for folder, _ in left_behind():
        if Path(folder).name.startswith(f"{mark}-"):
            yield f"Its control group {folder} is still there."


def _settings() -> dict[str, Any]:
    """What a run may move: the kernel's tunables as far as they can be read, and settings of this process."""
    kernel = {fact.key: fact.value for fact in look_tunables(Seen())}
    return kernel | {name: look() for name, look in _OWN.items()}


def _changed(before: dict[str, Any]) -> Iterator[str]:
    for name, value in _settings().items():
        if before.get(name) != value:
            yield f"It changed {name} from {before.get(name)!r} to {value!r}."
