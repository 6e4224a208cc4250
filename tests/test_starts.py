"""A trial is a start of the workload: what is made of its turns, and that a live run does start anew."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sched_labs import workloads
from sched_labs.core import lock, stats
from sched_labs.core.result import Result
from sched_labs.run import base, starts
from sched_labs.topics.context_switch.context_switch import experiment as context_switch


def turns_of(values: dict[tuple[int, int], float]) -> pd.Series:
    index = pd.MultiIndex.from_tuples(list(values), names=["trial", "turn"])
    return pd.Series(list(values.values()), index=index)


def test_every_cell_has_its_turn_before_any_has_the_next() -> None:
    run = base.Run("a.test", "tiny", False)
    assert list(starts.each(run, iter("ab"), 3, label=str)) == [(t, c) for t in range(3) for c in "ab"]


def test_a_trials_value_is_the_median_of_its_turns_and_half_a_trial_is_none() -> None:
    rows = [
        {"trial": trial, "turn": turn, "condition": condition, "ns": ns}
        for trial, condition, times in (
            (0, "alone", (1, 2, 90)), (0, "ring", (5, 6, 7)), (1, "alone", (3, 3, 4)),
        )
        for turn, ns in enumerate(times)
    ]  # fmt: skip
    table = starts.by_trial(pd.DataFrame(rows), "ns")
    assert table.index.tolist() == [0]
    assert table.loc[0].to_dict() == {"alone": 2, "ring": 6}


def test_how_starts_differ_is_not_in_the_floor_of_what_is_compared_within_one() -> None:
    """Starts at 1,000 and 2,000 whose turns differ by 10: a difference of 50 within a start is seen."""
    values = {(trial, turn): 1000.0 * (1 + trial % 2) + 10 * turn for trial in range(8) for turn in range(2)}
    assert starts.noise_floor(turns_of(values)) == pytest.approx(10)
    ones = {key: value for key, value in values.items() if key[1] == 0}
    medians = [value for _, value in sorted(ones.items())]
    assert starts.noise_floor(turns_of(ones)) == stats.noise_floor(medians) == 1000


def test_one_start_has_no_floor() -> None:
    assert math.isinf(starts.noise_floor(turns_of({(0, 0): 5.0, (0, 1): 6.0})))


def interval(starts_differ_by: float) -> tuple[float, float]:
    """The interval of a switch of 2 µs, from nine trials of three turns that agree to 1 %."""
    generator = np.random.default_rng(1)
    rows = []
    for trial in range(9):
        start = 1 + generator.normal(0, starts_differ_by)
        for turn in range(3):
            for condition, ns in (("alone", 1000.0), ("exchange", 5000.0)):
                rows.append(
                    {"mechanism": "pipe", "between": "threads", "placement": "same_cpu", "trial": trial}
                    | {"turn": turn, "condition": condition, "round_trips": 100, "cpu_ns": 1, "migrations": 0}
                    | {"elapsed_ns": 100 * ns * start * (1 + generator.normal(0, 0.01))}
                    | {"voluntary_switches": 200 * (condition == "exchange"), "involuntary_switches": 0}
                )
    row = Result("context_switch.matrix", pd.DataFrame(rows), {}, {}).summary().iloc[0]
    assert row.trials == 9
    return row.net_lo_ns, row.net_hi_ns


def test_the_interval_is_as_wide_as_starts_differ() -> None:
    narrow, wide = interval(0.0), interval(0.1)
    assert narrow[1] - narrow[0] < 60
    assert wide[1] - wide[0] > 200


def test_a_live_trial_is_a_new_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o1777)
    monkeypatch.setattr(lock, "_PLACES", (tmp_path,))
    begun: list[int] = []
    start: Callable[..., Any] = workloads.start

    def counting(*arguments: Any, **options: Any) -> Any:
        begun.append(1)
        return start(*arguments, **options)

    monkeypatch.setattr(workloads, "start", counting)
    result = context_switch.matrix(
        mechanisms=["pipe", "futex"], between=["threads"], placements=["same_cpu"], trials=4,
        profile="tiny", save=False, progress=False,
    )  # fmt: skip
    assert len(begun) == 2 * 4
    assert result.data.mechanism.unique().tolist() == ["pipe", "futex"]
    assert result.data.trial.is_monotonic_increasing
    assert (result.summary().trials == 4).all()


@pytest.mark.parametrize(
    ("trials", "said"), [(1, ""), (2, "50 times"), (3, "75 times"), (5, "94 times"), (6, "")]
)
def test_what_the_range_of_a_few_trials_covers(trials: int, said: str) -> None:
    from sched_labs.run.base import what_few_cover

    text = what_few_cover(trials)
    assert said in text and bool(text) == bool(said)
    generator = np.random.default_rng(1)
    values = generator.normal(size=(20_000, max(trials, 2)))
    covered = ((values.min(axis=1) < 0) & (values.max(axis=1) > 0)).mean()
    if said:
        assert covered == pytest.approx(float(said.split()[0]) / 100, abs=0.02)
