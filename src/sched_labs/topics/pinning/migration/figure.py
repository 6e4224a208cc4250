"""What one move to another CPU costs: the move itself and the cold caches there, against the working set."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from sched_labs.draw import axes, style
from sched_labs.draw.base import (
    Drawable,
    Figure,
    Predictions,
    canvas,
    columns,
    dashed,
    draws,
    highest,
    interval_in_legend,
    machine_name,
    times_ns,
)

KIND = "migration.cost"
WORDS = {
    "same_cpu": "the same CPU: nothing moves",
    "smt_sibling": "an SMT sibling",
    "same_cache": "another core, same last-level cache",
    "other_cache": "a core behind another cache",
    "other_node": "a core of another memory node",
    "other_cpu": "another CPU",
}
FAINT = 0.4
_COLUMNS = (
    "touch", "distance", "working_set_bytes", "stay_ns", "warmup_ns", "warmup_lo_ns", "warmup_hi_ns",
    "call_ns", "call_lo_ns", "call_hi_ns", "cost_ns", "floor_ns", "seen",
)  # fmt: skip


def frame(result: Drawable) -> pd.DataFrame:
    """What the figure shows, one row per touch, distance and working set, as in the summary: touch, distance,
    working_set_bytes, stay_ns, warmup_ns, call_ns (both with _lo_ and _hi_), cost_ns, floor_ns, seen.

    Raises ResultError when nothing was measured.
    """
    return columns(result.summary(), _COLUMNS, "The summary of this run of moves")


@draws(KIND, short_times=True)
def draw(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """A panel per distance: the move itself, and what the walk after it takes longer, written and read."""
    table = frame(result)
    pale = None if recorded is None else frame(recorded)
    marks = times_ns(predictions)
    moved = table[table["distance"] != "same_cpu"]
    shown = list(dict.fromkeys(moved["distance"])) or ["same_cpu"]
    if pale is not None and not (pale["distance"].isin(shown) & (pale["touch"] == "writes")).any():
        pale = recorded = None  # it has no move so far away
    drawn = table[table["distance"].isin(shown)]
    with style.drawing():
        handles = _handles(drawn, recorded, marks)
        drawing = canvas(70 + 22 * len(handles) + 200 * len(shown))
        drawing.set_layout_engine("constrained", h_pad=7 / 72)
        stack = list(drawing.subplots(len(shown), 1, squeeze=False)[:, 0])
        low, high = _limits(drawn, [ns for _, ns in marks])
        for ax, far in zip(stack, shown, strict=True):
            rows = table[table["distance"] == far]
            axes.log_size(ax, rows["working_set_bytes"].min() / 1.5, rows["working_set_bytes"].max() * 1.5)
            axes.log_time(ax, "y", low, high)
            if pale is not None:
                _line(ax, pale[(pale["distance"] == far) & (pale["touch"] == "writes")], "cost", True)
            _line(ax, rows[rows["touch"] == rows["touch"].iloc[0]], "call")
            for touch in rows["touch"].unique():
                _line(ax, rows[rows["touch"] == touch], "warmup", hollow=touch == "reads")
            for _, ns in marks:
                ax.axhline(ns, **dashed())
            ax.set_title(f"to {WORDS.get(far, far)}")
            if ax is not stack[-1]:
                ax.tick_params(labelbottom=False)
        stack[-1].set_xlabel("working set")
        drawing.supylabel("cost of a move", size=style.TEXT)
        drawing.legend(handles=handles, loc="outside upper left", ncols=1)
        drawing.draw_without_rendering()
        axes.mark_x(stack[0], axes.caches(result.machine))
    return Figure(
        drawing,
        alt=_alt(drawn),
        caption=_caption(table),
        data=table,
        title="Cost of a move to another CPU against the working set",
        pale=pale is not None,
    )


def _limits(table: pd.DataFrame, marks: Sequence[float]) -> tuple[float, float]:
    """From the smallest to the largest of what is drawn, with room for the names of the caches."""
    drawn = table[["warmup_ns", "call_ns"]].to_numpy(dtype=float).ravel()
    values = [value for value in [*drawn, *marks] if math.isfinite(value) and value > 0] or [1e3, 1e6]
    return max(10.0, min(values) / 2), max(max(values) * 6, 1e3)


def _clear(rows: pd.DataFrame, what: str) -> pd.Series:
    """Which values stand clear of the noise: their whole interval lies above it, and a call that stays is no
    move.
    """
    if what == "warmup":
        return rows["warmup_lo_ns"] > rows["floor_ns"]
    return (rows["call_lo_ns"] > 0) & (rows["distance"] != "same_cpu")


def _line(ax: Axes, rows: pd.DataFrame, what: str, pale: bool = False, hollow: bool = False) -> None:
    rows = rows[rows[f"{what}_ns"] > 0].sort_values("working_set_bytes")  # the axis has no place for others
    name = style.RECORDED if pale else {"call": style.DIRECT, "warmup": style.WARMUP}[what]
    colour = style.colour(name)
    look: dict[str, Any] = {
        "marker": "s" if hollow else "o",
        "linestyle": "none",
        "markeredgewidth": 1.8,
        "color": colour,
    }
    look["markerfacecolor"] = style.colour(style.PAPER) if hollow else colour
    ax.plot(
        rows["working_set_bytes"], rows[f"{what}_ns"], color=colour,
        linewidth=1.5 if hollow else 4 if pale else 2.4, zorder=2 if pale else 3,
    )  # fmt: skip
    if pale:
        return
    clear = _clear(rows, what)
    for part, alpha in ((rows[clear], 1.0), (rows[~clear], FAINT)):
        ax.plot(part["working_set_bytes"], part[f"{what}_ns"], alpha=alpha, zorder=3.2, **look)
        low, high = (part[f"{what}_{end}_ns"].clip(*ax.get_ylim()) for end in ("lo", "hi"))
        ax.vlines(part["working_set_bytes"], low, high, color=colour, alpha=alpha, linewidth=1.4, zorder=2.8)


def _handles(drawn: pd.DataFrame, recorded: Drawable | None, marks: Sequence[tuple[str, float]]) -> list[Any]:
    warm, direct = style.colour(style.WARMUP), style.colour(style.DIRECT)
    handles = [Line2D([], [], color=direct, marker="o", label="the move itself")]
    words = {"writes": "its data again, every line written", "reads": "its data again, lines only read"}
    for touch in drawn["touch"].unique():
        face = style.colour(style.PAPER) if touch == "reads" else warm
        handles.append(
            Line2D(
                [],
                [],
                color=warm,
                marker="s" if touch == "reads" else "o",
                markerfacecolor=face,
                markeredgewidth=1.8,
                label=words.get(str(touch), str(touch)),
            )
        )
    calls = drawn[drawn["touch"] == drawn["touch"].iloc[0]]  # of the others only the walks are drawn
    if any((~_clear(rows, what) & (rows[f"{what}_ns"] > 0)).any()
           for rows, what in ((drawn, "warmup"), (calls, "call"))):  # fmt: skip
        handles.append(
            Line2D(
                [], [], color=warm, marker="o", linestyle="none", alpha=FAINT, label="faint: inside the noise"
            )
        )
    handles += interval_in_legend(style.WARMUP, drawn["warmup_hi_ns"], upright=True)
    if recorded is not None:
        label = f"both, written, recorded: {machine_name(recorded.machine)}"
        handles.append(Line2D([], [], color=style.colour(style.RECORDED), linewidth=4, label=label))
    return handles + [Line2D([], [], label=text, **dashed()) for text, _ in marks]


def _caption(table: pd.DataFrame) -> str:
    moved = table[(table["distance"] != "same_cpu") & table["seen"].astype(bool)]
    still = table[table["distance"] == "same_cpu"]
    if moved.empty:
        return (
            "Only the same CPU could be measured here: nothing moved."
            if len(still) == len(table)
            else "No move stands clear of the noise."
        )
    touch = "writes" if "writes" in set(moved["touch"]) else moved["touch"].iloc[0]
    moved = moved[moved["touch"] == touch]
    parts = []
    for far in dict.fromkeys(moved["distance"]):
        rows = moved[moved["distance"] == far]
        small, large = (rows.sort_values("working_set_bytes").iloc[i] for i in (0, -1))
        parts.append(
            f"to {WORDS.get(str(far), str(far))} a move costs "
            + " and ".join(
                f"{axes.time_text(row.cost_ns, 2)} with {axes.size_text(row.working_set_bytes)}"
                for row in ([small, large] if len(rows) > 1 else [small])
            )
        )
    sentence = "; ".join(parts)
    told = f"{sentence[0].upper()}{sentence[1:]}, every line {'written' if touch == 'writes' else 'read'}."
    several = moved["working_set_bytes"].nunique() > 1
    cold = moved[_clear(moved, "warmup")]
    if cold.empty:
        return f"{told} That the walk takes longer than without a move is not seen."
    most = highest(cold.assign(times=cold["warmup_ns"] / cold["stay_ns"]), "times")
    most_at = f" at {axes.size_text(most.working_set_bytes)}" if several else ""
    if moved["distance"].nunique() > 1:
        most_at += f", moved to {WORDS.get(str(most.distance), str(most.distance))}"
    if most_at:
        most_at = f"suffers most{most_at}: it "
    times = axes.number_text(1 + most.times, 2)
    return f"{told} The walk {most_at}takes {times} times as long as without a move."


def _alt(table: pd.DataFrame) -> str:
    parts = ["Line plots with logarithmic axes: what one move costs against the working set, by distance."]
    first = table["touch"].iloc[0]  # of the others only the walks are drawn
    for (far, touch), rows in table.groupby(["distance", "touch"], sort=False):
        rows = rows.sort_values("working_set_bytes")
        call, warmup = (
            [
                axes.time_text(ns, 2) + ("" if clear else " (no difference seen)")
                for ns, clear in zip(rows[f"{what}_ns"], _clear(rows, what), strict=True)
            ]
            for what in ("call", "warmup")
        )
        sizes = map(axes.size_text, rows["working_set_bytes"])
        told = zip(sizes, call, warmup, strict=True)
        moved = touch == first
        said = ", ".join(f"{size} {f'{move} and ' * moved}{walk}" for size, move, walk in told)
        what = "the move and its data" if moved else "the data"
        parts.append(f"To {WORDS.get(str(far), str(far))}, {touch}, {what}: {said}.")
    return " ".join(parts)
