"""How far what is said lies from what its own numbers give: one mark per statement, on a scale of factors."""

from __future__ import annotations

import pandas as pd
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from . import axes, style
from .base import Figure, canvas, columns, each, highest

_COLUMNS = ("claim", "quantity", "said", "computed", "unit", "factor", "verdict")
_HOLDS = "adds up"


def frame(table: pd.DataFrame) -> pd.DataFrame:
    """What the figure shows, most exaggerated statement first.

    - claim, quantity: the statement's number in the ledger, and what it is about
    - said, computed, unit: both values
    - said_over_computed: 1 where the statement adds up, above 1 where it says too much
    - verdict: as the calculator judges

    Raises ResultError for a table that is none of `calculators.Calculator.cases`.
    """
    rows = columns(table, _COLUMNS, "This table of statements")
    rows = rows.assign(said_over_computed=1 / rows["factor"]).drop(columns="factor")
    return rows.sort_values("said_over_computed", ascending=False, ignore_index=True, kind="stable")


def draw(table: pd.DataFrame) -> Figure:
    """Draw each statement by the factor between what it says and what its numbers give."""
    rows = frame(table)
    right = (rows["verdict"] == _HOLDS).to_numpy()
    with style.drawing():
        drawing = canvas(120 + 17 * len(rows))
        ax = drawing.add_subplot()
        ax.set_xscale("log")
        reach = max(rows["said_over_computed"].max(), 1 / rows["said_over_computed"].min()) * 1.8
        ax.set_xlim(1 / reach, reach)
        ax.set_ylim(len(rows) - 0.4, -0.6)
        ax.axvline(1, color=style.colour(style.INK), linewidth=1.2, zorder=1.8)
        places = rows.index.to_numpy()
        ax.hlines(
            places[~right],
            1,
            rows["said_over_computed"][~right],
            color=style.colour(style.INK),
            linewidth=2,
            zorder=2,
        )
        for good, name, colour, mark in (
            (True, "adds up", style.NEUTRAL, "o"),
            (False, "does not", style.INK, "D"),
        ):
            some = rows[right == good]
            ax.plot(
                some["said_over_computed"],
                some.index,
                linestyle="none",
                marker=mark,
                color=style.colour(colour),
                label=f"{name} ({len(some)})",
                zorder=3,
            )
        ax.set_yticks(places, [f"{row.claim} {row.quantity}" for row in each(rows)])
        ticks = [10.0**e for e in range(-4, 5) if 1 / reach <= 10.0**e <= reach]
        ax.xaxis.set_major_locator(FixedLocator(ticks))
        ax.xaxis.set_minor_locator(NullLocator())
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _times(value)))
        ax.set_xlabel("said, over computed")
        ax.grid(visible=False, axis="y")
        drawing.legend(loc="outside upper left", ncols=2)
    return Figure(
        drawing,
        "arithmetic",
        alt="Marks on a logarithmic scale of factors: "
        + " ".join(
            f"{row.claim} {row.quantity}, {_times(row.said_over_computed)} {row.verdict};"
            for row in each(rows)
        ),
        caption=_caption(rows, int(right.sum())),
        provenance="Computed from the statements' own numbers; nothing was measured.",
        data=rows,
        title="What is said against what its numbers give",
    )


def _times(factor: float) -> str:
    """ "× 10" and "÷ 10", which are easier to compare than 10 and 0.1."""
    if 0.995 < factor < 1.005:
        return "right"
    return f"× {axes.number_text(factor, 2)}" if factor > 1 else f"÷ {axes.number_text(1 / factor, 2)}"


def _caption(rows: pd.DataFrame, right: int) -> str:
    far = rows.assign(apart=rows["said_over_computed"].map(lambda x: max(x, 1 / x)))
    worst = highest(far, "apart")
    way = "too much" if worst["said_over_computed"] > 1 else "too little"
    return (
        f"{right} of {len(rows)} statements agree with their own numbers; the farthest off says "
        f"{axes.number_text(worst['apart'], 2)} times {way} ({worst['claim']}, {worst['quantity']})."
    )
