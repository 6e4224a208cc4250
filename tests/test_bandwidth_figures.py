"""The pictures of the bandwidth model: they show the model's numbers, and say that nothing was measured."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from sched_labs import draw as figures
from sched_labs.core.errors import ParameterError, ResultError
from sched_labs.limits import bandwidth

MS = 1000.0


@pytest.fixture(scope="module")
def served() -> bandwidth.Simulation:
    return bandwidth.simulate(
        50 * MS, 100 * MS, threads=4, cpus=2, duration_s=20, arrivals_per_s=80, work_us=5 * MS
    )


def test_the_timeline_shows_the_throttled_intervals_and_their_longest() -> None:
    run = bandwidth.simulate(30 * MS, 100 * MS, threads=1, cpus=1, duration_s=1)
    drawn = figures.bandwidth.timeline(run, periods=3)
    assert drawn.data.values.tolist() == [[0, 30e6, 100e6], [0, 130e6, 200e6], [0, 230e6, 300e6]]
    assert "10 of 10 periods" in drawn.caption and "70 ms" in drawn.caption
    assert "not measured" in drawn.provenance
    assert "<svg" in drawn.svg()
    for periods in (0, 11):
        with pytest.raises(ParameterError, match="periods"):
            figures.bandwidth.timeline(run, periods=periods)


def test_a_timeline_without_a_stall_says_so() -> None:
    run = bandwidth.simulate(100 * MS, 100 * MS, threads=1, cpus=1, duration_s=1)
    drawn = figures.bandwidth.timeline(run)
    assert drawn.data.empty and "no run queue is throttled" in drawn.caption and drawn.svg()


def test_a_request_is_held_back_if_and_only_if_it_met_a_throttled_run_queue() -> None:
    at = [0, 0, 0, 150 * MS]
    run = bandwidth.replay(20 * MS, 100 * MS, at, threads=1, cpus=1, work_us=10 * MS, duration_s=1)
    assert run.held_back.tolist() == [False, False, True, False]


def test_the_histogram_counts_every_request_once_and_shares_its_edges(served: bandwidth.Simulation) -> None:
    table = figures.bandwidth.latency_frame(served)
    assert table["requests"].sum() == served.completions
    assert table["share_percent"].sum() == pytest.approx(100)
    held = table.loc[table["held_back"], "requests"].sum()
    assert held == served.held_back.sum() > 0
    both = figures.bandwidth.latency_frame(served, served.latency_us * 1.1)
    measured, model = (both[both["source"] == name] for name in ("measured", "model"))
    assert measured["requests"].sum() == served.completions
    assert set(measured["low_ns"]) == set(model["low_ns"])


def test_the_histogram_names_the_tail_of_both(served: bandwidth.Simulation) -> None:
    alone = figures.bandwidth.latency(served)
    assert figures.axes.time_text(served.quantile_us(0.99) * 1e3) in alone.caption
    assert "measured" not in alone.caption and alone.svg()
    over = figures.bandwidth.latency(served, measured_us=np.full(100, 7 * MS))
    assert "measured: 7 ms and 7 ms" in over.caption and over.svg()
    hogs = bandwidth.simulate(50 * MS, 100 * MS, threads=1, cpus=1, duration_s=1)
    with pytest.raises(ResultError, match="completed"):
        figures.bandwidth.latency(hogs)
    with pytest.raises(ResultError, match="measured"):
        figures.bandwidth.latency(served, measured_us=[0.0])


def test_the_grid_shows_where_each_number_of_threads_meets_the_limit() -> None:
    table = bandwidth.grid(
        [0.3, 0.9], [1, 8], quota_us=100 * MS, period_us=100 * MS, work_us=5 * MS, duration_s=10
    )
    assert table[["load", "threads"]].values.tolist() == [[0.3, 1], [0.9, 1], [0.3, 8], [0.9, 8]]
    assert (table["p50_us"] <= table["p99_us"]).all()
    # One thread cannot use more than one CPU's quota; eight can.
    assert table["throttled_share"].iloc[1] == 0 < table["throttled_share"].iloc[3]
    drawn = figures.bandwidth.grid(table)
    assert "1 thread at no load shown" in drawn.caption and drawn.svg()
    with pytest.raises(ResultError):
        figures.bandwidth.grid(pd.DataFrame())
