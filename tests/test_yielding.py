"""sched_yield: the summary of made-up counts, and a live run whose counts must hold together."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sched_labs import draw as figures
from sched_labs import machine
from sched_labs.core.errors import ParameterError, PlacementError
from sched_labs.core.result import Result
from sched_labs.run import base
from sched_labs.topics.context_switch.yielding import experiment as yielding


@pytest.fixture(scope="module")
def live(tiny: Callable[[str], Result]) -> Result:
    return tiny("yielding.semantics")


def rows(
    condition: str = "together",
    *,
    yields: int = 1000,
    voluntary: int = 0,
    involuntary: int = 1000,
    more: int = 0,
) -> list[dict[str, Any]]:
    """Three trials of two threads (one when alone), the status files counting `more` involuntary switches."""
    return [
        {
            "policy": "other",
            "placement": "same_cpu",
            "trial": trial,
            "condition": condition,
            "thread": thread,
            "yields": yields,
            "elapsed_ns": 2_000_000,
            "voluntary_switches": voluntary,
            "involuntary_switches": involuntary,
            "status_voluntary_switches": voluntary,
            "status_involuntary_switches": involuntary + more,
            "migrations": 1,
        }
        for trial in range(3)
        for thread in range(2 if condition == "together" else 1)
    ]


def made(*parts: list[dict[str, Any]]) -> Result:
    return Result("yielding.semantics", pd.DataFrame([row for part in parts for row in part]), {}, {})


def test_the_summary_counts_both_threads_calls_and_switches() -> None:
    table = made(rows("alone", involuntary=0), rows(voluntary=250, involuntary=750)).summary()
    alone, together = table.iloc[0], table.iloc[1]
    assert alone.switches_per_yield == 0 and np.isnan(alone.voluntary_share)
    assert together.switches_per_yield == together.switches_lo_per_yield == 1.0
    assert together.voluntary_share == 0.25 and together.voluntary_per_yield == 0.25
    assert together.yield_ns == 2000 and together.migrations_per_1000 == 1.0
    assert together.trials == 3


@pytest.mark.parametrize(("more", "agree"), [(0, True), (4, True), (14, True), (15, False), (-1, False)])
def test_the_two_counts_may_differ_by_what_reading_them_adds(more: int, agree: bool) -> None:
    assert made(rows(more=more)).summary().counts_agree.tolist() == [agree]


def test_a_live_run_has_every_case_it_may_have(live: Result) -> None:
    cases = set(live.data.groupby(["policy", "placement", "condition"]).groups)
    policies = {policy for policy, _, _ in cases}
    places = {place for _, place, _ in cases}
    assert cases == {(p, q, c) for p in policies for q in places for c in ("alone", "together")}
    left_out = {"other", "batch", "fifo"} - policies
    assert len([note for note in live.notes if "left out" in note.text]) == len(left_out)
    assert "other" in policies and "same_cpu" in places


def test_live_counts_are_possible_and_agree(live: Result) -> None:
    data = live.data
    assert set(data.groupby(["policy", "placement", "condition", "trial", "turn"]).size()) == {1, 2}
    counted = data.voluntary_switches + data.involuntary_switches
    told = data.status_voluntary_switches + data.status_involuntary_switches
    assert (told >= counted).all()
    assert not any("different numbers" in flag for flag in live.flags)
    assert (data.migrations <= data.yields).all() and (data.elapsed_ns > 0).all()


def test_two_live_yielders_switch_more_than_one_does(live: Result) -> None:
    table = live.summary().set_index(["policy", "placement", "condition"]).switches_per_yield
    assert table["other", "same_cpu", "together"] > table["other", "same_cpu", "alone"]


def test_the_figure_counts_in_words(live: Result) -> None:
    result = made(rows("alone", involuntary=0), rows())
    figure = figures.draw(result, recorded=result)
    assert figure.caption == (
        "Two threads that yield on one CPU make 1.00 switches per call, 0% of them counted as voluntary; "
        "with nobody else on its CPU, a thread makes 0.00."
    )
    assert "On the same CPU: one yields, OTHER 0.00; two yield, OTHER 1.00" in figure.alt
    placed = rows(involuntary=0)
    for row in placed:
        row |= {"placement": "unpinned", "involuntary_switches": 1000 * (row["trial"] == 1)}
    by_start = "two that the scheduler places make 0.00 to 1.00, by policy or from start to start."
    assert figures.draw(made(rows(), placed)).caption.endswith(by_start)
    with pytest.raises(ParameterError, match="no axis"):
        figures.draw(result, predictions=[{"value": 4, "unit": "KiB"}])
    assert live.plot().caption.endswith(".")


def refusing(monkeypatch: pytest.MonkeyPatch, *policies: str) -> None:
    """A machine on which these policies may not be set."""
    survey = machine.survey()

    class Refusing:
        def fact(self, key: str) -> Any:
            fact = survey.fact(key)
            return (
                dataclasses.replace(fact, value=False, why="needs a permission") if key in policies else fact
            )

    monkeypatch.setattr(machine, "survey", Refusing)


def test_a_policy_that_may_not_be_set_is_left_out_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    refusing(monkeypatch, "policy.fifo")
    run = base.Run("yielding.semantics", "tiny", False)
    assert yielding._policies(run, ["other", "fifo"], [0, 1]) == ["other"]
    assert [(n.level, n.text) for n in run.notes] == [
        ("missing", "SCHED_FIFO was left out: needs a permission.")
    ]
    with pytest.raises(ParameterError, match="None of the policies fifo"):
        yielding._policies(run, ["fifo"], [0, 1])


def test_real_time_threads_never_take_the_only_cpu() -> None:
    run = base.Run("yielding.semantics", "tiny", False)
    if "fifo" in yielding._policies(run, ["other", "fifo"], [0]):
        pytest.fail("SCHED_FIFO would have run on the only CPU")
    assert [note.level for note in run.notes] == ["missing"]


def test_with_one_cpu_the_other_placements_are_left_out() -> None:
    run = base.Run("yielding.semantics", "tiny", False)
    assert yielding._places(run, yielding.PLACEMENTS, [0]) == ["same_cpu"]
    assert [note.level for note in run.notes] == ["missing"]


def test_asking_for_the_other_cpu_where_there_is_none_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class OneCpu:
        cpus_allowed = (0,)

    monkeypatch.setattr(machine, "survey", OneCpu)
    with pytest.raises(PlacementError, match="needs two CPUs"):
        yielding._places(base.Run("yielding.semantics", "tiny", False), ["other_cpu"], [0])
