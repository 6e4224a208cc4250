"""`python keeper.py SECONDS COMMAND...`: run a command, and leave no process of it behind.

Whatever the command starts becomes the keeper's child when its parent has ended, also what has made a session
of its own (setsid): the keeper is a subreaper, prctl(2).  It ends them all when the command has ended, when
the time is over, and when its own standard input closes, because whoever started it has gone.

Its status is the command's; 128 and the signal's number where a signal ended it; OVER when the time was over.

It imports nothing but Python, so that it starts in a moment and takes nothing from what is measured.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time

OVER = 124  # as timeout(1) has it
SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER, linux/prctl.h
GRACE_S = 5.0  # for processes that are about to end by themselves: a group's guard has to take it away first
PATIENCE_S = 5.0  # with those that a SIGKILL of ours cannot end, such as another user's


def keep(seconds: float, command: list[str]) -> int:
    """Run the command, and end whatever is left of it; return its status."""
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    ended = os.pidfd_open(child.pid)
    ready, _, _ = select.select([ended, 0], [], [], seconds)
    if ended not in ready:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
    status = child.wait()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    _end_the_others()
    if ended not in ready:
        return OVER
    return status if status >= 0 else 128 - status


def _end_the_others() -> None:
    begin = time.monotonic()
    while others := _children():
        _reap()
        waited = time.monotonic() - begin
        if waited > GRACE_S + PATIENCE_S:
            return
        if waited > GRACE_S:
            for pid in others:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def _children() -> list[int]:
    """The processes whose parent we are, by now: those of ended processes among them."""
    own, found = os.getpid(), []
    for name in os.listdir("/proc"):  # noqa: PTH208 - pathlib is another import
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                if int(file.read().rpartition(b")")[2].split()[1]) == own:
                    found.append(int(name))
    return found


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


if __name__ == "__main__":
    sys.exit(keep(float(sys.argv[1]), sys.argv[2:]))
