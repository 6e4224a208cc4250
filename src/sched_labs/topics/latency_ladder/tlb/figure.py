"""Address translations after a switch: what a walk over many pages costs more, by who ran in between."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

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
    highest,
    interval_in_legend,
    listed,
    times_ns,
)

KIND = "tlb.switches"
NAMES = {
    "thread": "one thread in between",
    "process": "one process in between",
    "threads_8": "seven threads in between",
    "processes_8": "seven processes in between",
}
_LOOKS: dict[str, dict[str, Any]] = {
    "thread": {"marker": "o", "linewidth": 1.4, "alpha": 0.55},
    "process": {"marker": "s", "linewidth": 1.4, "alpha": 0.55},
    "threads_8": {"marker": "o", "linewidth": 2.4},
    "processes_8": {"marker": "s", "linewidth": 2.4},
}
_COLUMNS = (
    "pages", "condition", "walk_ns", "extra_ns", "extra_lo_ns", "extra_hi_ns", "space_ns", "space_seen",
    "floor_ns",
)  # fmt: skip


def frame(result: Drawable) -> pd.DataFrame:
    """What the figure shows, one row per condition and number of pages.

    - condition: "thread", "process", "threads_8" or "processes_8"; name: the same in words
    - pages: that one walk loads from
    - walk_ns: one walk
    - extra_ns, extra_lo_ns, extra_hi_ns: how much longer than after no switch, median and 95 % interval
    - space_ns: how much longer than after as many switches between threads; missing for threads
    - space_per_page_ns: the same for each page
    - space_seen: whether that stands clear of the noise
    - floor_ns: how far walks after no switch differ among themselves

    Raises ResultError when nothing was measured after a switch.
    """
    table = columns(result.summary(), _COLUMNS, "The summary of these walks")
    table = columns(table[table["condition"] != "nothing"], _COLUMNS, "The part of this run with switches")
    table.insert(1, "name", table["condition"].map(NAMES))
    table["space_per_page_ns"] = table["space_ns"] / table["pages"]
    order = {name: place for place, name in enumerate(NAMES)}
    return (
        table.assign(_order=table["condition"].map(order))
        .sort_values(["_order", "pages"], ignore_index=True)
        .drop(columns="_order")
    )


@draws(KIND, short_times=True)
def draw(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """Draw the extra time of a walk against its pages, one line for each kind of switch."""
    table = frame(result)
    pale = None if recorded is None else frame(recorded)
    with style.drawing():
        drawing = canvas(410 + 18 * (recorded is not None) + 18 * bool(predictions))
        ax = drawing.add_subplot()
        _axes(ax, table, pale, predictions)
        if pale is not None:
            for _, rows in pale.groupby("condition", sort=False):
                ax.plot(
                    rows["pages"],
                    rows["extra_ns"],
                    color=style.colour(style.RECORDED),
                    linewidth=1.4,
                    zorder=2,
                )
        handles = [*_lines(ax, table), *_floor(ax, table)]
        handles += interval_in_legend(style.WARMUP, table["extra_hi_ns"], upright=True)
        for _, ns in times_ns(predictions):
            ax.axhline(ns, **dashed())
        handles += also_in_legend(recorded, predictions)
        drawing.legend(handles=handles, loc="outside upper left", ncols=2)
        ax.set_xlabel("pages, one load from each")
        ax.set_ylabel("longer than after no switch")
    return Figure(
        drawing,
        alt=_alt(table),
        caption=_caption(table),
        data=table,
        title="Address translations after a switch",
    )


def _axes(ax: Axes, table: pd.DataFrame, pale: pd.DataFrame | None, predictions: Predictions) -> None:
    shown = table if pale is None else pd.concat([table, pale], ignore_index=True)
    values = shown[["extra_ns", "extra_lo_ns", "extra_hi_ns"]].to_numpy(dtype=float).ravel()
    values = values[np.isfinite(values)]
    high = max([*values, *(ns for _, ns in times_ns(predictions)), 1000.0])
    low = min([*shown["extra_ns"], 0.0])
    linear = 100.0
    axes.symlog_time(ax, min(-0.4 * linear, 1.6 * low), 2 * high, linear)
    ax.axhline(0, color=style.colour(style.NEUTRAL), linewidth=1.0, zorder=1.6)
    pages = sorted(set(shown["pages"]))
    ax.set_xscale("log", base=2)
    ax.set_xlim(pages[0] / 1.4, pages[-1] * 1.4)
    most = 7
    ax.xaxis.set_major_locator(FixedLocator(pages[:: math.ceil(len(pages) / most)]))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: axes.number_text(value, 5)))


def _lines(ax: Axes, table: pd.DataFrame) -> list[Line2D]:
    handles = []
    colour = style.colour(style.WARMUP)
    for condition, rows in table.groupby("condition", sort=False):
        look = _LOOKS[str(condition)]
        known = rows[np.isfinite(rows["extra_lo_ns"]) & np.isfinite(rows["extra_hi_ns"])]
        ax.vlines(
            known["pages"],
            known["extra_lo_ns"],
            known["extra_hi_ns"],
            color=colour,
            linewidth=1.4,
            alpha=look.get("alpha", 1.0),
            zorder=3,
        )
        ax.plot(rows["pages"], rows["extra_ns"], color=colour, zorder=3.4, **look)
        handles.append(Line2D([], [], color=colour, label=NAMES[str(condition)], **look))
    return handles


def _floor(ax: Axes, table: pd.DataFrame) -> list[Any]:
    rows = table.drop_duplicates("pages").sort_values("pages")
    rows = rows[np.isfinite(rows["floor_ns"])]
    if rows.empty:
        return []
    x, y = rows["pages"].to_numpy(float), rows["floor_ns"].to_numpy(float)
    colour = style.colour(style.FLOOR)
    ax.fill_between(x, -y, y, color=colour, linewidth=0, zorder=0.6)
    return [Patch(color=colour, label="noise floor")]


def _caption(table: pd.DataFrame) -> str:
    many = table[(table["condition"] == "processes_8") & table["space_seen"] & (table["space_ns"] > 0)]
    if many.empty:
        return "That seven other processes cost more than as many threads does not stand clear of the noise."
    top = highest(many, "space_ns")
    text = (
        f"Over {axes.number_text(top['pages'], 5)} pages, coming back from seven other processes costs "
        f"{axes.time_text(top['space_ns'])} more than from seven threads, "
        f"{axes.time_text(top['space_per_page_ns'], 2)} a page"
    )
    one = table[(table["condition"] == "process") & (table["pages"] == top["pages"])]
    if one.empty:
        return f"{text}."
    row = one.iloc[0]
    if bool(row["space_seen"]) and row["space_ns"] > 0:
        return f"{text}; from one other process, {axes.time_text(row['space_ns'])} more than from one thread."
    return f"{text}; from one other process, nothing more than from one thread is seen above the noise."


def _alt(table: pd.DataFrame) -> str:
    parts = ["Lines: how much longer a walk takes than after no switch, by its pages."]
    for name, rows in table.groupby("name", sort=False):
        said = [f"{row.pages} pages {axes.time_text(row.extra_ns)}" for row in each(rows)]
        parts.append(f"{str(name).capitalize()}: {listed(said)}.")
    return " ".join(parts)
