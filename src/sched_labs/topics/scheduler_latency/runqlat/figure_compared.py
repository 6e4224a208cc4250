"""Several histograms of waits on one axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure as Drawing

from sched_labs.draw import axes, style
from sched_labs.draw.compare import Compared, compares, draw_points

from . import figure as histogram


def _histogram_panel(drawing: Drawing, runs: Sequence[Compared]) -> list[Any]:
    ax = drawing.add_subplot()
    low = min(run.table["low_ns"].min() for run in runs)
    high = max(run.table["high_ns"].max() for run in runs)
    axes.log_time(ax, "x", low, high)
    handles = []
    for run in runs:
        rows = run.table.groupby(["low_ns", "high_ns"], as_index=False)["share_percent"].sum()
        # Bars of several runs hide each other; the share of waits that took longer compares their tails.
        longer = 100 - np.concatenate([[0.0], np.cumsum(rows["share_percent"].to_numpy(float))])
        times = [*rows["low_ns"], rows["high_ns"].iloc[-1]]
        handles += draw_points(ax, run, times, np.clip(longer, 0, 100), style.INK, markevery=4, markersize=6)
    ax.set_ylim(0, 104)
    ax.set_yticks([0, 25, 50, 75, 100], ["0", "25 %", "50 %", "75 %", "100 %"])
    ax.set_xlabel("time a thread waited for a CPU")
    ax.set_ylabel("waits that took longer")
    return handles


def _histogram_caption(runs: Sequence[Compared]) -> str:
    said = []
    for run in runs:
        marks = histogram.quantiles(run.result)
        said.append(f"{axes.time_text(marks[0.5])} and {axes.time_text(marks[0.99])} on {run.name}")
    return f"Half of the waits, and 99 % of them, took at most {'; '.join(said)}."


compares(
    histogram.KIND, histogram.frame, lambda runs: 330 + 19 * len(runs), _histogram_panel, _histogram_caption
)
