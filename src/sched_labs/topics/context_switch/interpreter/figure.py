"""What a Python script's time per step is made of: the loop, the calls, and what a second thread adds."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter

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

KIND = "interpreter.script"
_COLUMNS = (
    "placement", "buffer_bytes", "one_ns", "calls_ns", "tax_ns", "tax_lo_ns", "tax_hi_ns", "floor_ns",
)  # fmt: skip
_ROW = 30.0


def frame(result: Drawable) -> pd.DataFrame:
    """What the figure shows, one row per buffer, pinned runs only, smallest first; ns of CPU time per step.

    - placement, buffer_bytes
    - one_ns: one thread that never yields: the interpreter's loop
    - calls_ns: what it costs that thread to yield to nobody
    - tax_ns, tax_lo_ns, tax_hi_ns: what two threads that yield to each other take longer than the one
    - floor_ns: the noise floor
    - rest_ns: the tax without the calls

    Raises ResultError when nothing was measured.
    """
    table = columns(result.summary(), _COLUMNS, "The summary of this run of the script")
    table = columns(table[table["placement"] == "pinned"], _COLUMNS, "The pinned part of this run")
    table["rest_ns"] = table["tax_ns"] - table["calls_ns"]
    return table.sort_values("buffer_bytes", ignore_index=True)


@draws(KIND, short_times=True)
def draw(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """Draw the time per step as a stacked bar for each buffer; recorded totals are pale ticks."""
    table = frame(result)
    pale = None if recorded is None else frame(recorded)
    with style.drawing():
        drawing = canvas(150 + _ROW * len(table) + 18 * (recorded is not None) + 18 * bool(predictions))
        ax = drawing.add_subplot()
        alone, switch = style.colour(style.ALONE), style.colour(style.DIRECT)
        for y, row in enumerate(each(table)):
            left = 0.0
            parts = ((row.one_ns, alone, 1.0), (row.calls_ns, alone, 0.5), (row.rest_ns, switch, 1.0))
            for width, colour, alpha in parts:
                ax.barh(y, max(width, 0.0), left=left, height=0.6, color=colour, alpha=alpha, linewidth=0)
                left += max(width, 0.0)
            total = row.one_ns + row.tax_ns
            ax.plot(
                [row.one_ns + row.tax_lo_ns, row.one_ns + row.tax_hi_ns],
                [y, y],
                color=style.colour(style.INK),
                linewidth=1.6,
            )
            _say(ax, y, f"{axes.time_text(total)}, tax {axes.time_text(row.tax_ns)}")
            same = None if pale is None else pale[pale["buffer_bytes"] == row.buffer_bytes]
            if same is not None and not same.empty:
                before = same.iloc[0]
                ax.plot(
                    before["one_ns"] + before["tax_ns"], y, "|",
                    color=style.colour(style.RECORDED), markersize=22, markeredgewidth=3,
                )  # fmt: skip
        handles: list[Any] = [Patch(color=alone, label="the interpreter's loop")]
        if (table["calls_ns"] > 0).any():  # a part of less than nothing has no bar
            handles.append(Patch(color=alone, alpha=0.5, label="the calls, one thread: no switch"))
        if (table["rest_ns"] > 0).any():
            handles.append(Patch(color=switch, label="what a second thread adds"))
        handles += interval_in_legend(style.INK, table["tax_hi_ns"])
        if recorded is not None:
            name = recorded_name(recorded)
            tick = Line2D(
                [], [], label=name, color=style.colour(style.RECORDED), marker="|", linestyle="none"
            )
            tick.set(markersize=14, markeredgewidth=3)
            handles.append(tick)
        for label, ns in times_ns(predictions):
            handles.append(ax.axvline(ns, label=label, **dashed()))
        axes.rows(ax, [axes.size_text(size) for size in table["buffer_bytes"]])
        ax.spines["left"].set_visible(False)
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: axes.time_text(value)))
        ax.set_xlabel("CPU time for each step of two threads that yield")
        ax.set_ylabel("buffer")
        drawing.legend(handles=handles, loc="outside upper left", ncols=2)
    return Figure(
        drawing,
        alt=_alt(table),
        caption=_caption(table),
        data=table,
        title="What a Python script's time per step is made of",
    )


def _say(ax: Any, y: float, text: str) -> None:
    axes.right_of(ax, y, text, 8)


def _caption(table: pd.DataFrame) -> str:
    small, large = table.iloc[0], table.iloc[-1]
    sizes = f"{axes.size_text(small['buffer_bytes'])} {_tax(small)}"
    if len(table) == 1:
        return f"With {sizes}, {axes.time_text(small['calls_ns'])} of it without any switch."
    return (
        f"With {sizes}, with {axes.size_text(large['buffer_bytes'])} {_tax(large)}; "
        f"the loop itself takes {axes.time_text(small['one_ns'])} and {axes.time_text(large['one_ns'])}."
    )


def _tax(row: Any) -> str:
    if row["tax_lo_ns"] <= row["floor_ns"]:
        return "no tax stands clear of the noise"
    return f"the tax is {axes.time_text(row['tax_ns'])} a step"


def _alt(table: pd.DataFrame) -> str:
    said = "; ".join(
        f"{axes.size_text(row.buffer_bytes)}: loop {axes.time_text(row.one_ns)}, calls "
        f"{axes.time_text(row.calls_ns)}, second thread {axes.time_text(row.rest_ns)}"
        for row in each(table)
    )
    return f"Stacked bars of the CPU time for each step of a Python script, by buffer. {said}."
