"""What watching costs, by how often threads switch: one line for each observer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

from sched_labs.draw import axes, style
from sched_labs.draw.base import (
    Drawable,
    Figure,
    Predictions,
    canvas,
    columns,
    draws,
    each,
    interval_in_legend,
    recorded_name,
)

from .figure import name_of

KIND = "observer.rates"
_COLUMNS = (
    "observer", "burst_us", "switches_per_s", "added_ns", "slower_percent", "slower_lo_percent",
    "slower_hi_percent",
)  # fmt: skip
_LOOKS = {
    "ours": (style.DIRECT, "o"),
    "ours_attributed": (style.DIRECT, "D"),
    "runqlat": (style.NEUTRAL, "s"),
    "runqlat-bpfcc": (style.NEUTRAL, "^"),
    "perf": (style.NEUTRAL, "v"),
}


def frame(result: Drawable) -> pd.DataFrame:
    """What the figure shows, one row per observer and rate, the fewest switches first.

    - observer: ours, ours_attributed, runqlat, runqlat-bpfcc, perf
    - burst_us: what a thread computes between two switches
    - switches_per_s: how often the threads took turns when nobody watched
    - added_ns: what the observer adds to a burst and a switch
    - slower_percent, slower_lo_percent, slower_hi_percent: the same as a part of the time without an observer

    Raises ResultError when the run had no observer.
    """
    table = columns(result.summary(), _COLUMNS, "This comparison of observers at given rates")
    table = columns(table[table["observer"] != "none"], _COLUMNS, "This run without an observer")
    return table[list(_COLUMNS)].sort_values("switches_per_s", kind="stable", ignore_index=True)


@draws(KIND)
def draw(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """Draw by how much each observer slows two threads down, against how often they switch."""
    table = frame(result)
    pale = None if recorded is None else frame(recorded)
    names = [name for name in _LOOKS if (table["observer"] == name).any()]
    with style.drawing():
        drawing = canvas(330 + 26 * (len(names) + (pale is not None)))
        ax = drawing.add_subplot()
        for name in names:
            colour, marker = _LOOKS[name]
            rows = table[table["observer"] == name]
            ax.plot(
                rows["switches_per_s"], rows["slower_percent"], color=style.colour(colour), marker=marker,
                label=name_of(name), zorder=3,
            )  # fmt: skip
            known = rows[np.isfinite(rows["slower_lo_percent"]) & np.isfinite(rows["slower_hi_percent"])]
            ax.vlines(
                known["switches_per_s"], known["slower_lo_percent"], known["slower_hi_percent"],
                color=style.colour(colour), linewidth=1.6, zorder=2.8,
            )  # fmt: skip
            if pale is not None and recorded is not None:
                of = pale[pale["observer"] == name]
                label = recorded_name(recorded) if name == names[0] else None
                ax.plot(of["switches_per_s"], of["slower_percent"], color=style.colour(style.RECORDED),
                        label=label, zorder=2)  # fmt: skip
        ax.axhline(0, color=style.colour(style.NEUTRAL), linewidth=1.0)
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        ax.xaxis.set_minor_locator(NullLocator())
        ax.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
        ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{axes.number_text(value)} %"))
        ax.set_xlabel("switches a second, when nobody watches")
        ax.set_ylabel("slower by")
        handles = [
            *ax.get_legend_handles_labels()[0],
            *interval_in_legend(style.INK, table["slower_hi_percent"], upright=True),
        ]
        drawing.legend(handles=handles, loc="outside upper left", ncols=1)
    return Figure(
        drawing,
        alt=_alt(table),
        caption=_caption(table),
        data=table,
        title="What watching costs, by how often threads switch",
    )


def _percent(value: float) -> str:
    return f"{axes.number_text(value, 2)} %"


def _slower(row: pd.Series) -> str:
    return f"by {_percent(row['slower_percent'])}" if row["slower_lo_percent"] > 0 else "not measurably"


def _unseen(row: Any) -> str:
    if row.slower_hi_percent < 0:
        return " (not slower)"
    if row.slower_lo_percent > 0:
        return ""
    ends = " to ".join(axes.number_text(end, 3) for end in (row.slower_lo_percent, row.slower_hi_percent))
    return f" (no difference seen, interval {ends} %)"


def _caption(table: pd.DataFrame) -> str:
    ends = [axes.count_text(table["switches_per_s"].iloc[at]) for at in (0, -1)]
    one = ends[0] == ends[1]
    parts: list[str] = []
    for name in [name for name in _LOOKS if (table["observer"] == name).any()]:
        rows = table[table["observer"] == name].sort_values("switches_per_s")
        few, many = (_slower(rows.iloc[at]) for at in (0, -1))
        told = few if one else f"{few} and {many}" if few != many else f"{few} at either rate"
        slows = "" if parts else " slows the threads down"
        parts.append(f"{name_of(name)}{slows} {told}")
    rates = ends[0] if one else f"{ends[0]} and at {ends[1]}"
    return f"At {rates} switches a second, {'; '.join(parts)}."


def _alt(table: pd.DataFrame) -> str:
    parts = ["Line plot: by how much observers slow two threads down, against their switches a second."]
    for name in [name for name in _LOOKS if (table["observer"] == name).any()]:
        told = ", ".join(
            f"{_percent(row.slower_percent)} at {axes.count_text(row.switches_per_s)}{_unseen(row)}"
            for row in each(table[table["observer"] == name])
        )
        parts.append(f"{name_of(name)}: {told}.")
    return " ".join(parts)
