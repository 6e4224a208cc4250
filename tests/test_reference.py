"""The latency ladder: its experiment for real in the tiny profile, and its figure on made-up costs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
from ladder_lab import MACHINE, documented

from sched_labs import machine, workloads
from sched_labs.core.errors import ResultError
from sched_labs.core.result import Result
from sched_labs.draw import style
from sched_labs.run import base
from sched_labs.topics.latency_ladder.reference import experiment as reference
from sched_labs.topics.latency_ladder.reference.figure import NAMES, ladder


@pytest.fixture(scope="module")
def costs(tiny: Callable[[str], Result]) -> Result:
    return tiny("reference.costs")


def test_every_rung_has_its_batches_and_its_baseline(costs: Result) -> None:
    expected = set(reference.RUNGS) - ({"hand_over"} if len(machine.survey().cpus_allowed) < 2 else set())
    trials = costs.parameters["trials"]
    batches = costs.data.groupby(["rung", "condition"]).size()
    assert set(batches.index) == {(rung, c) for rung in expected for c in ("operation", "baseline")}
    for (name, _), count in batches.items():
        switches = name in reference.SWITCHES
        assert count == trials * (reference.PING_PONG_TURNS if switches else reference.TURNS)
    assert not costs.data.duplicated(["rung", "condition", "trial", "turn"]).any()
    assert (costs.data[["operations", "elapsed_ns"]] > 0).all().all()
    assert set(costs.data.columns) == {
        *("rung", "trial", "turn", "condition", "operations", "elapsed_ns"),
        *("voluntary_switches", "involuntary_switches"),
    }


def test_its_summary_has_the_documented_columns(costs: Result) -> None:
    assert list(costs.summary().columns) == documented(reference.summarise)
    assert costs.summary().cost_ns.is_monotonic_increasing


def test_what_must_be_dearer_is_dearer(costs: Result) -> None:
    """Relations that hold on every machine: each of these contains the other, or goes a longer way."""
    cost = costs.summary().set_index("rung").cost_ns
    for cheaper, dearer in (
        ("call", "system_call"),
        ("stack_switch", "switch"),
        ("system_call", "thread"),
        ("thread", "process"),
        ("atomic", "memcpy_warm"),
    ):
        assert cost[cheaper] < cost[dearer], (cheaper, dearer)


def test_only_threads_that_wait_are_switched(costs: Result) -> None:
    """A joining thread sleeps until the other has ended; a loop of calls never does."""
    table = costs.summary().set_index("rung")
    assert table.switches_per_operation["thread"] > 0.5 and table.switches_per_operation["process"] > 0.5
    loops = costs.data[costs.data.rung.isin(["call", "system_call", "memcpy_warm"])]
    assert (loops.voluntary_switches == 0).all()
    assert table.calls_ns.notna().sum() == len({"switch", "hand_over"} & set(table.index))


def test_the_run_says_what_the_kernel_does_against_processor_bugs(costs: Result) -> None:
    assert any("processor bugs" in note.text for note in costs.notes)


@pytest.mark.parametrize(
    ("cache", "available", "pool", "told"),
    [
        (32 << 20, 64 << 20, 8 << 20, ["flag"]),
        (32 << 20, 8 << 30, 128 << 20, []),
        (260 << 20, 24 << 30, 768 << 20, []),  # a guest that sees all of its host's cache
        (512 << 20, 24 << 30, 768 << 20, ["flag"]),
    ],
)
def test_a_machine_too_small_for_its_cache_is_told_that_its_cold_copy_may_be_warm(
    cache: int, available: int, pool: int, told: list[str]
) -> None:
    class Machine:
        def caches(self, cpu: int) -> list[Any]:
            return [type("Cache", (), {"kind": "unified", "size_bytes": cache})]

        def fact(self, key: str) -> Any:
            return type("Fact", (), {"value": available if key == "memory.available_bytes" else None})

    run = base.Run("reference.costs", "tiny", False)
    assert reference._pool_bytes(run, Machine()) == pool  # type: ignore[arg-type]
    assert [note.level for note in run.notes] == told


def test_an_unknown_rung_is_refused_by_the_workload() -> None:
    with pytest.raises(workloads.launch.WorkloadError, match="called 'nap'"):
        workloads.start("reference", ["--rung", "nap"]).end()


# --- the figure ---


def made(**changed: float) -> Result:
    """Made-up costs: two trials that agree, the baseline at 1 ns."""
    costs_ns = {"call": 2, "system_call": 101, "memcpy_warm": 1001, "switch": 2001, "process": 1e5} | changed
    rows = [
        {"rung": rung, "trial": trial, "condition": condition, "operations": 1000}
        | {"elapsed_ns": 1000 * (cost if condition == "operation" else 1)}
        | {"voluntary_switches": 0, "involuntary_switches": 0}
        for rung, cost in costs_ns.items()
        for trial in range(3)
        for condition in ("baseline", "operation")
    ]
    return Result("reference.costs", pd.DataFrame(rows), dict(MACHINE), {"profile": "tiny"})


def test_the_ladder_is_sorted_and_counted_in_switches() -> None:
    figure = made().plot()
    assert figure.data.rung.tolist() == ["call", "system_call", "memcpy_warm", "switch", "process"]
    assert figure.data.in_switches.round(4).tolist() == [0.0005, 0.05, 0.5, 1.0, 49.9995]
    assert figure.caption == (
        "One context switch costs 2 µs: about as much as 2,000 function calls, 20 system calls and "
        "2 warm copies of 64 KiB."
    )
    assert "context switch 2 µs" in figure.alt and figure.svg().startswith("<svg")
    assert set(NAMES) == set(reference.RUNGS)


def test_a_rung_that_is_not_above_the_empty_loop_is_not_seen() -> None:
    figure = made(call=1).plot()
    assert not figure.data.seen.iloc[0] and "function call not seen" in figure.alt
    assert math.isnan(Result.summary(made(call=1)).calls_ns.iloc[0])


def test_a_warm_up_of_the_same_machine_becomes_a_rung() -> None:
    sweep = Result("warmup.sweep", pd.DataFrame(), {}, {})
    top = {
        "working_set_bytes": 1 << 18,
        "extra_ns": 3e4,
        "extra_lo_ns": 2e4,
        "extra_hi_ns": 4e4,
        "seen": True,
    }
    sweep.summary = lambda: pd.DataFrame([top, top | {"extra_ns": 5e4, "seen": False}])  # type: ignore[method-assign]
    figure = ladder(made(), sweep, recorded=made(), predictions=[{"value": 2, "unit": "µs"}])
    assert "your prediction" in figure.svg()
    assert "Pale, recorded: " in figure.provenance and "Warm-up: " in figure.provenance
    assert figure.alt.endswith("Dashed, your prediction: 2 µs.") and "a run recorded on" in figure.alt
    assert figure.data.name.tolist()[-2:] == ["warm-up, 256 KiB", NAMES["process"]]
    assert style.colour(style.WARMUP) in {line.get_color() for line in figure.mpl.axes[0].lines}
    with pytest.raises(ResultError, match="no rung"):
        ladder(made(), made())
