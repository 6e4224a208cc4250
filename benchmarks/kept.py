"""What a long bench has found so far, in a file: it is run in pieces, as long as the machine is quiet."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from table import here

from sched_labs.core.store import now


class Kept:
    """What was said of each case and seed, as lines of JSON in a file; without one in memory only.

    Each line says when and on which machine it was found: pieces may come from several.
    how   what else decides: lines that were written with another one are left alone, and do not count
    """

    def __init__(self, file: Path | None, how: str) -> None:
        self._file, self._how, self._machine = file, how, here()
        rows = [json.loads(line) for line in file.read_text().splitlines()] if file and file.exists() else []
        self._said: dict[tuple[str, int], dict[str, Any]] = {
            (row["case"], row["seed"]): row for row in rows if row["how"] == how
        }

    def has(self, case: str, seed: int) -> bool:
        return (case, seed) in self._said

    def add(self, case: str, seed: int, said: dict[str, Any]) -> None:
        row = {"case": case, "seed": seed, "how": self._how, "at": now(), "machine": self._machine, **said}
        self._said[case, seed] = row
        if self._file:
            with self._file.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")

    def of(self, case: str, seeds: range) -> list[dict[str, Any]]:
        return [self._said[case, seed] for seed in seeds if (case, seed) in self._said]
