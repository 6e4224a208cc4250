"""What is watched: a command that is started here, processes with what they start, or a control group."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import signal
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType

from ..core.errors import ParameterError, ProbeError
from ..limits.cgroups.folders import steered
from ..machine import files
from ..machine.seen import Seen

# The command is a shell until a line comes, so that probes are loaded before it begins.
_HELD = 'read -r go <&9 || exit 125; exec "$@" 9<&-'
PF_KTHREAD = 0x00200000
_GRACE_S = 5.0  # between asking a command of ours to end and ending it


class Target:
    """Processes that are found anew at every look; those that it started are ended with its context."""

    name = ""

    def __enter__(self) -> Target:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def begin(self) -> None:
        """Let it run, where it was held."""

    def pids(self) -> list[int]:
        """Its processes that are there now."""
        raise NotImplementedError

    def over(self) -> bool:
        """Whether nothing of it is left."""
        return not self.pids()


class Processes(Target):
    """Processes that run already, with all that they start.

    Raises ParameterError for what is no process id, ProbeError for a process that is not there, or is a
    thread of the kernel.
    """

    def __init__(self, pids: Sequence[int]) -> None:
        if not pids or not all(type(pid) is int and pid > 0 for pid in pids):
            raise ParameterError(f"pid takes one or more process ids, not {pids!r}.")
        self.family: dict[int, str] = {}  # with their start times: a number is given away again
        for pid in pids:
            start = _start_of(pid)
            if start is None:
                raise ProbeError(f"There is no process {pid}.", "`ps -ef` lists those that there are.")
            if int((after_name(f"/proc/{pid}/stat") or ["0"] * 7)[6]) & PF_KTHREAD:
                raise ProbeError(f"Process {pid} is a thread of the kernel.", "Watch a program.")
            self.family[pid] = start
        self.name = plain(files.read(f"/proc/{pids[0]}/comm") or str(pids[0]))

    def pids(self) -> list[int]:
        # Once of the family, always: an orphan has another parent.
        known = {pid: start for pid, start in self.family.items() if _start_of(pid) == start}
        for pid in descendants(known):
            if pid not in known and (start := _start_of(pid)):
                known[pid] = start
        self.family = known
        return sorted(known)


class Command(Processes):
    """A command that is started here, with our input and output, and held until `begin()`.

    Leaving the context ends it, where it runs on.  Raises ParameterError for what is no command, and
    ProbeError for one that cannot be started.
    """

    def __init__(self, command: Sequence[str]) -> None:
        if isinstance(command, str) or not command or not all(isinstance(word, str) for word in command):
            raise ParameterError(
                f"A command is a list of words, not {command!r}.", 'Such as ["./server", "--port", "8080"].'
            )
        _find(command[0])
        self.status: int | None = None
        reading, self._gate = os.pipe()
        above = fcntl.fcntl(reading, fcntl.F_DUPFD_CLOEXEC, 10)
        os.close(reading)
        try:
            self.pid = os.posix_spawn(
                "/bin/sh",
                ["sh", "-c", _HELD, "sh", *command],
                os.environ,
                file_actions=[(os.POSIX_SPAWN_DUP2, above, 9)],
                setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],  # which Python ignores
            )
        except (OSError, ValueError) as error:
            os.close(self._gate)
            raise ProbeError(
                f"{command[0]} cannot be started: {error}.", "Start it by hand first."
            ) from error
        finally:
            os.close(above)
        super().__init__([self.pid])
        self.name = plain(Path(command[0]).name)

    def begin(self) -> None:
        os.write(self._gate, b"go\n")
        os.close(self._gate)
        self._gate = -1

    def over(self) -> bool:
        self._reap(os.WNOHANG)
        return super().over()

    def tell(self, number: int) -> None:
        """Send it a signal, if it is still there."""
        if self.status is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self.pid, number)

    def wait(self) -> int:
        """Wait for its end; its exit status, as a shell tells it (128 and the signal's number)."""
        self._reap(0)
        assert self.status is not None
        return self.status

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._gate >= 0:
            os.close(self._gate)  # it never began: the shell ends
        elif self.pids():
            for number, grace_s in ((signal.SIGTERM, _GRACE_S), (signal.SIGKILL, _GRACE_S)):
                for pid in self.pids():
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        os.kill(pid, number)
                end = time.monotonic() + grace_s
                while not self.over() and time.monotonic() < end:
                    time.sleep(0.01)
        self._reap(0)

    def _reap(self, flags: int) -> None:
        if self.status is None:
            pid, status = os.waitpid(self.pid, flags)
            if pid:
                code = os.waitstatus_to_exitcode(status)
                self.status = code if code >= 0 else 128 - code


class ControlGroup(Target):
    """The processes of a control group and of the groups inside it.

    path   as in /proc/PID/cgroup, or the folder itself.  Raises ProbeError where there is no such group.
    """

    def __init__(self, path: str) -> None:
        mount = steered(Seen(), "cpu").mount
        folder = path if path.startswith(mount) else f"{mount}/{path.strip('/')}"
        if not files.exists(f"{folder}/cgroup.procs"):
            raise ProbeError(
                f"There is no control group {path} (looked for {folder}).",
                "`cat /proc/PID/cgroup` says in which group a process is.",
            )
        self.folder = folder
        self.name = folder.removeprefix(mount).strip("/") or "the root group"

    def pids(self) -> list[int]:
        found: list[int] = []
        folders = [self.folder]
        while folders:
            folder = folders.pop()
            found += map(int, (files.read(f"{folder}/cgroup.procs") or "").split())
            folders += [
                f"{folder}/{name}" for name in files.names(folder) if files.is_folder(f"{folder}/{name}")
            ]
        return sorted(pid for pid in set(found) if pid > 0 and _start_of(pid))


def descendants(pids: Iterable[int]) -> list[int]:
    """Their children, and the children of these."""
    found: list[int] = []
    ahead = list(pids)
    if not files.exists("/proc/thread-self/children"):  # CONFIG_PROC_CHILDREN
        children: dict[int, list[int]] = {}
        for name in files.names("/proc"):
            words = after_name(f"/proc/{name}/stat") if name.isdigit() else None
            if words:
                children.setdefault(int(words[1]), []).append(int(name))
        while ahead:
            new = children.get(ahead.pop(), [])
            found += new
            ahead += new
        return found
    while ahead:
        pid = ahead.pop()
        for tid in files.names(f"/proc/{pid}/task"):
            new = [int(word) for word in (files.read(f"/proc/{pid}/task/{tid}/children") or "").split()]
            found += new
            ahead += new
    return found


def plain(name: str) -> str:
    """A name without what no terminal, page or trace should get: programs may be called anything."""
    text = os.fsencode(name).decode("utf-8", "replace")
    return "".join(one if one.isprintable() else "\ufffd" for one in text)


def after_name(path: str) -> list[str] | None:
    """The words of a stat file from the state on (a name may hold spaces and brackets); None without it."""
    text = files.read(path)
    return text.rpartition(")")[2].split() if text else None


def _start_of(pid: int) -> str | None:
    """When a process began, in ticks since boot: it tells two of one number apart.  None after its end."""
    words = after_name(f"/proc/{pid}/stat")
    return None if not words or words[0] in "ZX" else words[19]


def _find(program: str) -> None:
    if "\0" in program or shutil.which(program):
        return
    why = "no such program"
    if os.path.sep in program and Path(program).exists():
        why = os.strerror(errno.EISDIR if Path(program).is_dir() else errno.EACCES).lower()
    raise ProbeError(
        f"{program} cannot be started: {why}.", "Write its path (./program), and make it executable."
    )
