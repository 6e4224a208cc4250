"""The warm-up sweep's grid of victim and partner, shared sets, its sizes and its limits."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from sched_labs import machine
from sched_labs.core import stats
from sched_labs.core.errors import ResultError
from sched_labs.core.result import Result
from sched_labs.run import memory
from sched_labs.topics.context_switch.warmup import experiment as warmup
from sched_labs.topics.context_switch.warmup import figure as warmup_figure

KIB, MIB = 1 << 10, 1 << 20


pytestmark = pytest.mark.usefixtures("own_lock")


def measured(**parameters: Any) -> Result:
    given: dict[str, Any] = {"working_sets_bytes": [8 * KIB, 16 * KIB], "partner_bytes": 256 * KIB}
    return warmup.sweep(profile="tiny", save=False, progress=False, **given | parameters)


def test_the_grid_is_measured_with_the_random_walk() -> None:
    result = measured(grid_partners_bytes=[64 * KIB, 4 * KIB])
    partners = result.summary().groupby("access").partner_bytes.unique().map(sorted)
    assert partners["random"] == [4 * KIB, 64 * KIB, 256 * KIB]
    assert partners["sequential"] == [256 * KIB]
    assert result.parameters["grid_partners_bytes"] == [4 * KIB, 64 * KIB]
    curve = result.plot().data
    assert set(curve.partner_bytes) == {256 * KIB}
    grid = warmup_figure.grid(result)
    assert len(grid.data) == 6 and grid.caption.endswith(".")
    assert "Partner of 4 KiB: 8 KiB" in grid.alt and "<svg" in grid.svg()


def test_events_are_counted_while_the_victim_walks_and_nowhere_else() -> None:
    """The walk runs all the time, on pages that are there; every hand-over is outside."""
    events = ["task-clock", "page-faults", "context-switches"]
    result = measured(events=events)
    if not set(events) <= set(result.data.columns):
        assert any("perf_event_paranoid" in note.text for note in result.notes)
        pytest.skip("this user may not count software events")
    assert result.data["context-switches"].median() == 0 and result.data["page-faults"].median() == 0
    blocks = result.data.groupby(
        ["working_set_bytes", "access", "condition", "partner_bytes", "trial", "turn"]
    )
    assert (blocks["task-clock"].first() >= blocks["pass_ns"].min()).all()
    table = result.summary()
    assert (table["after_task-clock"] > 0).all() and (table["alone_context-switches"] == 0).all()


def test_without_a_counter_there_is_no_column_for_it() -> None:
    result = measured(events=[])
    assert not [name for name in result.data if "misses" in name]
    assert any(note.level == "missing" and "counted" in note.text for note in result.notes)


def test_a_walk_alone_has_the_interval_of_its_starts() -> None:
    starts = [100.0, 140.0, 110.0, 300.0, 120.0]
    rows = [
        {"access": "random", "working_set_bytes": 4 * KIB, "trial": trial, "turn": 0, "condition": condition}
        | {"partner_bytes": partner, "pass_index": 0, "pass_ns": walk + partner, "away_ns": 1000.0}
        for trial, walk in enumerate(starts)
        for condition, partner in (("alone", 0), ("after_switch", 64))
    ]
    table = Result("warmup.sweep", pd.DataFrame(rows), {}, {"line_bytes": 64}).summary()
    (row,) = table.itertuples()
    assert (row.alone_ns, row.alone_lo_ns, row.alone_hi_ns) == stats.median_interval(starts)
    assert row.alone_lo_ns < row.alone_ns < row.alone_hi_ns and row.alone_ns_per_line == 120 / 64
    assert row.extra_lo_ns == row.extra_hi_ns == 64, "paired: what the starts differ by cancels"


def test_without_a_grid_there_is_nothing_to_draw() -> None:
    with pytest.raises(ResultError, match="one partner only"):
        warmup_figure.grid(measured())


def test_the_grid_says_what_it_shows() -> None:
    rows = [
        {
            "access": "random", "working_set_bytes": size, "partner_bytes": partner, "extra_ns": extra,
            "seen": extra > 0,
        }
        for size, partner, extra in (
            (4 * KIB, 4 * KIB, 0.0), (MIB, 4 * KIB, 500.0), (4 * KIB, MIB, 900.0), (MIB, MIB, 60_000.0),
            (64 * MIB, MIB, 10.0),
        )
    ]  # fmt: skip

    class Made(Result):
        def summary(self) -> pd.DataFrame:
            return pd.DataFrame(rows)

    grid = warmup_figure.grid(Made("warmup.sweep", pd.DataFrame(), {}, {}))
    assert grid.caption == (
        "Where a field's warm-up after one switch stands clear of the noise, it costs from 500 ns with 1 MiB "
        "and a partner of 4 KiB to 60 µs with 1 MiB and a partner of 1 MiB."
    )
    assert set(grid.data.working_set_bytes) == {4 * KIB, MIB}  # only sets that met every partner
    rows[1]["seen"] = rows[2]["seen"] = False
    assert warmup_figure.grid(Made("warmup.sweep", pd.DataFrame(), {}, {})).caption == (
        "Warming up after one switch costs 60 µs with 1 MiB and a partner of 1 MiB; that of no other field "
        "stands clear of the noise."
    )
    assert "4 KiB to 1 MiB" in grid.alt
    assert grid.alt.endswith("Partner of 4 KiB: 1 MiB 500 ns. Partner of 1 MiB: 4 KiB 900 ns, 1 MiB 60 µs.")
    assert (
        "Partner of 4 KiB: none seen." in warmup_figure.grid(Made("warmup.sweep", pd.DataFrame(), {}, {})).alt
    )


@pytest.mark.parametrize("between", warmup.BETWEEN)
def test_a_shared_set_and_threads_give_the_same_table(between: str) -> None:
    result = measured(sharing="shared", between=between, access=["random"])
    assert result.summary().working_set_bytes.tolist() == [8 * KIB, 16 * KIB]
    assert result.parameters["sharing"] == "shared" and result.parameters["huge_pages"] is False


class Small:
    """A machine with 48 KiB, 1 MiB and 32 MiB of caches, and so much memory."""

    def __init__(self, available: int, caches: tuple[int, ...] = (48 * KIB, MIB, 32 * MIB)) -> None:
        self.available, self.sizes, self.cpus_allowed = available, caches, (0,)

    def fact(self, key: str) -> Any:
        value = self.available if key == "memory.available_bytes" else None
        return type("Fact", (), {"value": value})

    def caches(self, cpu: int) -> list[Any]:
        return [
            type("Cache", (), {"size_bytes": size, "kind": "data", "level": level + 1})
            for level, size in enumerate(self.sizes)
        ]


def test_quick_goes_past_the_last_level_and_no_further_than_64_mib() -> None:
    large: Any = Small(64 << 30)
    sizes = warmup.default_working_sets("quick", large)
    assert sizes[0] == 4 * KIB and sizes[-1] == 64 * MIB and sizes == sorted(set(sizes))
    assert memory.thorough_partner("quick", large) == 64 * MIB
    assert warmup.default_grid("quick", large) == [32 * KIB, 256 * KIB, MIB, 4 * MIB]
    assert max(warmup.default_working_sets("full", large)) > 32 * MIB
    assert memory.thorough_partner("full", Small(64 << 30, (32 * KIB, MIB, 256 * MIB))) == 512 * MIB  # type: ignore[arg-type]


@pytest.mark.parametrize("profile", ["tiny", "quick", "full"])
def test_nothing_takes_more_than_an_eighth_of_a_small_memory(profile: str) -> None:
    small: Any = Small(64 * MIB)
    assert max(warmup.default_working_sets(profile, small)) <= 8 * MIB
    assert memory.thorough_partner(profile, small) <= 8 * MIB
    assert all(size < memory.thorough_partner(profile, small) for size in warmup.default_grid(profile, small))


def test_a_machine_without_described_caches_gets_typical_ones() -> None:
    unknown: Any = Small(1 << 30, ())
    assert memory.caches(unknown) == [32 * KIB, MIB, 32 * MIB]
    assert memory.second_level(Small(1 << 30, (32 * KIB,))) == 256 * KIB  # type: ignore[arg-type]


def test_slow_memory_leaves_the_largest_sets_out_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warmup, "LONGEST_S", dict.fromkeys(warmup.LONGEST_S, 1e-9))
    sizes = warmup.default_working_sets("tiny", machine.survey())
    result = warmup.sweep(profile="tiny", save=False, progress=False, access=["random"])
    assert set(result.data.working_set_bytes) == set(sizes[:1])
    (note,) = [note for note in result.notes if "left out" in note.text]
    assert all(memory.size_text(size) in note.text for size in sizes[1:])


def test_what_the_reader_asked_for_is_never_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warmup, "LONGEST_S", dict.fromkeys(warmup.LONGEST_S, 1e-9))
    assert measured(access=["random"]).summary().working_set_bytes.tolist() == [8 * KIB, 16 * KIB]
