"""What every experiment has in common: the lock, the profile, progress, provenance, and a clean stop.

An experiment is a function of a Run and its parameters, decorated with `experiment`:

    @experiment("warmup.sweep", summarise=summarise, instrument=instrument, workloads=("chase",))
    def sweep(run: Run, *, working_sets_bytes=None) -> None:
        ...                                     # look whether a run can use the parameters
        run.begin()                             # wait for the machine
        for size in run.each(sizes, label=...):
            run.add(rows)

The decorated function takes the parameters without the Run, and returns a Result.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from .. import machine
from ..core import lock
from ..core.errors import ParameterError, ResultError, SchedLabError
from ..core.progress import Progress, in_notebook, on_page
from ..core.result import ENOUGH, Note, Result, recorded
from ..core.store import now, write_text
from . import kept as kept_runs
from .surroundings import Surroundings

PROFILES = ("tiny", "quick", "full")
T = TypeVar("T")


def default_profile() -> str:
    """`quick`, unless SCHED_LABS_PROFILE says otherwise."""
    return os.environ.get("SCHED_LABS_PROFILE") or "quick"


@dataclass(frozen=True)
class Instrument:
    """What an experiment will measure with on a machine, and one line on what would improve it."""

    name: str
    improve: str = ""


class Draft:
    """The figure of what is measured so far, for whoever watches: a page of the book, or a demonstration.

    It is drawn between two measurements (or beside one, see Run.preview), at most every `EVERY_S` seconds.  A
    demonstration names the file that it wants the figure in, as HTML (SCHED_LABS_DRAFT).
    """

    EVERY_S = 1.5

    def __init__(self, kind: str, about: dict[str, Any], given: dict[str, Any]) -> None:
        self.kind, self.about, self.given = kind, about, given
        self.shown: Any = None
        self.file = os.environ.get("SCHED_LABS_DRAFT", "")
        self.due = time.monotonic() + self.EVERY_S

    def show(self, rows: list[pd.DataFrame], run: Run) -> None:
        """Draw it again, if it is time."""
        if not rows or time.monotonic() < self.due:
            return
        data = pd.concat(rows, ignore_index=True)
        try:
            figure = run.result(data, self.about, self.given).plot()
        except Exception:  # too little to draw yet: what is missing differs by experiment, and more is coming
            pass
        else:
            self._put(figure)
        self.due = time.monotonic() + self.EVERY_S

    def _put(self, figure: Any) -> None:
        if self.file:
            write_text(Path(self.file), figure._repr_html_())
        elif self.shown:
            self.shown.update(figure)
        else:
            from IPython.display import display

            self.shown = display(figure, display_id=True)

    def end(self) -> None:
        """Take it away: the finished figure is the cell's own."""
        if self.shown:
            from IPython.display import HTML

            self.shown.update(HTML(""))


@dataclass(frozen=True)
class Beginning:
    """When a run began to measure, and what to compare its surroundings to at its end."""

    recorded_at: str = field(default_factory=now)
    clock_s: float = field(default_factory=time.monotonic)
    surroundings: Surroundings = field(default_factory=Surroundings)


@dataclass
class Run:
    """One run while it goes on: where an experiment puts its rows and notes.

    parameters  what it chose where the reader did not; tables and facts: what it found besides its rows
    """

    name: str
    profile: str
    progress: bool
    holds: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    beginning: Beginning | None = None
    rows: list[pd.DataFrame] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    parameters: dict[str, Any] = field(default_factory=dict)
    tables: defaultdict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    facts: dict[str, Any] = field(default_factory=dict)
    draft: Draft | None = None
    interrupted: bool = False

    def result(self, data: pd.DataFrame, about: dict[str, Any], given: dict[str, Any]) -> Result:
        """What was found so far, as a Result of the machine that `about` describes."""
        return Result(
            kind=self.name,
            data=data,
            machine=about,
            parameters=given | self.parameters,
            # One without rows has no columns either.
            tables={name: pd.DataFrame(rows) for name, rows in self.tables.items() if rows},
            facts=self.facts,
            notes=self.notes,
            interrupted=self.interrupted,
        )

    def choose(self, *, tiny: T, quick: T, full: T) -> T:
        """The value for this run's profile."""
        return {"tiny": tiny, "quick": quick, "full": full}[self.profile]

    def begin(self) -> None:
        """Wait until nobody else measures, and hold the machine until the run ends.

        Stands behind the checks of the parameters, so that nobody waits to hear of a slip, and before
        anything takes the CPU.  Raises BusyError when the wait is over.
        """
        with contextlib.ExitStack() as shown:

            def waiting(holder: str) -> None:  # called for those alone who have to wait
                bar = shown.enter_context(Progress(self.name, 1, show=self.progress))
                bar.say(f"waiting, this machine is measuring already: {holder}")

            self.holds.enter_context(lock.machine(f"{self.name}, {self.profile} profile", waiting=waiting))
        self.beginning = Beginning()

    def add(self, rows: pd.DataFrame | Sequence[dict[str, Any]]) -> None:
        """Keep observations.  What was added stays in the result even if the run is interrupted."""
        self.rows.append(rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(rows))

    @property
    def measured(self) -> bool:
        """Whether there is an observation: a table without rows is none, and cannot be drawn."""
        return any(len(rows) for rows in self.rows)

    def preview(self, rows: pd.DataFrame, busy_cpus: Sequence[int]) -> None:
        """Show these rows to whoever watches, without keeping them: a run that is one long measurement.

        It is drawn meanwhile, and so on another CPU than those that are measured; where there is none, not.
        """
        if not self.draft:
            return
        before = os.sched_getaffinity(0)
        if free := before - set(busy_cpus):
            os.sched_setaffinity(0, free)
            try:
                self.draft.show([*self.rows, rows], self)
            finally:
                os.sched_setaffinity(0, before)

    def note(self, level: str, text: str) -> None:
        """Say once what was missing, substituted or doubtful."""
        if not any(note.text == text for note in self.notes):
            self.notes.append(Note(level, text))

    def each(self, items: Iterable[T], *, label: Callable[[T], str]) -> Iterator[T]:
        """The items one after the other, with progress."""
        items = list(items)
        with Progress(self.name, len(items), show=self.progress) as bar:
            for item in items:
                bar.say(label(item))
                yield item
                bar.step(label(item))
                if self.draft:
                    self.draft.show(self.rows, self)


@dataclass
class Experiment:
    """A callable experiment.  `name` is also the kind of its results.

    workloads  the programs that it starts; a guest with another kernel gets these and no others
    needs      what it cannot do without: "bpf", "cgroup", "network", "pmu", "priority",
               "second CPU"
    """

    name: str
    function: Callable[..., None]
    summarise: Callable[[Result], pd.DataFrame]
    instrument: Callable[[machine.Machine], Instrument]
    workloads: Sequence[str] = ()
    needs: Sequence[str] = ()

    def __post_init__(self) -> None:
        functools.update_wrapper(self, self.function)
        signature = inspect.signature(self.function)
        self.parameters = {name: p for name, p in signature.parameters.items() if name != "run"}
        shared = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
            for name, default in (
                ("profile", None),
                ("progress", True),
                ("save", True),
                ("kernel", None),
                ("timing", None),
            )
        ]
        self.__signature__ = inspect.Signature([*self.parameters.values(), *shared], return_annotation=Result)

    def __call__(
        self,
        *,
        profile: str | None = None,
        progress: bool = True,
        save: bool = True,
        kernel: str | None = None,
        timing: str | None = None,
        **parameters: Any,
    ) -> Result:
        """Run the experiment and return its Result.

        profile   tiny, quick or full: how long and how fine it measures
        progress  show how far it has come
        save      keep the result in the reader's data folder
        kernel    run it in another kernel (`sched-labs kernels list`) instead of this one
        timing    with kernel=: how that guest's time passes, vm (default) or deterministic

        Ctrl-C returns what was measured so far, with a note.  Raises BusyError when the machine is measuring
        already, ParameterError for parameters that no run could use, and what the experiment itself raises.
        In a notebook on a machine that lacks what the experiment needs, the run that ships with the book is
        returned instead: flagged, its machine named, `stands_in` set, and not kept as one of the reader's.
        """
        profile = profile or default_profile()
        if profile not in PROFILES:
            raise ParameterError(f"There is no profile {profile!r}.", f"There are: {', '.join(PROFILES)}.")
        if unknown := set(parameters) - set(self.parameters):
            raise ParameterError(
                f"{self.name} has no parameter {min(unknown)!r}.",
                f"It has: {', '.join(self.__signature__.parameters)}.",
            )
        given = {"profile": profile, **parameters}
        kept = kept_runs.place(
            self.name, self.function.__module__, self.workloads, given | {"kernel": kernel, "timing": timing}
        )
        if kept and (before := kept_runs.read(kept)):
            return before
        if timing and not kernel:
            raise ParameterError(
                "Only guests have a choice of timing; this machine's time is its own.",
                "Name a kernel too, such as kernel='6.1'.",
            )
        if kernel:
            # Other kernels are a room below this one: it is looked up only when a reader asks for it.
            kernels = importlib.import_module("sched_labs.kernels")
            result: Result = kernels.run_experiment(
                self.name, kernel, given, timing or "vm", progress=progress
            )
        else:
            try:
                result = self._run_here(profile, progress, parameters)
            except SchedLabError as error:
                if not error.lacking or not in_notebook() or (shipped := recorded(self.name)) is None:
                    raise
                return shipped.standing_in(error)
        if kept and not result.interrupted:
            result.save(kept)
        if save:
            try:
                result.save()
            except ResultError as error:
                result.notes.append(Note("missing", f"This result was not kept: {error.what}"))
        return result

    def _run_here(self, profile: str, progress: bool, parameters: dict[str, Any]) -> Result:
        survey = machine.survey()
        given = {name: p.default for name, p in self.parameters.items()} | parameters
        with contextlib.ExitStack() as holds:
            run = Run(self.name, profile, progress, holds)
            if progress and (on_page() or os.environ.get("SCHED_LABS_DRAFT")):
                run.draft = Draft(self.name, survey.provenance(), {"profile": profile, **given})
            try:
                self.function(run, **parameters)
            except KeyboardInterrupt:
                if not run.measured:
                    raise
                run.note("flag", "Stopped early: this holds what was measured before the interruption.")
                run.interrupted = True
            finally:
                if run.draft:
                    run.draft.end()
            began = run.beginning
            assert began, f"{self.name} measured without run.begin()"
            duration = time.monotonic() - began.clock_s
            around = began.surroundings.since()
        if not run.measured:
            raise SchedLabError(f"{self.name} recorded nothing.", "Run it again with the full profile.")
        trials = run.parameters.get("trials")
        if isinstance(trials, int) and (text := what_few_cover(trials)):
            run.note("info", text)
        for text in Surroundings.doubts(around):
            run.note("flag", text)
        data = pd.concat(run.rows, ignore_index=True)
        result = run.result(data, survey.provenance(), {"profile": profile, **given})
        result.surroundings, result.recorded_at = around, began.recorded_at
        result.duration_s = round(duration, 3)  # as it is saved
        return result


def what_few_cover(trials: int) -> str:
    """What the intervals of a run of so few trials are; "" where they are intervals of 95 %.

    The range of n values misses the median where all of them lie on one side of it: with the chance 2 / 2**n.
    """
    if not 1 < trials < ENOUGH:
        return ""
    return (
        f"With {trials} trials, what is drawn and judged as an interval is at most their range, which covers "
        f"the median {100 * (1 - 2 / 2**trials):.0f} times out of 100 and not 95: the full profile has more."
    )


def experiment(
    name: str,
    *,
    summarise: Callable[[Result], pd.DataFrame],
    instrument: Callable[[machine.Machine], Instrument],
    workloads: Sequence[str] = (),
    needs: Sequence[str] = (),
) -> Callable[[Callable[..., None]], Experiment]:
    """Make an experiment of a function; see the head of this module.

    The register reads name, workloads and needs as text (core/registry.py), so they are written out.
    """

    def wrap(function: Callable[..., None]) -> Experiment:
        return Experiment(name, function, summarise, instrument, workloads, needs)

    return wrap
