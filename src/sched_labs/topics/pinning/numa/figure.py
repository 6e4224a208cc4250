"""What a load takes from memory of the own node and of others, for a set in the caches and one far beyond."""

from __future__ import annotations

import pandas as pd

from sched_labs.draw import axes, panels, style
from sched_labs.draw.base import Drawable, Figure, Predictions, columns, draws, each, highest

KIND = "numa.chase"
_COLUMNS = (
    "working_set_bytes", "cpu_node", "memory_node", "load_ns", "load_lo_ns", "load_hi_ns", "local",
    "slowdown_ratio",
)  # fmt: skip


def frame(result: Drawable) -> pd.DataFrame:
    """What the figure shows, one row per working set and pair of nodes, smallest set first.

    - row_name: the set and the nodes in words; the figure's rows
    - working_set_bytes, cpu_node, memory_node, load_ns, load_lo_ns, load_hi_ns, local, slowdown_ratio: as in
      the summary

    Raises ResultError when nothing was measured.
    """
    table = columns(result.summary(), _COLUMNS, "The summary of these loads")
    table = table.sort_values(["working_set_bytes", "cpu_node", "memory_node"], ignore_index=True)
    table["row_name"] = [
        axes.size_text(row.working_set_bytes)
        + ("" if row.memory_node < 0 else f", node {row.cpu_node} \N{RIGHTWARDS ARROW} {row.memory_node}")
        for row in each(table)
    ]
    return table


@draws(KIND, short_times=True)
def draw(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """A row per working set and pair of nodes; local memory in the baseline's colour."""
    table = frame(result)
    panel = panels.Panel(
        "one load, by node of the CPU \N{RIGHTWARDS ARROW} of the memory",
        "load_ns",
        panels.TIME,
        "load_lo_ns",
        "load_hi_ns",
    )
    return panels.dot_figure(
        table,
        [panel],
        key="row_name",
        names={},
        roles={row.row_name: style.ALONE if row.local else style.WARMUP for row in each(table)},
        pale=frame,
        recorded=recorded,
        predictions=predictions,
        alt="Dot plot of the time of one load by working set and memory nodes.",
        caption=_caption(table),
        title="How long a load takes",
    )


def _caption(table: pd.DataFrame) -> str:
    far = table[~table["local"].astype(bool) & table["slowdown_ratio"].notna()]
    if far.empty:
        most = highest(table, "load_ns")
        return (
            f"There is no remote memory here; a load from a set of {axes.size_text(most.working_set_bytes)} "
            f"takes {axes.time_text(most.load_ns)}."
        )
    parts = [
        f"{axes.number_text(highest(rows, 'slowdown_ratio').slowdown_ratio, 2)} times as long with "
        f"{axes.size_text(float(str(size)))}"
        for size, rows in far.groupby("working_set_bytes", sort=True)
    ]
    return f"From the farthest memory a load takes {' and '.join(parts)} as from the CPU's own node."
