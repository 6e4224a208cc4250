"""How far the reader has come with the labs: one small file in the data folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd

from ..core import jsontext, store
from ..core.errors import ResultError
from .catalogue import all_labs

COLUMNS = ("lab", "title", "started_at", "checks", "hints", "passed_at", "revealed_at", "seed")
_COUNTS = {"checked": "checks", "hinted": "hints"}


def _file() -> Path:
    return store.data_folder() / "labs" / "progress.json"


def _read() -> dict[str, dict[str, Any]]:
    try:
        kept = jsontext.parse(_file().read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ResultError(
            f"Cannot read the progress in {_file()}: {error}.", "Move the file away; a new one is begun."
        ) from error
    if not isinstance(kept, dict) or not all(_is_entry(entry) for entry in kept.values()):
        raise ResultError(f"{_file()} holds no progress.", "Move the file away; a new one is begun.")
    return kept


def _is_entry(entry: Any) -> bool:
    return isinstance(entry, dict) and all(
        type(value) is int if key in _COUNTS.values() else value is None or type(value) in (str, int)
        for key, value in entry.items()
    )


def note(name: str, what: str, *, seed: int | None = None) -> None:
    """Keep that a lab was started, passed or revealed, where the first time counts; or checked or hinted."""
    with store.held(store.data_folder()):
        kept = _read()
        entry = kept.setdefault(name, {})
        if what in _COUNTS:
            entry[_COUNTS[what]] = entry.get(_COUNTS[what], 0) + 1
        else:
            entry.setdefault(f"{what}_at", store.now())
        if what == "passed":
            entry.setdefault("seed", seed)
        store.write_text(_file(), json.dumps(kept, indent=1, sort_keys=True) + "\n")


def hints_shown(name: str) -> int:
    """How many of a lab's hints the reader has had."""
    return int(_read().get(name, {}).get("hints", 0))


def progress() -> pd.DataFrame:
    """One row per lab of the book.

    lab, title; started_at, passed_at, revealed_at (UTC, empty where it has not happened); checks (how often
    it was checked, a count); hints (how many of its hints were shown); seed (of the check that passed first).
    """
    kept = _read()
    rows = [
        {"lab": lab.name, "title": lab.title, "checks": 0, "hints": 0} | kept.get(lab.name, {})
        for lab in all_labs()
    ]
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    return table.astype(object).where(table.notna(), "")


def export(path: Path) -> None:
    """Write the progress for a teacher, as CSV: nothing in it names a person or a machine."""
    store.write_text(path, progress().to_csv(index=False))
