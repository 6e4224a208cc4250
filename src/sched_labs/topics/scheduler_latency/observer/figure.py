"""What watching costs: how much longer a switch takes under each observer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.ticker import FuncFormatter, MaxNLocator

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

KIND = "observer.cost"
_COLUMNS = ("observer", "ns_per_switch", "added_ns", "added_lo_ns", "added_hi_ns", "ratio")
_NAMES = {
    "ours": "our probe",
    "ours_attributed": "our probe\nwith attribution",
    "runqlat": "runqlat\n(libbpf-tools)",
    "runqlat-bpfcc": "runqlat (bcc)",
    "perf": "perf sched record",
}
_COLOURS = {"ours": style.DIRECT, "ours_attributed": style.DIRECT}


def frame(result: Drawable) -> pd.DataFrame:
    """What the figure shows, one row per observer, the cheapest first.

    - observer: ours, ours_attributed, runqlat, runqlat-bpfcc, perf
    - added_ns, added_lo_ns, added_hi_ns: what it adds to a switch, with the 95 % interval
    - ns_per_switch: a switch under it
    - ratio: that by a switch without an observer

    Raises ResultError when the run had no observer.
    """
    table = columns(result.summary(), _COLUMNS, "This comparison of observers")
    table = columns(table[table["observer"] != "none"], _COLUMNS, "This run without an observer")
    return table.sort_values("added_ns", ignore_index=True)


@draws(KIND, short_times=True)
def draw(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """Draw what each observer adds to a switch, with its interval."""
    table = frame(result)
    summary = result.summary()
    free = float(summary.loc[summary["observer"] == "none", "ns_per_switch"].iloc[0])
    with style.drawing():
        drawing = canvas(146 + 52 * len(table) + 26 * (bool(predictions) + (recorded is not None)))
        ax = drawing.add_subplot()
        places = np.arange(len(table))[::-1]
        handles: list[Any] = interval_in_legend(style.INK, table["added_hi_ns"])
        for place, row in zip(places, each(table), strict=True):
            colour = style.colour(_COLOURS.get(row.observer, style.NEUTRAL))
            ax.barh(place, row.added_ns, height=0.5, color=colour, alpha=0.85, zorder=2)
            ax.hlines(place, row.added_lo_ns, row.added_hi_ns, color=style.colour(style.INK), zorder=3)
        if recorded is not None:
            pale = frame(recorded).set_index("observer")["added_ns"]
            known = [
                (p, pale[row.observer])
                for p, row in zip(places, each(table), strict=True)
                if row.observer in pale
            ]
            handles += ax.plot(
                [ns for _, ns in known],
                [p for p, _ in known],
                linestyle="none",
                marker="D",
                color=style.colour(style.RECORDED),
                markeredgecolor=style.colour(style.PAPER),
                label=recorded_name(recorded),
                zorder=4,
            )
        handles += [ax.axvline(ns, label=label, **dashed()) for label, ns in times_ns(predictions)]
        ax.set_yticks(places, [_NAMES.get(row.observer, row.observer) for row in each(table)])
        ax.set_xlim(min(0.0, float(table["added_lo_ns"].min())), None)
        ax.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: axes.time_text(value)))
        ax.axvline(0, color=style.colour(style.NEUTRAL), linewidth=1.0)
        ax.grid(visible=False, axis="y")
        ax.set_xlabel(f"added to a switch of {axes.time_text(free)}")
        drawing.legend(handles=handles, loc="outside upper left")
    return Figure(
        drawing, alt=_alt(table), caption=_caption(table, free), data=table, title="What watching costs"
    )


def name_of(observer: str) -> str:
    """An observer in words."""
    return _NAMES.get(observer, observer).replace("\n", " ")


def _adds(row: pd.Series) -> str:
    clear = row["added_lo_ns"] > 0
    return axes.time_text(row["added_ns"], 2) if clear else "nothing that stands clear of the noise"


def _caption(table: pd.DataFrame, free: float) -> str:
    first, last = table.iloc[0], table.iloc[-1]
    text = f"To a switch of {axes.time_text(free)}, {name_of(first['observer'])} adds {_adds(first)}"
    if len(table) > 1:
        text += f", {name_of(last['observer'])} {_adds(last)}"
    return text + "."


def _alt(table: pd.DataFrame) -> str:
    told = "; ".join(
        f"{name_of(row.observer)} {axes.time_text(row.added_ns)} (interval "
        f"{axes.time_text(row.added_lo_ns)} to {axes.time_text(row.added_hi_ns)})"
        for row in each(table)
    )
    return f"Horizontal bars: what each observer adds to a switch. {told}."
