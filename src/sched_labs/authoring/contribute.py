"""`sched-labs contribute`: runs that the book has not, of machines that it has not, as one file.

The runs that ship with the book were made on machines without SMT, with one memory node, without hardware
counters; what each of them lacks stands in its notes.  A run of the same experiment that lacks less of it is
wanted, and is held to what the book's own are held to: the clauses of the contract, and no flag.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..core import jsontext, registry
from ..core.errors import ResultError, SchedLabError
from ..core.result import LARGEST_BYTES, Result, from_json
from ..core.store import write_text
from ..core.version import __version__
from ..run.record import lacking, missing
from ..testing.contract import CLAUSES, Subject

FORMAT, VERSION = "sched-labs contribution", 1
_PROFILES = ("quick", "full")


def objections(run: Result) -> list[str]:
    """Why the book does not take a run, a sentence each; none where it does."""
    lacks = lacking(run.kind)
    if not lacks:
        return [f"The book has all that it wants of {run.kind}."]
    found = []
    if _plainly(lacks) <= _plainly(missing(run)) or len(missing(run)) > len(lacks):
        found.append(f"It lacks what the book's run lacks: {' '.join(missing(run))}")
    if run.timing != "native" or run.interrupted:
        found.append("It was not measured whole, and by a machine's own clock.")
    if run.parameters.get("profile") not in _PROFILES:
        found.append(f"Its profile is not {' or '.join(_PROFILES)}.")
    if run.library != __version__:
        found.append(f"It was measured by sched-labs {run.library}; this is {__version__}.")
    found += [f"It is flagged: {text}" for text in run.flags]
    return found or _broken(run)


def _plainly(notes: Iterable[str]) -> set[str]:
    """The notes without the numbers of a machine's CPUs."""
    return {re.sub(r"\d[\d,-]*", "", text) for text in notes}


def _broken(run: Result) -> list[str]:
    subject, found = Subject(registry.entry(run.kind), run), []
    for name, clause in CLAUSES.items():
        try:
            found += [f"{name}: {sentence}" for sentence in clause(subject)]
        except Exception as error:  # a run that is unlike any that we know
            found.append(f"{name}: {type(error).__name__}: {error!s:.200}")
    return found


def text(runs: Iterable[Result]) -> str:
    """The file: these runs, whole."""
    held = [json.loads(run.to_json()) for run in runs]
    return json.dumps({"format": FORMAT, "version": VERSION, "runs": held}, separators=(",", ":")) + "\n"


def shown(run: Result) -> str:
    """Everything in a run but its rows, which are counted, to be read before it leaves."""
    head = json.loads(run.to_json())
    head["columns"] = f"{len(run.data):,} rows of {', '.join(map(str, run.data.columns))}"
    head["tables"] = {
        name: f"{len(table):,} rows of {', '.join(map(str, table.columns))}"
        for name, table in run.tables.items()
    }
    return json.dumps(head, indent=1)


def parse(data: bytes) -> list[Result]:
    """The runs of a file.  Raises SchedLabError for what is none."""
    try:
        found: Any = jsontext.parse(data) if len(data) <= LARGEST_BYTES else None
    except ValueError:
        found = None
    if not isinstance(found, dict) or found.get("format") != FORMAT or found.get("version") != VERSION:
        raise SchedLabError("This is no contribution.", "Make one with: sched-labs contribute")
    held = found.get("runs")
    if not isinstance(held, list) or not held:
        raise SchedLabError("This contribution has no run.", "Make it again with: sched-labs contribute")
    runs = [from_json(json.dumps(one), "A run of the contribution") for one in held]
    if len({run.kind for run in runs}) < len(runs):
        raise SchedLabError("This contribution has two runs of one kind.", "Take the one that lacks less.")
    return runs


def take(path: Path, machine: str = "") -> list[Path]:
    """Lay each run of a contribution beside its experiment: a pull request.

    machine   a word for the machine, whose runs then lie beside the book's own; "": in place of these

    Returns where.  Raises SchedLabError, and lays nothing, where the book does not take one of them.
    """
    try:
        runs = parse(path.read_bytes())
    except OSError as error:
        raise ResultError(f"{path} cannot be read: {error.strerror}.", "Name the contribution.") from error
    if wrong := [f"{run.kind}: {sentence}" for run in runs for sentence in objections(run)]:
        raise SchedLabError("\n  ".join(["The book does not take this:", *wrong]), "Measure once more.")
    places = {registry.entry(run.kind).recorded_file(machine): run for run in runs}
    for place, run in places.items():
        write_text(place, run.to_json())
    return list(places)
