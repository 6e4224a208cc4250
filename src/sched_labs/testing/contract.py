"""What the book promises of every experiment, clause by clause."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from .. import machine, workloads
from ..claims import Claim, all_claims
from ..core import registry
from ..core.errors import ParameterError, SchedLabError
from ..core.registry import Entry
from ..core.result import Result, from_json, recorded
from ..draw.base import Figure, Prediction
from ..run.base import Experiment, Instrument
from .cases import Case, misjudged
from .legible import unreadable
from .quoted import made_up, unit_of
from .watch import Watched, watched

# A guess of a size that fits on any axis of its kind; a figure refuses those that it has no axis for.
_GUESSES = (Prediction(30, "ms"), Prediction(50, "%"), Prediction(64, "KiB"))
# Numbers without a unit whose names say that they have none.
_PURE = {"ratio", "share", "speedup", "ipc", "over", "times", "phase", "strength"}
NEEDS = {"bpf", "cgroup", "network", "pmu", "priority", "second CPU"}


class ContractError(SchedLabError):
    """An experiment that breaks its contract; `what` lists every clause that it breaks."""


@dataclass
class Subject:
    """An experiment, a result of it, and what the clauses look at, each made once.

    result   a run of it: the recorded one, or one of this machine
    cases    its claims on constructed summaries; None where they stand elsewhere, as the book's own do in
             its tests
    watch    how the run went, where it was made here
    """

    entry: Entry
    result: Result
    cases: Sequence[Case] | None = None
    watch: Watched | None = None

    @property
    def kind(self) -> str:
        return self.entry.kind

    @cached_property
    def experiment(self) -> Experiment:
        return self.entry.load()

    @cached_property
    def table(self) -> pd.DataFrame:
        return self.result.summary()

    @cached_property
    def figures(self) -> dict[str, Figure]:
        """It alone, and over a recorded run with a prediction, where it has an axis for one."""
        pale = copy(self.result)
        for guesses in [[guess] for guess in _GUESSES] + [[]]:
            try:
                over = self.result.plot(recorded=pale, predictions=guesses)
            except ParameterError:
                if not guesses:
                    raise
            else:
                break
        return {"alone": self.result.plot(), "over a recorded run": over}

    @cached_property
    def claims(self) -> list[Claim]:
        return [claim for claim in all_claims() if claim.kind == self.kind]


def subject(kind: str, made: Watched | None = None, machine: str = "") -> Subject:
    """The experiment of this kind with its recorded run, or one that was made here, and the cases beside it.

    machine   whose recorded run, by its word: the book's own by default

    Raises ParameterError for an unknown kind and for one that has no recorded run.
    """
    entry = registry.entry(kind)
    run = made.result if made else recorded(entry.kind, machine)
    if run is None:
        raise ParameterError(
            f"No run of {entry.kind} is recorded.", f"Record one: sched-labs record {entry.kind}"
        )
    return Subject(entry, run, _cases(entry), made)


def _cases(entry: Entry) -> list[Case] | None:
    if entry.package.startswith("sched_labs.") and not entry.parts("cases"):
        return None
    own = [Case(*case) for module in entry.parts("cases") for case in module.CASES]
    about = {claim.id for claim in all_claims() if claim.kind == entry.kind}
    beside = {claim.id for module in entry.parts("claims") for claim in module.CLAIMS}
    # A folder of several experiments has one `cases.py`: the others' claims are theirs.
    return [case for case in own if case.claim in about or case.claim not in beside]


def check_experiment(kind: str, *, live: bool = True) -> None:
    """Hold an experiment to every clause of the contract: its recorded runs, and a tiny one made here.

    kind   such as "naps.overshoot", or "naps" where that folder has one experiment only
    live   make the tiny run: it takes a second or two, and waits while this machine measures something else

    Raises ContractError, which names all that is wrong, and whatever the experiment itself raises.
    """
    entry = registry.entry(kind)
    runs = [subject(entry.kind, machine=word) for word in registry.recorded_files(entry.kind)]
    if live or not runs:
        runs.append(subject(entry.kind, watched(entry.load())))
    wrong = [
        f"{clause}: {sentence}" for one in runs for clause, find in CLAUSES.items() for sentence in find(one)
    ]
    if wrong:
        raise ContractError(
            "\n  ".join([f"{entry.kind} breaks its contract:", *dict.fromkeys(wrong)]),
            "CONTRIBUTING.md says what each clause asks for.",
        )


# ---- the clauses: each says what is wrong, or nothing ----


def declared(one: Subject) -> list[str]:
    """It says what it is, what it starts, what it needs, and with what it will measure."""
    wrong = []
    if one.kind.partition(".")[0] != one.entry.folder.name:
        wrong.append(f"A kind begins with its folder's name: {one.entry.folder.name}, not {one.kind}.")
    if not one.entry.about.endswith((".", "?")):
        wrong.append(f"The first line of its docstring is no sentence: {one.entry.about!r}.")
    if strange := set(one.entry.needs) - NEEDS:
        wrong.append(f"It needs {min(strange)!r}; machines have {', '.join(sorted(NEEDS))}.")
    if unknown := set(one.entry.workloads) - set(workloads.names()):
        wrong.append(f"There is no program {min(unknown)!r}.")
    if (tuple(one.experiment.workloads), tuple(one.experiment.needs)) != (
        one.entry.workloads,
        one.entry.needs,
    ):
        wrong.append("Its decorator is not what the register reads: write names out, without variables.")
    told = _told(one.experiment.function)
    wrong += [
        f"Its docstring does not say what the parameter {name} is."
        for name in one.experiment.parameters
        if not re.search(rf"\b{name}\b", told)
    ]
    with_what = one.experiment.instrument(machine.survey())
    if not (isinstance(with_what, Instrument) and with_what.name):
        wrong.append("Its `instrument` does not say with what it will measure.")
    return wrong


def documented(one: Subject) -> list[str]:
    """Every column is described, and has its unit in its name."""
    summary = one.experiment.summarise
    frames = [
        function
        for module in one.entry.parts("figure")
        for name, function in vars(module).items()
        if "frame" in name and inspect.isfunction(function) and function.__module__ == module.__name__
    ]
    wrong = []
    function = one.experiment.function
    looked_at: list[tuple[str, pd.DataFrame, list[Callable[..., Any]]]] = [
        ("data", one.result.data, [function]),
        *((f"table {name}", table, [function]) for name, table in one.result.tables.items()),
        ("summary", one.table, [summary]),
        ("figure", one.figures["alone"].data, [*frames, summary]),
    ]
    for what, table, told_by in looked_at:
        told = "\n".join(map(_told, told_by))
        wrong += [
            f"The docstring of the {what} does not describe its column {name}."
            for name in table.columns
            if not _is_told(str(name), told)
        ]
        wrong += [f"The column {name} of the {what} has no unit in its name." for name in _unitless(table)]
    wrong += [
        f"The docstring of the experiment does not say what it found as {name}."
        for name in (*one.result.tables, *one.result.facts)
        if not re.search(rf"\b{name}\b", _told(function))
    ]
    promised = _promised(inspect.getdoc(summary) or "", list(one.table.columns))
    wrong += [
        f"The docstring of the summary describes {name}, which is no column of it."
        for name in promised
        if name not in one.table.columns
    ]
    return wrong


def _told(function: Callable[..., Any]) -> str:
    """What a docstring says, and what those say that it refers to by their kinds ("as in quota.hog")."""
    own = inspect.getdoc(function) or ""
    others = [name for name in registry.names() if re.search(rf"\b{re.escape(name)}\b", own)]
    return "\n".join([own, *(inspect.getdoc(registry.find(name).function) or "" for name in others)])


def _is_told(name: str, told: str) -> bool:
    """Whether a docstring names a column: in full, with `_lo_` or `_hi_` beside its median, or as a pattern
    such as alone_<event>."""
    middle = re.sub(r"_(lo|hi)(?=_|$)", "", name)
    if re.search(rf"\b{re.escape(name)}\b", told):
        return True
    if middle != name and re.search(rf"\b{re.escape(middle)}\b.*_lo_", told):
        return True
    patterns = re.findall(r"\b(\w+_)<\w+>", told)
    return any(name.startswith(pattern) for pattern in patterns)


def _promised(told: str, columns: Sequence[str]) -> list[str]:
    """The names that begin the lines of a docstring's table: a name or several, then two spaces or more.

    `round_trip_ns, _lo_, _hi_` stands for three of the columns.
    """
    lines = [re.match(r"([a-z_0-9]+(?:, [a-z_0-9]+)*)(?: {2,}|$)", line) for line in told.splitlines()[1:]]
    names: list[str] = []
    for first, *others in (found[1].split(", ") for found in lines if found):
        names.append(first)
        for name in others:  # `name` itself where it is whole
            names += [one for one in columns if name in one and one.replace(name, "_") == first] or [name]
    return names


def _unitless(table: pd.DataFrame) -> Iterator[str]:
    """Columns of fractions whose names have no unit; whole numbers are counts, sizes of a set, places."""
    for name in map(str, table.columns):
        column = table[name]
        if pd.api.types.is_bool_dtype(column) or not pd.api.types.is_numeric_dtype(column):
            continue
        known = column[np.isfinite(column)]
        counts = name.endswith("s") or "_per_" in name
        if (known != known.round()).any() and not (counts or unit_of(name) or set(name.split("_")) & _PURE):
            yield name


def intervals(one: Subject) -> list[str]:
    """A median lies inside its interval."""
    wrong = []
    for what, table in (("summary", one.table), ("figure", one.figures["alone"].data)):
        for low in [str(name) for name in table.columns if re.search(r"_lo(_|$)", str(name))]:
            high, middle = re.sub(r"_lo(?=_|$)", "_hi", low), _middle(low, table)
            if high not in table.columns or not middle:
                wrong.append(f"{what}: {low} has no {high} or no median beside it.")
                continue
            rows = table[table[middle].notna()]
            if not ((rows[low] <= rows[middle]) & (rows[middle] <= rows[high])).all():
                wrong.append(f"{what}: {middle} is not always between {low} and {high}.")
    return wrong


def _middle(low: str, table: pd.DataFrame) -> str | None:
    """The column whose interval begins at `low`: the same name without _lo, or the shortest around it."""
    stem, _, unit = low.partition("_lo")
    if stem + unit in table.columns:
        return stem + unit
    around = [
        str(name)
        for name in table.columns
        if str(name).startswith(f"{stem}_") and str(name).endswith(unit) and not re.search("_(lo|hi)", name)
    ]
    return min(around, key=len, default=None)


def saved(one: Subject) -> list[str]:
    """A run that was saved and loaded is the same run."""
    text = one.result.to_json()
    again = from_json(text, f"a saved {one.kind}")
    wrong = []
    if again.to_json() != text:
        wrong.append("Saved and loaded, it is written otherwise.")
    try:
        pd.testing.assert_frame_equal(again.summary(), one.table, check_dtype=False)
    except AssertionError as error:
        wrong.append(f"Saved and loaded, its summary is another: {error}")
    return wrong


def drawn(one: Subject) -> list[str]:
    """Its figures can be read, from the last row of a room, and say where their numbers come from."""
    wrong = [
        f"The figure {name}: {sentence}"
        for name, figure in one.figures.items()
        for sentence in unreadable(figure)
    ]
    over = one.figures["over a recorded run"]
    wrong += [
        f"The caption or the alternative text of the figure {name} is no sentence, short, or says nan."
        for name, figure in one.figures.items()
        if not figure.caption.endswith(".")
        or len(figure.alt) <= 80
        or re.search(r"\bnan\b", figure.caption + figure.alt)
    ]
    over.svg()  # raises for a colour that means nothing in the book
    # A figure may leave it out, or tell of it in words; it does not show it without saying so.
    if "recorded" in over.provenance and "recorded" not in over.alt + over.caption:
        wrong.append("Over a recorded run, its words do not tell of it.")
    return wrong


def told(one: Subject) -> list[str]:
    """The alternative text says in words what the picture shows: numbers, and only numbers of the data."""
    figure = one.figures["alone"]
    tables = [figure.data, *figure.also, one.table]
    facts = {"machine": one.result.machine, "given": one.result.parameters, "found": one.result.facts}
    wrong = [
        f"The alternative text says {number}, which is no number of the data."
        for number in made_up(figure.alt, tables, facts, _told(one.experiment.summarise))
    ]
    if not re.search(r"\d", figure.alt):
        wrong.append("The alternative text has no number.")
    return wrong


def judged(one: Subject) -> list[str]:
    """Every claim has a case for each of its three outcomes, and a verdict with a reason on this run."""
    wrong = [] if one.cases is None else list(misjudged(one.claims, one.cases))
    ids = [claim.id for claim in all_claims()]
    for claim in one.claims:
        if ids.count(claim.id) > 1:
            wrong.append(f"{claim.id}: two claims have this id.")
        if not claim.source or not claim.text.endswith("."):
            wrong.append(f"{claim.id}: a claim is a sentence, and says who said it.")
        try:
            with warnings.catch_warnings(action="error"):
                verdict = claim.check(one.result, one.table)
        except (SchedLabError, Warning) as error:
            wrong.append(f"{claim.id}: {error}")
            continue
        if not verdict.reason.strip().endswith((".", "?", ".)")):
            wrong.append(f"{claim.id}: its reason on this run is no sentence: {verdict.reason!r}.")
    return wrong


def started(one: Subject) -> list[str]:
    """It starts the programs that it declares, and no others; a run that lacks something may start fewer."""
    if one.watch is None:
        return []
    wrong = [
        f"It starts {name}, which it does not declare."
        for name in sorted(one.watch.programs - set(one.entry.workloads))
    ]
    if not any(note.level == "missing" for note in one.result.notes):
        wrong += [
            f"It declares {name}, which it did not start."
            for name in sorted(set(one.entry.workloads) - one.watch.programs)
        ]
    return wrong


def left(one: Subject) -> list[str]:
    """Nothing stays behind: no process, no control group, no changed setting."""
    return one.watch.left if one.watch else []


Clause = Callable[[Subject], list[str]]
CLAUSES: dict[str, Clause] = {
    clause.__name__: clause
    for clause in (declared, documented, intervals, saved, drawn, told, judged, started, left)
}


def broken(one: Subject) -> dict[str, Any]:
    """Clause -> what is wrong, for every clause that is broken."""
    found = {name: find(one) for name, find in CLAUSES.items()}
    return {name: wrong for name, wrong in found.items() if wrong}
