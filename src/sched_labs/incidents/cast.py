"""The programs of one incident: started under their names, told, placed, and ended."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from ..core.errors import WorkloadError
from ..limits.cgroups import Group
from ..steer import placement
from ..workloads.launch import MARKER, owner_mark
from .program import COROUTINES
from .program import path as program_path
from .story import CYCLE_S, SETTINGS, Change, Plan

FOLDERS = ("bin", "etc", "run", "log")
KINDS = {"client": 0, "service": 1, "batch": 2, "sampler": 3}  # of actor.c
PYTHON = (sys.executable, "-I", "-S")  # for "coroutines"


def cpus() -> dict[str, list[int]]:
    """The CPUs of an incident: "rack" is what it is about, "front" the clients'; never all of a machine's."""
    rack = placement.quiet_cpu()
    front = placement.other_cpu(rack)
    return {"rack": [rack], "front": [front], "both": sorted((rack, front))}


def lay_out(plan: Plan, folder: Path) -> None:
    """The folder of an incident: programs under their names, their files, in no telling order."""
    for name in FOLDERS:
        (folder / name).mkdir(mode=0o700)
    binary = program_path()
    for role in plan.order:
        program, name = plan.story.program(role), plan.names[role]
        shutil.copy(COROUTINES if program.kind == "coroutines" else binary, folder / "bin" / name)
        meant = ",".join(map(str, cpus()[program.cpus]))
        lines = [f"# {name}: {program.about}. A line counts from the moment that the file is saved.\n"]
        lines += [f"# It was given CPU {meant}.\n"]
        lines += [f"# {SETTINGS[knob]}\n# {knob} = \n" for knob in program.knobs]
        (folder / "etc" / f"{name}.conf").write_text("".join(lines), encoding="utf-8")


def threads(pid: int) -> list[int]:
    """The threads of a process; none when it has ended."""
    try:
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]  # noqa: PTH208
    except OSError:
        return []


def nice(pid: int, value: int) -> None:
    """Give all threads of a process a nice value."""
    for tid in threads(pid):
        with contextlib.suppress(ProcessLookupError):
            os.setpriority(os.PRIO_PROCESS, tid, value)


def realtime(pid: int, priority: int) -> None:
    """Put all threads of a process under SCHED_FIFO with a priority, or under the usual policy with 0."""
    for tid in threads(pid):
        with contextlib.suppress(ProcessLookupError):
            os.sched_setscheduler(
                tid, os.SCHED_FIFO if priority else os.SCHED_OTHER, os.sched_param(priority)
            )


class Cast:
    """The running programs, by role."""

    def __init__(self, plan: Plan, folder: Path, deadline_s: float, group: Group | None) -> None:
        self.plan, self.folder, self.group = plan, folder, group
        self.deadline_s = deadline_s
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._programs = {one.role: one for one in plan.story.programs}
        self._nice: dict[str, int] = {}
        self._realtime: dict[str, int] = {}

    def start_all(self) -> None:
        for role in self.plan.order:
            self.start(role)
        self.introduce()

    def start(self, role: str) -> None:
        """Start one program: placed before it knows what it is to do, so that its threads inherit that."""
        program, name = self._programs[role], self.plan.names[role]
        with (self.folder / "log" / f"{name}.log").open("ab") as log:
            try:
                process = subprocess.Popen(
                    [*PYTHON, f"bin/{name}"] if program.kind == "coroutines" else [f"bin/{name}"],
                    cwd=self.folder,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=log,
                    process_group=0,
                    env={"PATH": "/usr/bin:/bin", "LC_ALL": "C", MARKER: owner_mark()},
                )
            except OSError as error:
                raise WorkloadError(f"{name} does not start: {error.strerror}.") from error
        self.processes[role] = process
        placement.pin([process.pid], cpus()[program.cpus])
        if self._nice.get(role):
            nice(process.pid, self._nice[role])
        if self._realtime.get(role):
            realtime(process.pid, self._realtime[role])
        if program.kind != "client" and self.group:
            self.group.add(process.pid)
        told = {
            "kind": KINDS.get(program.kind, 0),
            "deadline_s": max(1, round(self.deadline_s)),
            "seed": self.plan.seed % 1_000_000,
            "target_us": self.plan.story.target_ms * 1000,
            "cycle_ms": 1000 * CYCLE_S,
            **program.told,
        }
        words = [f"{key}={value}" for key, value in told.items()]
        if program.peer:
            words.append(f"peer={self.plan.names[program.peer]}")
        self._tell(role, words)

    def introduce(self) -> None:
        """Tell who looks at another process which one it is: also after that one was started again."""
        for role, program in self._programs.items():
            if program.kind == "sampler":
                self._tell(role, [f"target={self.pid(program.peer)}"])

    def pid(self, role: str) -> int:
        return self.processes[role].pid

    def _tell(self, role: str, words: list[str]) -> None:
        pipe = self.processes[role].stdin
        assert pipe
        with contextlib.suppress(BrokenPipeError):  # it has ended: whoever looks after it will see
            pipe.write((" ".join(words) + "\n").encode())
            pipe.flush()

    def change(self, change: Change) -> None:
        """Break something, or mend it, in the running program and in whatever takes its place."""
        program, pid = self._programs[change.role], self.pid(change.role)
        if change.told:
            self._programs[change.role] = program = replace(program, told={**program.told, **change.told})
            self._tell(change.role, [f"{key}={value}" for key, value in change.told.items()])
        if change.nice is not None:
            self._nice[change.role] = change.nice
        if change.realtime is not None:
            self._realtime[change.role] = change.realtime
        if change.cpus:
            self._programs[change.role] = replace(program, cpus=change.cpus)
        apply(change, pid, self.folder, self.plan, self.group)

    def revive(self) -> list[str]:
        """Start again what has ended; the names of it."""
        ended = [role for role, process in self.processes.items() if process.poll() is not None]
        for role in ended:
            self._close(role)
            self.start(role)
        if ended:
            with contextlib.suppress(ProcessLookupError):  # who stopped it may have gone meanwhile
                os.kill(self.pid("service"), signal.SIGCONT)
            self.introduce()
        return [self.plan.names[role] for role in ended]

    def _close(self, role: str) -> None:
        pipe = self.processes[role].stdin
        assert pipe
        with contextlib.suppress(BrokenPipeError):
            pipe.close()

    def end(self) -> None:
        for role, process in self.processes.items():
            process.kill()
            process.wait()
            self._close(role)


def apply(change: Change, pid: int, folder: Path, plan: Plan, group: Group | None) -> None:
    """The part of a change that anybody can make from outside, who may act on the process."""
    if change.nice is not None:
        nice(pid, change.nice)
    if change.realtime is not None:
        realtime(pid, change.realtime)
    if change.cpus:
        placement.pin(threads(pid), cpus()[change.cpus])
    if change.quota_us is not None and group:
        group.limit(change.quota_us or None)
    if change.set:
        path = folder / "etc" / f"{plan.names[change.role]}.conf"
        text = path.read_text(encoding="utf-8")
        text += "".join(f"{key} = {value}\n" for key, value in change.set.items())
        path.write_text(text, encoding="utf-8")
