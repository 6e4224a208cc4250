"""How the time per access falls back after a switch: one curve for each working set."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from sched_labs.draw import axes, style
from sched_labs.draw.base import (
    INTERVAL,
    Drawable,
    Figure,
    Predictions,
    canvas,
    columns,
    dashed,
    draws,
    each,
    listed,
    machine_name,
    times_ns,
)

from . import experiment as recovery

KIND = "recovery.curve"
_COLUMNS = ("working_set_bytes", "block_index", "since_ns", "ratio", "ratio_lo", "ratio_hi", "floor_ratio")
_SUMMARY = (
    "working_set_bytes", "partner_bytes", "alone_ns_per_access", "first_ratio", "extra_ns", "seen",
    "floor_ratio", "recovered_ns", "recovered",
)  # fmt: skip
_MARKERS = ("o", "s", "^", "D", "v", "P")
_RATIOS = (1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0)


def frame(result: Drawable) -> pd.DataFrame:
    """What the figure shows, one row per working set and block, smallest set first.

    - working_set_bytes: what the victim reads from
    - block_index: which block of accesses since the resume, 0 the first
    - since_ns: when the block ended, counted from the resume
    - ratio, ratio_lo, ratio_hi: its time as a multiple of the same block's alone, median and 95 % interval
    - floor_ratio: what alone differs by from alone, as a share of alone

    Raises ResultError when nothing was measured.
    """
    table = columns(recovery.blocks(result.data), _COLUMNS, "This recovery curve")
    return table.sort_values(["working_set_bytes", "block_index"], ignore_index=True)


@draws(KIND, short_times=True)
def draw(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """Draw the time per access after the resume, as a multiple of alone, over the time since the resume."""
    table = frame(result)
    sets = columns(result.summary(), _SUMMARY, "The summary of this recovery curve")
    pale = None if recorded is None else frame(recorded)
    with style.drawing():
        drawing = canvas(380)
        ax = drawing.add_subplot()
        _axes(ax, table, pale, predictions)
        near = 1 + recovery.NEAR
        floor = style.colour(style.FLOOR)
        handles: list[Any] = [
            ax.axhspan(1 / near, near, color=floor, zorder=0.6, label="within 5 % of alone")
        ]
        if pale is not None and recorded is not None:
            handles += _pale(ax, pale, machine_name(recorded.machine))
        handles += _curves(ax, table, sets)
        for label, ns in times_ns(predictions):
            handles.append(ax.axvline(ns, label=label, **dashed()))
        drawing.legend(handles=handles, loc="outside upper left", ncols=2)
        ax.set_xlabel("time since the thread is back on its CPU")
        ax.set_ylabel("draw and read, against alone")
    return Figure(
        drawing,
        alt=_alt(sets),
        caption=_caption(sets),
        data=table,
        title="Recovery of the time per access after a context switch",
    )


def _axes(ax: Axes, table: pd.DataFrame, pale: pd.DataFrame | None, predictions: Predictions) -> None:
    shown = table if pale is None else pd.concat([table, pale], ignore_index=True)
    times = [*shown["since_ns"], *(ns for _, ns in times_ns(predictions))]
    axes.log_time(ax, "x", min(times) / 1.4, max(times) * 1.7)
    low, high = min(0.9, float(shown["ratio"].min()) / 1.05), max(1.6, float(shown["ratio"].max()) * 1.2)
    ax.set_yscale("log")
    ax.set_ylim(low, high)
    ax.yaxis.set_major_locator(FixedLocator([tick for tick in _RATIOS if low <= tick <= high]))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{axes.number_text(value)}×"))


def _curves(ax: Axes, table: pd.DataFrame, sets: pd.DataFrame) -> list[Any]:
    colour, handles = style.colour(style.WARMUP), []
    band: dict[str, Any] = {"color": colour, "alpha": 0.16, "linewidth": 0}
    for number, (working_set, rows) in enumerate(table.groupby("working_set_bytes", sort=True)):
        x, y = rows["since_ns"].to_numpy(float), rows["ratio"].to_numpy(float)
        low, high = rows["ratio_lo"].to_numpy(float), rows["ratio_hi"].to_numpy(float)
        if np.isfinite(low).all() and np.isfinite(high).all():
            ax.fill_between(x, low, high, zorder=2, **band)
        marker = _MARKERS[number % len(_MARKERS)]
        size = float(str(working_set))
        handles += ax.plot(
            x,
            y,
            color=colour,
            marker=marker,
            markevery=max(1, len(x) // 12),
            linewidth=2.0,
            zorder=3,
            label=f"{axes.size_text(size)} read",
        )
        row = next(each(sets[sets["working_set_bytes"] == size]), None)
        if row is not None and row.recovered and row.seen:
            _mark(ax, row.recovered_ns)
    known = np.isfinite(table["ratio_hi"]).any()
    return [*handles, Patch(label=INTERVAL, **band)] if known else handles


def _mark(ax: Axes, when_ns: float) -> None:
    """A short line where a curve has come back, and when that was."""
    ink = style.colour(style.INK)
    high = 1.35
    ax.plot([when_ns, when_ns], [1 / (1 + recovery.NEAR), high], color=ink, linewidth=1.2, zorder=3.6)
    axes.note(
        ax,
        axes.time_text(when_ns, 2),
        (when_ns, high),
        (4, 0),
        va="center",
        color=ink,
        zorder=5,
        bbox={"facecolor": style.colour(style.PAPER), "edgecolor": "none", "pad": 0.5},
        annotation_clip=False,
    )


def _pale(ax: Axes, pale: pd.DataFrame, name: str) -> list[Any]:
    colour = style.colour(style.RECORDED)
    for _, rows in pale.groupby("working_set_bytes", sort=True):
        ax.plot(rows["since_ns"], rows["ratio"], color=colour, linewidth=1.5, zorder=1.8)
    return ax.plot([], [], color=colour, linewidth=1.5, label=f"recorded: {name}")


def _word(row: Any) -> str:
    size = axes.size_text(row.working_set_bytes)
    if not row.seen:
        return f"{size}: not seen to slow down"
    start = f"{size}: {axes.number_text(row.first_ratio, 2)} times as long at first"
    if row.recovered:
        return f"{start}, within 5 % after {axes.time_text(row.recovered_ns)}"
    if row.floor_ratio > recovery.NEAR:
        return f"{start}; the noise, {row.floor_ratio:.1%}, hides when it comes within 5 %"
    return f"{start}, not seen to come within 5 %"


def _caption(sets: pd.DataFrame) -> str:
    slowed = [row for row in each(sets) if row.seen]
    back = [row for row in slowed if row.recovered]
    if not slowed:
        return "No working set was seen to slow down after the switch."
    hidden = [axes.size_text(row.working_set_bytes) for row in slowed if row.floor_ratio > recovery.NEAR]
    open_ = [axes.size_text(row.working_set_bytes) for row in slowed if not row.recovered]
    open_ = [size for size in open_ if size not in hidden]
    unknown = [f"it was not seen for {listed(open_)}"] if open_ else []
    unknown += [f"the noise hides it for {listed(hidden)}"] if hidden else []
    if not back:
        return f"When an access is within 5 % of its time alone after a switch: {', and '.join(unknown)}."
    said = [f"{axes.time_text(row.recovered_ns)} for {axes.size_text(row.working_set_bytes)}" for row in back]
    text = f"After a switch it takes {listed(said)} until an access is within 5 % of its time alone"
    return "; ".join([text, *unknown]) + "."


def _alt(sets: pd.DataFrame) -> str:
    said = "; ".join(_word(row) for row in each(sets))
    return (
        "Line plot with logarithmic axes: time per access as a multiple of alone, over the time since the "
        f"thread is back on its CPU. {said}."
    )
