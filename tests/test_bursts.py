"""Switches in bursts and evenly spaced: the summary of made-up walks, and the structure of a live run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest

from sched_labs import draw as figures
from sched_labs.core.result import Result

KIB = 1024
LINES = 256 * KIB // 64
PARAMETERS = {"working_set_bytes": 256 * KIB, "line_bytes": 64}


@pytest.fixture(scope="module")
def live(tiny: Callable[[str], Result]) -> Result:
    return tiny("bursts.spacing")


def pattern(burst: int, rounds: float, extra: float, *, alone: float = 15_000.0) -> list[dict[str, Any]]:
    """Five trials in which each hand-over costs the walks `extra` ns."""
    return [
        {
            "burst": burst,
            "stint_lines": round(rounds * LINES),
            "trial": trial,
            "condition": condition,
            "hand_overs": 100,
            "walk_ns": alone * rounds + (extra if condition == "after_switch" else 0.0),
            "away_ns": 1000.0,
        }
        for trial in range(5)
        for condition in ("alone", "after_switch")
    ]


def made(*patterns: list[dict[str, Any]], **machine: Any) -> Result:
    rows = [row for part in patterns for row in part]
    return Result("bursts.spacing", pd.DataFrame(rows), dict(machine), dict(PARAMETERS))


def test_the_extra_is_what_the_walks_of_a_hand_over_take_longer() -> None:
    table = made(pattern(1, 1, 30_000), pattern(100, 1, 4_000), pattern(1, 0.25, 9_000)).summary()
    assert table.extra_ns.tolist() == [30_000, 4_000, 9_000]
    assert table.spacing_ns.tolist() == [15_000, 15_000, 3_750]
    assert table.rounds.tolist() == [1.0, 1.0, 0.25]
    assert table.seen.all() and set(table.trials) == {5}


def test_a_look_at_the_clock_counts_less_for_a_burst() -> None:
    table = made(pattern(1, 1, 15), pattern(10, 1, 15), clock_read_ns=20).summary()
    assert table.floor_ns.tolist() == [20.0, 2.0]
    assert table.seen.tolist() == [False, True]


def test_a_pattern_without_its_baseline_is_left_out() -> None:
    half = [row for row in pattern(1, 4, 10_000) if row["condition"] == "alone"]
    assert made(pattern(1, 1, 30_000), half).summary().rounds.tolist() == [1.0]


def test_a_live_run_has_every_pattern_with_its_baseline(live: Result) -> None:
    data, given = live.data, live.parameters
    lines = given["working_set_bytes"] // given["line_bytes"]
    wanted = {(burst, lines) for burst in given["bursts"]}
    wanted |= {(1, max(1, round(part * lines))) for part in given["rounds"]}
    assert set(data.groupby(["burst", "stint_lines"]).groups) == wanted
    assert set(data.groupby(["burst", "stint_lines", "condition"]).size()) == {given["trials"]}
    assert (data.walk_ns > 0).all() and (data.away_ns > 0).all()
    same = data[data.stint_lines == lines]
    assert set(same.hand_overs) == {given["hand_overs"]}  # as many in every burst length


def test_a_live_summary_grows_with_the_stint_alone(live: Result) -> None:
    table = live.summary().query("burst == 1").sort_values("rounds")
    # Of stints that are parts of the working set, a few hand-overs in a tiny run may tell the order wrongly.
    assert table[table.rounds >= 1].spacing_ns.is_monotonic_increasing
    assert table.spacing_ns.iloc[-1] > 10 * table.spacing_ns.iloc[0]
    assert (table.extra_lo_ns <= table.extra_ns).all() and (table.extra_ns <= table.extra_hi_ns).all()


def test_the_figure_compares_in_words(live: Result) -> None:
    result = made(
        pattern(1, 1, 30_000), pattern(10, 1, 9_000), pattern(100, 1, 4_000), pattern(1, 0.25, 9_000)
    )
    figure = figures.draw(result, recorded=result, predictions=[{"value": 20, "unit": "µs"}])
    assert figure.caption == (
        "With one walk of the set for each, a switch costs 30 µs of warm-up by itself, and 4 µs in a burst "
        "of 100; evenly spaced, 9 µs of warm-up after 3.75 µs of work and 30 µs after 15 µs."
    )
    assert "bursts of 10: 9 µs" in figure.alt and "20 µs" in figure.alt
    assert figures.draw(made(pattern(1, 1, 0), pattern(10, 1, 0))).caption.startswith("No warm-up")
    one_seen = made(pattern(1, 1, 0), pattern(10, 1, 0), pattern(1, 0.25, 9_000))
    assert figures.draw(one_seen).caption == (
        "Evenly spaced, only 9 µs of warm-up after 3.75 µs of work stands clear of the noise."
    )
    assert live.plot().caption.endswith(".")


def test_the_legend_says_what_a_hollow_point_of_either_panel_is() -> None:
    bursts = (pattern(1, 1, 30_000), pattern(10, 1, 9_000))

    def legend(*patterns: list[dict[str, Any]]) -> list[str]:
        return [text.get_text() for text in figures.draw(made(*patterns)).mpl.legends[0].get_texts()]

    hollow = "this run (hollow: no difference seen)"
    unclear = pattern(1, 4, 20_000)
    for row in unclear[::2]:
        row["walk_ns"] += 50_000 * (row["trial"] % 2)  # its baseline is not steady
    assert hollow not in legend(*bursts) and hollow in legend(*bursts, unclear)
    assert hollow not in legend(*bursts, pattern(1, 4, 0))  # which lies below the axis
