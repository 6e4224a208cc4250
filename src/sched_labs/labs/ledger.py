"""How far the reader has come with the labs: one small file in the data folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd

from .. import store
from ..errors import ResultError
from .catalogue import all_labs

COLUMNS = ("lab", "title", "started_at", "checks", "passed_at", "revealed_at", "seed")


def _file() -> Path:
    return store.data_folder() / "labs" / "progress.json"


def _read() -> dict[str, dict[str, Any]]:
    try:
        kept = json.loads(_file().read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ResultError(
            f"Cannot read the progress in {_file()}: {error}.", "Move the file away; a new one is begun."
        ) from error
    if not isinstance(kept, dict) or not all(isinstance(entry, dict) for entry in kept.values()):
        raise ResultError(f"{_file()} holds no progress.", "Move the file away; a new one is begun.")
    return kept


def note(name: str, what: str, *, seed: int | None = None) -> None:
    """Keep that a lab was started, checked, passed or revealed.  The first time of each counts."""
    kept = _read()
    entry = kept.setdefault(name, {})
    if what == "checked":
        entry["checks"] = entry.get("checks", 0) + 1
    else:
        entry.setdefault(f"{what}_at", store.now())
    if what == "passed":
        entry.setdefault("seed", seed)
    store.write_text(_file(), json.dumps(kept, indent=1, sort_keys=True) + "\n")


def progress() -> pd.DataFrame:
    """One row per lab of the book.

    lab, title; started_at, passed_at, revealed_at (UTC, empty where it has not happened); checks (how often
    it was checked, a count); seed (of the check that passed first).
    """
    kept = _read()
    rows = [{"lab": lab.name, "title": lab.title, "checks": 0} | kept.get(lab.name, {}) for lab in all_labs()]
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    return table.astype(object).where(table.notna(), "")


def export(path: Path) -> None:
    """Write the progress for a teacher, as CSV: nothing in it names a person or a machine."""
    store.write_text(path, progress().to_csv(index=False))
