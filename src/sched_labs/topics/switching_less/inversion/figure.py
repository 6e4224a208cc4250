"""Every wait for the lock: by who else wants the CPU, and by what the lock does about it."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.lines import Line2D

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
    times_ns,
)

KIND = "inversion.waits"
LOCKS = {"mutex": "ordinary mutex", "inherit": "inheritance", "raise": "raised by hand"}
HEADS = {
    "no hog": "Nobody else wants the CPU",
    "hog": "Others want the CPU, too",
    "nice": "The same, and the holder is nice",
    "ordinary": "The same, and the waiter has no priority",
}
_COLUMNS = ("situation", "lock", "p50_ns", "p90_ns", "p90_lo_ns", "p90_hi_ns", "max_ns")


def frame(result: Drawable) -> pd.DataFrame:
    """What the figure shows beside the single waits, one row per situation and lock: situation, lock, p50_ns,
    p90_ns, p90_lo_ns, p90_hi_ns and max_ns, as in the summary.  Raises ResultError when nothing was measured.
    """
    return columns(result.summary(), _COLUMNS, "The summary of these waits")


@draws(KIND)
def draw(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """A row per situation and lock: a dot for each wait, and a mark that one in ten reaches."""
    table = frame(result)
    waits = result.data.merge(table[["situation", "lock"]])
    pale = None if recorded is None else frame(recorded)
    marks = times_ns(predictions)
    ends = [waits.wait_ns, *([] if pale is None else [pale.p90_ns]), pd.Series([ns for _, ns in marks])]
    low, high = min(part.min() for part in ends if len(part)), max(part.max() for part in ends if len(part))
    places, heads = _places(table)
    look: dict[str, Any] = {"marker": "|", "markersize": 17, "markeredgewidth": 2.6, "linestyle": "none"}
    with style.drawing():
        drawing = canvas(132 + 25 * (len(places) + len(heads)) + 20 * (len(marks) + (recorded is not None)))
        ax = drawing.add_subplot()
        axes.log_time(ax, "x", low / 1.6, high * 1.6)
        for y, row in zip(places, each(table), strict=True):
            cell = waits[(waits.situation == row.situation) & (waits.lock == row.lock)]
            ax.plot(cell.wait_ns, [y] * len(cell), "o", color=style.colour(style.PREEMPTED), alpha=0.35,
                    markersize=6, markeredgewidth=0, zorder=2.5)  # fmt: skip
            ax.plot(row.p90_ns, y, color=style.colour(style.INK), zorder=3, **look)
            if pale is not None:
                same = pale[(pale.situation == row.situation) & (pale.lock == row.lock)]
                ax.plot(same.p90_ns, [y] * len(same), color=style.colour(style.RECORDED), zorder=2.2, **look)
            axes.right_of(ax, y, axes.time_text(row.p90_ns), 10)
        for y, situation in heads:
            axes.note(ax, HEADS.get(situation, situation), (0, y), (4, 0), weight="bold", va="center",
                      xycoords=("axes fraction", "data"))  # fmt: skip
        for _, ns in marks:
            ax.axvline(ns, **dashed())
        ax.set_ylim(places[-1] + 0.6, -0.6)
        ax.set_yticks(places, [LOCKS.get(str(lock), str(lock)) for lock in table.lock])
        ax.tick_params(axis="y", length=0)
        ax.grid(visible=False, axis="y")
        ax.set_xlabel("from asking for the lock to having it")
        handles = [
            Line2D([], [], label="a wait", marker="o", linestyle="none", alpha=0.35, markeredgewidth=0,
                   color=style.colour(style.PREEMPTED)),
            Line2D([], [], label="one in ten takes so long or longer", color=style.colour(style.INK), **look),
            *also_in_legend(recorded, (), **look),
            *(Line2D([], [], label=text, **dashed()) for text, _ in marks),
        ]  # fmt: skip
        drawing.legend(handles=handles, loc="outside upper left", ncols=1)
    return Figure(
        drawing,
        alt=_alt(table),
        caption=_caption(table),
        data=table,
        also=(waits,),
        title="How long a thread waits for a lock, by who else wants the CPU",
    )


def _places(table: pd.DataFrame) -> tuple[list[int], list[tuple[int, str]]]:
    """Where the rows stand, and above those of each situation its heading."""
    places, heads = list[int](), list[tuple[int, str]]()
    for situation in table.situation:
        if not heads or heads[-1][1] != situation:
            heads.append((len(places) + len(heads), str(situation)))
        places.append(len(places) + len(heads))
    return places, heads


def _caption(table: pd.DataFrame) -> str:
    last = "nice" if (table.situation == "nice").any() else str(table.situation.iloc[-1])
    said = ", ".join(
        f"{axes.time_text(row.p90_ns)} ({LOCKS.get(str(row.lock), str(row.lock))})"
        for row in each(table[table.situation == last])
    )
    who = "a real-time thread" if last == "nice" else "an ordinary thread"
    where = "Beside others that want the CPU, for a lock whose holder is nice"
    return f"{where}, one wait in ten of {who} takes at least: {said}."


def _alt(table: pd.DataFrame) -> str:
    parts = ["Dots on a logarithmic time axis, waits for a lock: half within, 90 % within, the longest."]
    for situation, rows in table.groupby("situation", sort=False):
        values = "; ".join(
            f"{LOCKS.get(str(row.lock), str(row.lock))} {axes.time_text(row.p50_ns)}, "
            f"{axes.time_text(row.p90_ns)}, {axes.time_text(row.max_ns)}"
            for row in each(rows)
        )
        parts.append(f"{HEADS.get(str(situation), str(situation))}. {values}.")
    return " ".join(parts)
