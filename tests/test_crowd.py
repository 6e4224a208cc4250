"""Crowds that yield on one CPU: the summary of made-up crowds, and a live one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest

from sched_labs import draw as figures
from sched_labs import workloads
from sched_labs.core.errors import SchedLabError, ThreadLimitError, WorkloadError
from sched_labs.core.result import Result
from sched_labs.topics.context_switch.crowd import experiment as crowd

pytestmark = pytest.mark.usefixtures("own_lock")


def made(*crowds: tuple[int, float], switches: int = 1000) -> Result:
    """Five trials of 1,000 calls for each (threads, ns per switch)."""
    rows = [
        {"threads": n, "trial": trial, "yields": 1000, "switches": switches, "elapsed_ns": ns * switches}
        for trial in range(5)
        for n, ns in crowds
    ]
    return Result("crowd.switch", pd.DataFrame(rows), {}, {})


def test_the_time_is_divided_by_the_switches_counted() -> None:
    table = made((512, 1500.0), (2, 1000.0), switches=500).summary()
    assert table.threads.tolist() == [2, 512]
    assert table.switch_ns.tolist() == table.switch_lo_ns.tolist() == [1000.0, 1500.0]
    assert table.switches_per_yield.tolist() == [0.5, 0.5] and table.trials.tolist() == [5, 5]


def test_without_a_switch_there_is_nothing_to_divide_by() -> None:
    result = made((2, 1000.0), switches=0)
    assert result.summary().empty
    with pytest.raises(SchedLabError, match="nothing was measured"):
        figures.draw(result)


def test_the_figure_compares_the_smallest_crowd_with_the_largest() -> None:
    result = made((2, 1000.0), (512, 1500.0))
    figure = figures.draw(result, recorded=result, predictions=[{"value": 3, "unit": "µs"}])
    assert figure.caption == (
        "With 2 ready threads a switch and its call take 1 µs, with 512 1.5 µs: "
        "1.5 times as long for 256 times as many."
    )
    assert "512 threads 1.5 µs" in figure.alt and "3 µs" in figure.alt


def test_a_live_crowd_switches_with_nearly_every_call(tiny: Callable[[str], Result]) -> None:
    result = tiny("crowd.switch")
    table, given = result.summary(), result.parameters
    assert table.threads.tolist() == given["threads"] and set(table.trials) == {given["trials"]}
    assert (table.switches_per_yield > 0.5).all()
    assert (table.switch_lo_ns > 0).all() and (table.switch_ns <= table.switch_hi_ns).all()
    assert (result.data.yields >= crowd.FEWEST_YIELDS * result.data.threads).all()
    assert result.plot().caption.endswith(".")


def test_a_crowd_that_may_not_be_started_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    start = workloads.start

    def refusing(name: str, arguments: list[str], **options: Any) -> workloads.Workload:
        if "16" in arguments:
            raise ThreadLimitError("The workload yielder may not start as many threads.")
        return start(name, arguments, **options)

    monkeypatch.setattr(workloads, "start", refusing)
    result = crowd.switch(profile="tiny", save=False, progress=False)
    assert set(result.data.threads) == {2}
    assert [note.level for note in result.notes if "16 threads" in note.text] == ["missing"]


def test_another_failure_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*arguments: Any, **options: Any) -> None:
        raise WorkloadError("The workload yielder was ended by SIGSEGV.")

    monkeypatch.setattr(workloads, "start", failing)
    with pytest.raises(WorkloadError, match="SIGSEGV"):
        crowd.switch(profile="tiny", save=False, progress=False)
