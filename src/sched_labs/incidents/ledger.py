"""How far the reader has come with the incidents: one small file in the data folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..core import jsontext, store
from ..core.errors import ResultError
from .desk import Running

COLUMNS = (
    *("story", "seed", "started_at", "score", "cause_at_s", "evidence_at_s", "repaired_at_s"),
    *("hints", "wrong_causes", "wrong_values", "checks", "revealed", "given", "measured"),
)
_WORDS = ("story", "started_at")
_SUMMED = ("hints", "wrong_causes", "wrong_values", "checks")
_MOST = 500  # incidents that are kept


def _file() -> Path:
    return store.data_folder() / "incidents.json"


def entries() -> list[dict[str, Any]]:
    """Every incident that was played, the latest last.  Raises ResultError for a file of another form."""
    try:
        kept = jsontext.parse(_file().read_bytes())
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise ResultError(
            f"Cannot read {_file()}: {error}.", "Move the file away; a new one is begun."
        ) from error
    if not isinstance(kept, list) or not all(map(_is_entry, kept)):
        raise ResultError(f"{_file()} holds no incidents.", "Move the file away; a new one is begun.")
    return kept


def _is_entry(one: Any) -> bool:
    """Whether it is what `note` writes: words, numbers, and counts that can be added to."""
    if not isinstance(one, dict):
        return False
    words = all(isinstance(one.get(key), str) and one[key].isprintable() for key in _WORDS)
    numbers = {key: one[key] for key in COLUMNS if key in one and key not in (*_WORDS, "revealed")}
    counts = all(type(numbers.get(key, 0)) is int for key in ("seed", "score", *_SUMMED))
    return words and counts and all(type(value) in (int, float) for value in numbers.values())


def _find(kept: list[dict[str, Any]], running: Running) -> dict[str, Any]:
    key = (running.plan.name, running.plan.seed, running.state["started_at"])
    for one in kept:
        if (one.get("story"), one.get("seed"), one.get("started_at")) == key:
            return one
    kept.append(dict(zip(("story", "seed", "started_at"), key, strict=True)))
    return kept[-1]


def note(running: Running, **what: Any) -> dict[str, Any]:
    """Keep what happened: counts are added, of moments the first one stays, the latest of everything else.

    What is found out after `reveal` counts for nothing.
    """
    with store.held(store.data_folder()):
        kept = entries()
        entry = _find(kept, running)
        for key, value in what.items():
            if key in _SUMMED:
                entry[key] = entry.get(key, 0) + value
            elif key.endswith("_at_s"):
                if not entry.get("revealed"):
                    entry.setdefault(key, value)
            else:
                entry[key] = value
        entry["score"] = score(entry)
        store.write_text(_file(), json.dumps(kept[-_MOST:], indent=1) + "\n")
    return entry


def of(running: Running) -> dict[str, Any]:
    """What is kept of the running incident."""
    return _find(entries(), running)


def score(entry: dict[str, Any]) -> int:
    """0 to 100: 40 for the cause, 30 for its evidence, 30 for the repair.

    A wrong cause costs 10 and a wrong value 5 of what they were wrong about, a hint 5.
    """
    points = 0
    if "cause_at_s" in entry:
        points += max(0, 40 - 10 * entry.get("wrong_causes", 0))
    if "evidence_at_s" in entry:
        points += max(0, 30 - 5 * entry.get("wrong_values", 0))
    if "repaired_at_s" in entry:
        points += 30
    return max(0, points - 5 * entry.get("hints", 0))


def export(path: Path) -> None:
    """Write it all for a teacher, as CSV: nothing in it names a person or a machine."""
    import pandas as pd

    from ..core.spreadsheet import csv

    table = pd.DataFrame(entries(), columns=list(COLUMNS), dtype=object)
    store.write_text(path, csv(table))
