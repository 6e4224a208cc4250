"""One experiment at a time on the machine: two that run together measure each other.

The lock is `flock` on one file that every user may open.  The kernel releases it when its holder ends,
however it ends, so there is never a stale lock to remove.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from .errors import BusyError

_PLACES = (Path("/run/lock"), Path("/tmp"))
_OPEN_TO_ALL = stat.S_IWOTH | stat.S_IXOTH


def lock_path() -> Path:
    """The lock file: in /run/lock where that is open to everybody, else in /tmp."""
    for folder in _PLACES:
        # Asked of the mode and not of access(): root may write everywhere, and must choose as everybody does.
        if folder.is_dir() and folder.stat().st_mode & _OPEN_TO_ALL == _OPEN_TO_ALL:
            return folder / "sched-labs.lock"
    raise BusyError("Neither /run/lock nor /tmp can be written.", "Give this user a writable /tmp.")


def _open(path: Path) -> int:
    try:
        return _open_or_create(path)
    except OSError as error:
        raise BusyError(
            f"The lock file {path} cannot be opened: {error.strerror}.",
            "Remove that file, or ask its owner to.",
        ) from error


def _open_or_create(path: Path) -> int:
    # Opened without O_CREAT first: in a sticky folder the kernel refuses O_CREAT on another user's file.
    try:
        return os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        pass
    except PermissionError:
        return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    except PermissionError:
        # Another user created it in this moment.
        return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with contextlib.suppress(PermissionError):  # somebody else created it in this moment, and does this
        os.fchmod(handle, 0o666)  # the umask must not lock other users out
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
            return _described(handle)
        return ""
    finally:
        os.close(handle)


def _described(handle: int) -> str:
    return os.pread(handle, 200, 0).decode(errors="replace").strip() or "another experiment"


@contextlib.contextmanager
def machine(
    purpose: str, *, wait_s: float = 600.0, waiting: Callable[[str], None] | None = None
) -> Iterator[None]:
    """Hold the machine for one experiment.

    Waits up to `wait_s` seconds for a running experiment to end, telling `waiting` once who that is.
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
                who = _described(handle)
                if time.monotonic() >= deadline:
                    raise BusyError(
                        f"This machine is measuring already: {who}.",
                        "Wait for it to end, stop it, or run `sched-labs clean` if its program is gone.",
                    ) from None
                if waiting and not told:
                    waiting(who)
                    told = True
                time.sleep(0.1)
        writable = fcntl.fcntl(handle, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDWR
        if writable:  # the lock holds all the same where it is not; it only cannot say by whom
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"{purpose} (process {os.getpid()})\n".encode(), 0)
        try:
            yield
        finally:
            if writable:
                os.ftruncate(handle, 0)  # a next holder who may only read must not seem to be this one
    finally:
        os.close(handle)
