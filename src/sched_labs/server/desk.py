"""The reader's own copies of the chapters.

JupyterLab opens these and never the source tree: what a reader changes must survive an update of the book,
and a virtual machine whose synced folder is overwritten at every start.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from ..core import jsontext, store

_LEDGER = ".as-delivered.json"


def lay_out(sources: Mapping[str, Path], desk: Path) -> list[str]:
    """Copy the chapters, by their names, to `desk/notebooks`; return the names of those left alone.

    A copy that the reader has not touched follows the book. One that the reader changed stays as it is, and
    the book's newer version is laid beside it under the ending `.new.md`.
    """
    folder = desk / "notebooks"
    folder.mkdir(parents=True, exist_ok=True)
    ledger = _ledger(folder)
    kept: list[str] = []
    for name, source in sources.items():
        text = source.read_text(encoding="utf-8")
        target = folder / f"{name}.md"
        mine = target.read_text(encoding="utf-8") if target.is_file() else None
        if mine is None or _digest(mine) == ledger.get(target.name):
            if mine != text:
                store.write_text(target, text)
            target.with_suffix(".new.md").unlink(missing_ok=True)
            ledger[target.name] = _digest(text)
        elif mine != text and _digest(text) != ledger.get(target.name):
            store.write_text(target.with_suffix(".new.md"), text)
            kept.append(target.name)
    store.write_text(folder / _LEDGER, json.dumps(ledger, indent=1, sort_keys=True) + "\n")
    return kept


def _ledger(folder: Path) -> dict[str, str]:
    """What was delivered: file name -> digest. Without it every copy counts as changed; nothing is lost."""
    try:
        kept = jsontext.parse((folder / _LEDGER).read_bytes())
    except (OSError, ValueError):
        return {}
    return kept if isinstance(kept, dict) else {}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
