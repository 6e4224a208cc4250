"""The measurement of agreement: which numbers it compares, and what it calls apart; and how often a thing
differs from itself by the rule of the benchmarks.
"""

from __future__ import annotations

import importlib.util
import itertools
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest

from sched_labs.core import registry
from sched_labs.core.result import recorded

PROGRAMS = Path(__file__).resolve().parents[1] / "benchmarks"


def program(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, PROGRAMS / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def agreement() -> ModuleType:
    return program("agreement")


@pytest.fixture(scope="module")
def table() -> Iterator[ModuleType]:
    yield program("table")
    del sys.modules["table"]


def summary(net: float, half: float = 10.0, trip: float = 5000.0) -> pd.DataFrame:
    row = {"mechanism": "pipe", "placement": "same_cpu", "round_trip_ns": trip}
    row |= {"round_trip_lo_ns": trip - 5, "round_trip_hi_ns": trip + 5, "alone_ns": 1.0}
    row |= {"net_per_switch_ns": net, "net_lo_ns": net - half, "net_hi_ns": net + half, "trials": 9}
    return pd.DataFrame([row])


def test_overlap_is_judged_number_by_number(agreement: ModuleType) -> None:
    table = agreement.compared(summary(2000.0), summary(2015.0, trip=6000.0))
    assert table.index.tolist() == ["pipe, same_cpu: round_trip_ns", "pipe, same_cpu: net_per_switch_ns"]
    assert table.overlap.tolist() == [False, True]
    assert table.ratio.tolist() == [1.2, 2015 / 2000]


def test_a_ratio_needs_two_numbers_clear_of_zero(agreement: ModuleType) -> None:
    table = agreement.compared(summary(5.0), summary(50.0))
    assert np.isnan(table.ratio["pipe, same_cpu: net_per_switch_ns"])


def test_a_number_without_an_interval_is_not_compared(agreement: ModuleType) -> None:
    assert len(agreement.compared(summary(2000.0, half=np.inf), summary(2000.0))) == 1
    assert len(agreement.compared(summary(np.nan), summary(2000.0))) == 1


def test_every_experiment_of_the_chapter_has_numbers_to_compare(agreement: ModuleType) -> None:
    assert set(agreement.CHAPTER) <= set(registry.names())
    for name in agreement.CHAPTER:
        kept = recorded(name)
        assert kept, name
        numbers = kept.summary()
        table = agreement.compared(numbers, numbers)
        assert len(table) >= len(numbers) and table.index.is_unique, name
        assert table.overlap.all() and (table.ratio.dropna() == 1).all(), name


def test_apart_is_said_with_both_intervals(agreement: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    agreement.show("context_switch.matrix", agreement.compared(summary(2000.0), summary(2100.0)))
    first, second = capsys.readouterr().out.splitlines()
    assert "1 of   2 overlap" in first and "largest ratio 1.05 (pipe, same_cpu: net_per_switch_ns)" in first
    assert "2,000 (1,990 to 2,010) and 2,100 (2,090 to 2,110)" in second


def noise(lasting: float, drift: float, size: int, seed: int) -> Iterator[float]:
    """Times whose next one has so much of the one before, and that grow."""
    generator = np.random.default_rng(seed)
    value = float(generator.standard_normal())
    for at in range(size):
        yield float(np.exp(0.01 * (value + drift * at)))
        value = lasting * value + (1 - lasting**2) ** 0.5 * float(generator.standard_normal())


@pytest.mark.parametrize(("lasting", "drift"), [(0.0, 0.0), (0.4, 0.0), (0.8, 0.0), (0.2, 0.5)])
def test_a_thing_differs_from_itself_as_rarely_as_the_interval_says(
    table: ModuleType, monkeypatch: pytest.MonkeyPatch, lasting: float, drift: float
) -> None:
    """Whatever noise lasts from one block to the next: with an order that turns round it was 5.5 % at 0.4."""
    monkeypatch.setattr(table.random, "sample", random.Random(1).sample)
    tries, wrong = 4000, 0
    for seed in range(tries):
        times = noise(lasting, drift, 18, seed)
        one, other = table.alternate(times.__next__, times.__next__, blocks=8)
        _, low, high = table.ratio_interval(one, other)
        wrong += not low <= 1 <= high
    # Ten of the 256 patterns of signs, and what chance alone adds or takes in one of a thousand such tests.
    expected = 10 / 256
    assert abs(wrong / tries - expected) < 3.3 * (expected * (1 - expected) / tries) ** 0.5


def test_the_order_of_the_sides_is_drawn_anew_in_each_block(table: ModuleType) -> None:
    order: list[int] = []
    values = table.alternate(*(lambda side=side: order.append(side) or side for side in (0, 1)), blocks=60)
    assert values == [[0] * 60, [1] * 60]
    blocks = list(zip(order[::2], order[1::2], strict=True))
    assert len(blocks) == 61 and all(set(block) == {0, 1} for block in blocks)
    turns = [one != other for one, other in itertools.pairwise(blocks)]
    assert 10 < sum(turns) < 50, "neither always the same nor always turned round"
