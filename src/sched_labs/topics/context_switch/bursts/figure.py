"""What a switch costs when switches come in bursts, and when they are evenly spaced."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

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

KIND = "bursts.spacing"
_COLUMNS = (
    "burst", "stint_lines", "rounds", "spacing_ns", "extra_ns", "extra_lo_ns", "extra_hi_ns", "floor_ns",
    "seen",
)  # fmt: skip


def frame(result: Drawable) -> pd.DataFrame:
    """What the figure shows, one row per pattern: evenly spaced ones by spacing, then the bursts by length.

    - burst: how many hand-overs follow each other at once; 1 is evenly spaced
    - stint_lines, rounds: what the victim walks for each hand-over, in lines and in rounds of its set
    - spacing_ns: how long that takes it alone
    - extra_ns, extra_lo_ns, extra_hi_ns: what its walks take longer for each hand-over, median, 95 % interval
    - floor_ns: the noise floor, alone against alone
    - seen: whether all of the extra's interval lies beyond the floor

    Raises ResultError when nothing was measured.
    """
    table = columns(result.summary(), _COLUMNS, "The summary of this run of bursts")
    return table.sort_values(["burst", "spacing_ns"], ignore_index=True)


def _bursts(table: pd.DataFrame) -> pd.DataFrame:
    """The patterns in which the victim walks its whole set for each hand-over: only their order differs."""
    return table[np.isclose(table["rounds"], 1.0)]


def _even(table: pd.DataFrame) -> pd.DataFrame:
    return table[table["burst"] == 1]


@draws(KIND, short_times=True)
def draw(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """Draw the cost of a switch over the length of bursts, and over the time between even switches."""
    table = frame(result)
    pale = None if recorded is None else frame(recorded)
    with style.drawing():
        drawing = canvas(470)
        top, bottom = drawing.subplots(2, 1)
        low, high = _limits(table, pale, predictions)
        for ax in (top, bottom):
            axes.log_time(ax, "y", low, high)
        bursts = _bursts(table)
        _bunched(top, bursts if pale is None else pd.concat([bursts, _bursts(pale)]))
        spacing = [*_even(table)["spacing_ns"], *([] if pale is None else _even(pale)["spacing_ns"])]
        if spacing:
            axes.log_time(bottom, "x", min(spacing) / 1.5, max(spacing) * 1.5)
        handles: list[Any] = []
        if pale is not None and recorded is not None:
            handles += _curve(top, _bursts(pale), "burst", style.RECORDED)
            _curve(bottom, _even(pale), "spacing_ns", style.RECORDED)
            handles[0].set_label(recorded_name(recorded))
        handles += _curve(top, bursts, "burst", style.WARMUP)
        _curve(bottom, _even(table), "spacing_ns", style.WARMUP)
        drawn = table[table["extra_ns"] > top.get_ylim()[0]]
        handles[-1].set_label("this run" if drawn["seen"].all() else "this run (hollow: no difference seen)")
        handles += interval_in_legend(style.WARMUP, table["extra_hi_ns"], upright=True)
        for label, ns in times_ns(predictions):
            handles.append(top.axhline(ns, label=label, **dashed()))
            bottom.axhline(ns, **dashed())
        top.set_title("as many walks, but bunched")
        bottom.set_title("evenly spaced, closer or wider")
        top.set_xlabel("hand-overs in one burst")
        bottom.set_xlabel("the thread's own work between two hand-overs")
        drawing.supylabel("warm-up for each switch", fontsize=style.TEXT)
        drawing.legend(handles=handles, loc="outside upper left", ncols=2)
    return Figure(
        drawing,
        alt=_alt(table),
        caption=_caption(table),
        data=table,
        title="Warm-up for each switch, in bursts and evenly spaced",
    )


def _limits(table: pd.DataFrame, pale: pd.DataFrame | None, predictions: Predictions) -> tuple[float, float]:
    shown = table if pale is None else pd.concat([table, pale])
    values = [*shown["extra_ns"], *shown["extra_hi_ns"], *(ns for _, ns in times_ns(predictions))]
    known = [float(value) for value in values if np.isfinite(value) and value > 0] or [100.0, 10_000.0]
    return max(min(known), max(known) / 1e5) / 2, max(known) * 1.5


def _bunched(ax: Axes, bursts: pd.DataFrame) -> None:
    lengths = sorted(set(bursts["burst"])) or [1]
    ax.set_xscale("log")
    ax.set_xlim(lengths[0] / 1.5, lengths[-1] * 1.5)
    ax.xaxis.set_major_locator(FixedLocator([float(length) for length in lengths]))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def _curve(ax: Axes, rows: pd.DataFrame, x: str, name: str) -> list[Any]:
    colour, paper, low = style.colour(name), style.colour(style.PAPER), ax.get_ylim()[0]
    own = name == style.WARMUP
    drawn = rows[rows["extra_ns"] > low]
    handles = ax.plot(
        drawn[x], drawn["extra_ns"], color=colour, linewidth=2.4 if own else 1.5, zorder=3 if own else 2,
        marker="o" if own else None,
    )  # fmt: skip
    if not own:
        return handles
    for row in each(drawn):
        at = getattr(row, x)
        if np.isfinite(row.extra_lo_ns) and np.isfinite(row.extra_hi_ns):
            ax.vlines(at, max(row.extra_lo_ns, low), row.extra_hi_ns, color=colour, linewidth=1.6)
        if not row.seen:
            (hollow,) = ax.plot(at, row.extra_ns, "o", color=colour, markeredgewidth=1.8, zorder=4)
            hollow.set_markerfacecolor(paper)
    return handles


def _caption(table: pd.DataFrame) -> str:
    bursts = _bursts(table)
    parts = []
    dearer = bursts["seen"].astype(bool) & (bursts["extra_ns"] > 0)
    if len(bursts) > 1 and dearer.iloc[0]:
        single, longest = bursts.iloc[0], bursts.iloc[-1]
        hidden = "nothing that stands clear of the noise"
        parts.append(
            "With one walk of the set for each, a switch costs "
            f"{axes.time_text(single['extra_ns'])} of warm-up by itself, and "
            f"{axes.time_text(longest['extra_ns']) if dearer.iloc[-1] else hidden} in a burst of "
            f"{longest['burst']}"
        )
    even = _even(table)
    even = even[even["seen"].astype(bool) & (even["extra_ns"] > 0)]
    if len(even) > 1:
        near, far = even.iloc[0], even.iloc[-1]
        parts.append(
            f"evenly spaced, {axes.time_text(near['extra_ns'])} of warm-up after "
            f"{axes.time_text(near['spacing_ns'])} of work and {axes.time_text(far['extra_ns'])} after "
            f"{axes.time_text(far['spacing_ns'])}"
        )
    elif len(even) and not parts:
        only = even.iloc[0]
        parts.append(
            f"evenly spaced, only {axes.time_text(only['extra_ns'])} of warm-up after "
            f"{axes.time_text(only['spacing_ns'])} of work stands clear of the noise"
        )
    text = "; ".join(parts)
    text = text or "no warm-up of evenly spaced switches stands clear of the noise"
    return f"{text[:1].upper()}{text[1:]}."


def _alt(table: pd.DataFrame) -> str:
    def said(row: Any, name: str) -> str:
        return f"{name}: {axes.time_text(row.extra_ns)}{'' if row.seen else ' (no difference seen)'}"

    bursts = ", ".join(said(row, f"bursts of {row.burst}") for row in each(_bursts(table)))
    even = ", ".join(said(row, f"after {axes.time_text(row.spacing_ns)}") for row in each(_even(table)))
    return (
        "Two line plots with logarithmic axes: warm-up for each switch. By length of the bursts: "
        f"{bursts}. Evenly spaced, by the thread's own work between two: {even}."
    )
