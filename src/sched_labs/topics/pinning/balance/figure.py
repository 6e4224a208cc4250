"""Which hog had which CPU after all were let go, and how long the crowd stayed together, by what differed."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

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
    times_ns,
)

from .experiment import LONG, NAMES, SHORT

KIND = "balance.spread"
_COLUMNS = (
    *("situation", "hogs", "cpus", "first_ns", "first_lo_ns", "first_hi_ns"),
    *("spread_ns", "spread_lo_ns", "spread_hi_ns", "stayed_percent", "crowded_percent"),
)
_BEFORE_NS = 20e6  # of the crowd, to see that it is one
_STAY, _LEAVE = style.OWN, style.WARMUP  # who computes elsewhere finds its caches cold there


def frame(result: Drawable) -> pd.DataFrame:
    """What the figure shows beside the lanes, one row per situation: situation, hogs, cpus, first_ns,
    first_lo_ns, first_hi_ns, spread_ns, spread_lo_ns, spread_hi_ns, stayed_percent and crowded_percent, as in
    the summary.  Raises ResultError when nothing was measured.
    """
    return columns(result.summary(), _COLUMNS, "The summary of this crowd")


def lanes(result: Drawable) -> pd.DataFrame:
    """The stretches that are drawn: trial, hog, cpu, from_ns, to_ns, of the trial in the middle by the time
    until the first hog left; none where the situation "short" was not measured.
    """
    trials = result.tables["trials"]
    short = trials[trials.situation == SHORT].sort_values("first_ns")
    kept = result.tables.get("stretches", pd.DataFrame())
    if short.empty or kept.empty:
        return pd.DataFrame(columns=["trial", "hog", "cpu", "from_ns", "to_ns"])
    middle = short.trial.iloc[(len(short) - 1) // 2]
    drawn = kept[(kept.situation == SHORT) & (kept.trial == middle) & (kept.to_ns > -_BEFORE_NS)]
    return drawn[["trial", "hog", "cpu", "from_ns", "to_ns"]].reset_index(drop=True)


@draws(KIND)
def draw(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """Above, a lane for each hog of one start; below, a row per situation with the times of all."""
    table, drawn = frame(result), lanes(result)
    pale = None if recorded is None else frame(recorded)
    marks = times_ns(predictions)
    hogs = drawn.hog.nunique()
    entries = 2 * (hogs > 0) + 3 + len(marks) + (recorded is not None)
    with style.drawing():
        drawing = canvas(76 + (64 + 15 * hogs) * (hogs > 0) + 27 * len(table) + 20 * entries)
        drawing.set_layout_engine(axes.Layout(h_pad=7 / 72))
        ratios = [64 + 15 * hogs, 40 + 27 * len(table)] if hogs else [1]
        *top, below = drawing.subplots(len(ratios), 1, squeeze=False, height_ratios=ratios)[:, 0]
        handles: list[Artist] = _lanes(top[0], drawn, result.parameters["home_cpu"]) if hogs else []
        handles += _times(below, table, pale, marks)
        handles += also_in_legend(recorded, (), linestyle="none", marker="o", markersize=9)
        handles += [Line2D([], [], label=text, **dashed()) for text, _ in marks]
        drawing.legend(handles=handles, loc="outside upper left", ncols=1)
        axes.thin(below)
    return Figure(
        drawing,
        alt=_alt(table, drawn),
        caption=_caption(table) + _held_longer(table, result.parameters["hold_ms"]),
        data=table,
        also=(drawn,),
        title="How long crowded threads stay together after they are let go",
    )


def _lanes(ax: Axes, drawn: pd.DataFrame, home: int) -> list[Artist]:
    for stretch in each(drawn):
        role = _STAY if stretch.cpu == home else _LEAVE
        begin = max(stretch.from_ns, -_BEFORE_NS)
        ax.barh(stretch.hog, stretch.to_ns - begin, left=begin, height=0.72, color=style.colour(role),
                linewidth=0)  # fmt: skip
    ax.axvline(0, color=style.colour(style.INK), linewidth=1.2)
    axes.rows(ax, [f"hog {number + 1}" for number in range(drawn.hog.max() + 1)])
    ax.set_xlim(-_BEFORE_NS, drawn.to_ns.max())
    ax.xaxis.set_major_locator(MaxNLocator(6))
    ax.xaxis.set_major_formatter(lambda value, _: axes.time_text(value) if value else "let go")
    ax.set_title("One start: who computes where", loc="left", x=0.0)
    return [
        Patch(color=style.colour(_STAY), label="computes on the CPU where all were held"),
        Patch(color=style.colour(_LEAVE), label="computes on another CPU"),
    ]


def _times(
    ax: Axes, table: pd.DataFrame, pale: pd.DataFrame | None, marks: list[tuple[str, float]]
) -> list[Artist]:
    shown = [table, *([] if pale is None else [pale])]
    values = [ns for part in shown for name in ("first_ns", "spread_ns") for ns in part[name]]
    values += [ns for _, ns in marks]
    axes.log_time(ax, "x", min(values) / 2, max(values) * 1.4)
    left, right = ax.get_xlim()
    axes.rows(ax, [NAMES.get(name, name) for name in table.situation])
    looks = (
        ("first", _LEAVE, "o", "the first computes on another CPU"),
        ("spread", style.INK, "D", "all are spread"),
    )
    for y, row in enumerate(each(table)):
        before = None if pale is None else pale[pale.situation == row.situation]
        if before is not None and not before.empty:
            ax.plot(before.first_ns.iloc[0], y - 0.16, "o", color=style.colour(style.RECORDED), markersize=9)
        for (stem, role, marker, _), up, never in zip(
            looks, (-0.16, 0.16), (row.stayed_percent, row.crowded_percent), strict=True
        ):
            ends = [min(max(getattr(row, f"{stem}_{end}_ns"), left), right) for end in ("lo", "hi")]
            ax.plot(ends, [y + up] * 2, color=style.colour(role), linewidth=1.8)
            # Hollow where half of the starts were over before it happened: it took longer than that.
            face = style.colour(style.PAPER if never >= 50 else role)
            ax.plot(getattr(row, f"{stem}_ns"), y + up, marker, color=style.colour(role),
                    markerfacecolor=face, markersize=7, zorder=3)  # fmt: skip
        axes.right_of(ax, y, _first_text(row), 10)
    for _, ns in marks:
        ax.axvline(ns, **dashed())
    ax.set_xlabel("after they were let go")
    ax.set_title("All starts (number: the first)", loc="left", x=0.0)
    return [
        *(
            Line2D([], [], label=label, color=style.colour(role), marker=marker, linestyle="none")
            for _, role, marker, label in looks
        ),
        *interval_in_legend(style.INK, table[["first_hi_ns", "spread_hi_ns"]]),
    ]


def _first_text(row: Any) -> str:
    more = "over " if row.stayed_percent >= 50 else ""
    return f"{more}{axes.time_text(row.first_ns, 2)}"


def _caption(table: pd.DataFrame) -> str:
    first = table.iloc[0]
    who = f"{first.hogs:.0f} hogs on one CPU, {NAMES.get(first.situation, first.situation)}"
    began, ended = axes.time_text(first.first_ns, 2), axes.time_text(first.spread_ns, 2)
    if first.stayed_percent >= 50:
        return f"{who}: in at least half of the starts none computed on another CPU within {began}."
    spread = (
        f"after {ended} they are spread"
        if first.crowded_percent < 50
        else f"in at least half of the starts they are not spread within {ended}"
    )
    return f"{who}: the first computes on another CPU {began} after they were let go, and {spread}."


def _held_longer(table: pd.DataFrame, hold_ms: int) -> str:
    """The only row whose crowd is held as long as the parameter says, unless it is the first row."""
    return "".join(
        f" Held for {hold_ms} ms instead: {_first_text(row)} until the first does."
        for row in each(table.iloc[1:])
        if row.situation == LONG
    )


def _alt(table: pd.DataFrame, drawn: pd.DataFrame) -> str:
    parts = []
    if len(drawn):
        parts.append(
            f"A lane for each of {drawn.hog.nunique()} hogs over time, by the CPU on which it computes."
        )
    parts.append(
        "Dots on a logarithmic time axis, until the first hog computes elsewhere and until all are spread."
    )
    for row in each(table):
        spread = ("more than " if row.crowded_percent >= 50 else "") + axes.time_text(row.spread_ns, 2)
        parts.append(f"{NAMES.get(row.situation, row.situation)}: {_first_text(row)} and {spread}.")
    return " ".join(parts)
