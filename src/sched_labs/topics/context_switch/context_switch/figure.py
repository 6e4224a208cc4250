"""What one switch costs, by how threads hand over and where they run: dots, intervals and baselines."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from sched_labs.draw import axes, style
from sched_labs.draw.base import (
    Drawable,
    Figure,
    Predictions,
    also_in_legend,
    canvas,
    columns,
    dashed,
    draws,
    each,
    interval_in_legend,
    times_ns,
)

KIND = "context_switch.matrix"
_COLUMNS = (
    "mechanism", "between", "placement", "round_trip_ns", "alone_ns", "switches_per_round_trip",
    "expected_switches_per_round_trip", "net_per_switch_ns", "net_lo_ns", "net_hi_ns", "flagged",
)  # fmt: skip
PLACES = {
    "same_cpu": "on the same CPU",
    "smt_sibling": "on two SMT siblings",
    "same_cache": "on two cores behind one cache",
    "other_cache": "on two cores behind two caches",
    "other_cpu": "on two CPUs",
    "unpinned": "wherever the scheduler puts them",
}
_LABELS = {"yield": "sched_yield"}
_NAMES = {"condvar": "condition variable", "yield": "sched_yield", "poll": "a polled word"}
_MECHANISMS = ("futex", "eventfd", "pipe", "condvar", "yield", "poll")
_MARKERS = {"threads": "o", "processes": "s"}
HAND_OVERS = 2  # of a round trip
_ROW, _HEAD = 17.0, 42.0


def frame(result: Drawable) -> pd.DataFrame:
    """What the figure shows, one row per placement, mechanism and kind of partner, in its order.

    - placement: "same_cpu", "smt_sibling", "same_cache", "other_cache", "other_cpu" or "unpinned"
    - mechanism: "futex", "eventfd", "pipe", "condvar", "yield" or "poll"
    - between: "threads" or "processes"
    - net_per_switch_ns, net_lo_ns, net_hi_ns: one counted switch (a hand-over, on two CPUs) without its
      system calls, median and 95 % interval; missing where nothing switched
    - calls_per_switch_ns: the same system calls in one thread that never switches, per switch
    - hand_over_ns: both together: half of the round trip
    - switches_per_round_trip, expected_switches_per_round_trip: counted by the kernel, and assumed
    - flagged: whether these two disagree; the run then did something else than it was meant to do, and the
      figure shows hand_over_ns, which is what the clock says whatever happened

    Raises ResultError when nothing was measured.
    """
    table = columns(result.summary(), _COLUMNS, "The summary of this matrix")
    table["calls_per_switch_ns"] = table["alone_ns"] / HAND_OVERS
    table["hand_over_ns"] = table["round_trip_ns"] / HAND_OVERS
    table["flagged"] = table["flagged"].astype(bool)
    for name, order in (("placement", list(PLACES)), ("mechanism", _MECHANISMS), ("between", list(_MARKERS))):
        table[f"_{name}"] = table[name].map({value: place for place, value in enumerate(order)}).fillna(99)
    order = ["_placement", "_mechanism", "_between"]
    table = table.sort_values(order, ignore_index=True, kind="stable").drop(columns=order)
    shown = ["placement", "mechanism", "between", "net_per_switch_ns", "net_lo_ns", "net_hi_ns"]
    shown += ["calls_per_switch_ns", "hand_over_ns", "switches_per_round_trip"]
    return table[[*shown, "expected_switches_per_round_trip", "flagged"]]


@draws(KIND, short_times=True)
def draw(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """Draw the cost of one switch per mechanism, one panel per placement, flagged runs apart."""
    table = frame(result)
    # A recorded run in which something else happened than was meant is no comparison.
    pale = None if recorded is None else judged(frame(recorded))
    places = list(dict.fromkeys(table["placement"]))
    counts = [len(table[table["placement"] == place]) for place in places]
    low, high = _limits(table, pale, predictions)
    with style.drawing():
        heights = [_HEAD + _ROW * count for count in counts]
        drawing = canvas(sum(heights) + 100 + 18 * (recorded is not None) + 18 * bool(predictions))
        panels = drawing.subplots(
            len(places), 1, sharex=True, squeeze=False, gridspec_kw={"height_ratios": heights}
        )[:, 0]
        for ax, place in zip(panels, places, strict=True):
            axes.log_time(ax, "x", low, high)
            _panel(ax, table[table["placement"] == place], _of(pale, place), predictions)
            ax.set_title(PLACES.get(place, place))
        drawing.set_layout_engine("constrained", h_pad=7 / 72)
        _head(panels[0], "net cost")
        for ax in panels[:-1]:
            ax.spines["bottom"].set_visible(False)
            ax.tick_params(axis="x", bottom=False, labelbottom=False)
        panels[-1].set_xlabel("time per switch")
        drawing.legend(handles=_handles(table, recorded, predictions), loc="outside upper left", ncols=2)
    return Figure(
        drawing,
        alt=_alt(table),
        caption=_caption(table),
        data=table,
        title="Cost of one context switch by mechanism and placement",
    )


def _of(pale: pd.DataFrame | None, place: str) -> pd.DataFrame | None:
    return None if pale is None else pale[pale["placement"] == place]


def _position(row: Any) -> float:
    """Where a row stands on the axis: its cost per switch; the whole hand-over where that means nothing."""
    net = float(row.net_per_switch_ns)
    return net if math.isfinite(net) and net > 0 and not row.flagged else float(row.hand_over_ns)


def _limits(table: pd.DataFrame, pale: pd.DataFrame | None, predictions: Predictions) -> tuple[float, float]:
    values = [ns for _, ns in times_ns(predictions)]
    for part in (table, pale):
        if part is None:
            continue
        values += [_position(row) for row in each(part)]
        good = part[~part["flagged"]]
        values += [*good["net_lo_ns"], *good["net_hi_ns"], *good["calls_per_switch_ns"]]
    positive = [float(value) for value in values if math.isfinite(value) and value > 0]
    if not positive:
        return 100.0, 10_000.0
    return min(positive) / 1.5, max(positive) * 1.5


def _panel(ax: Axes, rows: pd.DataFrame, pale: pd.DataFrame | None, predictions: Predictions) -> None:
    direct, paper, ink = (style.colour(name) for name in (style.DIRECT, style.PAPER, style.INK))
    middles: dict[str, list[float]] = {}
    for y, row in enumerate(each(rows)):
        middles.setdefault(str(row.mechanism), []).append(y)
        marker, x = _MARKERS.get(str(row.between), "D"), _position(row)
        before = None if pale is None else _same(pale, row)
        if before is not None:
            ax.plot(
                _position(before), y, marker, color=style.colour(style.RECORDED), markersize=9, zorder=2.2
            )
        if row.flagged or not row.net_per_switch_ns > 0:
            ax.plot(
                x, y, "X", color=ink, markerfacecolor=paper, markersize=8.5, markeredgewidth=1.5, zorder=4
            )
            _say(ax, y, _trouble(row))
            continue
        ax.plot(
            row.calls_per_switch_ns,
            y,
            "|",
            color=style.colour(style.ALONE),
            markersize=11,
            markeredgewidth=2.4,
        )
        if math.isfinite(row.net_lo_ns) and math.isfinite(row.net_hi_ns):
            ax.plot([max(row.net_lo_ns, ax.get_xlim()[0]), row.net_hi_ns], [y, y], color=direct, zorder=3)
        ax.plot(x, y, marker, color=direct, zorder=3.5)
        _say(ax, y, axes.time_text(x))
    for _, ns in times_ns(predictions):
        ax.axvline(ns, **dashed())
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.set_yticks(
        [sum(ys) / len(ys) for ys in middles.values()], [_LABELS.get(name, name) for name in middles]
    )
    ax.tick_params(axis="y", length=0)
    ax.grid(visible=False, axis="y")
    for ys in list(middles.values())[:-1]:
        ax.axhline(ys[-1] + 0.5, color=style.colour(style.GRID), linewidth=0.9, zorder=0.5)
    ax.spines["left"].set_visible(False)


def _same(pale: pd.DataFrame, row: Any) -> Any:
    rows = pale[(pale["mechanism"] == row.mechanism) & (pale["between"] == row.between)]
    return None if rows.empty else next(each(rows))


def _say(ax: Axes, y: float, text: str) -> None:
    """A word on a row, in a column of its own beside the axes, where no mark can cover it."""
    axes.right_of(ax, y, text, 10)


def _head(ax: Axes, text: str) -> None:
    axes.note(
        ax,
        text,
        (1.0, 1.0),
        (10, 8),
        xycoords="axes fraction",
        ha="left",
        va="baseline",
        color=style.colour(style.NEUTRAL),
        annotation_clip=False,
    )


def _trouble(row: Any) -> str:
    if not row.flagged:
        return "not above its calls" if row.expected_switches_per_round_trip else "makes no switch"
    expected = axes.number_text(row.expected_switches_per_round_trip, 2)
    counted = expected
    # Two decimals, as a table has, or as few more as show the difference.
    for places in range(2, 5):
        counted = axes.number_text(round(row.switches_per_round_trip, places), 9)
        if counted != expected:
            break
    return f"{counted} switches, not {expected}"


def _handles(table: pd.DataFrame, recorded: Drawable | None, predictions: Predictions) -> list[Line2D]:
    def sample(label: str, name: str, **look: Any) -> Line2D:
        return Line2D([], [], label=label, color=style.colour(name), **{"linestyle": "none", **look})

    good = judged(table)  # the others are crosses, with no mark for their calls
    both = good["between"].nunique() > 1
    handles = [
        sample(
            f"one switch, {between}" if both else f"one switch between {between}",
            style.DIRECT,
            marker=_MARKERS.get(str(between), "D"),
            linestyle="-",
        )
        for between in dict.fromkeys(good["between"])
    ]
    if len(good):
        handles.append(
            sample("its system calls, alone", style.ALONE, marker="|", markersize=11, markeredgewidth=2.4)
        )
    handles += interval_in_legend(style.DIRECT, good["net_hi_ns"])
    if len(good) < len(table):
        handles.append(
            sample(
                "whole hand-over, not judged",
                style.INK,
                marker="X",
                markersize=8.5,
                markeredgewidth=1.5,
                markerfacecolor=style.colour(style.PAPER),
            )
        )
    return handles + also_in_legend(recorded, predictions, marker="o", markersize=9, linestyle="none")


def judged(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of a frame whose net cost means what it says: not flagged, and above zero."""
    return table[~table["flagged"] & (table["net_per_switch_ns"] > 0)]


def _times(good: pd.DataFrame) -> pd.Series[Any]:
    """How many times its cost on one CPU a hand-over costs on two, where both are judged."""
    costs = good.pivot(index=["mechanism", "between"], columns="placement", values="net_per_switch_ns")
    return (costs["other_cpu"] / costs["same_cpu"]).dropna()


def _caption(table: pd.DataFrame) -> str:
    good = judged(table)
    woken = good[good["mechanism"] != "yield"]  # sched_yield wakes no thread, so that it is no hand-over
    sentences = []
    middles: dict[str, float] = {}
    for place, rows in woken.groupby("placement", sort=False):
        middles[str(place)] = float(rows["net_per_switch_ns"].median())
    if "same_cpu" in middles:
        rows = woken[woken["placement"] == "same_cpu"]
        text = axes.range_text(rows["net_per_switch_ns"].min(), rows["net_per_switch_ns"].max())
        sentence = f"Beyond its system calls, a hand-over on one CPU costs {text}"
        if "other_cpu" in middles:
            sentence += (
                f"; a hand-over to another CPU costs {axes.time_text(middles['other_cpu'])} in the median"
            )
            if len(times := _times(woken)):
                ends = dict.fromkeys(axes.number_text(end, 2) for end in (times.min(), times.max()))
                sentence += f", case by case {' to '.join(ends)} times as much as the same on one CPU"
        sentences.append(f"{sentence}.")
    elif middles:
        sentences.append(
            " ".join(
                f"Beyond its system calls, a hand-over {PLACES.get(place, place)} costs "
                f"{axes.time_text(value)} in the median."
                for place, value in middles.items()
            )
        )
    yields = good[(good["mechanism"] == "yield") & (good["placement"] == "same_cpu")]["net_per_switch_ns"]
    if len(yields):
        text = axes.range_text(yields.min(), yields.max())
        sentences.append(f"By sched_yield, which wakes no thread, a switch on one CPU costs {text}.")
    if cases := len(table) - len(good):
        why = "a round trip took another number of switches than it should"
        if cases > table["flagged"].sum():
            why += ", none, or no longer than its calls"
        sentences.append(
            f"{cases} of {len(table)} cases {'is' if cases == 1 else 'are'} not judged (crosses): {why}."
        )
    return " ".join(sentences) or "No case could be judged."


def _alt(table: pd.DataFrame) -> str:
    parts = ["Dot plot on a logarithmic time axis: net cost of one switch with its interval."]
    for place, rows in table.groupby("placement", sort=False):
        said = []
        for mechanism, cases in rows.groupby("mechanism", sort=False):
            costs = ", ".join(f"{row.between} {_cost(row)}" for row in each(cases))
            said.append(f"{_NAMES.get(str(mechanism), mechanism)}, {costs}")
        parts.append(f"{_capital(PLACES.get(str(place), str(place)))}: {'; '.join(said)}.")
    alone = judged(table)["calls_per_switch_ns"]
    if len(alone):
        parts.append(f"The system calls alone take {axes.range_text(alone.min(), alone.max())} per switch.")
    return " ".join(parts)


def _cost(row: Any) -> str:
    if row.flagged or not row.net_per_switch_ns > 0:
        return f"not judged ({_trouble(row)})"
    return axes.time_text(row.net_per_switch_ns)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
