"""The figures room.  Every result here is synthetic: made-up values with the shape of real ones."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pandas as pd
import pytest
from ladder_lab import KIB, MACHINE, MIB

from sched_labs import draw as figures
from sched_labs.core.errors import ParameterError, ResultError, SchedLabError
from sched_labs.core.result import TIMINGS, Note, Result, recorded
from sched_labs.draw import axes, style, svg
from sched_labs.schedulers import record
from sched_labs.testing.legible import unreadable
from sched_labs.topics.context_switch.context_switch import figure as matrix
from sched_labs.topics.context_switch.context_switch.experiment import DISTANCES
from sched_labs.topics.context_switch.crowd import figure as crowd_figure
from sched_labs.topics.context_switch.warmup import figure as warmup
from sched_labs.topics.other_kernels.sleeper import figure as sleeper
from sched_labs.topics.scheduler_latency.runqlat import figure as histogram


@dataclass
class Made:
    """A result with a summary of its own."""

    kind: str
    table: pd.DataFrame = field(default_factory=pd.DataFrame)
    data: pd.DataFrame = field(default_factory=pd.DataFrame)
    machine: dict[str, Any] = field(default_factory=lambda: dict(MACHINE))
    flags: list[str] = field(default_factory=list)
    stands_in: str = ""

    def summary(self) -> pd.DataFrame:
        return self.table.copy()

    def provenance_line(self) -> str:
        return f"{self.machine['cpu_model']}, synthetic"


def made_warmup(**machine: Any) -> Made:
    rows = []
    random = (20, 50, 150, 2_000, 31_400, 66_000)
    sequential = (-40, 30, 600, 1_100, -600, 600)
    for access, extras in (("random", random), ("sequential", sequential)):
        for extra, kib in zip(extras, (16, 32, 64, 256, 512, 2048), strict=True):
            floor, half = 60 + kib * 1.2, 30 + abs(extra) * 0.05 + kib
            rows.append(
                {
                    "access": access,
                    "working_set_bytes": kib * KIB,
                    "partner_bytes": 4 * MIB,
                    "alone_ns": kib * 20.0,
                    "extra_ns": float(extra),
                    "extra_lo_ns": extra - half,
                    "extra_hi_ns": extra + half,
                    "floor_ns": floor,
                    "seen": abs(extra) > floor and abs(extra) > half,
                    "direct_ns": 1780.0 + kib / 100,
                    "direct_lo_ns": 1750.0,
                    "direct_hi_ns": 1850.0,
                }
            )
    return Made("warmup.sweep", pd.DataFrame(rows), machine={**MACHINE, **machine})


def made_matrix(scale: float = 1.0, **machine: Any) -> Made:
    rows = []
    costs = {"pipe": 1780, "eventfd": 1700, "futex": 1500, "condvar": 2100, "yield": 800}
    for place in ("same_cpu", "other_cpu", "unpinned"):
        for mechanism, cost in costs.items():
            for between in ("threads", "processes"):
                net = (
                    cost
                    * scale
                    * (13 if place == "other_cpu" else 1)
                    * (1.05 if between == "processes" else 1)
                )
                switches = 2.0
                if mechanism == "yield" and place != "same_cpu":
                    switches, net = 0.0001, np.nan
                if mechanism == "condvar" and place == "same_cpu":
                    switches = 3.47
                rows.append(
                    {
                        "mechanism": mechanism,
                        "between": between,
                        "placement": place,
                        "round_trip_ns": 500.0 if np.isnan(net) else net * switches + 1000,
                        "alone_ns": 1000.0,
                        "switches_per_round_trip": switches,
                        "expected_switches_per_round_trip": 2.0,
                        "net_per_switch_ns": net,
                        "net_lo_ns": net * 0.95,
                        "net_hi_ns": net * 1.08,
                        "flagged": switches != 2.0,
                    }
                )
    return Made("context_switch.matrix", pd.DataFrame(rows), machine={**MACHINE, **machine})


def made_histogram(mode_ns: float = 3e6, **machine: Any) -> Made:
    rows = []
    for cause, middle, waits in (("wakeup", 22e3, 1500), ("preempted", mode_ns, 2100)):
        for step in range(-12, 13):
            low = middle * 2 ** (step / 8)
            count = round(waits * np.exp(-((step / 4) ** 2)) / 7)
            rows.append((int(low), int(low * 2 ** (1 / 8)), cause, count))
    data = pd.DataFrame(rows, columns=["bin_low_ns", "bin_high_ns", "cause", "waits"])
    data["instrument"] = "bpf"
    return Made("runqlat.histogram", data=data, machine={**MACHINE, **machine})


MAKERS = (made_warmup, made_matrix, made_histogram)
OTHER = {"cpu_model": "Another(R) CPU @ 2.80GHz", "kernel": "5.15.0"}


def every_figure() -> list[figures.Figure]:
    """One figure of every kind, with and without everything that may lie on it."""
    drawn = []
    for make in MAKERS:
        drawn.append(figures.draw(make()))
        drawn.append(figures.draw(make(), recorded=make(**OTHER), predictions=[figures.Prediction(4, "µs")]))
        drawn.append(figures.compare(make(), make(**OTHER), make()))
    return drawn


@pytest.fixture(scope="module")
def drawn() -> list[figures.Figure]:
    return every_figure()


# ---- the numbers in the picture are the numbers in the frame ----


def points(figure: figures.Figure, colour: str) -> list[tuple[float, float]]:
    """Where markers of a colour stand, in order."""
    return sorted(
        (float(x), float(y))
        for ax in figure.mpl.axes
        for line in ax.get_lines()
        if line.get_marker() not in ("None", "", None) and line.get_color() == style.colour(colour)
        for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)
    )


def test_warmup_draws_every_value_of_its_frame_and_nothing_else() -> None:
    result = made_warmup()
    table = warmup.frame(result)
    figure = figures.draw(result)
    assert points(figure, style.WARMUP) == sorted(on_its_axis(figure, table))
    assert figure.data.equals(table)
    for ax, (_, rows) in zip(figure.mpl.axes, table.groupby("access"), strict=True):
        (direct,) = (line for line in ax.get_lines() if line.get_color() == style.colour(style.DIRECT))
        assert list(direct.get_ydata()) == list(rows["direct_ns"])


def on_its_axis(figure: figures.Figure, table: pd.DataFrame) -> list[tuple[float, float]]:
    """Where the points of a warm-up belong: what its axis does not reach stands at the lower edge."""
    low = figure.mpl.axes[0].get_ylim()[0]
    return list(zip(table["working_set_bytes"].astype(float), table["extra_ns"].clip(low), strict=True))


def test_warmup_marks_what_its_axis_does_not_reach() -> None:
    result = made_warmup()
    figure = figures.draw(result)
    low = figure.mpl.axes[0].get_ylim()[0]
    assert low < result.table.loc[result.table["seen"], "extra_ns"].min(), "what is seen is on the axis"
    edge = {
        (float(x), float(y))
        for ax in figure.mpl.axes
        for line in ax.get_lines()
        if line.get_marker() == "v"
        for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)
    }
    below = result.table[result.table["extra_ns"] < low]
    assert edge == {(float(size), low) for size in below["working_set_bytes"]} and edge
    assert "below the axis" in {text.get_text() for text in figure.mpl.legends[0].get_texts()}


def test_each_panel_of_a_warmup_says_its_own_message() -> None:
    result = made_warmup()
    random, sequential = (ax.get_title(loc="left") for ax in figures.draw(result).mpl.axes)
    assert random == "Random access: up to 66 µs (2 MiB)"
    result.table.loc[result.table["access"] == "sequential", "seen"] = False
    assert figures.draw(result).mpl.axes[1].get_title(loc="left") != sequential
    assert "no warm-up stands clear" in figures.draw(result).mpl.axes[1].get_title(loc="left")


def test_warmup_draws_what_is_inside_the_floor_hollow() -> None:
    result = made_warmup()
    table = warmup.frame(result)
    figure = figures.draw(result)
    hollow = {
        (float(x), float(y))
        for ax in figure.mpl.axes
        for line in ax.get_lines()
        if line.get_marker() in ("o", "v") and line.get_markerfacecolor() == style.colour(style.PAPER)
        for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)
    }
    unseen = table[~table["seen"]]
    assert len(unseen) > 0
    assert hollow == set(on_its_axis(figure, unseen))


def test_warmup_takes_the_partner_that_displaces_most() -> None:
    result = made_warmup()
    small = result.table.assign(partner_bytes=4 * KIB, extra_ns=1.0)
    idle = result.table.assign(partner_bytes=0, extra_ns=2.0)
    result.table = pd.concat([small, result.table, idle], ignore_index=True)
    table = warmup.frame(result)
    assert set(table["partner_bytes"]) == {4 * MIB}
    assert not table["extra_ns"].isin([1.0, 2.0]).any()
    assert "4 MiB" in figures.draw(result).mpl.axes[-1].get_xlabel()


def test_warmup_says_so_when_nothing_is_seen() -> None:
    result = made_warmup()
    result.table["seen"] = False
    figure = figures.draw(result)
    assert figure.caption.startswith("After the largest partner no warm-up stands clear of the noise")
    assert "times" not in figure.caption
    assert figure.alt.count("no difference seen") == len(result.table)


def test_a_pass_that_got_faster_is_said_as_such() -> None:
    result = made_warmup()
    sequential = (result.table["access"] == "sequential") & (result.table["working_set_bytes"] == 2 * MIB)
    result.table.loc[sequential, ["extra_ns", "seen"]] = [-7000.0, True]
    assert "with sequential access, a pass takes 7 µs less" in figures.draw(result).caption


def test_the_ratio_stands_beside_its_arrow_and_clear_of_the_curves() -> None:
    figure = figures.draw(made_warmup())
    ax = figure.mpl.axes[0]
    (label,) = (text for text in ax.texts if text.get_text().endswith(" times"))
    top = figure.data["extra_over_direct"].max()
    assert label.get_text() == f"{axes.number_text(top, 2)} times"
    with style.drawing():
        figure.mpl.draw_without_rendering()
        box = label.get_window_extent(figure.mpl._get_renderer())
    for line in ax.get_lines():
        if len(line.get_xdata()) > 1:
            path = line.get_path().interpolated(50)
            assert not box.count_contains(ax.transData.transform(path.vertices))


def test_one_trial_has_no_interval_and_no_floor_and_is_drawn() -> None:
    result = made_warmup()
    result.table = result.table.assign(
        extra_lo_ns=-np.inf, extra_hi_ns=np.inf, floor_ns=np.inf, seen=False, direct_lo_ns=-np.inf,
        direct_hi_ns=np.inf,
    )  # fmt: skip
    figure = figures.draw(result)
    labels = {text.get_text() for text in figure.mpl.legends[0].get_texts()}
    assert not any("noise floor" in label for label in labels)
    assert "hollow: no difference seen" in labels
    assert len(points(figure, style.WARMUP)) == len(result.table)
    ElementTree.fromstring(figure.svg())


def test_caches_of_the_machine_are_marked_where_the_axis_reaches() -> None:
    figure = figures.draw(made_warmup())
    texts = {text.get_text() for text in figure.mpl.axes[0].texts}
    assert {"L1d 48 KiB", "L2 1 MiB"} <= texts
    assert "L3 32 MiB" not in texts  # the sweep ends at 2 MiB
    assert figure.alt.endswith("Caches: L1d 48 KiB, L2 1 MiB.")
    unknown = figures.draw(made_warmup(l1d_bytes=None, l2_bytes=None, l3_bytes=None))
    assert not any("L1d" in text.get_text() for text in unknown.mpl.axes[0].texts)


def test_matrix_draws_judged_costs_and_marks_flagged_runs() -> None:
    result = made_matrix()
    table = matrix.frame(result)
    figure = figures.draw(result)
    good = table[~table["flagged"]]
    assert len(good) + table["flagged"].sum() == len(table) == len(result.table)
    assert [x for x, _ in points(figure, style.DIRECT)] == sorted(good["net_per_switch_ns"])
    crosses = [
        line.get_xdata()[0] for ax in figure.mpl.axes for line in ax.get_lines() if line.get_marker() == "X"
    ]
    assert sorted(crosses) == sorted(table.loc[table["flagged"], "hand_over_ns"])
    words = [text.get_text() for ax in figure.mpl.axes for text in ax.texts]
    assert words.count("3.47 switches, not 2") == 2
    assert words.count("0 switches, not 2") == 4
    assert "6 of 30 cases are not judged" in figure.caption


def test_matrix_caption_compares_a_hand_over_with_the_same_on_one_cpu() -> None:
    result = made_matrix()
    good = matrix.judged(matrix.frame(result)).set_index(["mechanism", "between"])
    one, two = (good[good.placement == place].net_per_switch_ns for place in ("same_cpu", "other_cpu"))
    assert "yield" in one.index and "yield" not in two.index  # which has no counterpart on two CPUs
    assert "case by case 13 times as much as the same on one CPU" in figures.draw(result).caption
    futex = (result.table.mechanism == "futex") & (result.table.placement == "other_cpu")
    result.table.loc[futex, "net_per_switch_ns"] *= 2
    assert "case by case 13 to 26 times as much as the same on one CPU" in figures.draw(result).caption


def test_flagged_cases_of_a_recorded_run_are_left_out() -> None:
    figure = figures.draw(made_matrix(), recorded=made_matrix(2.0, **OTHER))
    judged = matrix.judged(matrix.frame(made_matrix(2.0)))["net_per_switch_ns"]
    assert [x for x, _ in points(figure, style.RECORDED)] == sorted(judged)


def test_a_difference_too_small_for_one_decimal_is_written_out() -> None:
    result = made_matrix()
    result.table["switches_per_round_trip"] = 1.954
    result.table["flagged"] = True
    words = {text.get_text() for ax in figures.draw(result).mpl.axes for text in ax.texts}
    assert "1.95 switches, not 2" in words


def test_a_case_that_is_not_judged_has_no_word_for_its_calls() -> None:
    result = made_matrix()
    result.table.loc[result.table["flagged"], "alone_ns"] = 20.0
    assert "alone take 500 ns per switch" in figures.draw(result).alt
    result.table["flagged"] = True
    figure = figures.draw(result)
    assert "alone take" not in figure.alt
    assert [text.get_text() for text in figure.mpl.legends[0].get_texts()] == ["whole hand-over, not judged"]


def test_a_line_through_a_single_number_of_hogs_is_not_in_the_legend() -> None:
    several = recorded("slices.sweep")
    one = replace(several, data=several.data[several.data["hogs"] == 4])
    named = [
        "(N − 1) turns of equal length"
        in {text.get_text() for text in figures.draw(run).mpl.legends[0].get_texts()}
        for run in (several, one)
    ]
    assert named == [True, False]


@pytest.mark.parametrize("share", [1, 50, 60, 61, 76, 99])
def test_the_words_of_a_hogs_share_stay_in_the_figure(share: float) -> None:
    table = recorded("policies.hog").summary().assign(second_percent=share, longest_gap_ns=104_000_000)
    figure = figures.draw(Made("policies.hog", table))
    assert [wrong for wrong in unreadable(figure) if "leaves" in wrong] == []


def test_a_cross_of_a_case_that_costs_no_more_than_its_calls_is_counted() -> None:
    result = made_matrix()
    good = ~result.table["flagged"]
    result.table.loc[result.table[good].index[0], "net_per_switch_ns"] = -1.0
    assert "7 of 30 cases are not judged (crosses): a round trip" in figures.draw(result).caption
    assert "or no longer than its calls." in figures.draw(result).caption


def test_every_placement_of_the_matrix_has_its_words() -> None:
    result = made_matrix()
    for place in DISTANCES:
        result.table.loc[result.table["placement"] == "unpinned", "placement"] = place
        titles = [ax.get_title(loc="left") for ax in figures.draw(result).mpl.axes]
        assert titles == ["on the same CPU", matrix.PLACES[place], "on two CPUs"]
        result.table.loc[result.table["placement"] == place, "placement"] = "unpinned"


def test_histogram_keeps_every_wait_and_its_cause() -> None:
    result = made_histogram()
    table = histogram.frame(result)
    before = result.data.groupby("cause")["waits"].sum()
    after = table.groupby("cause")["waits"].sum()
    assert after.to_dict() == pytest.approx(before.to_dict())
    assert table["share_percent"].sum() == pytest.approx(100)
    figure = figures.draw(result)
    heights = sum(bar.get_height() for bar in figure.mpl.axes[0].patches)
    assert heights == pytest.approx(100)


def test_histogram_counts_waits_of_nothing_and_bins_wider_than_its_bars() -> None:
    data = pd.DataFrame(
        {"bin_low_ns": [0, 1, 4096], "bin_high_ns": [1, 2, 16384], "cause": "wakeup", "waits": [5, 3, 8]}
    )
    table = histogram.frame(Made("runqlat.histogram", data=data.assign(instrument="self_timed")))
    assert table["waits"].sum() == pytest.approx(16)
    ratios = np.log2(table["high_ns"] / table["low_ns"])
    assert (ratios >= 2).all()


def test_histogram_counts_waits_once_that_two_instruments_saw() -> None:
    result = made_histogram()
    once = histogram.frame(result)
    own = result.data.assign(instrument="self_timed", bin_low_ns=lambda d: d.bin_low_ns * 2)
    own["bin_high_ns"] *= 2
    result.data = pd.concat([own, result.data], ignore_index=True)
    figure = figures.draw(result)
    assert figure.data.equals(once)
    assert figure.caption == figures.draw(made_histogram()).caption
    assert "counted by BPF" in figure.mpl.axes[0].get_xlabel()
    result.data = own
    assert set(histogram.frame(result)["instrument"]) == {"self_timed"}
    assert "own clocks" in figures.draw(result).mpl.axes[0].get_xlabel()


def test_quantiles_that_read_the_same_share_a_mark() -> None:
    assert histogram._marks({0.5: 12.0e6, 0.9: 12.001e6, 0.99: 28e6}) == {
        "half and 90 % ≤ 12 ms": 12.001e6,
        "99 % ≤ 28 ms": 28e6,
    }


def test_histogram_marks_the_quantiles_of_the_waits() -> None:
    result = made_histogram()
    marks = histogram.quantiles(result)
    assert marks[0.5] <= marks[0.9] <= marks[0.99]
    texts = {text.get_text() for text in figures.draw(result).mpl.axes[0].texts}
    assert {f"half ≤ {axes.time_text(marks[0.5])}", f"99 % ≤ {axes.time_text(marks[0.99])}"} <= texts


def test_two_runs_of_any_kind_share_a_figure_and_three_do_not(
    tiny: Callable[[str], Result], own_lock: None
) -> None:
    from sched_labs.topics.context_switch.crowd import experiment as crowd

    first, second = tiny("crowd.switch"), crowd.switch(profile="tiny", save=False, progress=False)
    figure = figures.compare(first, second)
    assert figure.data.equals(crowd_figure.frame(first)) and "recorded" in figure.svg()
    with pytest.raises(ResultError, match="Give two"):
        figures.compare(first, second, first)


def test_compare_holds_the_rows_of_every_run() -> None:
    first, second = made_matrix(), made_matrix(2.0, **OTHER)
    figure = figures.compare(first, second)
    assert list(figure.data.groupby("run", sort=False).size()) == [len(first.table), len(second.table)]
    assert "costs 2 times what it costs on Made-up 9000, Linux 6.99" in figure.caption
    same = figures.compare(first, made_matrix())
    assert same.data["run"].nunique() == 2


# ---- words ----


def test_alternative_text_has_the_numbers(drawn: list[figures.Figure]) -> None:
    for figure in drawn:
        assert re.search(r"\d", figure.alt)
        assert figure.caption.endswith(".")
    table = warmup.frame(made_warmup())
    alt = figures.draw(made_warmup()).alt
    assert all(axes.time_text(value) in alt for value in table["extra_ns"])
    alt = figures.draw(made_matrix()).alt
    judged = matrix.judged(matrix.frame(made_matrix()))
    assert all(axes.time_text(value) in alt for value in judged["net_per_switch_ns"])
    alt = figures.draw(
        made_warmup(), recorded=made_warmup(**OTHER), predictions=[{"value": 256, "unit": "KiB"}]
    ).alt
    assert "recorded on Another, Linux 5.15" in alt
    assert "your prediction: 256 KiB" in alt


def test_doubts_and_the_recorded_machine_are_in_the_provenance() -> None:
    result = made_warmup()
    result.flags = ["One.", "Two.", "Three.", "Four."]
    said = figures.draw(result, recorded=made_warmup(**OTHER)).provenance
    assert "Made-up 9000, synthetic" in said and OTHER["cpu_model"] in said
    assert "Flagged: One. Two. Three. (and 1 more)" in said
    result.stands_in = "There is no compiler."
    elsewhere = figures.draw(result)
    assert "Recorded elsewhere: One." in elsewhere.provenance
    assert ", recorded elsewhere</summary>" in elsewhere._repr_html_()


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0"), (0.4, "0.4 ns"), (502, "502 ns"), (999.6, "1 µs"), (1780, "1.78 µs"), (33_214, "33.2 µs"),
        (999_499, "999 µs"), (4e6, "4 ms"), (-850, "−850 ns"), (2.5e9, "2.5 s"), (4.2e12, "4,200 s"),
        (float("inf"), "∞"), (float("nan"), "unknown"),
    ],
)  # fmt: skip
def test_times_in_plain_units(ns: float, text: str) -> None:
    assert axes.time_text(ns) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [(64, "64 B"), (48 * KIB, "48 KiB"), (1023 * KIB, "1,023 KiB"), (MIB, "1 MiB"), (1310720, "1.25 MiB")],
)
def test_sizes_in_plain_units(size: float, text: str) -> None:
    assert axes.size_text(size) == text


def test_a_machine_has_a_short_name() -> None:
    name = figures.base.machine_name
    assert name({"cpu_model": "Intel(R) Core(TM) i7-1165G7 CPU @ 2.80GHz", "kernel": "6.8.0-45-generic"}) == (
        "Intel Core i7-1165G7, Linux 6.8"
    )
    assert name({}) == "unknown CPU"
    assert len(name({"cpu_model": "x" * 80, "kernel": "6.1"})) == 34


def test_no_tick_label_has_an_exponent(drawn: list[figures.Figure]) -> None:
    for figure in drawn:
        for ax in figure.mpl.axes:
            for label in (*ax.get_xticklabels(), *ax.get_yticklabels()):
                assert not re.search(r"\^|mathdefault|\de[+-]?\d", label.get_text())


def test_every_axis_of_times_has_at_least_two_labels() -> None:
    for low, high in ((1.2e3, 2.8e3), (2.05e3, 4.7e3), (1e2, 1e5), (30, 1e9)):
        ax = style_axes()
        axes.log_time(ax, "x", low, high)
        inside = [tick for tick in ax.get_xticks() if low <= tick <= high]
        assert 2 <= len(inside) <= 10


def style_axes() -> Any:
    with style.drawing():
        return figures.base.canvas(200).add_subplot()


# ---- the picture on a page ----


def boxes(figure: figures.Figure) -> list[tuple[str, Any]]:
    """Every text of a figure with the rectangle that it takes."""
    with style.drawing():
        figure.mpl.draw_without_rendering()
        renderer = figure.mpl._get_renderer()
        texts = [text for ax in figure.mpl.axes for text in ax.texts]
        for ax in figure.mpl.axes:
            texts += [ax.xaxis.label, ax.yaxis.label, ax._left_title]
            for axis, low, high in ((ax.xaxis, *ax.get_xlim()), (ax.yaxis, *sorted(ax.get_ylim()))):
                for tick in axis.get_major_ticks():
                    if tick.label1.get_visible() and low <= tick.get_loc() <= high:
                        texts.append(tick.label1)
        texts += figure.mpl.legends[0].get_texts()
        return [(t.get_text(), t.get_window_extent(renderer)) for t in texts if t.get_text()]


def test_no_text_covers_another_or_leaves_the_figure(drawn: list[figures.Figure]) -> None:
    for figure in drawn:
        placed = boxes(figure)
        width, height = figure.mpl.get_size_inches() * 72
        assert len(placed) > 10
        for text, box in placed:
            assert box.x0 >= -0.5 and box.y0 >= -0.5 and box.x1 <= width + 0.5 and box.y1 <= height + 0.5, (
                text
            )
        for (one, first), (other, second) in combinations(placed, 2):
            shared = first.padded(-1.5), second.padded(-1.5)
            assert not shared[0].overlaps(shared[1]), f"{figure.kind}: {one!r} covers {other!r}"


def test_text_is_legible_on_a_phone_and_from_the_last_row(drawn: list[figures.Figure]) -> None:
    for figure in drawn:
        sizes = [float(size) for size in re.findall(r"font-size:([\d.]+)px", figure.svg())]
        # 9 pixels where a phone of 390 leaves it 358; 26 where a figure fills a projector of 1,024.
        assert 358 / style.WIDTH * min(sizes) >= 9


def test_svg_is_one_small_element_with_only_variable_colours(drawn: list[figures.Figure]) -> None:
    for figure in drawn:
        text = figure.svg()
        root = ElementTree.fromstring(text)
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert "width" not in root.attrib and "height" not in root.attrib
        assert len(root.attrib["viewBox"].split()) == 4
        bare = re.sub(r"var\(--sl-[a-z]+,#[0-9a-f]{6}\)", "", text)
        assert not re.search(r"[:\"]#[0-9a-fA-F]{3,8}\b(?!-)", bare)
        assert "rgb(" not in text
        assert len(figure._repr_html_().encode()) < 120_000
        words = " ".join(element.text or "" for element in root.iter("{http://www.w3.org/2000/svg}text"))
        assert "µs" in words  # text stays text


def test_the_ground_of_a_hatch_follows_the_page_too() -> None:
    figure = figures.draw(made_histogram())
    figure.mpl.axes[0].bar(
        [1e4], [1], color=style.colour(style.OWN), hatch="//", edgecolor=style.colour(style.PAPER)
    )
    pattern = ElementTree.fromstring(figure.svg()).find(".//{http://www.w3.org/2000/svg}pattern/*")
    assert pattern is not None and "fill" not in pattern.attrib
    assert pattern.attrib["style"] == f"fill:var(--sl-own,{style.colour(style.OWN)})"


def test_a_page_of_figures_asks_nobody_for_anything(drawn: list[figures.Figure]) -> None:
    page = "".join(figure._repr_html_() for figure in drawn)
    assert set(re.findall(r"https?://[^\s\"'<]+", page)) == {"http://www.w3.org/2000/svg"}
    assert "@import" not in page and "@font-face" not in page
    assert set(re.findall(r"url\((.)", page)) <= {"#"}


def test_ids_are_unique_on_a_page_and_every_reference_has_its_target() -> None:
    result = made_warmup()
    shown = [figures.draw(result), figures.draw(result), figures.draw(made_matrix())]
    page = "".join(figure._repr_html_() for figure in (*shown, shown[0]))
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids)) > 4
    wanted = set(re.findall(r"url\(#([^)]+)\)", page)) | set(re.findall(r'href="#([^"]+)"', page))
    wanted |= {part for parts in re.findall(r'aria-labelledby="([^"]+)"', page) for part in parts.split()}
    assert wanted and wanted <= set(ids)


def test_the_same_figure_is_the_same_text_in_another_process() -> None:
    result = made_histogram()
    first, second = figures.draw(result).svg(), figures.draw(result).svg()
    own = [re.search(r'id="(sl-[0-9a-f]{8})((?:-\d+)?)-title"', text) for text in (first, second)]
    assert own[0] and own[1] and own[0][1] == own[1][1] and own[0][2] != own[1][2]
    assert first.replace("".join(own[0].groups()), own[0][1]) == second.replace(
        "".join(own[1].groups()), own[1][1]
    )


def test_a_figure_is_described_for_those_who_cannot_see_it() -> None:
    figure = figures.draw(made_matrix())
    root = ElementTree.fromstring(figure.svg())
    assert root.attrib["role"] == "img"
    title, desc = (root.find(f"{{http://www.w3.org/2000/svg}}{tag}") for tag in ("title", "desc"))
    assert title is not None and title.text == figure.title
    assert desc is not None and desc.text == figure.alt
    assert root.attrib["aria-labelledby"].split() == [title.attrib["id"], desc.attrib["id"]]
    html = figure._repr_html_()
    assert html.startswith('<figure class="sl-figure">') and html.endswith("</figure>")
    assert (
        f'<figcaption class="sl-caption">{figure.caption}<details class="sl-whence"><summary>' in html
        and f"<p>{figure.provenance}</p></details></figcaption>" in html
    )


def test_what_comes_from_data_is_escaped() -> None:
    evil = "<script>alert(1)</script>&$x^2$"
    result = made_warmup(cpu_model=evil)
    result.flags = [evil]
    html = figures.draw(result, recorded=result)._repr_html_()
    html += figures.compare(result, made_warmup())._repr_html_()
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    assert "$x^2$" in html  # no mathematics is made of it


def test_a_colour_without_a_meaning_is_refused() -> None:
    figure = figures.draw(made_warmup())
    figure.mpl.axes[0].plot([KIB * 64], [1e3], color="#123456")
    with pytest.raises(SchedLabError, match="#123456"):
        figure.svg()
    with pytest.raises(ParameterError, match="mauve"):
        style.colour("mauve")


def test_drawing_leaves_matplotlib_as_it_was() -> None:
    before = dict(matplotlib.rcParams)
    every_figure()[0].svg()
    assert dict(matplotlib.rcParams) == before


def test_figures_need_no_global_state() -> None:
    import subprocess
    import sys

    code = (
        "import sys; from sched_labs import draw as figures; "
        "from sched_labs.draw import style; "
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


# ---- colours ----


def linear(value: str) -> np.ndarray:
    parts = np.array([int(value[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    """WCAG 2.2 contrast ratio."""
    light = [float(linear(value) @ [0.2126, 0.7152, 0.0722]) + 0.05 for value in (one, other)]
    return max(light) / min(light)


def lab(rgb: np.ndarray) -> np.ndarray:
    """CIE L*a*b* (D65) of linear RGB."""
    to_xyz = [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.072175],
        [0.0193339, 0.119192, 0.9503041],
    ]
    xyz = np.array(to_xyz) @ np.clip(rgb, 0, 1) / [0.95047, 1, 1.08883]
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


# Machado, Oliveira, Fernandes 2009, severity 1.0.
SIGHT = {
    "usual": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]]
    ),
}


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("sight", SIGHT)
def test_data_colours_differ_for_everybody(theme: str, sight: str) -> None:
    seen = {
        name: lab(SIGHT[sight] @ linear(getattr(style.PALETTE[name], theme)))
        for name in {*style.DATA, *style.CAUSES}
    }
    for one, other in {*combinations(style.DATA, 2), *combinations(style.CAUSES, 2)}:
        assert np.linalg.norm(seen[one] - seen[other]) > 17, f"{one} and {other}"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colours_stand_out_from_the_page(theme: str) -> None:
    paper = getattr(style.PALETTE[style.PAPER], theme)
    for name in (*style.DATA, *style.CAUSES, style.PREDICTED):
        assert contrast(getattr(style.PALETTE[name], theme), paper) >= 2.95, name
    for name in (style.INK, style.NEUTRAL):
        for behind in (style.PAPER, style.FLOOR):
            assert contrast(getattr(style.PALETTE[name], theme), getattr(style.PALETTE[behind], theme)) >= 4.5


def test_every_colour_has_its_own_value() -> None:
    for theme in ("light", "dark"):
        values = [getattr(shade, theme) for shade in style.PALETTE.values()]
        assert len(values) == len(set(values))
    sheet = svg.stylesheet()
    assert all(f"--sl-{name}:" in sheet for name in style.PALETTE)


# ---- saving ----


def test_a_figure_is_saved_with_its_words(tmp_path: Path) -> None:
    figure = figures.draw(made_matrix())
    texts = len(figure.mpl.texts)
    for suffix, start in ((".svg", b"<?xml"), (".png", b"\x89PNG"), (".pdf", b"%PDF")):
        path = figure.save(tmp_path / f"figure{suffix}")
        assert path.read_bytes().startswith(start)
    saved = (tmp_path / "figure.svg").read_text(encoding="utf-8")
    assert "var(--sl" not in saved  # few programs know them
    assert figure.provenance in saved
    words = " ".join(
        e.text or "" for e in ElementTree.fromstring(saved).iter("{http://www.w3.org/2000/svg}text")
    )
    assert " ".join(figure.caption.split()) in " ".join(words.split())
    assert len(figure.mpl.texts) == texts  # the page's picture has none of them


def test_saving_says_what_is_wrong(tmp_path: Path) -> None:
    figure = figures.draw(made_histogram())
    with pytest.raises(ResultError, match="cannot be saved as"):
        figure.save(tmp_path / "figure.gif")
    with pytest.raises(ResultError, match="Cannot write"):
        figure.save(Path("/dev/full/figure.svg"))
    with pytest.raises(ResultError, match="nobody's home"):
        figure.save("~no-such-user/figure.svg")
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultError, match="Cannot write"):
        figure.save(tmp_path / "file" / "figure.png")
    assert not list(tmp_path.glob("**/figure*"))


# ---- what cannot be drawn ----


def test_unknown_kinds_and_wrong_company_are_refused() -> None:
    with pytest.raises(ParameterError, match=r"magic.*\n.*warmup.sweep"):
        figures.draw(Made("magic"))
    with pytest.raises(ParameterError, match="cannot be laid under"):
        figures.draw(made_warmup(), recorded=made_matrix())
    for bad in ({"value": 3, "unit": "percent"}, {"value": -1, "unit": "ns"}, {"unit": "ns"}):
        with pytest.raises(ParameterError):
            figures.draw(made_warmup(), predictions=[bad])
    with pytest.raises(ParameterError, match="no axis"):
        figures.draw(made_matrix(), predictions=[figures.Prediction(64, "KiB")])
    for few in ([made_warmup()], [made_warmup(), made_matrix()], [made_warmup()] * 5):
        with pytest.raises(ResultError, match="Cannot compare"):
            figures.compare(*few)
    with pytest.raises(ParameterError, match="magic"):
        figures.compare(Made("magic"), Made("magic"))


def test_nothing_measured_is_said_not_drawn() -> None:
    for kind in ("warmup.sweep", "context_switch.matrix", "runqlat.histogram"):
        with pytest.raises(ResultError, match="empty"):
            figures.draw(Made(kind))
    idle = made_warmup()
    idle.table["partner_bytes"] = 0
    with pytest.raises(ResultError, match="partner"):
        figures.draw(idle)
    silent = made_histogram()
    silent.data["waits"] = 0
    with pytest.raises(ResultError, match="no thread"):
        figures.draw(silent)
    with pytest.raises(ResultError, match="no column"):
        figures.draw(Made("warmup.sweep", pd.DataFrame({"access": ["random"]})))


def test_one_kind_has_one_drawer() -> None:
    with pytest.raises(ParameterError, match="Two functions"):
        figures.draws("warmup.sweep")(warmup.draw)


def test_a_result_plots_itself() -> None:
    """From raw observations through the experiment's own summary to a figure."""
    rows = [
        {
            "access": "random", "working_set_bytes": size, "partner_bytes": partner, "trial": trial,
            "condition": condition, "pass_index": 0, "away_ns": 3500 if condition == "after_switch" else 100,
            "pass_ns": size // 16 + trial % 3 + (9000 if partner else 0),
        }
        for size in (16 * KIB, 256 * KIB)
        for trial in range(7)
        for condition, partner in (("alone", 0), ("after_switch", 0), ("after_switch", MIB))
    ]  # fmt: skip
    result = Result(
        "warmup.sweep",
        pd.DataFrame(rows),
        dict(MACHINE),
        {"line_bytes": 64},
        notes=[Note("flag", "Made up.")],
    )
    figure = result.plot(predictions=[{"value": 5, "unit": "µs"}])
    assert figure.kind == result.kind
    assert len(figure.data) == 2
    assert figure.data["seen"].all()
    assert "Flagged: Made up." in figure.provenance


def test_a_path_without_a_point_is_left_out_of_a_picture() -> None:
    """An axis that lost all its room to labels has such paths, which neighbours cannot be joined to."""
    paths = '<path d="M 0 0" style="a"/><path style="a"/><path d="M 1 1" style="a"/>'
    root = ElementTree.fromstring(f"<g>{paths}</g>")
    svg._shorten(root)
    assert [path.attrib["d"] for path in root] == ["M 0 0 M 1 1"]


def shipped(kind: str, **otherwise: Any) -> Result:
    run = recorded(kind)
    assert run
    return replace(run, **otherwise)


# The contract looks at the figure of every kind; these are the others that the book shows.
@pytest.mark.parametrize(
    "drawn",
    [
        lambda: warmup.grid(shipped("warmup.sweep")),
        *(
            lambda timing=timing: sleeper.gallery([shipped("sleeper.among_hogs", timing=timing)])
            for timing in TIMINGS
        ),
        lambda: record.recorded("fair").plot(),
        lambda: record.recorded_bout().plot(),
    ],
    ids=["grid", *TIMINGS, "trial", "bout"],
)
def test_what_is_drawn_besides_is_legible_too(drawn: Callable[[], figures.Figure]) -> None:
    assert list(unreadable(drawn())) == []


def test_sleepers_in_virtual_and_in_real_time_are_not_said_to_share_an_axis() -> None:
    virtual, real = (shipped("sleeper.among_hogs", timing=timing) for timing in ("deterministic", "native"))
    assert "the same logarithmic time axis" in sleeper.gallery([real, real]).alt
    assert "the same" not in sleeper.gallery([virtual, real]).alt
