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


# Others may have put something else in its place: a link is not followed, and no end of a pipe waited for.
_CAREFULLY = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def _open(path: Path) -> int:
    try:
        handle = _open_or_create(path)
    except OSError as error:
        raise BusyError(
            f"The lock file {path} cannot be opened: {error.strerror}.",
            "Make room there if the disk is full; else remove that file, or ask its owner to.",
        ) from error
    if not _is_ours(handle):
        os.close(handle)
        raise BusyError(f"{path} is no lock file.", "Remove it, or ask its owner to.")
    return handle


def _is_ours(handle: int) -> bool:
    """Whether it is a file by itself: what the holder writes into it must not reach another one."""
    status = os.fstat(handle)
    return stat.S_ISREG(status.st_mode) and status.st_nlink <= 1


def _open_or_create(path: Path) -> int:
    # Opened without O_CREAT first: in a sticky folder the kernel refuses O_CREAT on another user's file.
    try:
        return os.open(path, os.O_RDWR | _CAREFULLY)
    except FileNotFoundError:
        pass
    except PermissionError:
        return os.open(path, os.O_RDONLY | _CAREFULLY)
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | _CAREFULLY, 0o666)
    except PermissionError:
        # Another user created it in this moment.
        return os.open(path, os.O_RDONLY | _CAREFULLY)
    with contextlib.suppress(PermissionError):  # somebody else created it in this moment, and does this
        os.fchmod(handle, 0o666)  # the umask must not lock other users out
    return handle


def holder(path: Path | None = None) -> str:
    """Who holds the machine now, as they described themselves; empty when nobody does."""
    path = path or lock_path()
    try:
        handle = os.open(path, os.O_RDONLY | _CAREFULLY)
    except OSError:
        return ""
    try:
        if not _is_ours(handle):
            return ""
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _described(handle)
        return ""
    finally:
        os.close(handle)


def _described(handle: int) -> str:
    said = os.pread(handle, 200, 0).decode(errors="replace").strip()
    # Every user may write into the file: nothing of it moves a terminal's cursor.
    return "".join(sign if sign.isprintable() else "?" for sign in said) or "another experiment"


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
            except OSError as error:
                raise BusyError(
                    f"The lock file {path} cannot be locked: {error.strerror}.",
                    "Is it on a disk of this machine?",
                ) from error
        _describe(handle, f"{purpose} (process {os.getpid()})\n")
        try:
            yield
        finally:
            _describe(handle, "")  # a next holder who may only read must not seem to be this one
    finally:
        os.close(handle)


def _describe(handle: int, text: str) -> None:
    # The lock holds all the same where the file may only be read, or the disk is full: it says not by whom.
    with contextlib.suppress(OSError):
        os.ftruncate(handle, 0)
        os.pwrite(handle, text.encode(errors="replace"), 0)
