"""What happens on a CPU that is reserved for one thread: how often each of its other residents is active."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

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
    machine_name,
)
from sched_labs.draw.panels import check_predictions

KIND = "reserved.residents"
MOST = 14  # rows; the rest is in the table
_LEAST = 0.1
_COLUMNS = ("condition", "kind", "name", "per_s", "per_lo_s", "per_hi_s")
_MARKERS = {"pinned": "o", "cpuset": "s", "partition": "D"}
_WORDS = {
    "pinned": "the thread is pinned",
    "cpuset": "it has a cpuset of its own",
    "partition": "its cpuset is an isolated partition",
}
_KINDS = {
    "timer": "interrupt",
    "call": "another CPU asks",
    "device": "device",
    "other": "interrupt",
    "softirq": "deferred",
    "kernel_thread": "kernel thread",
    "anybody": "",
}


def frame(result: Drawable) -> pd.DataFrame:
    """What the figure shows, one row per condition and resident, the most frequent residents first.

    - condition, kind, name, per_s, per_lo_s, per_hi_s: as in the summary
    - row_name: kind and name in words; the figure's rows
    - shown: whether it is among the 14 that are drawn

    Raises ResultError when nothing was counted.
    """
    table = columns(result.summary(), _COLUMNS, "The summary of these residents")
    table["row_name"] = [_row_name(row.kind, row.name) for row in each(table)]
    most = table.groupby("row_name", sort=False)["per_s"].max().sort_values(ascending=False, kind="stable")
    table["shown"] = table["row_name"].isin(most[most > 0].index[:MOST])
    rank = {name: place for place, name in enumerate(most.index)}
    return table.sort_values("row_name", key=lambda names: names.map(rank), kind="stable", ignore_index=True)


def _row_name(kind: str, name: str) -> str:
    if kind == "anybody":
        return name
    words = name.split(maxsplit=1)
    # LOC Local timer interrupts: the words say more than the label does.
    said = words[1] if kind in ("timer", "call", "other") and len(words) > 1 else name
    said = said if len(said) <= 24 else f"{said[:23]}…"
    return said if kind in ("timer", "call", "other") else f"{_KINDS[kind]}: {said}"


@draws(KIND)
def draw(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """A row per resident, a mark per condition: how often in a second."""
    check_predictions([], predictions)
    table = frame(result)
    shown = table[table["shown"]]
    pale = None if recorded is None else frame(recorded)
    names = list(dict.fromkeys(shown["row_name"]))
    with style.drawing():
        drawing = canvas(128 + 24 * len(names) + 20 * (recorded is not None))
        ax = drawing.add_subplot()
        ax.set_xscale("log")
        high = max([10.0, *shown["per_s"]]) * 3
        ax.set_xlim(_LEAST / 2, high)
        for rows, old in ((pale, True), (shown, False)):
            for row in each(rows) if rows is not None else ():
                if row.row_name in names and (not old or row.condition == "pinned"):
                    _mark(ax, row, names.index(row.row_name), old)
        axes.rows(ax, names)
        ticks = [10.0**e for e in range(-1, 7) if 10.0**e <= high]
        ax.xaxis.set_major_locator(FixedLocator(ticks))
        ax.xaxis.set_minor_locator(NullLocator())
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: axes.number_text(value)))
        ax.set_xlabel("in a second")
        handles: list[Any] = [
            Line2D(
                [],
                [],
                linestyle="none",
                marker=_MARKERS[name],
                color=style.colour(style.SYSTEM),
                markerfacecolor=style.colour(style.SYSTEM if name == "pinned" else style.PAPER),
                label=_WORDS[name],
            )
            for name in _MARKERS
            if name in set(table["condition"])
        ]
        pinned = shown[shown["condition"] == "pinned"]
        handles += interval_in_legend(style.SYSTEM, pinned["per_hi_s"])
        if recorded is not None:
            label = f"pinned, recorded: {machine_name(recorded.machine)}"
            handles.append(
                Line2D([], [], linestyle="none", marker="o", color=style.colour(style.RECORDED), label=label)
            )
        drawing.legend(handles=handles, loc="outside upper left", ncols=1)
    return Figure(
        drawing, alt=_alt(table), caption=_caption(table), data=table, title="Who lives on a reserved CPU"
    )


def _mark(ax: Any, row: Any, y: int, old: bool) -> None:
    colour = style.colour(style.RECORDED if old else style.SYSTEM)
    x = max(row.per_s, _LEAST / 1.5)
    if not old and row.condition == "pinned":
        ax.hlines(y, max(row.per_lo_s, _LEAST / 2), row.per_hi_s, color=colour, linewidth=1.5, zorder=2.8)
    face = colour if old or row.condition == "pinned" else "none"
    marker = "o" if old else _MARKERS[row.condition]
    ax.plot(
        x, y, marker=marker, color=colour, markerfacecolor=face, markersize=12 if old else 8, zorder=3 - old
    )


def _caption(table: pd.DataFrame) -> str:
    rows = table[table["condition"] == table["condition"].iloc[0]]
    interrupts = rows.loc[rows["kind"].isin(["timer", "call", "device", "other"]), "per_s"]
    had = f"had {axes.number_text(interrupts.sum())} interrupts in a second"
    taken = rows.loc[rows["kind"] == "anybody", "per_s"].sum()
    how = "pinned" if rows["condition"].iloc[0] == "pinned" else "in a cpuset"
    return (
        f"With its thread {how} this CPU {had if len(interrupts) else 'does not tell its interrupts here'}; "
        f"times in a second at which the thread was taken off it: {axes.number_text(taken)}."
    )


def _alt(table: pd.DataFrame) -> str:
    parts = ["Dot plot on a logarithmic axis: how often in a second each resident of the CPU was active."]
    for condition, rows in table[table["shown"]].groupby("condition", sort=False):
        said = ", ".join(f"{row.row_name} {axes.number_text(row.per_s)}" for row in each(rows))
        parts.append(f"When {_WORDS[str(condition)]}: {said}.")
    return " ".join(parts)
