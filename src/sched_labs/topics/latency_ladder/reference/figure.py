"""The latency ladder: what things cost on one machine, from a function call to a new process."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from sched_labs.core.errors import ResultError
from sched_labs.draw import axes, style
from sched_labs.draw.base import (
    Drawable,
    Figure,
    Prediction,
    Predictions,
    also_drawn,
    also_in_legend,
    canvas,
    columns,
    dashed,
    draws,
    each,
    interval_in_legend,
    listed,
    provenance,
    times_ns,
)

KIND = "reference.costs"
NAMES = {
    "call": "function call",
    "atomic": "atomic addition",
    "clock": "reading the clock",
    "stack_switch": "user-level stack switch",
    "system_call": "system call",
    "memcpy_warm": "copy 64 KiB, warm",
    "memcpy_cold": "copy 64 KiB, cold",
    "switch": "context switch",
    "hand_over": "hand-over to another CPU",
    "process": "fork, exit and wait",
    "thread": "create and join a thread",
}
_COLOURS = {"switch": style.DIRECT, "hand_over": style.DIRECT, "warmup": style.WARMUP}
_ROW = 27.0


def frame(result: Drawable, beside: Drawable | None = None) -> pd.DataFrame:
    """What the figure shows, one row per rung, the cheapest first.

    - rung: "call", "atomic", "clock", "stack_switch", "system_call", "memcpy_warm", "memcpy_cold", "switch",
      "hand_over", "process" or "thread"; "warmup" for the largest warm-up of a sweep that is laid beside
    - name: the same in words
    - cost_ns, cost_lo_ns, cost_hi_ns: one operation, median and 95 % interval
    - in_switches: the cost in units of one context switch; missing where no switch was measured
    - seen: whether the cost and its interval are above zero

    Raises ResultError when nothing was measured, or when what is laid beside is no warm-up sweep.
    """
    table = columns(
        result.summary(), ("rung", "cost_ns", "cost_lo_ns", "cost_hi_ns"), "The summary of these costs"
    )
    table.insert(1, "name", table["rung"].map(lambda rung: NAMES.get(str(rung), str(rung))))
    if beside is not None:
        table = pd.concat([table, _warmup(beside)], ignore_index=True)
    switch = table.loc[table["rung"] == "switch", "cost_ns"]
    table["in_switches"] = table["cost_ns"] / (float(switch.iloc[0]) if len(switch) else math.nan)
    table["seen"] = (table["cost_ns"] > 0) & (table["cost_lo_ns"] > 0)
    return table.sort_values("cost_ns", ignore_index=True)


def _warmup(sweep: Drawable) -> pd.DataFrame:
    """The largest warm-up of a sweep as a rung."""
    if sweep.kind != "warmup.sweep":
        raise ResultError(
            f"A {sweep.kind!r} is no rung of a ladder.", "Lay a warm-up sweep (warmup.sweep) beside it."
        )
    table = sweep.summary()
    seen = table[table["seen"] & (table["extra_ns"] > 0)]
    if seen.empty:
        return table.iloc[:0][[]]
    top = seen.sort_values("extra_ns").iloc[-1]
    return pd.DataFrame(
        {
            "rung": ["warmup"],
            "name": [f"warm-up, {axes.size_text(top['working_set_bytes'])}"],
            "cost_ns": [top["extra_ns"]],
            "cost_lo_ns": [top["extra_lo_ns"]],
            "cost_hi_ns": [top["extra_hi_ns"]],
        }
    )


def ladder(
    costs: Drawable,
    walks: Drawable | None = None,
    *,
    recorded: Drawable | None = None,
    predictions: Sequence[Prediction | dict[str, Any]] = (),
) -> Figure:
    """The ladder with the largest warm-up of a sweep of the same machine among its rungs.

    Predictions are as `Result.plot` takes them.
    """
    given = [p if isinstance(p, Prediction) else Prediction(p["value"], p["unit"]) for p in predictions]
    figure = _draw(costs, walks, recorded, given)
    # `draws` says this of a figure of one run; the warm-up is of another.
    figure.provenance = provenance(costs, recorded)
    if walks is not None:
        figure.provenance += f" Warm-up: {provenance(walks, None)}"
    figure.alt += also_drawn(recorded, given)
    return figure


@draws(KIND, short_times=True)
def draw(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """Draw one rung under the other on a logarithmic time axis, the cheapest at the bottom."""
    return _draw(result, None, recorded, predictions)


def _draw(
    result: Drawable, beside: Drawable | None, recorded: Drawable | None, predictions: Predictions
) -> Figure:
    table = frame(result, beside)
    pale = None if recorded is None else frame(recorded).set_index("rung")
    with style.drawing():
        drawing = canvas(_ROW * len(table) + 95 + 18 * (recorded is not None) + 18 * bool(predictions))
        ax = drawing.add_subplot()
        axes.log_time(ax, "x", *_limits(table, pale, predictions))
        for y, row in enumerate(each(table)):
            _rung(ax, y, row, pale)
        for _, ns in times_ns(predictions):
            ax.axvline(ns, **dashed())
        ax.set_ylim(-0.7, len(table) - 0.3)
        ax.set_yticks(range(len(table)), table["name"])
        ax.tick_params(axis="y", length=0)
        ax.grid(visible=False, axis="y")
        ax.spines["left"].set_visible(False)
        ax.set_xlabel("time for one")
        drawing.legend(handles=_handles(table, recorded, predictions), loc="outside upper left", ncols=2)
        axes.thin(ax)
    return Figure(
        drawing,
        alt=_alt(table),
        caption=_caption(table),
        data=table,
        title="The latency ladder of one machine",
    )


def _limits(table: pd.DataFrame, pale: pd.DataFrame | None, predictions: Predictions) -> tuple[float, float]:
    values = [*table["cost_ns"], *table["cost_hi_ns"], *(ns for _, ns in times_ns(predictions))]
    if pale is not None:
        values += list(pale["cost_ns"])
    positive = [value for value in values if math.isfinite(value) and value > 0]
    return (min(positive) / 2, max(positive) * 2) if positive else (0.1, 1e6)


def _rung(ax: Axes, y: int, row: Any, pale: pd.DataFrame | None) -> None:
    colour = style.colour(_COLOURS.get(str(row.rung), style.ALONE))
    if pale is not None and row.rung in pale.index and pale.loc[row.rung, "cost_ns"] > 0:
        ax.plot(
            pale.loc[row.rung, "cost_ns"], y, "o", color=style.colour(style.RECORDED), markersize=9, zorder=2
        )
    left = ax.get_xlim()[0]
    if row.cost_ns > 0:
        ax.plot([left, row.cost_ns], [y, y], color=style.colour(style.GRID), linewidth=1.4, zorder=1)
        if math.isfinite(row.cost_lo_ns) and math.isfinite(row.cost_hi_ns):
            ax.plot([max(row.cost_lo_ns, left), row.cost_hi_ns], [y, y], color=colour, zorder=3)
        face = colour if row.seen else style.colour(style.PAPER)
        ax.plot(row.cost_ns, y, "o", color=colour, markerfacecolor=face, markeredgewidth=1.8, zorder=3.5)
    axes.right_of(ax, y, axes.time_text(row.cost_ns) if row.seen else "not seen", 10)


def _handles(table: pd.DataFrame, recorded: Drawable | None, predictions: Predictions) -> list[Line2D]:
    labels = {
        style.ALONE: "everything else",
        style.DIRECT: "a switch, direct cost",
        style.WARMUP: "a switch, warm-up",
    }
    present = {_COLOURS.get(str(rung), style.ALONE) for rung in table["rung"]}
    handles = [
        Line2D([], [], label=label, color=style.colour(name), marker="o")
        for name, label in labels.items()
        if name in present
    ]
    handles += interval_in_legend(style.ALONE, table["cost_hi_ns"])
    return handles + also_in_legend(recorded, predictions, marker="o", markersize=9, linestyle="none")


def _caption(table: pd.DataFrame) -> str:
    rows = table[table["seen"]]
    if rows.empty:
        return "No rung stands clear of the empty loop."
    cost = {str(rung): float(ns) for rung, ns in zip(rows["rung"], rows["cost_ns"], strict=True)}
    if "switch" not in cost:
        names, costs_ = list(rows["name"]), list(cost.values())
        return (
            f"From {names[0]} to {names[-1]} the ladder climbs from "
            f"{axes.time_text(costs_[0])} to {axes.time_text(costs_[-1])}."
        )
    parts = []
    for rung, plural in (
        ("call", "function calls"),
        ("system_call", "system calls"),
        ("memcpy_warm", "warm copies of 64 KiB"),
    ):
        if rung in cost:
            times = float(f"{cost['switch'] / cost[rung]:.2g}")  # 2,007 is "2,000": nobody counts better
            parts.append(f"{axes.number_text(times, 2)} {plural}")
    return f"One context switch costs {axes.time_text(cost['switch'])}" + (
        f": about as much as {listed(parts)}." if parts else "."
    )


def _alt(table: pd.DataFrame) -> str:
    said = [f"{row.name} {axes.time_text(row.cost_ns) if row.seen else 'not seen'}" for row in each(table)]
    return f"Dots on a logarithmic time axis, the cheapest first: {listed(said)}."
