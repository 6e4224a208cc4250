"""Waking in the middle of somebody's turn: the experiment here, its recorded runs in guests, its claims."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from claim_cases import Case

from sched_labs.claims import FAILS, HOLDS, UNKNOWN, judge
from sched_labs.core.errors import ParameterError, SchedLabError
from sched_labs.core.result import Result
from sched_labs.kernels import gallery
from sched_labs.steer import policies
from sched_labs.topics.other_kernels.eevdf import experiment as eevdf
from sched_labs.topics.other_kernels.eevdf.figure import by_kernel


@pytest.fixture(scope="module")
def recordings() -> dict[str, Result]:
    return {run.parameters["kernel"]: run for run in gallery.pieces()}


# ---- here -------------------------------------------------------------------------------------------------


def test_every_moment_of_a_turn_in_every_situation(tiny: Callable[[str], Result]) -> None:
    run = tiny("eevdf.phases")
    turn_ns = 1000 * run.parameters["turn_us"]
    for name, rows in run.data.groupby("situation"):
        assert name in eevdf.SITUATIONS and set(rows.off) == {eevdf.NOTHING}
        moments = rows.phase_ns.to_numpy()
        assert len(moments) == run.parameters["phases"] * run.parameters["trials"]
        assert (np.diff(np.unique(moments)) == turn_ns // run.parameters["phases"]).all()
        assert moments.min() > 0 and moments.max() < turn_ns
        assert (rows.late_ns > 0).all()


def test_no_slice_of_its_own_is_told_before_anything_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise policies.PolicyError("The kernel takes a slice and ignores it", "it came in 6.12", 0)

    monkeypatch.setattr(policies, "apply", refuse)
    with pytest.raises(SchedLabError, match="slice of its own here: it came in") as caught:
        eevdf.phases(profile="tiny", progress=False, save=False)
    assert caught.value.lacking


# ---- recorded ---------------------------------------------------------------------------------------------


def test_each_kernel_is_recorded_with_each_of_its_features_off(recordings: dict[str, Result]) -> None:
    assert list(recordings) == list(gallery.PIECES_KERNELS)
    for run in recordings.values():
        missing = {note.text.rsplit(" ", 1)[1].rstrip(".") for note in run.notes if note.level == "missing"}
        assert set(run.data.off) == {eevdf.NOTHING, *gallery.PIECES} - missing
        given = run.parameters
        wakes = given["phases"] * given["trials"]
        assert (run.data.groupby(["off", "situation"]).size() == wakes).all()


def waited(run: Result, situation: str, off: str = eevdf.NOTHING) -> float:
    rows = run.data[(run.data.situation == situation) & (run.data.off == off)]
    return float(rows.late_ns.mean()) / (1000 * run.parameters["turn_us"])


def test_what_was_owed_is_kept_by_one_feature_and_by_no_other(recordings: dict[str, Result]) -> None:
    for run in recordings.values():
        others = [waited(run, "owed", off) for off in set(run.data.off) - {"PLACE_LAG"}]
        assert max(others) < waited(run, "owed", "PLACE_LAG") / 5


def test_the_newest_kernel_keeps_to_the_slice_and_the_older_do_not(
    recordings: dict[str, Result],
) -> None:
    for kernel in ("6.12", "6.18"):
        older = recordings[kernel]
        assert waited(older, "equal") < waited(recordings["7.2"], "equal") / 2
        assert waited(older, "equal", "DELAY_DEQUEUE") > 2 * waited(older, "equal")


def test_decisions_are_judged_in_virtual_time_too(recordings: dict[str, Result]) -> None:
    said = {kernel: dict(outcomes(run)) for kernel, run in recordings.items()}
    assert said["7.2"]["turn-rest"] == HOLDS and said["6.12"]["turn-rest"] == FAILS
    assert {found["turn-delay"] for found in said.values()} == {FAILS}
    emulated = dataclasses.replace(recordings["7.2"], timing="vm-emulated")
    assert {outcome for _, outcome in outcomes(emulated)} == {UNKNOWN}


def outcomes(run: Result) -> list[tuple[str, str]]:
    return [(claim.id, verdict.outcome) for claim, verdict in judge(run)]


def test_the_figure_has_a_row_for_each_feature_and_a_column_for_each_kernel(
    recordings: dict[str, Result],
) -> None:
    runs = list(recordings.values())
    figure = by_kernel(runs, "equal")
    assert len(figure.mpl.axes) == len(runs) * (1 + len(gallery.PIECES))
    assert set(figure.data.kernel) == {f"Linux {kernel}" for kernel in recordings}
    assert "on average: nothing turned off" in figure.alt and "In the first row, averaged" in figure.caption
    assert "In the first row" not in by_kernel(runs, "equal", [eevdf.NOTHING]).caption
    with pytest.raises(ParameterError, match="There are: equal"):
        by_kernel(runs, "unequal")


# ---- claims -----------------------------------------------------------------------------------------------


def row(situation: str, at_once: float, waits: float, *, rest: float = 1, off: str = "nothing",
        half: float = 5) -> dict[str, Any]:  # fmt: skip
    """One row of the summary; `half` is half of the intervals of percents, a hundredth of it that of rest."""
    made: dict[str, Any] = {"situation": situation, "off": off}
    for stem, unit, value, width in (
        ("at_once", "percent", at_once, half), ("waited", "percent", waits, half),
        ("rest", "ratio", rest, half / 100),
    ):  # fmt: skip
        for end, number in (("", value), ("_lo", value - width), ("_hi", value + width)):
            made[f"{stem}{end}_{unit}"] = number
    return made


KEPT = row("equal", 0, 50)
SHORTER = [row("short", 90, 20), row("short", 90, 4, off="DELAY_DEQUEUE")]
ALIKE = [KEPT, row("equal", 0, 50, off="DELAY_DEQUEUE")]
CASES: list[Case] = [
    ("turn-whoever", HOLDS, [KEPT, row("short", 0, 50), row("owed", 8, 45)], "8 % of those that were owed"),
    ("turn-whoever", FAILS, [KEPT, row("short", 0, 50), row("owed", 99, 0)], "99 % of those that were owed"),
    ("turn-whoever", UNKNOWN, [KEPT, row("short", 0, 50), row("owed", 51, 20)], "spans 50 %, up to 56 %"),
    ("turn-whoever", UNKNOWN, [KEPT, row("short", 0, 50), row("owed", 8, 12, rest=0.2)], "as short as 0.15"),
    ("turn-whoever", UNKNOWN, [KEPT, row("short", 0, 50)], "did not measure the situation owed"),
    ("turn-rest", HOLDS, [KEPT], "waited 1.00 times"),
    ("turn-rest", FAILS, [row("equal", 90, 2, rest=0.01)], "waited 0.01 times"),
    ("turn-rest", FAILS, [row("equal", 0, 90, rest=1.8)], "waited 1.80 times"),
    ("turn-rest", UNKNOWN, [row("equal", 0, 60, rest=1.23)], "left of the slice (interval 1.18 to 1.28)"),
    ("turn-short", HOLDS, [KEPT, row("short", 83, 8)], "83 % came at once (interval 78 to 88 %), 0 % with"),
    ("turn-short", FAILS, [KEPT, row("short", 8, 45)], "8 % came at once"),
    ("turn-short", UNKNOWN, [KEPT, row("short", 52, 20)], "50: 52 % came at once (interval 47 to 57 %)"),
    ("turn-short", UNKNOWN, [row("equal", 92, 4), row("short", 92, 4)], "too (interval 87 to 97 %)"),
    ("turn-short", UNKNOWN, [row("equal", 0, 50, half=np.inf), row("short", 83, 8)], "One trial"),
    ("turn-sleep", HOLDS, [KEPT, row("owed", 0, 48)], "waited 48 % of a turn"),
    ("turn-sleep", FAILS, [KEPT, row("owed", 99, 1)], "waited 1 % of a turn"),
    ("turn-sleep", UNKNOWN, [KEPT, row("owed", 40, 24)], "19 to 29 % and 45 to 55 %, allow either"),
    ("turn-sleep", UNKNOWN, [row("equal", 92, 6), row("owed", 92, 14)], "at all is open: a thread"),
    ("turn-delay", HOLDS, [*SHORTER, KEPT, row("equal", 0, 30, off="DELAY_DEQUEUE")], "4 % of a turn"),
    ("turn-delay", FAILS, [*SHORTER, KEPT, row("equal", 0, 80, off="DELAY_DEQUEUE")], "equal slice waits 80"),
    ("turn-delay", UNKNOWN, [*SHORTER, KEPT, row("equal", 0, 52, off="DELAY_DEQUEUE")], "overlap"),
    ("turn-delay", FAILS, [*ALIKE, row("short", 90, 4), row("short", 0, 50, off="DELAY_DEQUEUE")], "4 % w"),
    ("turn-delay", UNKNOWN, [row("short", 90, 4), row("short", 90, 6, off="DELAY_DEQUEUE"), *ALIKE],
     "6 % of a turn without it (interval 1 to 11 %), 4 % with it (interval -1 to 9 %)"),
    ("turn-delay", UNKNOWN, [row("short", 90, 4)], "did not measure a kernel without DELAY_DEQUEUE"),
]  # fmt: skip
