"""The loops of the literature: the experiment for real in the tiny profile, its figure on made-up counts."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from ladder_lab import MACHINE, documented

from sched_labs import machine, workloads
from sched_labs.core.errors import ParameterError, WorkloadError
from sched_labs.core.result import Result
from sched_labs.run import base
from sched_labs.topics.latency_ladder.loops import experiment as loops

ALLOWED = sorted(os.sched_getaffinity(0))


@pytest.fixture(scope="module")
def replay(tiny: Callable[[str], Result]) -> Result:
    return tiny("loops.counted")


def test_every_loop_runs_in_every_setting(replay: Result) -> None:
    settings = set(replay.data.affinity)
    assert "none" in settings and settings <= set(loops.AFFINITIES)
    left_out = set(loops.AFFINITIES) - settings
    assert all(any(repr(name) in note.text for note in replay.notes) for name in left_out)
    turns = replay.data.groupby(["affinity", "loop", "trial"]).turn.nunique()
    assert len(turns) == 4 * len(settings) * replay.parameters["trials"] and (turns == loops.TURNS).all()
    assert (replay.summary().trials == replay.parameters["trials"]).all()
    assert (replay.data.elapsed_ns > 0).all()


def test_its_summary_has_the_documented_columns(replay: Result) -> None:
    assert list(replay.summary().columns) == documented(loops.summarise)


def test_the_affinity_is_the_one_that_was_set(replay: Result) -> None:
    for row in replay.summary().itertuples():
        assert set(machine.files.cpu_list(row.cpus)) <= set(ALLOWED)
        assert row.affinity != "none" or machine.files.cpu_list(row.cpus) == ALLOWED


def test_on_one_cpu_the_kernel_counts_what_must_happen(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Two threads that yield in turn switch once for each yield; a loop of system calls never does."""
    with workloads.start("loops", ["--loop", "thread_yield", "--iterations", "2000"]) as yields:
        for tid in yields.tids:
            os.sched_setaffinity(tid, {ALLOWED[-1]})
        blocks = yields.run()
    counted = [(block["voluntary"] + block["involuntary"]) / block["iterations"] for block in blocks]
    assert 1.5 < float(np.median(counted)) < 2.5
    with workloads.start("loops", ["--loop", "system_call", "--iterations", "2000"]) as calls:
        assert all(block["voluntary"] == 0 for block in calls.run())


def test_a_futex_loop_sleeps_once_on_each_side_in_each_iteration(replay: Result) -> None:
    """Whatever else it does: each side waits once and is woken once."""
    rows = replay.data[replay.data.loop.isin(["process_futex", "thread_futex"])]
    assert ((rows.voluntary_switches / rows.iterations).groupby(rows.loop).median() > 1.5).all()
    assert (rows.voluntary_switches <= 2.05 * rows.iterations + 5).all()


def test_settings_that_mean_no_cpu_of_ours_are_left_out_with_a_note() -> None:
    class Elsewhere:
        cpus_allowed = (1, 2)
        nodes = (type("Node", (), {"number": 0, "cpus": (0, 1, 2, 3)}),)

        def fact(self, key: str) -> Any:
            return type("Fact", (), {"value": 1})

    run = base.Run("loops.counted", "tiny", False)
    masks = loops._masks(run, Elsewhere(), loops.AFFINITIES)  # type: ignore[arg-type]
    assert masks == {"none": [1, 2], "cpu_0": [1, 2]}
    assert [note.level for note in run.notes] == ["missing"] and "'affinity'" in run.notes[0].text
    with pytest.raises(ParameterError, match="None of these settings"):
        loops._masks(run, Elsewhere(), ["affinity"])  # type: ignore[arg-type]


def test_an_unknown_loop_is_refused_by_the_workload() -> None:
    with pytest.raises(WorkloadError, match="--loop takes system_call"):
        workloads.start("loops", ["--loop", "for"]).end()


# --- the summary and the figure ---


def made(yields: int = 0, iterations: int = 100) -> Result:
    rows = [
        {"loop": loop, "affinity": affinity, "cpus": cpus, "trial": trial, "iterations": iterations}
        | {"assumed_operations": 4 * iterations, "elapsed_ns": 400 * iterations}
        | {"voluntary_switches": counted}
        | {"involuntary_switches": 0}
        for loop, affinity, cpus, counted in (
            ("process_futex", "none", "0-1", 2 * iterations),
            ("thread_yield", "none", "0-1", yields),
            ("process_futex", "affinity", "0", 4 * iterations),
        )
        for trial in range(3)
    ]
    return Result("loops.counted", pd.DataFrame(rows), dict(MACHINE), {}, facts={"last_cpu": 1})


def test_without_switches_there_is_no_time_per_switch() -> None:
    table = made().summary().set_index(["loop", "affinity"])
    assert table.published_ns.tolist() == [100.0] * 3
    assert table.counted_ns["process_futex", "none"] == 200
    assert np.isnan(table.counted_ns["thread_yield", "none"])


def test_the_figure_puts_both_quotients_side_by_side() -> None:
    figure = made().plot(recorded=made())
    assert figure.data.name.tolist() == ["futex, processes", "yield, threads", "futex, processes"]
    assert figure.data.error_ratio.round(2).tolist()[0] == 2.0
    assert figure.caption == (
        "In 1 of 3 cases the kernel counted as many switches as the benchmark assumes (within 2 %). "
        "The loop “yield, threads” with “No CPU affinity” would report 100 ns a switch and made none."
    )
    titles = [axes.get_title(loc="left") for axes in figure.mpl.axes]
    assert titles == ["“No CPU affinity”: CPUs 0-1", "“With CPU affinity”: CPU 0"]
    assert "none counted" in figure.alt


def test_a_few_switches_are_not_called_none() -> None:
    for iterations in (100, 10_000):
        figure = made(yields=8, iterations=iterations).plot()
        assert figure.caption.endswith("would report 100 ns a switch and made hardly any.")
        assert "hardly any counted" in figure.alt and "0.1 counted" not in figure.svg()
