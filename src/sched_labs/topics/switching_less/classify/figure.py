"""Processes by their switches: voluntary across, involuntary upwards, and what leaders alone show."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
from matplotlib.lines import Line2D

from sched_labs.draw import axes, style
from sched_labs.draw.base import Drawable, Figure, Predictions, canvas, columns, draws, each
from sched_labs.draw.panels import check_predictions

KIND = "classify.processes"
LEAST = 0.5  # switches/s; fewer stand at the edge
NEAR = 0.08  # of an axis: what a letter needs for itself
_COLUMNS = (
    *("set", "process", "threads", "voluntary_per_s", "involuntary_per_s"),
    *("leader_voluntary_per_s", "leader_involuntary_per_s", "label"),
)


def frame(result: Drawable) -> pd.DataFrame:
    """What the figure shows, one row per process of the first set.

    - set, process: the letter that names it
    - threads: how many it has
    - voluntary_per_s, involuntary_per_s: switches of all of its threads
    - leader_voluntary_per_s, leader_involuntary_per_s: of its leader alone
    - label: what the classifier calls it; the figure does not say it

    Raises ResultError when nothing was measured.
    """
    table = columns(result.summary(), _COLUMNS, "The summary of these processes")
    return table[table["set"] == table["set"].min()].reset_index(drop=True)


@draws(KIND)
def draw(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """Draw the processes; a recorded set stands behind, without letters.  It has no axis for predictions."""
    check_predictions([], predictions)
    table = frame(result)
    rates = table[[name for name in table if str(name).endswith("_per_s")]].to_numpy()
    high = max(float(rates.max()) * 3, 1000.0)
    with style.drawing():
        drawing = canvas(430)
        ax = drawing.subplots()
        for which, label in (
            ("x", "voluntary switches per second"),
            ("y", "involuntary switches per second"),
        ):
            (ax.set_xscale if which == "x" else ax.set_yscale)("log")
            (ax.set_xlim if which == "x" else ax.set_ylim)(LEAST * 0.7, high)
            axes._label(ax, which, axes._round_values(LEAST, high), lambda v: axes.number_text(v, 2))
            (ax.set_xlabel if which == "x" else ax.set_ylabel)(label)
        ax.plot([LEAST, high], [LEAST, high], color=style.colour(style.GRID), zorder=1)
        if recorded is not None:
            for row in each(frame(recorded)):
                where = [max(v, LEAST) for v in (row.voluntary_per_s, row.involuntary_per_s)]
                ax.plot(*where, "o", color=style.colour(style.RECORDED), markersize=11, zorder=2)
        for row in each(table):
            x, y = max(row.voluntary_per_s, LEAST), max(row.involuntary_per_s, LEAST)
            if row.threads > 1:
                leader = [max(v, LEAST) for v in (row.leader_voluntary_per_s, row.leader_involuntary_per_s)]
                neutral = style.colour(style.NEUTRAL)
                ax.plot([leader[0], x], [leader[1], y], ":", color=neutral, linewidth=1.6, zorder=2.5)
                paper = style.colour(style.PAPER)
                ax.plot(*leader, "o", color=neutral, markerfacecolor=paper, markersize=9, zorder=3)
            ax.plot(x, y, "o", color=style.colour(style.DIRECT), markersize=16, zorder=4)
        for letters, x, y in _places(table, high):
            alone = len(letters) == 1
            ax.annotate(
                " ".join(letters),
                (x, y),
                (0, 0) if alone else (11, 0),
                textcoords="offset points",
                ha="center" if alone else "left",
                va="center",
                color=style.colour(style.PAPER if alone else style.INK),
                zorder=5,
            )
        handles = [
            _sample("a process, all of its threads", style.DIRECT),
            _sample("its leader alone", style.NEUTRAL, hollow=True),
        ]
        if recorded is not None:
            handles.append(_sample("recorded", style.RECORDED))
        drawing.legend(handles=handles, loc="outside upper left", ncols=3)
    return Figure(
        drawing,
        alt=_alt(table),
        caption=_caption(table),
        data=table,
        title="Processes by their voluntary and involuntary switches",
    )


def _places(table: pd.DataFrame, high: float) -> list[tuple[list[str], float, float]]:
    """Where letters stand: in the middle of a process; those that would cover each other side by side."""
    near = math.log(high / LEAST) * NEAR
    places: list[tuple[list[str], float, float]] = []
    for row in each(table):
        x, y = max(row.voluntary_per_s, LEAST), max(row.involuntary_per_s, LEAST)
        for letters, there_x, there_y in places:
            if abs(math.log(x / there_x)) < near and abs(math.log(y / there_y)) < near:
                letters.append(str(row.process))
                break
        else:
            places.append(([str(row.process)], x, y))
    return places


def _sample(label: str, role: str, *, hollow: bool = False) -> Line2D:
    colour = style.colour(role)
    face = style.colour(style.PAPER) if hollow else colour
    return Line2D(
        [], [], linestyle="none", marker="o", markersize=10, color=colour, markerfacecolor=face, label=label
    )


def _alt(table: pd.DataFrame) -> str:
    said = [
        f"{row.process} {_rate(row.voluntary_per_s)} and {_rate(row.involuntary_per_s)}{_leader(row)}"
        for row in each(table)
    ]
    return f"Scatter plot, both axes logarithmic: voluntary and involuntary switches/s. {'; '.join(said)}."


def _leader(row: Any) -> str:
    if row.threads == 1:
        return ""
    voluntary, involuntary = _rate(row.leader_voluntary_per_s), _rate(row.leader_involuntary_per_s)
    return f", its leader alone {voluntary} and {involuntary}"


def _rate(value: float) -> str:
    return axes.number_text(value, 2)


def _caption(table: pd.DataFrame) -> str:
    leaders = table["leader_voluntary_per_s"] + table["leader_involuntary_per_s"]
    everything = table["voluntary_per_s"] + table["involuntary_per_s"]
    hidden = table[(leaders < 0.05 * everything) & (everything > 10)]
    if hidden.empty:
        return (
            f"{len(table)} processes of one program; each leader alone already shows how its process lives."
        )
    names = " and ".join(str(name) for name in hidden["process"])
    return (
        f"Of {len(table)} processes of one program, {names} can only be seen with a view of threads: the "
        f"leader of {hidden['process'].iloc[0]} makes {_rate(leaders[hidden.index[0]])} switches a second, "
        f"all of its threads together {_rate(everything[hidden.index[0]])}."
    )
