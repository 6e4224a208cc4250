"""Groups inside a limited group: what CPU time one had, and whose cpu.stat counts the throttling."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

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

KIND = "nested.groups"
WORDS = {
    "alone": "own limit,\nsibling idle",
    "sibling": "own limit,\nsibling busy",
    "no_own_limit": "no own limit,\nsibling busy",
}
_COLUMNS = (
    "condition", "own_limit_percent", "outer_limit_percent", "cpu_percent", "cpu_lo_percent",
    "cpu_hi_percent", "own_throttled_percent", "outer_throttled_percent",
)  # fmt: skip


def frame(result: Drawable) -> pd.DataFrame:
    """What the figure shows, one row per condition: condition, own_limit_percent, outer_limit_percent,
    cpu_percent, cpu_lo_percent, cpu_hi_percent (of one CPU), own_throttled_percent and
    outer_throttled_percent of the periods, as in the summary.  Raises ResultError when nothing was measured.
    """
    return columns(result.summary(), _COLUMNS, "The summary of these groups")


@draws(KIND)
def draw(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """Draw how much CPU time the inner group had, and the throttled periods of both groups' cpu.stat."""
    check_predictions([], predictions)
    table = frame(result)
    pale = None if recorded is None else frame(recorded).set_index("condition")
    with style.drawing():
        drawing = canvas(190 + 76 * len(table) + 20 * (recorded is not None))
        above, below = drawing.subplots(2, 1)
        _shares(above, table, pale)
        _periods(below, table)
        for ax in (above, below):
            axes.rows(ax, [WORDS[str(name)] for name in table["condition"]])
            ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g} %"))
        drawing.legend(handles=_handles(table, recorded), loc="outside upper left", ncols=2)
    return Figure(
        drawing, alt=_alt(table), caption=_caption(table), data=table, title="Groups inside a limited group"
    )


def _shares(ax: Axes, table: pd.DataFrame, pale: pd.DataFrame | None) -> None:
    for y, row in enumerate(each(table)):
        ax.barh(y, row.cpu_percent, height=0.6, color=style.colour(style.OWN))
        axes.across(ax, y, [row.cpu_lo_percent, row.cpu_hi_percent])
        if np.isfinite(row.own_limit_percent):
            ax.plot([row.own_limit_percent] * 2, [y - 0.4, y + 0.4], color=style.colour(style.THROTTLED))
        if pale is not None and row.condition in pale.index:
            value = float(pale["cpu_percent"][row.condition])
            ax.plot(value, y, "D", color=style.colour(style.RECORDED), zorder=4)
    outer = float(table["outer_limit_percent"].iloc[0])
    ax.axvline(outer, color=style.colour(style.THROTTLED), linestyle=(0, (1, 2)))
    ax.set_xlim(0, max(outer * 1.15, float(table["cpu_percent"].max()) * 1.05))
    ax.xaxis.set_major_locator(MaxNLocator(5))
    ax.set_title("CPU time that the inner group had")


def _periods(ax: Axes, table: pd.DataFrame) -> None:
    for y, row in enumerate(each(table)):
        for offset, value, role in (
            (-0.2, row.own_throttled_percent, style.OWN),
            (0.2, row.outer_throttled_percent, style.THROTTLED),
        ):
            known = bool(np.isfinite(value))
            ax.barh(y + offset, value if known else 0, height=0.34, color=style.colour(role))
            axes.note(
                ax,
                _share(value) if known else "counts nothing",
                (value if known else 0, y + offset),
                (5, 0),
                va="center",
                annotation_clip=False,
            )
    ax.set_xlim(0, 115)
    ax.set_xticks([0, 50, 100])
    ax.set_title("Throttled periods, by whose cpu.stat")


def _handles(table: pd.DataFrame, recorded: Drawable | None) -> list[Any]:
    throttled = style.colour(style.THROTTLED)
    handles: list[Any] = [
        Patch(color=style.colour(style.OWN), label="the inner group"),
        Patch(color=throttled, label="the group around it"),
        Line2D([], [], color=throttled, linestyle=(0, (1, 2)), label="the limit around both"),
    ]
    if np.isfinite(table["own_limit_percent"]).any():
        handles.insert(2, Line2D([], [], color=throttled, label="the inner group's own limit"))
    handles += interval_in_legend(style.INK, table["cpu_hi_percent"])
    handles += also_in_legend(recorded, (), marker="D", linestyle="none")
    return handles


def _share(value: float) -> str:
    return f"{axes.number_text(value, 2)} %"


def _caption(table: pd.DataFrame) -> str:
    by = {row.condition: row for row in each(table)}
    row = by.get("sibling") or by.get("no_own_limit") or by["alone"]
    where = {"sibling": "With its own limit, beside a busy sibling, t", "alone": "T"}
    had = f"{where.get(row.condition, 'Beside a busy sibling t')}he inner group had"
    if not (row.own_throttled_percent > 0 or row.outer_throttled_percent > 0):
        return f"{had} {_share(row.cpu_percent)} of a CPU; nothing held it back."
    own = (
        f"{_share(row.own_throttled_percent)} of the periods as throttled"
        if np.isfinite(row.own_throttled_percent)
        else "no periods at all"
    )
    return (
        f"{had} {_share(row.cpu_percent)} of a CPU; its own cpu.stat counts {own}, that of the group around "
        f"it {_share(row.outer_throttled_percent)}."
    )


def _alt(table: pd.DataFrame) -> str:
    parts = ["Horizontal bars in two panels: CPU time of the inner group, and throttled periods."]
    for row in each(table):
        words = WORDS[str(row.condition)].replace("\n", " ")
        own = _share(row.own_throttled_percent) if np.isfinite(row.own_throttled_percent) else "nothing"
        parts.append(
            f"{words}: {_share(row.cpu_percent)} of a CPU, its own cpu.stat counts {own}, the one around it "
            f"{_share(row.outer_throttled_percent)}."
        )
    return " ".join(parts)
