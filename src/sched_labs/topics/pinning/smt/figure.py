"""How fast each of two workers is beside the other: on two cores, on one core, and on one CPU."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter

from sched_labs.draw import axes, style
from sched_labs.draw.base import (
    Drawable,
    Figure,
    Predictions,
    also_in_legend,
    canvas,
    columns,
    draws,
    each,
    interval_in_legend,
)
from sched_labs.draw.panels import check_predictions

KIND = "smt.sharing"
_COLUMNS = (
    "pair", "placement", "work", "speed_share", "speed_lo_share", "speed_hi_share", "both_share",
    "switches_per_s",
)  # fmt: skip
# Two cores are the baseline; on one CPU each waits while the other has it; siblings share what a core has.
_LOOKS = {
    "cores": (style.ALONE, "o", "on two cores"),
    "siblings": (style.WARMUP, "s", "on two threads of one core"),
    "one_cpu": (style.PREEMPTED, "D", "on one CPU, in turn"),
}
_ROWS = {
    ("alu_alu", "alu"): "arithmetic beside\narithmetic",
    ("memory_memory", "memory"): "memory beside\nmemory",
    ("alu_memory", "alu"): "arithmetic beside\nmemory",
    ("alu_memory", "memory"): "memory beside\narithmetic",
}


def frame(result: Drawable) -> pd.DataFrame:
    """What the figure shows, one row per pair, placement and work, as in the summary: pair, placement, work,
    speed_share (with _lo_ and _hi_), both_share, switches_per_s.

    Raises ResultError when nothing was measured.
    """
    return columns(result.summary(), _COLUMNS, "The summary of these pairs")


@draws(KIND)
def draw(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """A row per work and companion, in it a mark per placement: the speed, of that alone."""
    check_predictions([], predictions)
    table = frame(result)
    pale = None if recorded is None else frame(recorded)
    shown = [row for row in _ROWS if ((table["pair"] == row[0]) & (table["work"] == row[1])).any()]
    places = [name for name in _LOOKS if name in set(table["placement"])]
    with style.drawing():
        drawing = canvas(110 + 62 * len(shown) + 20 * (recorded is not None))
        ax = drawing.add_subplot()
        for share, width in ((1.0, 1.4), (0.5, 1.0)):
            ax.axvline(share, color=style.colour(style.INK), linewidth=width, zorder=1.6)
        most = 1.0
        for y, (pair, work) in enumerate(shown):
            for number, place in enumerate(places):
                at = y + 0.25 * (number - (len(places) - 1) / 2)
                for rows, old in ((pale, True), (table, False)):
                    if rows is None:
                        continue
                    found = rows[
                        (rows["pair"] == pair) & (rows["work"] == work) & (rows["placement"] == place)
                    ]
                    for row in each(found):
                        _mark(ax, row, at, place, old)
                        most = max(most, row.speed_share)
        ax.set_ylim(len(shown) - 0.5, -0.5)
        ax.set_xlim(0, most * 1.12)
        ax.set_yticks(range(len(shown)), [_ROWS[row] for row in shown])
        ax.tick_params(axis="y", length=0)
        step = 0.25 * 2 ** max(0, math.ceil(math.log2(most / 1.6)))
        ax.xaxis.set_major_locator(FixedLocator(list(np.arange(0, most * 1.12, step))))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g} %"))
        ax.set_xlabel("speed, of that alone")
        ax.grid(visible=False, axis="y")
        handles: list[Any] = []
        for place in places:
            name, marker, label = _LOOKS[place]
            handles.append(
                Line2D([], [], linestyle="none", marker=marker, color=style.colour(name), label=label)
            )
        handles += interval_in_legend(style.INK, table["speed_hi_share"])
        handles += also_in_legend(recorded, (), linestyle="none", marker="o")
        drawing.legend(handles=handles, loc="outside upper left", ncols=2)
    return Figure(
        drawing,
        alt=_alt(table),
        caption=_caption(table),
        data=table,
        title="Two workers at the same time, by the CPUs that they have",
    )


def _mark(ax: Any, row: Any, y: float, place: str, old: bool) -> None:
    name, marker, _ = _LOOKS[place]
    colour = style.colour(style.RECORDED if old else name)
    if not old and np.isfinite(row.speed_lo_share) and np.isfinite(row.speed_hi_share):
        ax.hlines(y, row.speed_lo_share, row.speed_hi_share, color=colour, linewidth=1.6, zorder=2.8)
    ax.plot(
        row.speed_share, y, marker=marker, color=colour, markersize=11 if old else 8, zorder=2 if old else 3
    )


def _percent(share: float) -> str:
    return f"{axes.number_text(100 * share, 2)} %"


def _caption(table: pd.DataFrame) -> str:
    said = []
    for place in _LOOKS:
        rows = table[table["placement"] == place].sort_values("speed_share")
        if rows.empty:
            continue
        ends = [_percent(row.speed_share) for row in each(rows.iloc[[0, -1]])]
        least, most = (
            f"{end} ({_ROWS[row.pair, row.work]})".replace("\n", " ")
            for end, row in zip(ends, each(rows.iloc[[0, -1]]), strict=True)
        )
        alike = least if len(rows) == 1 else ends[0]
        said.append(f"{_LOOKS[place][2]} " + (alike if len(set(ends)) == 1 else f"from {least} to {most}"))
    together = (table["placement"] == "siblings").any()
    missing = (
        "" if together else " No two CPUs of this run are threads of one core, as far as the machine tells."
    )
    return f"Of its speed alone a worker keeps: {'; '.join(said)}.{missing}"


def _alt(table: pd.DataFrame) -> str:
    parts = ["Dot plot: how fast a worker is beside another one, compared with itself alone."]
    for row in each(table):
        beside = _ROWS[row.pair, row.work].replace("\n", " ")
        parts.append(f"{beside} {_LOOKS[row.placement][2]}: {_percent(row.speed_share)}.")
    return " ".join(parts)
