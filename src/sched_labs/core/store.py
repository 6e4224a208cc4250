"""What the reader keeps: results, predictions, a choice: in the reader's data folder, not in the source tree.

The folder is `$XDG_DATA_HOME/sched-labs` (by default `~/.local/share/sched-labs`).  Files are written beside
their place and moved into it, so that an interrupted write leaves the old file whole.  What is read, changed
and written again is held meanwhile, so that of two writers none is lost.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from . import jsontext
from .errors import ParameterError, ResultError

_PART = ".sched-labs-*.part"  # a file that is being written; its writer holds it by flock
PATIENCE_S = 10.0  # with another writer, who needs a few milliseconds


def data_folder() -> Path:
    """Where results and predictions live.  Not created until something is written.

    Raises ResultError for a user who has no home and names no folder.
    """
    return _base("XDG_DATA_HOME", ".local/share") / "sched-labs"


def cache_folder() -> Path:
    """Where things live that can be made again: compiled workloads, unpacked kernels.  Raises ResultError."""
    return _base("XDG_CACHE_HOME", ".cache") / "sched-labs"


def _base(variable: str, within_home: str) -> Path:
    named = os.environ.get(variable, "")
    if named.startswith("/"):  # the XDG specification has a relative one ignored
        return Path(named)
    try:
        return Path.home() / within_home
    except RuntimeError as error:
        raise ResultError(
            "This user has no home folder to keep anything in.",
            f"Set HOME, or {variable}, to a folder that you may write.",
        ) from error


def at_home(path: str | Path) -> Path:
    """The path with ~ filled in.  Raises ResultError where that is no user's home."""
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise ResultError(f"{path} is in nobody's home: {error}.", "Write the path out.") from error


def write_text(path: Path, text: str) -> None:
    """Write a whole file or nothing.  Raises ResultError when it cannot be written; see `write_bytes`."""
    write_bytes(path, text.encode("utf-8", "backslashreplace"))


def write_bytes(path: Path, data: bytes) -> None:
    """Write a whole file or nothing, where a link leads to, with the mode that the file has.

    A device or a pipe, such as /dev/stdout, is written to and stays what it is.
    Raises ResultError when it cannot be written.
    """
    try:
        target, old = _target(path)
        if old and not stat.S_ISREG(old.st_mode):
            _write_into(path, data)
        else:
            _replace(target, data, stat.S_IMODE(old.st_mode) if old else None)
    except (OSError, ValueError) as error:  # ValueError: a null byte in the name
        raise ResultError(
            f"Cannot write {path}: {getattr(error, 'strerror', None) or error}.",
            "Choose a folder that you may write; XDG_DATA_HOME names the one for what is kept.",
        ) from error


def _target(path: Path) -> tuple[Path, os.stat_result | None]:
    """Where a link leads to, and what is there; the path itself and None where there is nothing.

    The kernel follows it, which refuses links that others laid into a folder open to all.
    """
    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return path, None
    try:
        return Path(f"/proc/self/fd/{handle}").readlink(), os.fstat(handle)
    finally:
        os.close(handle)


def _write_into(path: Path, data: bytes) -> None:
    # Without O_NONBLOCK the opening of a pipe that nobody reads would wait for a reader.
    handle = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    os.set_blocking(handle, True)
    with os.fdopen(handle, "wb") as file:
        file.write(data)


def _replace(path: Path, data: bytes, mode: int | None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(_PART.replace("*", secrets.token_hex(8)))
    try:
        with part.open("xb") as file:
            with contextlib.suppress(OSError):  # a file system without locks, where `abandoned` finds nothing
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def abandoned(folder: Path, *, after_s: float = 2.0) -> Iterator[Path]:
    """Files below a folder whose writer was killed before they were whole.

    after_s   how old they are: a writer has opened its file a moment before it holds it
    """
    for part in folder.rglob(_PART):
        with contextlib.suppress(OSError), part.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            if time.time() - part.lstat().st_mtime > after_s:
                yield part


@contextlib.contextmanager
def held(folder: Path) -> Iterator[None]:
    """Be the only one who changes what is kept in a folder; others wait.

    Raises ResultError when the folder cannot be written, or another one does not end.
    """
    lock = folder / ".lock"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ResultError(
            f"Cannot write {lock}: {error.strerror}.",
            "Choose a folder that you may write; XDG_DATA_HOME names the one for what is kept.",
        ) from error
    try:
        _wait_for(handle, folder)
        yield
    finally:
        os.close(handle)


def _wait_for(handle: int, folder: Path) -> None:
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EINTR):
                raise ResultError(
                    f"{folder} cannot be locked: {error.strerror}.",
                    "Name a folder on a disk of this machine in XDG_DATA_HOME.",
                ) from error
            if time.monotonic() > end:
                raise ResultError(
                    f"Another program has been writing to {folder} for {PATIENCE_S:.0f} s.",
                    "Is one of yours stopped (Ctrl-Z)? Let it go on, or end it.",
                ) from error
            time.sleep(0.01)


_QUESTION = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


def _predictions_file() -> Path:
    return data_folder() / "predictions.json"


def predictions() -> dict[str, dict[str, Any]]:
    """All predictions kept so far: question id -> {"value", "unit", "made_at"}."""
    try:
        kept = jsontext.parse(_predictions_file().read_bytes())
        if not isinstance(kept, dict) or not all(
            isinstance(entry, dict) and {"value", "unit", "made_at"} <= entry.keys()
            for entry in kept.values()
        ):
            raise ValueError("they do not have the form in which predictions are kept")
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ResultError(
            f"Cannot read the predictions in {_predictions_file()}: {error}.",
            "Move the file away; predictions made from now on are kept in a new one.",
        ) from error
    return kept


def check_question(question_id: str) -> None:
    """Raises ParameterError for what cannot be the name of a question."""
    if not _QUESTION.fullmatch(question_id):
        raise ParameterError(
            f"{question_id[:80]!r} is not the name of a question.",
            "Names are lower-case letters, digits, dots and dashes, at most 64.",
        )


def save_prediction(question_id: str, value: float | str, unit: str) -> dict[str, Any]:
    """Keep the reader's prediction, a number or a word; a later one for the same question replaces it.

    Raises ParameterError for an id, value or unit that could not have come from a question of the book.
    """
    check_question(question_id)
    kept_value = _word(value) if unit == "word" else _number(value)
    if not unit or len(unit) > 32 or not unit.isprintable():
        raise ParameterError(
            f"{unit[:40]!r} is not a unit.", "Give a short unit such as ns, bytes or percent."
        )
    with held(data_folder()):
        kept = predictions()
        kept[question_id] = {"value": kept_value, "unit": unit, "made_at": now()}
        write_text(_predictions_file(), json.dumps(kept, indent=1, sort_keys=True) + "\n")
    return kept[question_id]


def drop_prediction(question_id: str) -> None:
    """Forget the reader's prediction, where there is one."""
    if not predictions():
        return
    with held(data_folder()):
        kept = predictions()
        if kept.pop(question_id, None) is not None:
            write_text(_predictions_file(), json.dumps(kept, indent=1, sort_keys=True) + "\n")


def _number(value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = float("nan")
    if not abs(number) < 1e18:  # refuses infinities and NaN too
        raise ParameterError(
            f"{value!r:.40} is not a number that a prediction can be.", "Give a finite number."
        )
    return number


def _word(value: Any) -> str:
    if not (isinstance(value, str) and 0 < len(value) <= 64 and value.isprintable()):
        raise ParameterError(f"{str(value)[:40]!r} is not a word that a prediction can be.")
    return value


def _machine_file() -> Path:
    return data_folder() / "recorded-machine"


def recorded_machine() -> str:
    """The word of the machine whose recorded runs the reader wants to see; empty for the book's own.

    A choice that cannot be read is none: every figure names the machine that it shows.
    """
    with contextlib.suppress(OSError, ValueError, ResultError):
        return _machine_file().read_text(encoding="utf-8").strip()
    return ""


def keep_recorded_machine(word: str) -> None:
    """Keep the reader's choice.  Raises ResultError where it cannot be written."""
    write_text(_machine_file(), f"{word}\n")


def now() -> str:
    """The time of day as results and predictions record it: ISO 8601, UTC, seconds."""
    return datetime.now(UTC).isoformat(timespec="seconds")
