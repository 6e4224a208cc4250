"""How long a hog runs and how long it waits for its next turn, against how many share the CPU."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from sched_labs.claims.helpers import others_had
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
    listed,
    times_ns,
)

KIND = "slices.sweep"
_COLUMNS = (
    "hogs", "wished_slice_ns", "moved_slice_ns", "turns", "stint_p50_ns", "stint_lo_ns", "stint_hi_ns",
    "gap_p50_ns", "gap_lo_ns", "gap_hi_ns", "gap_p90_ns", "used_percent", "slice_ns", "tick_ns",
)  # fmt: skip
_LOOKS: dict[str, dict[str, Any]] = {
    "stint": {"color": style.colour(style.ALONE), "marker": "s"},
    "gap": {"color": style.colour(style.PREEMPTED), "marker": "o"},
}
_LINE_HEIGHT = 0.06  # of a line of text, as a part of the axis' height
_WORDS = {"stint": "a turn (stint), half are shorter", "gap": "the wait for the next, half are shorter"}


def frame(result: Drawable) -> pd.DataFrame:
    """What the figure shows, one row per number of hogs and wished slice.

    - hogs: how many share the CPU
    - wished_slice_ns: the slice that they asked for; missing where they took the kernel's own
    - moved_slice_ns: what the kernel's slice had been set to meanwhile; missing where it was left alone
    - turns: how many were timed
    - stint_p50_ns, stint_lo_ns, stint_hi_ns: how long a hog runs in a turn: median and 95 % interval
    - gap_p50_ns, gap_lo_ns, gap_hi_ns, gap_p90_ns: how long it waits for the next
    - expected_gap_ns: (hogs - 1) stints of this run's median over all numbers of hogs
    - used_percent: what the hogs used of the CPU; other programs had the rest
    - slice_ns, tick_ns: the kernel's own slice and tick; missing if unknown

    Raises ResultError when nothing was measured.
    """
    table = columns(result.summary(), _COLUMNS, "The summary of these slices")
    own = left_alone(table)
    typical = float(own["stint_p50_ns"].median()) if len(own) else math.nan
    return table.assign(expected_gap_ns=(table["hogs"] - 1) * typical)


def left_alone(table: pd.DataFrame) -> pd.DataFrame:
    """The rows in which nobody asked for a slice, and the kernel had its own."""
    return table[table["wished_slice_ns"].isna() & table["moved_slice_ns"].isna()]


@draws(KIND)
def draw(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """Stint and gap with their intervals; what turns of equal length would give is a thin line."""
    table = frame(result)
    own = left_alone(table)
    pale = None
    if recorded is not None:
        pale = left_alone(frame(recorded))
    marks = times_ns(predictions)
    with style.drawing():
        drawing = canvas(400)
        ax = drawing.add_subplot()
        _axes(ax, [part for part in (table, pale) if part is not None], marks)
        if pale is not None:
            for kind in _LOOKS:
                ax.plot(pale["hogs"], pale[f"{kind}_p50_ns"], color=style.colour(style.RECORDED), zorder=1.8)
        ax.plot(own["hogs"], own["expected_gap_ns"], color=style.colour(style.NEUTRAL), linewidth=1.0,
                linestyle=(0, (1, 2)))  # fmt: skip
        for kind, look in _LOOKS.items():
            _line(ax, own, kind, look)
        _wished(ax, table)
        for _, ns in marks:
            ax.axhline(ns, **dashed())
        _kernel_marks(ax, table)
        drawing.legend(handles=_handles(table, recorded, marks), loc="outside upper left", ncols=1)
    return Figure(
        drawing,
        alt=_alt(table),
        caption=_caption(table),
        data=table,
        title="Stint and gap, by the number of hogs",
    )


def _axes(ax: Axes, tables: Sequence[pd.DataFrame], marks: Sequence[tuple[str, float]]) -> None:
    low = min([*(part["stint_p50_ns"].min() for part in tables), *(ns for _, ns in marks)])
    kernel = tables[0][["slice_ns", "tick_ns"]].min().dropna()
    low = min([low, *kernel])
    high = max([*(part["gap_p90_ns"].max() for part in tables), *(ns for _, ns in marks)])
    axes.log_time(ax, "y", low / 1.6, high * 1.3)
    numbers = sorted(set(np.concatenate([part["hogs"].to_numpy() for part in tables])))
    ax.set_xscale("log", base=2)
    ax.set_xlim(numbers[0] / 1.15, numbers[-1] * 1.35)
    ax.xaxis.set_major_locator(FixedLocator([float(n) for n in numbers]))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0f}"))
    ax.set_xlabel("threads that never sleep, on one CPU")
    ax.set_ylabel("time")


def _line(ax: Axes, rows: pd.DataFrame, kind: str, look: dict[str, Any]) -> None:
    ax.plot(rows["hogs"], rows[f"{kind}_p50_ns"], zorder=3, **look)
    finite = rows[np.isfinite(rows[f"{kind}_lo_ns"])]
    ax.vlines(finite["hogs"], finite[f"{kind}_lo_ns"], finite[f"{kind}_hi_ns"], color=look["color"],
              linewidth=1.6)  # fmt: skip


def _wished(ax: Axes, table: pd.DataFrame) -> None:
    """Stints with a slice that was wished for, named on the left, or set for all, on the right.

    Those that lie so close together that their names would cover each other are named once.
    """
    for column, word, marker, side in (
        ("wished_slice_ns", "wished", "D", -1),
        ("moved_slice_ns", "set", "^", 1),
    ):
        rows = table.dropna(subset=[column]).sort_values(["hogs", "stint_p50_ns"])
        ax.plot(rows["hogs"], rows["stint_p50_ns"], marker=marker, linestyle="none", markerfacecolor="none",
                markeredgewidth=1.8, color=style.colour(style.ALONE), zorder=3.2)  # fmt: skip
        low, high = ax.get_ylim()
        close = (high / low) ** _LINE_HEIGHT
        named: list[tuple[tuple[float, float], list[str]]] = []
        for row in rows.to_dict("records"):
            hogs, stint, text = row["hogs"], row["stint_p50_ns"], axes.time_text(row[column])
            if named and named[-1][0][0] == hogs and stint < close * named[-1][0][1]:
                named[-1][1].append(text)
            else:
                named.append(((hogs, stint), [text]))
        for at, texts in named:
            axes.note(
                ax,
                f"{listed(texts)} {word}",
                at,
                (7 * side, 5),
                ha="right" if side < 0 else "left",
                color=style.colour(style.NEUTRAL),
            )


def _kernel_marks(ax: Axes, table: pd.DataFrame) -> None:
    for name, column in (("slice", "slice_ns"), ("tick", "tick_ns")):
        value = float(table[column].iloc[0])
        if math.isfinite(value):
            ax.axhline(value, color=style.colour(style.NEUTRAL), linewidth=1.0, zorder=1.5)
            axes.note(
                ax,
                f"{name} {axes.time_text(value)}",
                (1, value),
                (-2, 3),
                xycoords=("axes fraction", "data"),
                ha="right",
                color=style.colour(style.NEUTRAL),
            )


def _handles(
    table: pd.DataFrame, recorded: Drawable | None, marks: Sequence[tuple[str, float]]
) -> list[Line2D]:
    handles = [Line2D([], [], label=_WORDS[kind], **look) for kind, look in reversed(_LOOKS.items())]
    thin = {"color": style.colour(style.NEUTRAL), "linewidth": 1.0, "linestyle": (0, (1, 2))}
    if len(left_alone(table)) > 1:  # through a single number of hogs there is no line
        handles.append(Line2D([], [], label="(N − 1) turns of equal length", **thin))  # type: ignore[arg-type]
    handles += interval_in_legend(style.INK, table[[f"{kind}_hi_ns" for kind in _LOOKS]], upright=True)
    handles += also_in_legend(recorded, ())
    return handles + [Line2D([], [], label=text, **dashed()) for text, _ in marks]


def _caption(table: pd.DataFrame) -> str:
    own = left_alone(table)
    few, many = own.iloc[0], own.iloc[-1]
    shared = " " + others_had(own["used_percent"].min()) if others_had(own["used_percent"].min()) else ""
    turns, waits = (
        [axes.time_text(row[name]) for row in (few, many)] for name in ("stint_p50_ns", "gap_p50_ns")
    )
    if few.hogs == many.hogs:
        said = f"Among {int(few.hogs)} hogs a turn takes {turns[0]}, and the wait for the next {waits[0]}."
        return said + shared
    about = {axes.time_text(row.stint_p50_ns, 2) for row in (few, many)}
    stint = f"stays at about {about.pop()}" if len(about) == 1 else f"goes from {turns[0]} to {turns[1]}"
    return (
        f"From {int(few.hogs)} hogs to {int(many.hogs)} a turn {stint}, and the wait for "
        f"the next goes from {waits[0]} to {waits[1]}.{shared}"
    )


def _alt(table: pd.DataFrame) -> str:
    parts = ["Line plot with logarithmic axes: how long a hog runs and waits against how many share a CPU."]
    for row in each(table):
        wish = "" if math.isnan(row.wished_slice_ns) else f" that wish {axes.time_text(row.wished_slice_ns)}"
        if not math.isnan(row.moved_slice_ns):
            wish = f" with the kernel's slice set to {axes.time_text(row.moved_slice_ns)}"
        parts.append(
            f"{row.hogs} hogs{wish}: stint {axes.time_text(row.stint_p50_ns)}, "
            f"gap {axes.time_text(row.gap_p50_ns)}."
        )
    return " ".join(parts)
