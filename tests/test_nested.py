"""Groups inside a limited group: relations that must hold for real, and sums on constructed records."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sched_labs import draw as figures
from sched_labs.core.errors import ParameterError, PlacementError
from sched_labs.core.result import Result
from sched_labs.limits import cgroups
from sched_labs.topics.cgroup_throttling.nested import experiment as nested

MS = 1_000_000


pytestmark = pytest.mark.usefixtures("own_lock")


def made(own_throttled: int = 1, outer_throttled: int = 9) -> Result:
    """CONSTRUCTED: ten periods of 50 ms, an outer limit of 50 % and inner ones of 40 %."""
    rows = [
        {
            "condition": name, "trial": trial, "elapsed_ns": 500 * MS, "cpu_ns": ms * MS,
            "longest_gap_ns": 30 * MS, "own_periods": own, "own_throttled": min(own, own_throttled),
            "outer_periods": 10, "outer_throttled": outer_throttled,
        }
        for name, ms, own in (("alone", 200, 10), ("sibling", 125, 10), ("no_own_limit", 125, 0))
        for trial in (0, 1)
    ]  # fmt: skip
    parameters = {"outer_us": 25_000, "inner_us": 20_000, "period_us": 50_000}
    return Result("nested.groups", pd.DataFrame(rows), {"cpus": 2}, parameters)


def test_constructed_groups_are_summed_up_by_hand() -> None:
    table = made().summary().set_index("condition")
    documented = set(re.findall(r"\b[a-z_0-9]+\b", nested.summarise.__doc__ or ""))
    assert set(table.columns) <= documented
    assert list(table.cpu_percent) == [40, 25, 25] and (table.outer_limit_percent == 50).all()
    assert list(table.own_limit_percent[:2]) == [40, 40] and np.isnan(table.own_limit_percent.iloc[2])
    assert list(table.own_throttled_percent[:2]) == [10, 10]
    assert np.isnan(table.own_throttled_percent["no_own_limit"])
    assert (table.outer_throttled_percent == 90).all()


@pytest.mark.parametrize(("own", "around"), [(1, 9), (9, 0), (0, 0)])
def test_constructed_groups_are_drawn(own: int, around: int, tmp_path: Path) -> None:
    figure = made(own, around).plot(recorded=made())
    assert ("nothing held it back" in figure.caption) == (own == around == 0)
    assert figure.caption.endswith(".") and "nan" not in figure.caption + figure.alt
    assert figure.save(tmp_path / "figure.svg").stat().st_size > 5000
    with pytest.raises(ParameterError, match="no axis on this figure"):
        made().plot(predictions=[figures.Prediction(1, "ms")])


def test_the_limit_around_both_is_counted_by_the_group_around_them() -> None:
    able, why = cgroups.possible()
    if not able:
        pytest.skip(why)
    result = nested.groups(
        profile="tiny", outer_us=3_000, inner_us=2_000, period_us=50_000, save=False, progress=False
    )
    data = result.data.set_index("condition")
    assert list(data.index) == list(nested.CONDITIONS)
    assert data.own_periods["no_own_limit"] == 0  # without a limit its own cpu.stat has nothing to tell
    assert data.outer_throttled["no_own_limit"] > 0
    assert (data.own_throttled <= data.own_periods).all()
    assert (data.outer_throttled <= data.outer_periods).all()
    assert (data.cpu_ns < data.elapsed_ns / 2).all()
    assert result.plot().caption


def test_without_groups_nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PlacementError("No control group can be made here: constructed.", "Ask.")

    monkeypatch.setattr(cgroups.making, "make", refuse)
    with pytest.raises(PlacementError, match="No control group can be made"):
        nested.groups(profile="tiny", save=False, progress=False)
