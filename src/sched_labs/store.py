"""What the reader keeps: results and predictions, in the reader's data folder and never in the source tree.

The folder is `$XDG_DATA_HOME/sched-labs` (by default `~/.local/share/sched-labs`).  Files are written beside
their place and moved into it, so that an interrupted write leaves the old file whole.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .errors import ParameterError, ResultError


def data_folder() -> Path:
    """Where results and predictions live.  Not created until something is written."""
    base = os.environ.get("XDG_DATA_HOME")
    return (Path(base) if base else Path.home() / ".local" / "share") / "sched-labs"


def cache_folder() -> Path:
    """Where things live that can be made again: compiled workloads, unpacked kernels."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "sched-labs"


def write_text(path: Path, text: str) -> None:
    """Write a whole file or nothing.  Raises ResultError when the folder cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            # mkstemp makes the file private; give it the mode an ordinary new file would have.
            umask = os.umask(0)
            os.umask(umask)
            os.chmod(temporary, 0o666 & ~umask)  # noqa: PTH101
            os.replace(temporary, path)  # noqa: PTH105
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ResultError(
            f"Cannot write {path}: {error.strerror}.",
            "Choose a folder that you may write, or set XDG_DATA_HOME to one.",
        ) from error


_QUESTION = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


def _predictions_file() -> Path:
    return data_folder() / "predictions.json"


def predictions() -> dict[str, dict[str, Any]]:
    """All predictions kept so far: question id -> {"value", "unit", "made_at"}."""
    try:
        kept = json.loads(_predictions_file().read_text(encoding="utf-8"))
        if not isinstance(kept, dict) or not all(
            isinstance(entry, dict) and {"value", "unit", "made_at"} <= entry.keys()
            for entry in kept.values()
        ):
            raise ValueError("they do not have the form in which predictions are kept")
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
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


def save_prediction(question_id: str, value: float, unit: str) -> dict[str, Any]:
    """Keep the reader's prediction; a later one for the same question replaces it.

    Raises ParameterError for an id, value or unit that could not have come from a question of the book.
    """
    check_question(question_id)
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = float("nan")
    if not abs(number) < 1e18:  # refuses infinities and NaN too
        raise ParameterError(f"{value!r} is not a number that a prediction can be.", "Give a finite number.")
    if not unit or len(unit) > 32:
        raise ParameterError(
            f"{unit[:40]!r} is not a unit.", "Give a short unit such as ns, bytes or percent."
        )
    kept = predictions()
    kept[question_id] = {"value": number, "unit": unit, "made_at": now()}
    write_text(_predictions_file(), json.dumps(kept, indent=1, sort_keys=True) + "\n")
    return kept[question_id]


def now() -> str:
    """The time of day as results and predictions record it: ISO 8601, UTC, seconds."""
    return datetime.now(UTC).isoformat(timespec="seconds")
