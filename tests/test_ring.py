"""The ring of processes: the experiment for real in the tiny profile, and its figure on made-up hops."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from conftest import locked_apart
from ladder_lab import KIB, MACHINE, MIB, documented

from sched_labs import workloads
from sched_labs.core.errors import ResultError, WorkloadError
from sched_labs.core.result import Result
from sched_labs.topics.latency_ladder.ring import experiment as ring
from sched_labs.topics.latency_ladder.ring import figure as ring_figure


@pytest.fixture(scope="module")
def token(tiny: Callable[[str], Result]) -> Result:
    return tiny("ring.sweep")


def test_every_point_has_its_trials_of_both_conditions(token: Result) -> None:
    points = token.data.groupby(["rings", "access", "processes", "size_bytes", "condition"]).size()
    assert (points == ring.TURNS * token.parameters["trials"]).all()
    assert not token.data.duplicated([*points.index.names, "trial", "turn"]).any()
    cells = set(points.index.droplevel("condition"))
    assert cells == {
        *((1, "sequential", count, size) for count in (2, 4) for size in (0, 16 * KIB)),
        *((1, "random", count, 16 * KIB) for count in (2, 4)),
        *((2, "sequential", 2, size) for size in (0, 16 * KIB)),
    }
    assert (token.data[["hops", "elapsed_ns"]] > 0).all().all()


def test_its_summary_has_the_documented_columns(token: Result) -> None:
    assert list(token.summary().columns) == documented(ring.summarise)


def test_what_each_process_counts_for_itself_adds_up_to_what_the_kernel_counts(tmp_path: Path) -> None:
    """Two counts of the same switches: perf_event_open around the laps, and getrusage."""
    with locked_apart(tmp_path):
        result = ring.sweep(
            processes=[3],
            sizes_bytes=[4096],
            access=["sequential"],
            rings=[1],
            events=["context-switches", "task-clock"],
            profile="tiny",
            save=False,
            progress=False,
        )
    if "context-switches" not in result.data:
        assert any("perf_event_paranoid" in note.text for note in result.notes)
        pytest.skip("this user may not count software events")
    rings = result.data[result.data.condition == "ring"]
    switches = (rings.voluntary_switches + rings.involuntary_switches) / rings.hops
    assert rings["context-switches"].to_numpy() == pytest.approx(switches.to_numpy(), rel=0.1)
    assert (rings["task-clock"] > 0).all()


def test_without_counters_there_are_no_columns_for_them(token: Result) -> None:
    assert set(token.data.columns) == {
        *("rings", "access", "processes", "size_bytes", "trial", "turn", "condition", "hops"),
        *("elapsed_ns", "voluntary_switches", "involuntary_switches"),
        *token.facts["events"],
    }


def test_alone_nothing_is_switched_and_each_hop_of_a_ring_is(token: Result) -> None:
    switches = (token.data.voluntary_switches + token.data.involuntary_switches) / token.data.hops
    assert switches[token.data.condition == "alone"].median() < 0.1
    counted = token.summary().query("rings == 1").switches_per_hop
    assert (counted > 0.9).all() and (counted < 2.2).all()  # never fewer than one, at most twice


def test_a_hop_takes_longer_than_its_work(token: Result) -> None:
    table = token.summary()
    assert (table.hop_ns > table.alone_ns).all()
    assert (table.net_lo_ns <= table.net_ns).all() and (table.net_ns <= table.net_hi_ns).all()


def test_touching_memory_takes_time(token: Result) -> None:
    alone = (
        token.summary().query("rings == 1 and access == 'sequential'").groupby("size_bytes").alone_ns.min()
    )
    assert alone.is_monotonic_increasing


def test_a_killed_process_ends_the_whole_ring() -> None:
    arguments = ["--processes", "3", "--laps", "10000000", "--trials", "1"]
    with workloads.start("ring", arguments, deadline_s=60) as workload:
        workload.go()
        os.kill(workload.tids[1], signal.SIGKILL)
        with pytest.raises(WorkloadError, match="a process of this workload was killed"):
            list(workload.records())


# --- the figure ---


def made(l2: int | None = MIB) -> Result:
    rows = []
    for access, costs in (("sequential", (1000, 1100, 1200)), ("random", (None, 1500, 90_000))):
        for count in (2, 8):
            for size, cost in zip((0, 64 * KIB, 256 * KIB), costs, strict=True):
                if cost is None:
                    continue
                for trial in range(3):
                    for condition, ns in (("alone", 500), ("ring", 500 + cost)):
                        rows.append(
                            {"rings": 1, "access": access, "processes": count, "size_bytes": size}
                            | {"trial": trial, "condition": condition, "hops": 10, "elapsed_ns": 10 * ns}
                            | {"voluntary_switches": 10 * (condition == "ring"), "involuntary_switches": 0}
                        )
    return Result("ring.sweep", pd.DataFrame(rows), MACHINE | {"l2_bytes": l2}, {})


def test_the_figure_shows_both_orders_with_the_bare_ring_in_each() -> None:
    figure = made().plot(recorded=made())
    assert len(figure.data) == 12
    assert figure.data[figure.data.size_bytes == 0].groupby("access").size().to_dict() == {
        "random": 2,
        "sequential": 2,
    }
    assert figure.caption == (
        "A hop costs up to 90 µs beyond its work (2 processes, 256 KiB each, random access), against 1 µs "
        "with no memory touched."
    )
    texts = [text.get_text() for axes in figure.mpl.axes for text in axes.texts]
    assert texts == ["2, 8", "2, 8"]  # lines that end together share their label


@pytest.mark.parametrize(("l2", "hollow"), [(None, False), (64 * KIB, False), (MIB, True)])
def test_hollow_marks_are_named_where_a_ring_fits_the_cache(l2: int | None, hollow: bool) -> None:
    labels = [text.get_text() for text in made(l2).plot().mpl.legends[0].get_texts()]
    assert any("hollow" in label for label in labels) == hollow


def test_a_run_without_a_single_ring_is_refused() -> None:
    result = made()
    result.data = result.data.assign(rings=2)
    with pytest.raises(ResultError):
        ring_figure.frame(result)
