"""Vector registers and the switch: what saving and restoring them adds, against the noise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter

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

KIND = "fpu.state"
NAMES = {"sse": "SSE", "avx": "AVX", "avx512": "AVX-512", "neon": "NEON"}
_COLUMNS = (
    "registers", "in_use_bytes", "image_bytes", "switch_ns", "extra_ns", "extra_lo_ns", "extra_hi_ns",
    "floor_ns", "seen",
)  # fmt: skip


def frame(result: Drawable) -> pd.DataFrame:
    """What the figure shows, one row per set of registers that was filled.

    - registers: "sse", "avx", "avx512" or "neon"; name: the same in words
    - in_use_bytes: state that the processor held to be in use; missing where it does not say
    - image_bytes: what holds all the state that the kernel has switched on
    - switch_ns: one switch with these registers filled
    - extra_ns, extra_lo_ns, extra_hi_ns: how much more that is than with none, median and 95 % interval
    - bare_ns: one switch with none filled
    - share: extra_ns as a part of that
    - floor_ns: how far two runs with none filled differ
    - seen: whether all of that interval stands clear of the floor

    Raises ResultError when no set of registers was measured.
    """
    table = columns(result.summary(), _COLUMNS, "The summary of this run")
    bare = float(table.loc[table["registers"] == "integer", "switch_ns"].iloc[0])
    table = columns(table[table["registers"] != "integer"], _COLUMNS, "The part of this run with registers")
    table.insert(1, "name", table["registers"].map(lambda kind: NAMES.get(str(kind), str(kind))))
    table["bare_ns"] = bare
    table["share"] = table["extra_ns"] / bare
    return table


@draws(KIND, short_times=True)
def draw(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """Draw what each set of registers adds to a switch, on a linear axis, over the noise floor."""
    table = frame(result)
    pale = None if recorded is None else frame(recorded).set_index("registers")
    floor = float(table["floor_ns"].iloc[0])
    with style.drawing():
        drawing = canvas(40 * len(table) + 125 + 18 * (recorded is not None) + 18 * bool(predictions))
        ax = drawing.add_subplot()
        _limits(ax, table, pale, floor, predictions)
        if math.isfinite(floor):
            ax.axvspan(-floor, floor, color=style.colour(style.FLOOR), linewidth=0, zorder=0.5)
        ax.axvline(0, color=style.colour(style.NEUTRAL), linewidth=1.0, zorder=1)
        for y, row in enumerate(each(table)):
            _row(ax, y, row, pale)
        for _, ns in times_ns(predictions):
            ax.axvline(ns, **dashed())
        axes.rows(ax, list(table["name"]))
        ax.spines["left"].set_visible(False)
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: axes.time_text(value)))
        ax.locator_params(axis="x", nbins=6)
        ax.set_xlabel("added to one switch")
        handles = _handles(table, floor, recorded, predictions)
        drawing.legend(handles=handles, loc="outside upper left", ncols=2)
    return Figure(
        drawing,
        alt=_alt(table),
        caption=_caption(table),
        data=table,
        title="What filled vector registers add to a switch",
    )


def _limits(
    ax: Axes, table: pd.DataFrame, pale: pd.DataFrame | None, floor: float, predictions: Predictions
) -> None:
    values = [0.0, floor, -floor, *(ns for _, ns in times_ns(predictions))]
    for part in (table, pale):
        if part is not None:
            values += [*part["extra_ns"], *part["extra_lo_ns"], *part["extra_hi_ns"]]
    finite = np.array([value for value in values if math.isfinite(value)])
    room = 0.08 * max(float(finite.max() - finite.min()), 1.0)
    ax.set_xlim(finite.min() - room, finite.max() + room)


def _row(ax: Axes, y: int, row: Any, pale: pd.DataFrame | None) -> None:
    colour = style.colour(style.DIRECT)
    if pale is not None and row.registers in pale.index:
        before = pale.loc[row.registers, "extra_ns"]
        ax.plot(before, y, "o", color=style.colour(style.RECORDED), markersize=9, zorder=2)
    if math.isfinite(row.extra_lo_ns) and math.isfinite(row.extra_hi_ns):
        strength = 1.0 if row.seen else 0.4
        ax.plot([row.extra_lo_ns, row.extra_hi_ns], [y, y], color=colour, alpha=strength, zorder=3)
    face = colour if row.seen else style.colour(style.PAPER)
    ax.plot(row.extra_ns, y, "o", color=colour, mfc=face, markeredgewidth=1.8, zorder=3.5)
    known = math.isfinite(row.in_use_bytes)
    axes.right_of(ax, y, f"{axes.number_text(row.in_use_bytes, 4)} B in use" if known else "", 10)


def _handles(
    table: pd.DataFrame, floor: float, recorded: Drawable | None, predictions: Predictions
) -> list[Any]:
    direct, paper = style.colour(style.DIRECT), style.colour(style.PAPER)
    handles: list[Any] = [Line2D([], [], color=direct, marker="o", label="registers filled")]
    handles += interval_in_legend(style.DIRECT, table["extra_hi_ns"])
    if not table["seen"].all():
        handles.append(
            Line2D(
                [],
                [],
                color=style.colour(style.NEUTRAL),
                marker="o",
                mfc=paper,
                markeredgewidth=1.8,
                ls="none",
                label="hollow: no difference seen",
            )
        )
    if math.isfinite(floor):
        handles.append(Patch(color=style.colour(style.FLOOR), label="noise floor"))
    return handles + also_in_legend(recorded, predictions, marker="o", markersize=9, linestyle="none")


def _caption(table: pd.DataFrame) -> str:
    last = table.iloc[-1]
    if bool(last["seen"]) and last["extra_ns"] > 0:
        share = axes.number_text(100 * float(last["share"]), 2)
        text = f"Filled {last['name']} registers add {axes.time_text(last['extra_ns'])} a switch, {share} %"
    else:
        text = f"Filled {last['name']} registers add nothing to a switch that stands clear of the noise"
    return f"{text}; with none filled it costs {axes.time_text(last['bare_ns'])}."


def _alt(table: pd.DataFrame) -> str:
    said = []
    for row in each(table):
        ends = axes.range_text(row.extra_lo_ns, row.extra_hi_ns)
        hidden = "" if row.seen else f" (no difference seen: {ends})"
        said.append(f"{row.name} {axes.time_text(row.extra_ns)}{hidden}")
    return (
        "Dots with intervals on a time axis through zero: what filled registers add to a switch. "
        f"{listed(said)}. The noise floor is {axes.time_text(float(table['floor_ns'].iloc[0]))}."
    )
