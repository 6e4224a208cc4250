"""One stall, seen by a client that waits for its answers and by one that keeps to its schedule."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.lines import Line2D
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
    listed,
    times_ns,
)

KIND = "omission.compared"
_COLOURS = {"open": style.WAKEUP, "closed": style.ALONE}
_WORDS = {"open": "keeps to its schedule (open loop)", "closed": "waits for each answer (closed loop)"}
_TICKS = (0.5, 0.9, 0.99, 0.999, 0.9999)


def frame(result: Drawable) -> pd.DataFrame:
    """What the figure shows, one row per client and request, shortest first.

    - client: "closed" or "open"
    - took_ns: how long the request took
    - rank_percent: the part of the client's requests that did not take longer

    Raises ResultError when nothing was measured.
    """
    data = columns(result.data, ("client", "took_ns"), "This run of requests")
    data = data.sort_values(["client", "took_ns"], ignore_index=True)
    number = data.groupby("client").cumcount() + 1
    return data.assign(rank_percent=100 * number / data.groupby("client")["took_ns"].transform("size"))


@draws(KIND)
def draw(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """Time against the rank of the request, the axis stretched towards the last ones."""
    table = frame(result)
    summary = result.summary()
    pale = None if recorded is None else frame(recorded)
    marks = times_ns(predictions)
    parts = [part for part in (table, pale) if part is not None]
    low = min([*(part["took_ns"].min() for part in parts), *(ns for _, ns in marks)]) / 1.4
    high = max([*(part["took_ns"].max() for part in parts), *(ns for _, ns in marks)]) * 1.6
    with style.drawing():
        drawing = canvas(370)
        ax = drawing.add_subplot()
        axes.log_time(ax, "y", low, high)
        if pale is not None:
            for _, rows in pale.groupby("client"):
                ax.plot(_tail(rows), rows["took_ns"], color=style.colour(style.RECORDED), zorder=1.8)
        handles = []
        for client, role in _COLOURS.items():
            rows = table[table["client"] == client]
            if rows.empty:  # interrupted before its turn
                continue
            look: dict[str, Any] = {"color": style.colour(role)}
            ax.plot(_tail(rows), rows["took_ns"], **look)
            handles.append(Line2D([], [], label=f"a client that {_WORDS[client]}", **look))
        handles += also_in_legend(recorded, ())
        for text, ns in marks:
            handles.append(ax.axhline(ns, label=text, **dashed()))
        most = table.groupby("client").size().max()
        shown = [q for q in _TICKS if q <= 1 - 1 / most]
        ax.set_xscale("log")
        ax.set_xlim(2, 2 * most)
        ax.xaxis.set_major_locator(FixedLocator([1 / (1 - q) for q in shown]))
        ax.xaxis.set_minor_locator(NullLocator())
        ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{100 * (1 - 1 / x):.4g} %"))
        ax.set_xlabel("part of the requests that took no longer")
        ax.set_ylabel("time of a request")
        drawing.legend(handles=handles, loc="outside upper left", ncols=1)
    return Figure(
        drawing,
        alt=_alt(summary),
        caption=_caption(summary),
        data=table,
        title="One stall, seen by two clients",
    )


def _tail(rows: pd.DataFrame) -> np.ndarray:
    """1 / (part that took longer): 99 % is at 100.  The last request stands at twice their number."""
    number = np.arange(1, len(rows) + 1)
    return len(rows) / (len(rows) - number + 0.5)


def _caption(summary: pd.DataFrame) -> str:
    who = {"closed": "the client that waits", "open": "the one that keeps to its schedule"}
    parts = [f"{axes.time_text(row.p99_ns)} by {who[row.client]}" for row in each(summary)]
    return (
        f"The same stall of {axes.time_text(summary['stall_ns'].median())}: 99 % of the requests took at "
        f"most {listed(parts)}."
    )


def _alt(summary: pd.DataFrame) -> str:
    parts = ["Two curves on a logarithmic time axis: time of a request against its rank."]
    parts += [
        f"Client {row.client}: half within {axes.time_text(row.p50_ns)}, 99 % within "
        f"{axes.time_text(row.p99_ns)}, all within {axes.time_text(row.max_ns)}."
        for row in each(summary)
    ]
    return " ".join(parts)
