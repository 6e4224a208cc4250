"""What the second of two hogs gets, by where the two stand, and what its nice value alone would say."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.lines import Line2D
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
    dashed,
    draws,
    each,
    interval_in_legend,
    listed,
    percents,
)

KIND = "weights.pairs"
WORDS = {
    "alike": "one session,\nboth nice 0",
    "one session": "one session,\nthe second nice 10",
    "two sessions": "two sessions,\nthe second nice 10",
    "two sessions, autogroup": "two sessions, the second\nsession's own nice 10",
    "two sessions, spread": "two sessions, the second\non another CPU, too",
    "two groups": "two control groups,\nthe second nice 10",
    "two groups, weight": "two control groups,\nweights 100 and 25",
}
_COLUMNS = ("arrangement", "second_percent", "second_lo_percent", "second_hi_percent", "by_nice_percent")
_COLUMN = 60  # points from the bars to the end of the column beside them


def frame(result: Drawable) -> pd.DataFrame:
    """What the figure shows, one row per arrangement: arrangement, second_percent, second_lo_percent,
    second_hi_percent and by_nice_percent, as in the summary.  Raises ResultError when nothing was measured.
    """
    return columns(result.summary(), _COLUMNS, "The summary of these pairs")


@draws(KIND)
def draw(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """A bar per arrangement: the second hog's share, with a tick where its nice value alone would put it."""
    marks = percents(predictions)
    table = frame(result)
    names = [str(name) for name in table["arrangement"]]
    tick: dict[str, Any] = {"color": style.colour(style.NEUTRAL), "linewidth": 2.4}
    with style.drawing():
        drawing = canvas(132 + 42 * len(table) + 20 * (len(marks) + (recorded is not None)))
        ax = drawing.add_subplot()
        for y, row in enumerate(each(table)):
            ax.barh(y, 100, height=0.6, color=style.colour(style.FLOOR))
            ax.barh(y, row.second_percent, height=0.6, color=style.colour(style.OWN))
            axes.across(ax, y, [row.second_lo_percent, row.second_hi_percent])
            for look in ({"color": style.colour(style.PAPER), "linewidth": 6}, tick):
                ax.plot([row.by_nice_percent] * 2, [y - 0.38, y + 0.38], zorder=3, **look)
            axes.beside(ax, y, f"{axes.number_text(row.second_percent, 2)} %", _COLUMN, "bold")
        if recorded is not None:
            for row in each(frame(recorded)):
                if row.arrangement in names:
                    ax.plot(row.second_percent, names.index(row.arrangement), "D", zorder=4, clip_on=False,
                            color=style.colour(style.RECORDED),
                            markeredgecolor=style.colour(style.PAPER))  # fmt: skip
        for _, value in marks:
            ax.axvline(value, **dashed())
        axes.rows(ax, [WORDS.get(name, name) for name in names])
        ax.set_xlim(0, 100)
        ax.xaxis.set_major_locator(FixedLocator([0, 25, 50, 75, 100]))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g} %"))
        ax.set_xlabel("of what the two had of their CPU")
        handles = [
            Patch(color=style.colour(style.OWN), label="what the second hog had"),
            Line2D([], [], label="what its nice value alone would say", **tick),
            *interval_in_legend(style.INK, table["second_hi_percent"]),
            *also_in_legend(recorded, (), marker="D", linestyle="none"),
            *(Line2D([], [], label=text, **dashed()) for text, _ in marks),
        ]
        drawing.legend(handles=handles, loc="outside upper left", ncols=1)
    return Figure(
        drawing,
        alt=_alt(table),
        caption=_caption(table),
        data=table,
        title="What a nice value is worth, by where the two stand",
    )


def _caption(table: pd.DataFrame) -> str:
    by = table.set_index("arrangement")["second_percent"]
    said = [
        f"{axes.number_text(by[name], 2)} % {words}"
        for name, words in (
            ("one session", "in the other's session"),
            ("two sessions", "in a session of its own"),
            ("two groups", "in a control group of its own"),
        )
        if name in by
    ]
    without = [
        f"{axes.number_text(by[name], 2)} % {words}"
        for name, words in (("two sessions, spread", "where its session runs on another CPU, too"),)
        if name in by
    ]
    if not said:
        each_had = [
            f"{axes.number_text(had, 2)} % ({WORDS.get(str(name), str(name)).replace(chr(10), ' ')})"
            for name, had in by.items()
        ]
        return f"The second of two hogs got {listed(each_had)} of what the two had."
    besides = f"; with the nice value of the first, {without[0]}" if without else ""
    return f"With nice 10 the second of two hogs got {', '.join(said)}{besides}."


def _alt(table: pd.DataFrame) -> str:
    parts = [
        "Horizontal bars: what the second of two hogs on one CPU had of what the two had; in brackets what "
        "its nice value alone would say."
    ]
    for row in each(table):
        words = WORDS.get(str(row.arrangement), str(row.arrangement)).replace("\n", " ")
        parts.append(
            f"{words}: {axes.number_text(row.second_percent, 2)} % "
            f"({axes.number_text(row.by_nice_percent, 2)} %)."
        )
    return " ".join(parts)
