"""What a switch costs when more and more threads are ready to run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from sched_labs.draw import axes, style
from sched_labs.draw.base import (
    Drawable,
    Figure,
    Predictions,
    canvas,
    columns,
    dashed,
    draws,
    each,
    interval_in_legend,
    recorded_name,
    times_ns,
)

KIND = "crowd.switch"
_COLUMNS = ("threads", "switch_ns", "switch_lo_ns", "switch_hi_ns", "switches_per_yield", "floor_ns")


def frame(result: Drawable) -> pd.DataFrame:
    """What the figure shows, one row per size of the crowd, smallest first.

    - threads: how many are ready to run on the CPU
    - switch_ns, switch_lo_ns, switch_hi_ns: from one switch to the next, median and 95 % interval
    - switches_per_yield: as the kernel counted them
    - floor_ns: the noise floor, from the smallest crowd

    Raises ResultError when nothing was measured.
    """
    table = columns(result.summary(), _COLUMNS, "The summary of this run of crowds")
    return table.sort_values("threads", ignore_index=True)


@draws(KIND, short_times=True)
def draw(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """Draw the time per switch against the number of ready threads."""
    table = frame(result)
    pale = None if recorded is None else frame(recorded)
    shown = table if pale is None else pd.concat([table, pale])
    direct = style.colour(style.DIRECT)
    with style.drawing():
        drawing = canvas(330)
        ax = drawing.add_subplot()
        ax.set_xscale("log", base=2)
        counts = sorted(set(shown["threads"]))
        ax.set_xlim(counts[0] / 1.4, counts[-1] * 1.4)
        ax.xaxis.set_major_locator(FixedLocator([float(count) for count in counts]))
        ax.xaxis.set_minor_locator(NullLocator())
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        values = [*shown["switch_ns"], *shown["switch_hi_ns"], *(ns for _, ns in times_ns(predictions))]
        ax.set_ylim(0, 1.15 * max(value for value in values if np.isfinite(value)))
        ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: axes.time_text(value)))
        handles: list[Any] = []
        if pale is not None and recorded is not None:
            handles += ax.plot(
                pale["threads"], pale["switch_ns"], color=style.colour(style.RECORDED), linewidth=1.6,
                label=recorded_name(recorded),
            )  # fmt: skip
        handles += ax.plot(
            table["threads"],
            table["switch_ns"],
            color=direct,
            marker="o",
            label="one switch, its call included",
        )
        known = table[np.isfinite(table["switch_lo_ns"]) & np.isfinite(table["switch_hi_ns"])]
        ax.vlines(known["threads"], known["switch_lo_ns"], known["switch_hi_ns"], color=direct, linewidth=1.6)
        handles += interval_in_legend(style.DIRECT, known["switch_hi_ns"], upright=True)
        for label, ns in times_ns(predictions):
            handles.append(ax.axhline(ns, label=label, **dashed()))
        ax.set_xlabel("threads that are ready to run on the CPU")
        ax.set_ylabel("time per switch")
        drawing.legend(handles=handles, loc="outside upper left", ncols=2)
    return Figure(
        drawing,
        alt=_alt(table),
        caption=_caption(table),
        data=table,
        title="Time per switch by the number of ready threads",
    )


def _caption(table: pd.DataFrame) -> str:
    few, *_, many = [*each(table.iloc[[0, -1]])]
    text = f"With {few.threads:,} ready threads a switch and its call take {axes.time_text(few.switch_ns)}"
    if len(table) == 1:
        return f"{text}."
    ratio = axes.number_text(many.switch_ns / few.switch_ns, 2)
    return (
        f"{text}, with {many.threads:,} {axes.time_text(many.switch_ns)}: {ratio} times as long for "
        f"{axes.number_text(many.threads / few.threads)} times as many."
    )


def _alt(table: pd.DataFrame) -> str:
    said = ", ".join(f"{row.threads:,} threads {axes.time_text(row.switch_ns)}" for row in each(table))
    return f"Line plot of the time of a switch and its call against the number of ready threads: {said}."
