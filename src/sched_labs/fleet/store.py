"""What a fleet measured, in a folder: one file for each result, written whole and once.

    FOLDER/KIND/plan.json                  the parameters, the same for every round
    FOLDER/KIND/ROUND/MACHINE.row.json     what the report reads; it is there when all of it is there
    FOLDER/KIND/ROUND/MACHINE.result.json  the whole result, for `sched-labs show`
    FOLDER/KIND/ROUND/MACHINE.missing.json why there is none
    FOLDER/KIND/ROUND/done                 the round has come to its end

A round without its end goes on where it stopped.  Names of machines are marks, not host names.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..core import jsontext
from ..core.errors import ParameterError, ResultError, SchedLabError
from ..core.store import now, write_text
from . import row

WHY = ("busy", "failed", "lacking", "refused", "silent", "unknown", "vanished")
_ROUND = "%Y%m%dT%H%M%SZ"
_ROUNDS = re.compile(r"\d{8}T\d{6}Z")
_KIND = re.compile(r"[a-z0-9_]+(\.[a-z0-9_]+)*")
MARK = re.compile(r"[0-9a-z]{1,40}")  # of a machine, which names its files


@dataclass(frozen=True)
class Round:
    """One round of a kind: every machine once."""

    folder: Path

    def rows(self) -> set[str]:
        """The machines that have answered."""
        return {path.name.partition(".")[0] for path in self.folder.glob("*.row.json")}

    def keep(self, machine: str, found: dict[str, Any], result: str) -> bool:
        """Keep what a machine measured; False where that is there already, which stays.

        Raises ResultError where it cannot be written.
        """
        target = self.folder / f"{machine}.row.json"
        if target.exists():
            return False
        write_text(self.folder / f"{machine}.result.json", result)
        write_text(target, row.text(found | {"arrived_at": now()}))
        self._missing(machine).unlink(missing_ok=True)
        return True

    def miss(self, machine: str, why: str, reason: str) -> None:
        """Keep why there is no result, unless there is one."""
        if not (self.folder / f"{machine}.row.json").exists():
            write_text(self._missing(machine), json.dumps({"why": why, "reason": reason[:300]}) + "\n")

    def forget(self, machine: str) -> None:
        """It is asked once more."""
        self._missing(machine).unlink(missing_ok=True)

    def missing(self) -> dict[str, tuple[str, str]]:
        """Machine -> (why, reason) of those that have not answered."""
        found = {}
        for path in sorted(self.folder.glob("*.missing.json")):
            try:
                said = jsontext.parse(_content(path))
                why, reason = said["why"], said["reason"]
                if why in WHY and isinstance(reason, str) and reason.isprintable():
                    found[path.name.partition(".")[0]] = (why, reason[:300])
            except (OSError, ValueError, KeyError, TypeError):
                continue
        return found

    def end(self) -> None:
        write_text(self.folder / "done", now() + "\n")

    @property
    def ended(self) -> bool:
        return (self.folder / "done").exists()

    def _missing(self, machine: str) -> Path:
        return self.folder / f"{machine}.missing.json"


def rounds(folder: Path, kind: str) -> list[Round]:
    """The rounds of a kind, oldest first."""
    found = sorted(path for path in (folder / kind).glob("*") if _ROUNDS.fullmatch(path.name))
    return [Round(path) for path in found]


def kinds(folder: Path) -> list[str]:
    """The kinds that were measured.  Raises ParameterError for what is no folder of a fleet."""
    found = [
        path.name
        for path in sorted(folder.glob("*"))
        if _KIND.fullmatch(path.name) and rounds(folder, path.name)
    ]
    if not found:
        raise ParameterError(
            f"{folder} holds nothing of a fleet.", "Name a folder that `sched-labs fleet run` wrote."
        )
    return found


def begin(folder: Path, kind: str, parameters: dict[str, Any], *, missing: bool = False) -> Round:
    """The round to measure: the last one where it was broken off, else a new one.

    missing   the last one in any case, for the machines that it lacks
    Raises ParameterError where the folder holds the kind with other parameters.
    """
    plan = folder / kind / "plan.json"
    wanted = json.dumps(parameters, sort_keys=True) + "\n"
    if plan.exists() and (before := plan.read_text(encoding="utf-8")) != wanted:
        raise ParameterError(
            f"{folder} holds {kind} measured with other parameters: {before.strip():.200}.",
            "Name another folder for these.",
        )
    write_text(plan, wanted)
    earlier = rounds(folder, kind)
    if earlier and (missing or not earlier[-1].ended):
        return earlier[-1]
    stamp = datetime.now(UTC).strftime(_ROUND)
    while earlier and stamp <= earlier[-1].folder.name:  # two rounds of one second
        stamp = datetime.fromtimestamp(when(earlier[-1]).timestamp() + 1, UTC).strftime(_ROUND)
    made = Round(folder / kind / stamp)
    try:
        made.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ResultError(f"Cannot write {made.folder}: {error.strerror}.", "Name another folder.") from error
    return made


def when(one: Round) -> datetime:
    """When a round began, by the clock of the machine that asked."""
    return datetime.strptime(one.folder.name, _ROUND).replace(tzinfo=UTC)


def read(one: Round, problems: dict[str, str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """(machine, row) of a round; files that are no rows are left out, and named in `problems`."""
    for entry in sorted(os.scandir(one.folder), key=lambda entry: entry.name):
        machine, _, rest = entry.name.partition(".")
        if rest != "row.json" or not MARK.fullmatch(machine):
            continue
        try:
            yield machine, row.parse(_content(Path(entry.path)))
        except OSError as error:
            problems[entry.name] = f"it cannot be read: {error.strerror}."
        except SchedLabError as error:
            problems[entry.name] = error.what


def _content(path: Path) -> bytes:
    # A pipe in the folder is not waited for.
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        return file.read(row.LARGEST_BYTES + 1) or b""
