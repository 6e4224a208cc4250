"""How much of its CPU a thread kept, by what was done to keep others off it."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.patches import Patch
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

KIND = "isolation.cpuset"
WORDS = {
    "alone": "alone",
    "affinity": "pinned;\nintruders anywhere",
    "cpusets": "cpuset;\nintruders in another",
    "outside": "cpuset;\nintruders in none",
    "outside_pinned": "cpuset; an intruder\npinned to the same CPU",
    "partition": "isolated partition;\nintruders in none",
}
_COLUMNS = ("condition", "cpu_percent", "cpu_lo_percent", "cpu_hi_percent", "longest_gap_ns")

_COLUMN = 84  # points from the bars to the end of the column beside them


def frame(result: Drawable) -> pd.DataFrame:
    """What the figure shows, one row per condition: condition, cpu_percent, cpu_lo_percent, cpu_hi_percent,
    longest_gap_ns, as in the summary.  Raises ResultError when nothing was measured.
    """
    return columns(result.summary(), _COLUMNS, "The summary of this isolation")


@draws(KIND)
def draw(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """Draw the victim's share of its CPU per condition, with its longest time off it."""
    check_predictions([], predictions)
    table = frame(result)
    pale = None if recorded is None else frame(recorded).set_index("condition")
    with style.drawing():
        drawing = canvas(122 + 44 * len(table) + 20 * (recorded is not None))
        ax = drawing.add_subplot()
        for y, row in enumerate(each(table)):
            colour = style.OWN if row.condition == "alone" else style.RIVAL
            ax.barh(y, 100, height=0.6, color=style.colour(colour if colour == style.RIVAL else style.FLOOR))
            ax.barh(y, row.cpu_percent, height=0.6, color=style.colour(style.OWN))
            axes.across(ax, y, [row.cpu_lo_percent, row.cpu_hi_percent])
            if pale is not None and row.condition in pale.index:
                value = float(pale["cpu_percent"][row.condition])
                ax.plot(
                    value,
                    y,
                    "D",
                    color=style.colour(style.RECORDED),
                    markeredgecolor=style.colour(style.PAPER),
                    zorder=4,
                    clip_on=False,
                )
            gap = axes.time_text(row.longest_gap_ns, 2) if row.longest_gap_ns > 0 else "none"
            axes.beside(ax, y, gap, _COLUMN)
        axes.beside(ax, -0.75, "longest gap", _COLUMN, "bold")
        ax.set_xlim(0, 100)
        axes.rows(ax, [WORDS.get(str(name), str(name)) for name in table["condition"]])
        ax.xaxis.set_major_locator(FixedLocator([0, 25, 50, 75, 100]))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g} %"))
        ax.set_xlabel("of its CPU the thread had")
        handles: list[Any] = [
            Patch(color=style.colour(style.OWN), label="the thread"),
            Patch(color=style.colour(style.RIVAL), label="others, or nobody"),
        ]
        handles += interval_in_legend(style.INK, table["cpu_hi_percent"])
        handles += also_in_legend(recorded, (), marker="D", linestyle="none")
        drawing.legend(handles=handles, loc="outside upper left", ncols=2)
    return Figure(
        drawing,
        alt=_alt(table),
        caption=_caption(table),
        data=table,
        title="Who can take a CPU from its owner",
    )


def _caption(table: pd.DataFrame) -> str:
    parts = [
        f"{axes.number_text(row.cpu_percent)} % {words}"
        for name, words in (
            ("alone", "alone"),
            ("affinity", "when only the thread itself is pinned"),
            ("cpusets", "when the intruders have a cpuset too"),
            ("outside_pinned", "when an intruder from outside is pinned to its CPU"),
        )
        for row in each(table[table["condition"] == name])
    ]
    return f"Of its CPU the thread had {'; '.join(parts)}."


def _alt(table: pd.DataFrame) -> str:
    parts = ["Horizontal bars: how much of one CPU its owner had."]
    for row in each(table):
        words = WORDS.get(str(row.condition), str(row.condition)).replace("\n", " ")
        gap = axes.time_text(row.longest_gap_ns, 2) if row.longest_gap_ns > 0 else "none"
        parts.append(f"{words}: {axes.number_text(row.cpu_percent)} %, longest gap {gap}.")
    return " ".join(parts)
