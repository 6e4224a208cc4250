"""A folder in the temporary directory while something runs, and those that a killed program left there."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from ..core.errors import ResultError

_PREFIX = "sched-labs-scratch-"


@contextlib.contextmanager
def folder() -> Iterator[tuple[Path, int]]:
    """The folder, and the handle by which it is held: whoever else works in it has to inherit that.

    Raises ResultError where none can be made.
    """
    try:
        made = tempfile.TemporaryDirectory(prefix=_PREFIX)
    except OSError as error:
        raise ResultError(
            f"No folder can be made for what is passing: {error.strerror}.",
            "Make room in /tmp, or name another folder in TMPDIR.",
        ) from error
    with made as name:
        handle = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with contextlib.suppress(OSError):  # a file system without locks, where `abandoned` finds nothing
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield Path(name), handle
        finally:
            os.close(handle)


def abandoned(*, after_s: float = 2.0) -> Iterator[Path]:
    """Folders of this user that no program holds any more.

    after_s   how old they are: a folder is made a moment before it is held
    """
    for place in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        try:
            handle = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue  # another user's, or no folder
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            about = os.fstat(handle)
            if about.st_uid == os.getuid() and time.time() - about.st_mtime > after_s:
                yield place
        except OSError:
            continue  # held
        finally:
            os.close(handle)
