"""One experiment at a time on the machine: two that run together measure each other.

The lock is `flock` on one file that every user may open.  The kernel releases it when its holder ends, however
it ends, so there is never a stale lock to remove.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import BusyError

_PLACES = (Path("/run/lock"), Path("/tmp"))


def lock_path() -> Path:
    """The lock file: in /run/lock where that is open to everybody, else in /tmp."""
    for folder in _PLACES:
        if os.access(folder, os.W_OK | os.X_OK):
            return folder / "sched-labs.lock"
    raise BusyError("Neither /run/lock nor /tmp can be written.", "Give this user a writable /tmp.")


def _open(path: Path) -> int:
    # Opened without O_CREAT first: in a sticky folder the kernel refuses O_CREAT on another user's file.
    try:
        return os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        pass
    except PermissionError:
        return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    try:
        os.fchmod(handle, 0o666)  # the umask must not lock other users out
    except PermissionError:
        pass  # somebody else created it between the two opens, and has done this
    return handle


def holder(path: Path | None = None) -> str:
    """Who holds the machine now, as they described themselves; empty when nobody does."""
    path = path or lock_path()
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return os.pread(handle, 200, 0).decode(errors="replace").strip() or "another experiment"
        return ""
    finally:
        os.close(handle)


@contextmanager
def machine(
    purpose: str, *, wait_s: float = 600.0, waiting: Callable[[str], None] | None = None
) -> Iterator[None]:
    """Hold the machine for one experiment.

    Waits up to `wait_s` seconds for a running experiment to end, telling `waiting` once who holds the machine.
    Raises BusyError when the wait is over.
    """
    path = lock_path()
    handle = _open(path)
    try:
        deadline = time.monotonic() + wait_s
        told = False
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                who = holder(path) or "another experiment"
                if time.monotonic() >= deadline:
                    raise BusyError(
                        f"This machine is measuring already: {who}.",
                        "Wait for it to end, stop it, or run `sched-labs clean` if its program is gone.",
                    ) from None
                if waiting and not told:
                    waiting(who)
                    told = True
                time.sleep(0.1)
        try:
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"{purpose} (process {os.getpid()})\n".encode(), 0)
        except OSError:
            pass  # opened read-only: the lock holds all the same, it only cannot say by whom
        yield
    finally:
        os.close(handle)
