"""What the privileged helper lends, refuses and takes back on a kernel that mounts only cgroup v2.

Without sudo, which a guest does not have: the helper's own code, for a user who may write no group.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ...limits import cgroups
from ...probes.helper.lending import Loan
from ...probes.helper.protocol import Caller, Refused

_ROOT = Path("/sys/fs/cgroup")
_SLICE = _ROOT / "user.slice"
_SESSION = _SLICE / "session"
_UID = 1000


class _User:
    """A process of the user's in a group, which does something when it is told to."""

    def __init__(self, group: Path, does: Callable[[], Any]) -> None:
        ours, theirs = os.pipe(), os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                (group / "cgroup.procs").write_text(str(os.getpid()))
                os.setgid(_UID)
                os.setuid(_UID)
                os.write(ours[1], b".")
                os.read(theirs[0], 1)
                os.write(ours[1], json.dumps(does()).encode())
                os.read(theirs[0], 1)  # until it is killed
            finally:
                os._exit(1)
        self.said, self.told = ours[0], theirs[1]
        self.pidfd = os.pidfd_open(self.pid)
        os.read(self.said, 1)  # it is in its group

    def does(self) -> Any:
        """Let it go on, and hear what it says."""
        os.write(self.told, b".")
        return json.loads(os.read(self.said, 1 << 16))

    @property
    def group(self) -> str:
        """Where it is; "gone" when it has ended."""
        if os.waitpid(self.pid, os.WNOHANG)[0]:
            return "gone"
        return Path(f"/proc/{self.pid}/cgroup").read_text().strip()

    def end(self) -> None:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(self.pid, 9)
            os.waitpid(self.pid, 0)

    def borrows(self) -> Loan:
        caller = Caller({})
        caller.uid = caller.gid = _UID
        return Loan(caller, self.pid, self.pidfd)


def wait_until_empty(folder: Path) -> None:
    """The guard of a program that ended without a word looks once more."""
    end = time.monotonic() + 30
    while (folder / "cgroup.procs").read_text() and time.monotonic() < end:
        time.sleep(0.05)


@contextlib.contextmanager
def _session(does: Callable[[], Any] = lambda: None) -> Iterator[_User]:
    """As systemd has it: a slice with the administrator's limit, in it the session of the user's process."""
    for folder in (_SLICE, _SESSION):
        folder.mkdir()
    (_SLICE / "cpu.max").write_text("50000 100000")
    user = _User(_SESSION, does)
    try:
        yield user
    finally:
        user.end()
        if _SESSION.exists():
            wait_until_empty(_SESSION)
            _SESSION.rmdir()
        _SLICE.rmdir()


def _left() -> list[str]:
    """What is left of loans: groups, and controllers that were switched on."""
    switched = (_SLICE / "cgroup.subtree_control").read_text().split()
    return [str(path) for path in _ROOT.glob("**/sched-labs*")] + switched


def lent() -> dict[str, Any]:
    """What the user's program sees of a loan, and what is left when it has ended."""
    (_ROOT / "cgroup.subtree_control").write_text("+cpu")
    before = (_ROOT / "cgroup.subtree_control").read_text().split()
    with _session(_borrow) as user:
        loan = user.borrows()
        folder = Path(loan.lent[0][1])
        said: dict[str, Any] = {
            "folder": str(folder),
            "lent_to": [folder.stat().st_uid, (folder / "cpu.max").stat().st_uid],
            **user.does(),
        }
        loan.end()
        said["left"] = _left()
    return said | {"switched_on": [before, (_ROOT / "cgroup.subtree_control").read_text().split()]}


def _borrow() -> dict[str, Any]:
    """As the user, from inside the group that was lent."""
    try:
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(30)"])
        with cgroups.group("mine", quota_us=5_000, cpus=[0]) as group:
            group.add(child.pid)
            said = {
                "path": group.path,
                "limit": list(group.read_limit()),
                "inside": child.pid in group.pids(),
                "cpus": (Path(group.path) / "cpuset.cpus").read_text().strip(),
            }
        child.kill()
        child.wait()
        return said
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def refused() -> dict[str, list[str]]:
    """Where no loan can stand below every limit of the user's process: why, what is left, where it is."""
    said = {}
    for case in ("a limit of its own", "a weight of its own", "a process beside"):
        with _session() as user:
            beside = None
            if case == "a process beside":  # the user's own, who would like the group to be made higher up
                beside = _User(_SLICE, lambda: None)
            else:
                (_SLICE / "cgroup.subtree_control").write_text("+cpu")
                name, value = ("cpu.max", "20000 100000") if "limit" in case else ("cpu.weight", "10")
                (_SESSION / name).write_text(value)
            try:
                user.borrows().end()
                why = "it was lent"
            except Refused as error:
                why = error.what
            if beside:
                beside.end()
            else:
                (_SLICE / "cgroup.subtree_control").write_text("-cpu")
            said[case] = [why, user.group, *_left()]
    return said


def given_back() -> dict[str, list[str]]:
    """Where the user's process is after the loan, and what is left of that."""
    said = {}
    with _session(_chain) as user:
        loan = user.borrows()
        chain = user.does()
        loan.end()
        end = time.monotonic() + 30
        while len((_SESSION / "cgroup.procs").read_text().split()) > 1 and time.monotonic() < end:
            os.killpg(chain, 9)
            time.sleep(0.05)
        said["a chain of forks"] = [user.group, *_left()]
    with _session() as user:
        loan = user.borrows()
        _SESSION.rmdir()  # as systemd does when nobody is in it any more
        loan.end()
        said["its session has gone"] = [user.group, *_left()]
    return said


def _chain() -> int:
    """Start what is never the same process for long; the number of its group of processes."""
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        while True:
            if os.fork():
                os._exit(0)
    return child
