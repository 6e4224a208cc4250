"""The measurement of agreement: which numbers it compares, and what it calls apart."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest

from sched_labs.core import registry
from sched_labs.core.result import recorded

PROGRAM = Path(__file__).resolve().parents[1] / "benchmarks" / "agreement.py"


@pytest.fixture(scope="module")
def agreement() -> ModuleType:
    spec = importlib.util.spec_from_file_location("agreement", PROGRAM)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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
