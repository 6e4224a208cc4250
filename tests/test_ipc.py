"""Three causes of one loss, tiny: structure and relations that must hold, never absolute times."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pandas as pd
import pytest
from claim_cases import Case

from sched_labs.claims import FAILS, UNKNOWN, judge
from sched_labs.core import registry
from sched_labs.core.result import Result, from_json
from sched_labs.topics.switching_less.ipc import experiment as ipc

Row = dict[str, Any]


@pytest.fixture(scope="module")
def tiny(own_lock: None) -> Result:
    return ipc.causes(
        profile="tiny", trials=3, switch_every_us=200, stream_bytes=1 << 20, save=False, progress=False
    )


def test_it_is_found_by_name() -> None:
    assert registry.find("ipc.causes") is ipc.causes


def test_each_condition_that_this_machine_has_is_measured(tiny: Result) -> None:
    data = tiny.data
    wanted = {"alone", "switches", "bare"}
    if "neighbour" in tiny.parameters["cpus"]:
        wanted |= {"streamer", "busy"}
    if "sibling" in tiny.parameters["cpus"]:
        wanted |= {"sibling"}
    else:
        assert any("no SMT sibling" in note.text for note in tiny.notes)
    assert set(data["condition"]) == wanted
    assert (data.groupby("condition")["trial"].nunique() == 3).all()
    assert (data["lines"] > 0).all()
    assert (data["cpu_ns"] > 0).all()


def test_it_switches_where_it_was_told_to(tiny: Result) -> None:
    data = tiny.data.assign(switches=tiny.data["voluntary_switches"] + tiny.data["involuntary_switches"])
    per_cpu_ms = data["switches"] / data["cpu_ns"] * 1e6
    median = per_cpu_ms.groupby(data["condition"]).median()
    assert median["switches"] > 1  # asked for five in each millisecond of its own time
    assert median["bare"] > 1


def test_the_machine_switches_at_least_as_often_as_the_victim(tiny: Result) -> None:
    data = tiny.data[tiny.data["machine_switches"].notna()]
    own = data["voluntary_switches"] + data["involuntary_switches"]
    assert (data["machine_switches"] >= own).all()
    assert (data["window_ns"] >= data["elapsed_ns"]).all()


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="a neighbour needs a second CPU")
def test_a_neighbour_is_seen_on_its_cpu(tiny: Result) -> None:
    if "neighbour" not in tiny.parameters["cpus"]:
        pytest.skip("the only other CPU is an SMT sibling")
    busy = tiny.data[tiny.data["condition"].isin(["streamer", "busy"])]
    assert busy["neighbour_busy_share"].median() > 0.3  # ticks of 10 ms around a block of 20


def test_its_summary_holds_together(tiny: Result) -> None:
    table = tiny.summary()
    assert (table["loss_lo_share"] <= table["loss_share"]).all()
    assert (table["loss_share"] <= table["loss_hi_share"]).all()
    assert table.set_index("condition").loss_share["alone"] == 0
    if "instructions" not in tiny.data:
        assert table["ipc"].isna().all()


def constructed(rates: dict[str, float], **more: Any) -> Result:
    """A run whose victim does so many lines in each CPU-second; nothing in it was measured."""
    rows = [
        {"condition": name, "trial": trial, "lines": rate * (1 + trial / 1000), "cpu_ns": 1e9,
         "elapsed_ns": 1e9, "voluntary_switches": 10, "involuntary_switches": 5, "wait_ns": 0.0,
         "window_ns": 1e9, "sibling_busy_share": np.nan, "neighbour_busy_share": 0.5,
         "machine_switches": 100.0, **more}
        for trial in range(5) for name, rate in rates.items()
    ]  # fmt: skip
    return Result(kind="ipc.causes", data=pd.DataFrame(rows), machine={}, parameters={})


def test_a_loss_is_what_is_missing_of_the_work_alone() -> None:
    table = constructed({"alone": 1000, "switches": 750}).summary().set_index("condition")
    assert table.loss_share["switches"] == pytest.approx(0.25)
    assert table.switches_per_s["alone"] == pytest.approx(15)
    assert table.machine_switches_per_s["alone"] == pytest.approx(100)
    assert table.floor_share["alone"] < 0.01


def test_counted_instructions_become_an_ipc() -> None:
    events = {"instructions": 300.0, "cycles": 200.0, "LLC-load-misses": 0.25}
    table = constructed({"alone": 1000}, **events).summary()
    assert table["ipc"].iloc[0] == pytest.approx(1.5)
    assert table["misses_per_line"].iloc[0] == 0.25


def test_events_are_counted_in_the_victim_while_it_walks(own_lock: None) -> None:
    """With software events, because this machine may have no others.

    On a busy machine a block may be no more than one stint: 2 ms, beside which the looks around it are short.
    """
    run = ipc.causes(
        profile="tiny", trials=1, switch_every_us=2000, stream_bytes=1 << 20, set_bytes=1 << 16,
        events=["task-clock", "page-faults"], save=False, progress=False,
    )  # fmt: skip
    if "task-clock" not in run.data:
        assert any("may not be counted" in note.text for note in run.notes)
        pytest.skip("this user may count nothing")
    assert run.facts["events"] == ["task-clock", "page-faults"]
    counted_ns = run.data["task-clock"] * run.data["lines"]
    assert (counted_ns / run.data["cpu_ns"]).between(0.8, 1.2).all()


def test_switches_are_spaced_for_the_loss_of_the_dearest_neighbour() -> None:
    def block(condition: str, lines: float) -> Row:
        return {"condition": condition, "lines": lines, "cpu_ns": 1000.0}

    first = [block("alone", 100), block("streamer", 80)]
    # At 200 µs a hand-over adds another 200 µs; a fifth is lost at 800 µs.
    halved = [block("alone", 100), block("switches", 50)]
    assert ipc._stint_ns(200_000, first, halved) == pytest.approx(800_000)
    calm = [block("alone", 100), block("streamer", 100)]
    assert ipc._stint_ns(200_000, calm, halved) == pytest.approx(1_800_000)
    free = [block("alone", 100), block("switches", 120)]
    assert ipc._stint_ns(200_000, calm, free) == ipc.SHORTEST_STINT_NS
    # All blocks of a condition count.
    mixed = [block("alone", 150), block("alone", 50), block("switches", 60), block("switches", 40)]
    assert ipc._stint_ns(200_000, first, mixed) == pytest.approx(800_000)


def test_it_is_drawn_kept_and_judged(tiny: Result) -> None:
    figure = from_json(tiny.to_json()).plot(recorded=tiny)
    assert "switched often" in figure.alt
    assert set(figure.data["condition"]) == set(tiny.data["condition"])
    assert len(list(judge(tiny))) == 3
    drawn = constructed({"alone": 1000, "switches": 700, "streamer": 700, "busy": 1000}).plot()
    assert drawn.caption.count("30 %") == 2 and "elsewhere" not in drawn.caption


class Notes:
    """A run, as far as the check of its rows needs one."""

    def __init__(self, rates: dict[str, list[float]]) -> None:
        trials = len(rates["alone"])
        rows = [
            {"condition": name, "trial": trial, "lines": 1e6 * rate, "cpu_ns": 1e9, "elapsed_ns": 1e9,
             "voluntary_switches": 0, "involuntary_switches": 0}
            for name, each in rates.items() for trial, rate in zip(range(trials), each, strict=True)
        ]  # fmt: skip
        self.rows = [pd.DataFrame(rows)]
        self.parameters = {"conditions": list(rates)}
        self.said: list[tuple[str, str]] = []

    def note(self, level: str, text: str) -> None:
        self.said.append((level, text))


def test_trials_that_form_two_groups_and_an_unsteady_baseline_are_flagged() -> None:
    steady = Notes({"alone": [80, 82, 81, 79], "streamer": [64, 65, 6, 6]})
    ipc._check_causes(steady, 1000)  # type: ignore[arg-type]
    (said,) = steady.said
    assert said[0] == "flag"
    assert said[1].startswith("streamer: the trials form two groups, around 20% and 92% less work;")
    shaken = Notes({"alone": [80, 82, 20, 79], "streamer": [64, 65, 16, 63]})
    ipc._check_causes(shaken, 1000)  # type: ignore[arg-type]
    assert [level for level, _ in shaken.said] == ["flag"] and "4.1 times" in shaken.said[0][1]
    calm = Notes({"alone": [80, 82, 81, 79], "streamer": [64, 65, 66, 63]})
    ipc._check_causes(calm, 1000)  # type: ignore[arg-type]
    assert calm.said == []


def test_a_victim_that_hands_over_where_it_was_told_to_is_not_flagged_however_dear_that_is() -> None:
    dear = Notes({"alone": [80, 82, 81, 79], "switches": [8, 9, 8, 9], "bare": [60, 61, 60, 61]})
    for rows in dear.rows:
        told = rows["condition"].isin(["switches", "bare"])
        rows.loc[told, "voluntary_switches"] = rows["lines"] // 1000
    ipc._check_causes(dear, 1000)  # type: ignore[arg-type]
    assert dear.said == []
    dear.rows[0]["voluntary_switches"] //= 2
    ipc._check_causes(dear, 1000)  # type: ignore[arg-type]
    assert dear.said == [("flag", "The victim was switched less often than it was told to hand over.")]


@pytest.mark.parametrize(
    ("shares", "groups"),
    [
        ([0.2, 0.92, 0.19, 0.21, 0.93], (0.2, 0.925)),
        ([0.2, 0.92, 0.19, 0.21, 0.18], None),  # one trial is no group
        ([0.1, 0.3, 0.5, 0.7, 0.9], None),  # spread out
        ([0.02, 0.03, 0.15, 0.16], None),  # not far apart
        ([0.2, 0.9, np.nan, 0.2], None),  # too few
    ],
)
def test_two_groups_are_told_from_a_spread(shares: list[float], groups: tuple[float, float] | None) -> None:
    assert ipc.two_groups(pd.Series(shares)) == (None if groups is None else pytest.approx(groups))


# ---- claims, on CONSTRUCTED summaries ----


def cause(
    name: str, loss: float = 0.0, switches: float = 10, machine: float = 100, half: float = 0.02
) -> Row:
    row: Row = {"condition": name, "floor_share": 0.02}
    row |= {"loss_share": loss, "loss_lo_share": loss - half, "loss_hi_share": loss + half}
    for stem, value in (("switches", switches), ("machine_switches", machine)):
        for part, factor in (("", 1), ("_lo", 1 - half), ("_hi", 1 + half)):
            row[f"{stem}{part}_per_s"] = factor * value
    return row


ALONE = cause("alone")
SWITCHED = cause("switches", 0.3, 9000, 19_000)
BARE = cause("bare", 0.06, 9500, 20_000)
SAME = cause("bare", 0.29, 9500, 20_000)  # switches that cost as much whatever is touched
CASES: list[Case] = [
    ("000-134", UNKNOWN, [ALONE, SWITCHED, cause("streamer")], "30.0% (28.0% to 32.0%) with switches"),
    ("000-134", FAILS, [ALONE, SWITCHED, cause("streamer", 0.33)], "33.0% (31.0% to 35.0%) with a memory"),
    ("000-134", UNKNOWN, [ALONE, SWITCHED, cause("streamer", 0.1)], "No neighbour surely takes 30% of the"),
    ("000-134", FAILS, [ALONE, SWITCHED, cause("sibling", 0.4)], "with a busy SMT sibling at 10 switches"),
    ("000-134", UNKNOWN, [ALONE, SWITCHED, cause("streamer", 0.4, half=0.3)], "surely takes 30% of"),
    ("000-134", UNKNOWN, [ALONE, SWITCHED], "no neighbour on another CPU"),
    ("000-081", UNKNOWN, [ALONE, SWITCHED, cause("bare", 0.29, 9500)], "chose this rate for its loss"),
    ("000-081", FAILS, [ALONE, SWITCHED, BARE], "6.0% (4.0% to 8.0%) with switches to a partner who"),
    ("000-081", FAILS, [ALONE, cause("switches", 0.3, 800)], "below 5,000 a second"),
    ("000-081", UNKNOWN, [ALONE, cause("switches", 0.056, 232), BARE], "both 2.0% of noise and 5%: 5.6% ("),
    ("000-081", UNKNOWN, [ALONE, cause("switches", 0.05, 9000), cause("bare", -0.01, 9500)], "noise and 5%"),
    ("000-081", UNKNOWN, [ALONE, cause("switches", 0.3, 5050), BARE], "both, but 4,949 or more: 30.0%"),
    ("000-081", UNKNOWN, [ALONE, SWITCHED, cause("bare", 0.22, 9500)], "chose this rate"),
    ("000-081", UNKNOWN, [ALONE, SWITCHED], "did not measure 'bare'"),
    ("000-139", UNKNOWN, [ALONE, SWITCHED, SAME, cause("streamer", 0.3)], "19,000 times a second with a p"),
    ("000-139", FAILS, [ALONE, SWITCHED, BARE, cause("streamer", 0.3)], "19,000 a second of the whole"),
    ("000-139", UNKNOWN, [ALONE, cause("switches", 0.05, 9000, 19_000), cause("bare", -0.01, 9500, 20_000)],
     "The count stands out here"),
    ("000-139", FAILS, [cause("alone", machine=30_000), SWITCHED, SAME], "drown in the switches of others"),
    ("000-139", UNKNOWN, [cause("alone", machine=30_000), cause("switches", 0.056, 9000, 19_000), SAME],
     "noise and 5%: 5.6% (3.6% to 7.6%) with switches at 9,000 switches/s. In the median"),
    ("000-139", UNKNOWN, [cause("alone", machine=9_500), SWITCHED, SAME], "and up to 9,690 without). In"),
    ("000-139", UNKNOWN, [cause("alone", machine=np.nan), SWITCHED, SAME], "does not tell"),
]  # fmt: skip
