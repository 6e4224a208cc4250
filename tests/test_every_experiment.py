"""The contract, held by every experiment clause by clause: by its recorded runs and a tiny one made here."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

from sched_labs.core import registry
from sched_labs.core.errors import SchedLabError
from sched_labs.draw.base import INTERVAL
from sched_labs.testing import CLAUSES, Subject, Watched, subject
from sched_labs.testing.quoted import made_up

SHIPPED = [(kind, machine) for kind in registry.names() for machine in registry.recorded_files(kind) or [""]]

# Their figures show all waits, other quantiles, or sizes, and none of the intervals of their frames.
WITHOUT_INTERVALS = {"inversion.waits", "policies.hog", "policies.sweep", "threads.touch"}


@pytest.fixture(scope="module", params=SHIPPED, ids=lambda one: "-".join(filter(None, one)))
def recorded_run(request: pytest.FixtureRequest) -> Subject:
    """Loaded, summed up and drawn once for all clauses."""
    kind, machine = request.param
    return subject(kind, machine=machine)


@pytest.fixture(scope="module", params=registry.names())
def tiny_run(request: pytest.FixtureRequest, tiny_watched: Callable[[str], Watched]) -> Subject:
    """Made once for all clauses, and for all other tests that look at such a run."""
    return subject(request.param, tiny_watched(request.param))


@pytest.mark.parametrize("clause", CLAUSES)
def test_a_recorded_run_keeps_the_contract(clause: str, recorded_run: Subject) -> None:
    assert CLAUSES[clause](recorded_run) == []


@pytest.mark.parametrize("clause", CLAUSES)
def test_a_tiny_run_keeps_the_contract(clause: str, tiny_run: Subject) -> None:
    try:
        assert CLAUSES[clause](tiny_run) == []
    except SchedLabError as error:
        told = any(note.level == "missing" for note in tiny_run.result.notes)
        if not (error.lacking and told):  # a run that had everything is drawn
            raise
        pytest.skip(f"this machine lacks what {tiny_run.kind} is drawn of: {error.what}")


def test_other_numbers_in_its_alternative_text_would_be_found(recorded_run: Subject) -> None:
    """The clause that compares them is no rubber stamp: of any figure's numbers, moved, it misses some.

    A number alone may, moved, be that of another row: therefore three moves, of which one has to be found.
    """
    figure = recorded_run.figures["alone"]

    def moved(by: float) -> str:
        return re.sub(
            r"(?<![\w.,])\d[\d,]*\.\d+",
            lambda match: str(round(by * float(match[0].replace(",", "")), 3)),
            figure.alt,
        )

    alts = [moved(by) for by in (1.371, 0.617, 3.493)]
    if alts[0] != figure.alt:
        tables = [figure.data, *figure.also, recorded_run.table]
        assert any(list(made_up(alt, tables, {})) for alt in alts)


def test_a_legend_names_the_lines_of_intervals(recorded_run: Subject) -> None:
    figure = recorded_run.figures["alone"]
    ends = figure.data.filter(regex="(^|_)hi(_|$)").to_numpy(dtype=float)
    drawn = bool(np.isfinite(ends).any()) and figure.kind not in WITHOUT_INTERVALS
    labels = {text.get_text() for legend in figure.mpl.legends for text in legend.get_texts()}
    assert (INTERVAL in labels) == drawn
