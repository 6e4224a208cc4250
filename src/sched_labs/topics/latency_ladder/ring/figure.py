"""A ring of processes: what one hop costs beyond its work, by memory touched and number of processes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
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
    highest,
    interval_in_legend,
    listed,
    times_ns,
)

KIND = "ring.sweep"
TITLES = {"sequential": "each sums its memory in order (lat_ctx)", "random": "each walks it in random order"}
_COLUMNS = (
    "rings", "access", "processes", "size_bytes", "footprint_bytes", "net_ns", "net_lo_ns", "net_hi_ns",
    "seen", "switches_per_hop",
)  # fmt: skip
_LINE_HEIGHT = 0.12  # of a label, as a part of a panel's height
_STRENGTHS = (0.35, 0.55, 0.75, 1.0)


def frame(result: Drawable) -> pd.DataFrame:
    """What the figure shows: the rows of one ring, ordered by access, processes and size.

    - access: "sequential" or "random"; with no memory there is no order, and the row stands in both
    - processes: in the ring; size_bytes: what each touches; footprint_bytes: all of them together
    - net_ns, net_lo_ns, net_hi_ns: one hop less the same work done by one process, median and 95 % interval
    - seen: whether it stands clear of the noise floor
    - switches_per_hop: as the kernel counted them

    Raises ResultError when nothing was measured with one ring.
    """
    table = columns(result.summary(), _COLUMNS, "The summary of this ring")
    table = columns(table[table["rings"] == 1], _COLUMNS, "The part of this run with one ring")
    nothing = table[table["size_bytes"] == 0]
    parts = []
    for access in dict.fromkeys(table["access"]):
        part = table[(table["access"] == access) & (table["size_bytes"] > 0)]
        parts.append(pd.concat([nothing.assign(access=access), part]))
    return (
        pd.concat(parts)
        .sort_values(["access", "processes", "size_bytes"], ignore_index=True, kind="stable")
        .drop(columns="rings")
    )


@draws(KIND, short_times=True)
def draw(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """Draw the cost of a hop against the memory of each process, one line per ring, one panel per access."""
    table = frame(result)
    pale = None if recorded is None else frame(recorded)
    l2 = result.machine.get("l2_bytes")
    kinds = [access for access in TITLES if access in set(table["access"])]
    sizes = sorted(set(table["size_bytes"]))
    shown = [table["net_ns"], table["net_hi_ns"]] + ([] if pale is None else [pale["net_ns"]])
    values = [*np.concatenate([np.asarray(part, dtype=float) for part in shown]), *_ns(predictions)]
    positive = [value for value in values if np.isfinite(value) and value > 0] or [1.0]
    with style.drawing():
        drawing = canvas(190 * len(kinds) + 130 + 18 * (recorded is not None) + 18 * bool(predictions))
        panels = drawing.subplots(len(kinds), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
        for ax, access in zip(panels, kinds, strict=True):
            axes.log_time(ax, "y", min(positive) / 1.6, max(positive) * 1.6)
            if pale is not None:
                _lines(ax, pale[pale["access"] == access], sizes, None, style.colour(style.RECORDED))
            _lines(ax, table[table["access"] == access], sizes, l2, None)
            for ns in _ns(predictions):
                ax.axhline(ns, **dashed())
            ax.set_title(TITLES[access])
            ax.set_xlim(-0.3, len(sizes) - 0.35)
        panels[-1].set_xticks(range(len(sizes)), [axes.size_text(size) for size in sizes])
        panels[-1].set_xlabel("memory that each process touches")
        drawing.supylabel("one hop beyond its work", size=style.TEXT)
        handles = _handles(table, l2, recorded, predictions)
        drawing.legend(handles=handles, loc="outside upper left", ncols=2)
    return Figure(
        drawing,
        alt=_alt(table, kinds),
        caption=_caption(table),
        data=table,
        title="What one hop in a ring of processes costs",
    )


def _ns(predictions: Predictions) -> list[float]:
    return [ns for _, ns in times_ns(predictions)]


def _lines(ax: Axes, table: pd.DataFrame, sizes: list[int], l2: Any, one_colour: str | None) -> None:
    counts = sorted(set(table["processes"]))
    for place, count in enumerate(counts):
        rows = table[(table["processes"] == count) & table["size_bytes"].isin(sizes) & (table["net_ns"] > 0)]
        x = [sizes.index(size) for size in rows["size_bytes"]]
        strength = _STRENGTHS[-len(counts) :][place] if len(counts) <= len(_STRENGTHS) else 1.0
        line = one_colour or style.colour(style.WARMUP)
        ax.plot(x, rows["net_ns"], color=line, alpha=strength, linewidth=1.8, zorder=2 if one_colour else 3)
        if one_colour:
            continue
        for at, row in zip(x, each(rows), strict=True):
            colour = style.colour(style.WARMUP if row.size_bytes else style.DIRECT)
            low = max(row.net_lo_ns, ax.get_ylim()[0])
            ax.plot([at, at], [low, row.net_hi_ns], color=colour, alpha=strength, linewidth=1.6, zorder=3.2)
            face = style.colour(style.PAPER) if _fits(row, l2) else colour
            ax.plot(at, row.net_ns, "o", color=colour, mfc=face, markeredgewidth=1.6, zorder=3.4)
    if not one_colour:
        _name_lines(ax, table, len(sizes) - 1)


def _fits(row: Any, l2: Any) -> bool:
    return isinstance(l2, int | float) and row.size_bytes > 0 and row.footprint_bytes <= l2 / 2


def _name_lines(ax: Axes, table: pd.DataFrame, right: int) -> None:
    """The number of processes at the end of each line; lines that end together share a label."""
    ends = table[table["net_ns"] > 0].sort_values("size_bytes").groupby("processes").last()
    low, high = ax.get_ylim()
    close = max(1.6, (high / low) ** _LINE_HEIGHT)
    groups: list[tuple[list[str], list[float]]] = []
    for count, ns in sorted(ends["net_ns"].items(), key=lambda end: float(end[1])):
        if groups and ns < close * groups[-1][1][-1]:
            groups[-1][0].append(str(count))
            groups[-1][1].append(float(ns))
        else:
            groups.append(([str(count)], [float(ns)]))
    for names, ys in groups:
        axes.note(
            ax,
            ", ".join(sorted(names, key=int)),
            (right, float(np.exp(np.mean(np.log(ys))))),
            (9, 0),
            va="center",
        )


def _handles(
    table: pd.DataFrame, l2: Any, recorded: Drawable | None, predictions: Predictions
) -> list[Line2D]:
    paper, warm = style.colour(style.PAPER), style.colour(style.WARMUP)
    handles = []
    if (table["size_bytes"] == 0).any():
        handles.append(
            Line2D([], [], color=style.colour(style.DIRECT), marker="o", ls="none", label="no memory touched")
        )
    handles.append(Line2D([], [], color=warm, marker="o", label="number: processes"))
    if any(_fits(row, l2) for row in each(table[table["net_ns"] > 0])):
        text = f"hollow: all fits half of L2 ({axes.size_text(l2 / 2)})"
        handles.append(
            Line2D([], [], color=warm, marker="o", mfc=paper, markeredgewidth=1.6, ls="none", label=text)
        )
    handles += interval_in_legend(style.WARMUP, table["net_hi_ns"], upright=True)
    return handles + also_in_legend(recorded, predictions)


def _caption(table: pd.DataFrame) -> str:
    seen = table[table["seen"].astype(bool) & (table["net_ns"] > 0)]
    if seen.empty:
        return "No hop costs more than its work: nothing stands clear of the noise."
    top = highest(seen, "net_ns")
    text = (
        f"A hop costs up to {axes.time_text(top['net_ns'])} beyond its work "
        f"({top['processes']} processes, {axes.size_text(top['size_bytes'])} each, {top['access']} access)"
    )
    bare = seen[seen["size_bytes"] == 0]
    if len(bare):
        text += (
            f", against {axes.range_text(bare['net_ns'].min(), bare['net_ns'].max())} with no memory touched"
        )
    return f"{text}."


def _alt(table: pd.DataFrame, kinds: list[str]) -> str:
    parts = ["Lines with a logarithmic time axis: one hop beyond its work, by memory of each process."]
    for access in kinds:
        for count, rows in table[table["access"] == access].groupby("processes"):
            said = [f"{axes.size_text(row.size_bytes)} {axes.time_text(row.net_ns)}" for row in each(rows)]
            parts.append(f"{count} processes, {access}: {listed(said)}.")
    return " ".join(parts)
