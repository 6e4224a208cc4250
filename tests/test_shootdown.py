"""Memory that is given back: the experiment for real, tiny, and on a machine that tells less."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from ladder_lab import documented

from sched_labs import workloads
from sched_labs.core.errors import WorkloadError
from sched_labs.core.result import Result, recorded
from sched_labs.machine import files
from sched_labs.topics.latency_ladder.shootdown import experiment as shootdown

pytestmark = pytest.mark.usefixtures("own_lock")


@pytest.fixture(scope="module")
def given(tiny: Callable[[str], Result]) -> Result:
    return tiny("shootdown.calls")


def test_every_condition_has_its_calls(given: Result) -> None:
    counts = given.data.groupby(["condition", "trial"]).size()
    assert (counts == given.parameters["calls"]).all()
    assert set(given.data.condition) == set(shootdown.CONDITIONS)
    assert len(counts) == len(shootdown.CONDITIONS) * given.parameters["trials"]
    assert (given.data.call_ns > 0).all()


def test_its_summary_has_the_documented_columns(given: Result) -> None:
    assert list(given.summary().columns) == documented(shootdown.summarise)


def test_only_those_that_run_can_be_stopped(given: Result) -> None:
    data, most = given.data, given.parameters["bystanders"]
    runs = data.condition.isin(["process", "threads", "untouched"])
    assert data[~runs].stopped_bystanders.isna().all() and data[~runs].lost_ns.isna().all()
    assert data[runs].stopped_bystanders.between(0, most).all()
    assert ((data[runs].lost_ns > 0) == (data[runs].stopped_bystanders > 0)).all()


def test_what_stops_a_thread_of_the_process_is_counted_as_a_shootdown(given: Result) -> None:
    """Beside other programs a bystander may not be running when a call comes: then it is neither."""
    counts = bool(re.search(r"^ *TLB:", Path("/proc/interrupts").read_text(), re.MULTILINE))
    assert ("interrupts" in given.tables) == counts
    if not counts:  # 64-bit Arm interrupts no CPU for it
        assert "counts no TLB shootdowns" in " ".join(note.text for note in given.notes)
        return
    counted = given.tables["interrupts"]
    assert (counted.interrupts >= 0).all() and (counted.calls == given.parameters["calls"]).all()
    stops = given.data[given.data.condition == "threads"].stopped_bystanders.sum()
    assert counted[counted.condition == "threads"].interrupts.sum() >= 0.5 * stops


def test_a_stop_has_ten_looks(given: Result) -> None:
    """A gap is one look too long: so no stop can be shorter than the bystander says that it would see."""
    looks = given.tables["looks"].groupby(["condition", "trial"]).look_ns.min()
    stops = given.data[given.data.stopped_bystanders == 1].set_index(["condition", "trial"]).lost_ns
    assert (stops > 10 * looks.reindex(stops.index)).all()


def test_the_count_is_of_one_cpu_and_missing_where_there_is_no_row(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    table = tmp_path / "proc" / "interrupts"
    with files.root(tmp_path):
        assert shootdown.shootdowns(1) is None
        table.write_text("  CPU0 CPU1\n CAL: 4 5 Function call interrupts\n TLB: 70 80 TLB shootdowns\n")
        assert shootdown.shootdowns(0) == 70 and shootdown.shootdowns(1) == 80
        table.write_text("  CPU0 CPU1\nIPI1: 4 5 Function call interrupts\n")
        assert shootdown.shootdowns(1) is None


def test_a_machine_that_counts_none_says_so_and_shows_the_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shootdown, "shootdowns", lambda cpu: None)
    run = shootdown.calls(profile="tiny", save=False, progress=False)
    assert any(note.level == "missing" and "64-bit Arm" in note.text for note in run.notes)
    assert "interrupts" not in run.tables and run.summary().interrupts_per_call.isna().all()
    assert len(run.plot().mpl.axes) == 1


def test_a_page_that_was_never_used_stops_nobody_in_the_recorded_run() -> None:
    run = recorded("shootdown.calls")
    assert run is not None
    table = run.summary().set_index("condition")
    assert table.stopped_share["threads"] > 0.9 > 0.1 > table.stopped_share[["process", "untouched"]].max()
    assert table.loc["threads"].seen and np.isnan(table.loc["alone"].extra_ns)


@pytest.mark.parametrize("others", ["threads", "processes"])
def test_a_killed_bystander_ends_the_workload(others: str) -> None:
    words = ["--others", others, "--calls", "10000", "--apart-us", "100000"]
    with workloads.start("shootdown", words, deadline_s=60) as workload:
        workload.go()
        os.kill(workload.tids[-1], signal.SIGKILL)
        with pytest.raises(WorkloadError, match=r"was killed|SIGKILL"):
            list(workload.records())


def test_none_and_one_interrupt_a_call_stand_apart_from_zero_on() -> None:
    run = recorded("shootdown.calls")
    assert run
    calls, interrupts = run.plot().mpl.axes
    assert (calls.get_xscale(), interrupts.get_xscale()) == ("log", "linear")
    assert (
        interrupts.get_xlim()[0] == 0 and interrupts.get_xlim()[1] >= run.summary().interrupts_per_call.max()
    )
