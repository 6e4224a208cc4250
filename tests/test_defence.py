"""Tests of the sentence that defends a number."""

from __future__ import annotations

import pandas as pd
import pytest

from sched_labs.claims.defence import defend
from sched_labs.core.errors import ParameterError
from sched_labs.core.result import Note, Result


def _result(*notes: Note) -> Result:
    return Result("test", pd.DataFrame({"time_ns": [1.0]}), {}, {}, notes=list(notes))


def _said(capsys, result, value, **more) -> str:
    how = {"measured": "with a clock", "instead": "the call alone, which takes 1 ns"} | more
    defend(result, "A switch costs", value, **how)
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 68
    return " ".join(out.split())


def test_a_number_comes_with_its_interval_its_method_and_its_baseline(capsys):
    said = _said(capsys, _result(), (1500, 1400, 1700))
    assert "A switch costs 1.5 µs [1.4 µs to 1.7 µs]." in said
    assert "Measured: with a clock." in said
    assert "It is not the call alone, which takes 1 ns." in said
    assert "flagged" not in said


@pytest.mark.parametrize(
    ("value", "baseline", "said"),
    [
        ((50, 40, 60), 20, "It is not the call alone"),
        ((50, 40, 60), 45, "It may be the call alone"),  # the interval reaches down to it
        ((50, -10, 110), 20, "It may be the call alone"),
        ((50,), 20, "It is not the call alone"),
        ((50,), 50, "It may be the call alone"),
        ((50,), float("nan"), "It may be the call alone"),  # an unknown baseline rules nothing out
    ],
)
def test_what_the_baseline_does_not_rule_out_may_be(capsys, value, baseline, said):
    assert said in _said(capsys, _result(), value, baseline=baseline)


@pytest.mark.parametrize(
    ("value", "floor", "said"),
    [
        ((50, 40, 60), 20, "It is not noise: the noise floor, the same against itself, is 20 ns."),
        ((50, 30, 70), 20, "It is not noise"),
        ((50, 10, 90), 20, "It may be noise"),  # its middle is clear of the floor, not all of it
        ((50, 40, 60), 70, "It may be noise"),
        ((50, -10, 110), 20, "It may be noise"),  # the interval holds zero
        ((-50, -60, -40), 20, "It is not noise"),  # less is a difference, too
        ((50, 40, 60), float("inf"), "It may be noise: there were too few trials to tell."),
    ],
)
def test_noise_is_judged_as_in_the_figures(capsys, value, floor, said):
    assert said in _said(capsys, _result(), value, floor=floor)


def test_sizes_and_shares_keep_their_unit(capsys):
    assert "costs 2 KiB [1 KiB to 3 KiB]" in _said(capsys, _result(), (2048, 1024, 3072), unit="B")
    assert "costs 12.5 %." in _said(capsys, _result(), (12.5,), unit="%")


@pytest.mark.parametrize(("trials", "few"), [(3, True), (5, True), (6, False), (1, False)])
def test_a_range_of_few_trials_is_not_called_an_interval(capsys, trials, few):
    result = _result()
    result.parameters["trials"] = trials
    assert (f"the range of {trials} trials" in _said(capsys, result, (50, 40, 60))) == few
    assert "the range of" not in _said(capsys, result, (50,))


def test_a_flagged_run_says_so(capsys):
    assert "This run is flagged" in _said(capsys, _result(Note("flag", "the counts disagree")), (1,))


def test_what_was_not_measured_has_no_sentence(capsys):
    said = _said(capsys, _result(), (float("nan"),) * 3)
    assert "no number" in said and "Measured" not in said


def test_half_an_interval_is_refused(capsys):
    with pytest.raises(ParameterError, match="2 numbers"):
        _said(capsys, _result(), (1, 2))


def test_a_number_without_an_interval_is_not_held_against_noise(capsys):
    with pytest.raises(ParameterError, match="alone"):
        _said(capsys, _result(), (1,), floor=1)
