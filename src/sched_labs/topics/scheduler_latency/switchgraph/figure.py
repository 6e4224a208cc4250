"""Who takes the CPU after whom: threads as nodes, switches as arrows, why the first one left as colour."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch

from sched_labs.draw import axes, style
from sched_labs.draw.base import (
    Drawable,
    Figure,
    Predictions,
    also_drawn,
    canvas,
    columns,
    draws,
    each,
    in_the_recorded_run,
    provenance,
)
from sched_labs.draw.panels import check_predictions

KIND = "switchgraph.window"
_COLUMNS = ("prev", "next", "state", "switches")
_MOST_ARROWS = 16
_LOOKS = {
    "interruptible": ("to sleep", style.NEUTRAL, 0.18),
    "runnable": ("although it could go on", style.PREEMPTED, 0.4),
    "uninterruptible": ("to an uninterruptible sleep", style.SYSTEM, 0.3),
    "other": ("and ended", style.INK, 0.5),
}


def frame(result: Drawable) -> pd.DataFrame:
    """What the figure shows, one row per arrow, most switches first; the rarest arrows are left out.

    - prev, next: the thread that left the CPU, and the one that came
    - state: what prev was about to do: runnable, interruptible, uninterruptible, other
    - switches: how often
    - share_percent: the same as a part of all switches of the window, those left out included

    Raises ResultError when the window saw no switch.
    """
    return _counted(result).head(_MOST_ARROWS)


def _counted(result: Drawable) -> pd.DataFrame:
    """The same of all switches, drawn or not."""
    table = columns(result.data, _COLUMNS, "This window of switches")
    table["share_percent"] = 100 * table["switches"] / table["switches"].sum()
    return table.sort_values("switches", ascending=False, ignore_index=True)


@draws(KIND)
def draw(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """Draw the graph.  A recorded one has threads of its own: it is told in words, not drawn."""
    check_predictions([], predictions)
    table = frame(result)
    names = _order(pd.unique(pd.concat([table["prev"], table["next"]])))
    with style.drawing():
        drawing = canvas(520)
        ax = drawing.add_subplot()
        places = _places(names)
        _arrows(ax, table, places)
        for name, (x, y) in places.items():
            ax.text(
                *(x, y, name.replace(" ", "\n")),
                ha="center",
                va="center",
                fontsize=style.SMALL,
                weight="bold",
                bbox={
                    "boxstyle": "round,pad=0.45",
                    "facecolor": style.colour(style.FLOOR),
                    "edgecolor": style.colour(style.NEUTRAL),
                },
                zorder=4,
            )
        ax.set_xlim(-1.45, 1.45)
        ax.set_ylim(-1.3, 1.3)
        ax.set_axis_off()
        shown = [state for state in _LOOKS if (table["state"] == state).any()]
        handles = [
            Line2D([], [], color=style.colour(_LOOKS[state][1]), linewidth=3, label=_LOOKS[state][0])
            for state in shown
        ]
        drawing.legend(
            handles=handles,
            loc="outside upper left",
            ncols=2,
            title="A thread left the CPU …",
            alignment="left",
        )
    caption = _caption(_counted(result))
    said = "" if recorded is None else _caption(_counted(recorded))
    return Figure(
        drawing,
        KIND,
        alt=_alt(table) + also_drawn(None, predictions),
        caption=caption + in_the_recorded_run(said, caption),
        provenance=provenance(result, recorded, drawn=False),
        data=table,
        title="Who takes the CPU after whom",
    )


def _order(names: Sequence[str]) -> list[str]:
    known = ["ping", "pong"]
    strangers = ["other programs", "kernel threads", "idle"]
    middle = sorted(name for name in names if name not in (*known, *strangers))
    return [name for name in (*known, *middle, *strangers) if name in set(names)]


def _places(names: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Round a circle, the first at the upper left."""
    turns = [2.2 - 2 * math.pi * at / max(2, len(names)) for at in range(len(names))]
    return {name: (1.05 * math.cos(t), math.sin(t)) for name, t in zip(names, turns, strict=True)}


def _arrows(ax: Axes, table: pd.DataFrame, places: dict[str, tuple[float, float]]) -> None:
    most = float(table["switches"].max())
    for row in each(table[::-1]):  # the strongest on top
        _, colour, bend = _LOOKS[row.state]
        strength = math.log1p(row.switches) / math.log1p(most)
        arrow: Any = FancyArrowPatch(
            places[row.prev],
            places[row.next],
            connectionstyle=f"arc3,rad={bend}",
            arrowstyle="-|>",
            mutation_scale=10 + 8 * strength,
            linewidth=0.8 + 4.2 * strength**2,
            color=style.colour(colour),
            alpha=0.35 + 0.65 * strength,
            shrinkA=26,
            shrinkB=28,
            zorder=2 + strength,
        )
        ax.add_patch(arrow)


_WHY = {
    "interruptible": "because it went to sleep",
    "runnable": "although it could have gone on",
    "uninterruptible": "because it went to an uninterruptible sleep",
    "other": "because it ended",
}


def _caption(table: pd.DataFrame) -> str:
    first = table.iloc[0]
    hogs = table[table["prev"].str.startswith("hog")]
    text = (
        f"The most frequent of the switches ({axes.number_text(first['share_percent'], 2)} %) was from "
        f"{first['prev']} to {first['next']}, {_WHY[first['state']]}"
    )
    if not hogs.empty:
        share = hogs.loc[hogs["state"] == "runnable", "switches"].sum() / hogs["switches"].sum()
        text += f"; the hogs were taken off the CPU in {100 * share:.0f} % of theirs"
    return f"{text}."


def _alt(table: pd.DataFrame) -> str:
    parts = ["A graph with threads as nodes and switches as arrows."]
    for state, rows in table.groupby("state", sort=False):
        told = ", ".join(
            f"{row.prev} to {row.next}: {row.switches:,} time{'' if row.switches == 1 else 's'}"
            for row in each(rows)
        )
        parts.append(f"{_WHY[str(state)].capitalize()}, {told}.")
    return " ".join(parts)
