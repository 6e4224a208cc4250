"""Strips: a row for each number, a dot for each machine.  The class board draws its cards with the same."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from ..core.errors import ParameterError
from ..core.tables import cell, heading
from ..core.words import count_text, number_text
from ..draw import style
from ..draw.base import Figure, canvas
from .compare import ODD, Compared
from .tables import Fleet

MOST_ROWS = 10  # of a figure
MOST_GROUPS = 8
_MANY = 60  # dots of a row, above which those that cover one another are drawn once
_BINS = 140
_FARTHEST = 1e9  # times the median: whatever is beyond stands there


def draw(
    rows: Sequence[tuple[str, Sequence[float], Sequence[float]]], scale: Callable[[Axes, float, float], None]
) -> Drawing:
    """A strip for each (label, values, values that are lit), on one axis that `scale` makes from its ends.

    Machines that measured about the same stand above each other.
    """
    every = [value for _, pale, lit in rows for value in (*pale, *lit)]
    with style.drawing():
        drawing = canvas(70 + (58 if len(rows) <= 5 else 40) * len(rows))
        ax = drawing.subplots()
        for place, (_, pale, lit) in enumerate(rows):
            values = _thinned(sorted(pale), min(every), max(every))
            heights = [place + 0.09 * ((turn % 5) - 2) for turn in range(len(values))]
            ax.scatter(values, heights, s=40, color=style.colour("recorded"), zorder=2)
            ax.scatter(lit, [place] * len(lit), s=130, color=style.colour("direct"), zorder=3)
        ax.set_yticks(range(len(rows)), [label for label, *_ in rows])
        ax.set_ylim(len(rows) - 0.5, -0.5)
        scale(ax, min(every), max(every))
    return drawing


def _thinned(values: list[float], low: float, high: float) -> list[float]:
    """Of many values those that can be told apart on the page: at most five in one place."""
    if len(values) <= _MANY or low <= 0 or high <= low:
        return values
    step = math.log(high / low) / _BINS
    places = np.floor(np.log(np.array(values) / low) / step).astype(int)
    turn = pd.Series(places).groupby(places).cumcount().to_numpy()
    return [value for value, number in zip(values, turn, strict=True) if number < 5]


def of_kind(fleet: Fleet, compared: Compared, kind: str, by: str | None = None) -> Figure | None:
    """The numbers of a kind, each as times its median over the fleet; odd machines are lit.

    by   a fact: then a row for each of its values as well
    None where no number of the kind is above zero.  Raises ParameterError for a fact that no machine has.
    """
    if by is not None and by not in fleet.machines.columns:
        raise ParameterError(
            f"No machine tells {by!r:.40}.", f"There are: {', '.join(fleet.machines.columns)}."
        )
    table = fleet.newest()
    table = table[(table["kind"] == kind) & (table["value"] > 0)].copy()
    table["name"], table["column"] = table["name"].astype(str), table["column"].astype(str)
    if table.empty:
        return None
    middles = table.groupby(["name", "column"])["value"].transform("median")
    table["ratio"] = (table["value"] / middles).clip(1 / _FARTHEST, _FARTHEST)
    odd = {(row["machine"], row["name"], row["column"]) for row in compared.odd.to_dict("records")
           if row["kind"] == kind}  # fmt: skip
    table["odd"] = [one in odd for one in zip(table["machine"], table["name"], table["column"], strict=True)]
    order = (
        table.groupby(["name", "column"], sort=False)["odd"].sum().sort_values(ascending=False, kind="stable")
    )
    groups = None if by is None else table["machine"].astype(str).map(fleet.machines[by])
    rows: list[tuple[str, list[float], list[float]]] = []
    for name, column in order.index:
        own = table[(table["name"] == name) & (table["column"] == column)]
        middle = value_text(kind, column, float(own["value"].median()))
        parts: list[tuple[str, pd.DataFrame]] = [(f"{_short(name)}\n{middle}", own)]
        if groups is not None:
            largest = groups[own.index].value_counts().index[:MOST_GROUPS]
            parts += [(f"{by} {_short(str(value))}", own[groups[own.index] == value]) for value in largest]
        rows += [
            (label, list(part.loc[~part["odd"], "ratio"]), list(part.loc[part["odd"], "ratio"]))
            for label, part in parts
        ]
        if len(rows) >= MOST_ROWS:
            break
    machines = table["machine"].nunique()
    caption = (
        f"{kind}: {_counted(machines, 'machine')}, each number as times its median over the fleet. "
        f"{_odd_text(compared, kind)}"
    )
    if len(order) > len(rows):
        caption += f" {len(order)} numbers were measured; all are in the Parquet file."
    return Figure(
        draw(rows, _times), "fleet.strips", alt=caption, caption=caption, title=kind,
        provenance=f"{machines} machines, the newest run of each", data=table,
    )  # fmt: skip


def value_text(kind: str, column: str, value: float) -> str:
    """A number in its unit, which its column's name has; virtual time is no machine's."""
    unit = heading(column)[1]
    if unit == "ns" and kind.endswith("virtual time"):
        return f"{count_text(value)} virtual ns"
    return cell(value, unit)


def _odd_text(compared: Compared, kind: str) -> str:
    odd = compared.odd
    count = odd.loc[odd["kind"] == kind, "machine"].nunique()
    if not count:
        return f"None is more than {ODD:.0f} of the fleet's standard deviations away by itself."
    return (
        f"Lit: {_counted(count, 'machine')} more than {ODD:.0f} of the fleet's standard deviations away, "
        "beyond the machine's own interval."
    )


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _short(text: str) -> str:
    return text if len(text) <= 34 else f"{text[:33]}…"


def _times(ax: Axes, low: float, high: float) -> None:
    """A logarithmic axis of ratios, with round ones written out."""
    low, high = min(low, 0.8) / 1.1, max(high, 1.25) * 1.1
    ax.set_xscale("log")
    ax.set_xlim(low, high)
    span = math.log10(high / low)
    steps: tuple[float, ...] = (1, 2, 5) if span > 1 else (1, 1.5, 2, 3, 5, 7, 9)
    if span > 4:
        steps = (1,)
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [step * 10.0**decade for decade in decades for step in steps]
    ax.xaxis.set_major_locator(FixedLocator([tick for tick in ticks if low <= tick <= high]))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(_ratio))
    ax.axvline(1, color=style.colour("neutral"), linewidth=1.0, zorder=1.5)


def _ratio(value: float, _: Any) -> str:
    return f"{number_text(value, 2)}×"
