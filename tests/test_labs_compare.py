"""Turns of two sides: they end when the limit is clear, and what is printed is what was tested."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pytest

from sched_labs.labs import compare, summed_up
from sched_labs.labs.compare import FEWEST, MOST


def test_turns_end_as_soon_as_the_limit_is_clear() -> None:
    numbers: list[int] = []

    def turn(number: int) -> dict[str, float]:
        numbers.append(number)
        return {"ratio": 0.5 + 0.01 * number}

    found = compare(turn, at_most={"ratio": 0.7})["ratio"]
    assert found.holds is True and numbers == list(range(FEWEST))
    assert (found.low, found.high) == (0.5, 0.55)
    assert compare(lambda _: {"ratio": 0.71}, at_most={"ratio": 0.7})["ratio"].holds is False


def test_turns_that_leave_it_open_end_too() -> None:
    found = compare(lambda number: {"ratio": 0.6 + 0.2 * (number % 2)}, at_most={"ratio": 0.7})["ratio"]
    assert found.holds is None and found.turns == MOST


def test_one_open_measure_keeps_the_others_going() -> None:
    found = compare(
        lambda number: {"work": 1.0, "time": float(number % 2)}, at_least={"work": 0.7}, at_most={"time": 0.5}
    )
    assert (found["work"].holds, found["time"].holds) == (True, None)
    assert found["work"].turns == found["time"].turns == MOST


@pytest.mark.parametrize(("value", "holds"), [(0.7004, True), (0.7006, False)])
def test_what_is_printed_is_what_was_tested(value: float, holds: bool) -> None:
    found = summed_up([value] * 6, at_most=0.7)
    assert found.holds is holds
    printed = f"{100 * round(value, 3):.1f}"
    assert found.percent == f"{printed} % ({printed} to {printed} % in 6 turns)"
    assert str(found) == "{0:g} ({0:g} to {0:g} in 6 turns)".format(round(value, 3))


def test_a_measure_without_a_limit_always_holds() -> None:
    assert summed_up([1.0, 9.0, 2.0, 8.0, 3.0, 7.0], at_most=math.inf).holds is True


@pytest.mark.parametrize(("truth", "verdict"), [(0.5, True), (0.95, False)])
def test_a_clear_side_is_told_right_in_spite_of_noise(truth: float, verdict: bool) -> None:
    """A ratio that scatters by a fifth from turn to turn, around the truth."""
    generator = np.random.default_rng(1)

    def turn(_: int) -> Mapping[str, float]:
        return {"ratio": truth * generator.lognormal(0, 0.2)}

    told = [compare(turn, at_most={"ratio": 0.7})["ratio"].holds for _ in range(300)]
    assert told.count(not verdict) <= 1 and told.count(verdict) >= 285


def test_what_lies_on_the_limit_is_mostly_left_open() -> None:
    generator = np.random.default_rng(2)

    def turn(_: int) -> Mapping[str, float]:
        return {"ratio": 0.7 * generator.lognormal(0, 0.2)}

    told = [compare(turn, at_most={"ratio": 0.7})["ratio"].holds for _ in range(500)]
    assert told.count(None) >= 400
