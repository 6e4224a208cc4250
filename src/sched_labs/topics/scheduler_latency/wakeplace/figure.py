"""How long from wake-up to running, by what the worker met: idle CPUs, busy ones, or a mask."""

from __future__ import annotations

import math

import pandas as pd
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
    times_ns,
)

KIND = "wakeplace.sweep"
_ROW = 62.0


def frame(result: Drawable) -> pd.DataFrame:
    """What the figure shows, one row per condition.

    - condition: what the workers met
    - wakes: how many wake-ups
    - p50_ns, p99_ns, max_ns: from the wake-up until half, 99 % and all of them ran
    - on_waker_percent: wake-ups that ran on the CPU of the busy waker
    - others_idle_percent: how much of the time the other CPUs than the waker's were idle

    Raises ResultError when nothing was measured.
    """
    wanted = (
        "condition", "wakes", "p50_ns", "p99_ns", "max_ns", "on_waker_percent", "others_idle_percent",
    )  # fmt: skip
    return columns(result.summary(), wanted, "The summary of these wake-ups")


@draws(KIND, short_times=True)
def draw(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """A row per condition: from half of the wake-ups (mark) to 99 % (line's end) and the latest (tick)."""
    table = frame(result)
    pale = None if recorded is None else frame(recorded)
    marks = times_ns(predictions)
    names = [str(name) for name in table["condition"]]
    parts = [part for part in (table, pale) if part is not None]
    low = min([*(part["p50_ns"].min() for part in parts), *(ns for _, ns in marks)]) / 1.6
    high = max([*(part["max_ns"].max() for part in parts), *(ns for _, ns in marks)]) * 1.6
    with style.drawing():
        drawing = canvas(_ROW * len(names) + 140)
        ax = drawing.add_subplot()
        axes.log_time(ax, "x", low, high)
        ax.set_ylim(len(names) - 0.4, -0.7)
        ax.set_yticks([])
        ax.spines["left"].set_visible(False)
        colour = style.colour(style.WAKEUP)
        if pale is not None:
            for row in each(pale[pale["condition"].isin(names)]):
                y = names.index(row.condition)
                ax.plot([row.p50_ns, row.p99_ns], [y, y], color=style.colour(style.RECORDED), linewidth=7)
        for y, row in enumerate(each(table)):
            idle = row.others_idle_percent
            others = "" if math.isnan(idle) else f"; the others idle {idle:.0f} %"
            ax.plot([row.p50_ns, row.p99_ns], [y, y], color=colour, zorder=2.5)
            ax.plot(row.p50_ns, y, marker="o", color=colour, zorder=3)
            ax.plot(row.max_ns, y, marker="|", markersize=11, markeredgewidth=1.6, color=colour, zorder=3)
            ax.annotate(
                f"{row.condition}: {axes.number_text(row.on_waker_percent, 2)} % on the waker's CPU"
                f"{others}",
                (0, y), xycoords=("axes fraction", "data"), xytext=(2, 9), textcoords="offset points",
                fontsize=style.SMALL,
            )  # fmt: skip
        for _, ns in marks:
            ax.axvline(ns, **dashed())
        ax.set_xlabel("time from the wake-up until the thread ran")
        handles = [
            Line2D([], [], color=colour, marker="o", label="half of the wake-ups (mark) to 99 % (line)"),
            Line2D([], [], color=colour, marker="|", markersize=11, linestyle="none", label="the longest"),
        ]
        handles += also_in_legend(recorded, (), linewidth=7)
        handles += [Line2D([], [], label=text, **dashed()) for text, _ in marks]
        drawing.legend(handles=handles, loc="outside upper left", ncols=1)
    return Figure(
        drawing,
        alt=_alt(table),
        caption=_caption(table),
        data=table,
        title="From wake-up to running, by what the thread met",
    )


def _caption(table: pd.DataFrame) -> str:
    rows = {str(row["condition"]): row for _, row in table.iterrows()}
    parts = []
    if "idle CPUs" in rows:
        row = rows["idle CPUs"]
        parts.append(
            f"With the other CPUs idle for {row['others_idle_percent']:.0f} % of the time by /proc/stat, "
            f"in the median of the trials {axes.number_text(row['on_waker_percent'], 2)} % of the wake-ups "
            f"put their thread on the waker's busy one, and 99 % ran within {axes.time_text(row['p99_ns'])}"
        )
    if "bound to the waker" in rows:
        row = rows["bound to the waker"]
        start = "bound" if parts else "Bound"
        parts.append(f"{start} to the waker's CPU, 99 % ran within {axes.time_text(row['p99_ns'])}")
    return f"{'; '.join(parts)}."


def _alt(table: pd.DataFrame) -> str:
    parts = [
        "Dot plot on a logarithmic time axis, by condition, in the median of the trials: from wake-up to "
        "running, what half and 99 % took at most; and how many ran on the waker's CPU."
    ]
    parts += [
        f"{row.condition}: {axes.time_text(row.p50_ns)}, {axes.time_text(row.p99_ns)}; "
        f"{axes.number_text(row.on_waker_percent, 2)} %."
        for row in each(table)
    ]
    return " ".join(parts)
