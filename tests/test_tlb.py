"""Address translations after a switch: the experiment for real, tiny, and its figure on made-up walks."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import locked_apart
from ladder_lab import MACHINE, documented

from sched_labs import machine, workloads
from sched_labs.core.errors import ResultError, WorkloadError
from sched_labs.core.result import Result
from sched_labs.machine import files
from sched_labs.run import base, counted
from sched_labs.topics.latency_ladder.tlb import experiment as tlb


@pytest.fixture(scope="module")
def walks(tiny: Callable[[str], Result]) -> Result:
    return tiny("tlb.switches")


def test_every_condition_has_its_walks(walks: Result) -> None:
    per_turn = walks.data.groupby(["pages", "condition", "trial", "turn"]).size()
    assert (per_turn == walks.parameters["passes"]).all()
    assert len(per_turn) == len(walks.parameters["pages"]) * 5 * walks.parameters["trials"] * tlb.TURNS
    assert (walks.data.walk_ns > 0).all()


def test_its_summary_has_the_documented_columns(walks: Result) -> None:
    assert list(walks.summary().columns) == documented(tlb.summarise)


def test_each_walk_after_a_switch_comes_after_one(walks: Result) -> None:
    turns = walks.data.drop_duplicates(["pages", "condition", "trial", "turn"])
    switched = turns.voluntary_switches + turns.involuntary_switches
    passes = walks.parameters["passes"]
    assert (switched[turns.condition != "nothing"] >= passes).mean() > 0.9
    assert switched[turns.condition == "nothing"].median() < 2


def test_more_pages_take_longer(walks: Result) -> None:
    nothing = walks.summary().query("condition == 'nothing'").sort_values("pages")
    assert nothing.walk_ns.is_monotonic_increasing


def test_without_counters_there_are_no_columns_for_them(walks: Result) -> None:
    counted = set(walks.data.columns) - {
        *("pages", "condition", "trial", "turn", "walk_ns"),
        *("voluntary_switches", "involuntary_switches"),
    }
    offered = machine.survey().fact("pmu.events").value
    assert counted == set(walks.facts["events"]) <= set(offered if isinstance(offered, list) else [])
    if not counted:
        assert any(note.level == "missing" and "counted" in note.text for note in walks.notes)


def test_software_events_are_counted_around_the_walk_alone(tmp_path: Path) -> None:
    """The walk runs on the CPU all the time, its pages are there, and it hands over only outside."""
    with locked_apart(tmp_path):
        events = ["task-clock", "page-faults", "context-switches"]
        result = tlb.switches(
            pages=[1024], trials=3, events=events, profile="tiny", save=False, progress=False
        )
    if not set(events) <= set(result.data.columns):
        assert any("perf_event_paranoid" in note.text for note in result.notes)
        pytest.skip("this user may not count software events")
    per_turn = result.data.groupby(["condition", "trial", "turn"])
    assert result.data["context-switches"].median() == 0 and result.data["page-faults"].median() == 0
    # The clock of the thread ran while it walked, and the walk is a part of what was counted.
    assert (per_turn["task-clock"].first() >= per_turn["walk_ns"].min()).all()


def test_a_missing_event_is_a_note_and_no_column() -> None:
    run = base.Run("tlb.switches", "tiny", False)
    record = workloads.Record("events", {"failed": "cycles", "errno": 2})
    assert counted.columns(run, record, 4) == {}
    assert [note.level for note in run.notes] == ["missing"] and "does not offer it" in run.notes[0].text
    record = workloads.Record("events", {"enabled_ns": 200, "running_ns": 100, "cycles": 400})
    assert counted.columns(run, record, 4) == {"cycles": 200.0}
    assert run.notes[-1].level == "flag" and "estimates" in run.notes[-1].text


def test_tags_are_read_from_the_processor(tmp_path: Path) -> None:
    class Arch:
        def __init__(self, name: str) -> None:
            self.name = name

        def fact(self, key: str) -> Any:
            return type("Fact", (), {"value": self.name})

    proc = tmp_path / "proc"
    proc.mkdir()
    with files.root(tmp_path):
        assert tlb.address_space_tags(Arch("aarch64")) == "ASID"  # type: ignore[arg-type]
        assert tlb.address_space_tags(Arch("x86_64")) is None  # type: ignore[arg-type]
        for flags, tags in (("fpu pcid sse", "PCID"), ("fpu invpcid_single", "none")):
            (proc / "cpuinfo").write_text(f"processor : 0\nflags : {flags}\n")
            assert tlb.address_space_tags(Arch("x86_64")) == tags  # type: ignore[arg-type]
        assert tlb.address_space_tags(Arch("riscv64")) is None  # type: ignore[arg-type]


def test_a_killed_partner_ends_the_workload() -> None:
    with workloads.start("tlb", ["--trials", "100000", "--passes", "100"], deadline_s=60) as workload:
        workload.go()
        os.kill(workload.tids[-1], signal.SIGKILL)
        with pytest.raises(WorkloadError, match="a process of this workload was killed"):
            list(workload.records())


# --- the summary and the figure ---


def made(one: float = 0, seven: float = 9000, conditions: tuple[str, ...] = tlb.CONDITIONS) -> Result:
    """Walks of 1 µs; a thread adds 100 ns, address spaces add `one` or `seven` on top."""
    more = {"nothing": 0, "thread": 100, "process": 100 + one, "threads_8": 500, "processes_8": 500 + seven}
    rows = [
        {
            "pages": pages,
            "condition": condition,
            "trial": trial,
            "walk_ns": 1000 + more[condition] + trial % 2,
        }
        | {"voluntary_switches": 4, "involuntary_switches": 0}
        for pages in (64, 1024)
        for condition in conditions
        for trial in range(5)
    ]
    return Result("tlb.switches", pd.DataFrame(rows), dict(MACHINE), {"tags": "PCID", "events": []})


def test_the_address_space_is_what_processes_cost_beyond_threads() -> None:
    table = made().summary().set_index(["pages", "condition"])
    assert table.space_ns[1024, "processes_8"] == 9000 and bool(table.space_seen[1024, "processes_8"])
    assert table.extra_ns[1024, "processes_8"] == 9500
    assert table.space_ns[64, "process"] == 0 and not table.space_seen[64, "process"]
    assert np.isnan(table.space_ns[64, "thread"]) and np.isnan(table.extra_ns[64, "nothing"])


def test_the_caption_tells_what_one_and_what_seven_cost() -> None:
    figure = made().plot(recorded=made())
    assert figure.caption == (
        "Over 64 pages, coming back from seven other processes costs 9 µs more than from seven threads, "
        "141 ns a page; from one other process, nothing more than from one thread is seen above the noise."
    )
    assert "Seven processes in between: 64 pages 9.5 µs and 1024 pages 9.5 µs." in figure.alt
    assert made(one=8000).plot().caption.endswith("from one other process, 8 µs more than from one thread.")
    assert "does not stand clear of the noise" in made(seven=0).plot().caption
    with pytest.raises(ResultError):
        made(conditions=("nothing",)).plot()
