"""Several warm-ups on one axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure as Drawing

from sched_labs.core.errors import ResultError
from sched_labs.draw import axes, style
from sched_labs.draw.base import highest
from sched_labs.draw.compare import Compared, compares, draw_intervals, draw_points

from . import figure as warmup


def _access(runs: Sequence[Compared]) -> str:
    """The pattern to compare: random where every run has it, because sequential access hides the warm-up."""
    common = set.intersection(*(set(run.table["access"]) for run in runs))
    if not common:
        raise ResultError("These runs have no access pattern in common.", "Compare runs that do.")
    return "random" if "random" in common else sorted(common)[0]


def _warmup_panel(drawing: Drawing, runs: Sequence[Compared]) -> list[Any]:
    ax = drawing.add_subplot()
    access = _access(runs)
    tables = [run.table[run.table["access"] == access] for run in runs]
    values = np.concatenate([table["extra_ns"].to_numpy(float) for table in tables])
    linear = max(_linear_ns(table) for table in tables)
    axes.symlog_time(ax, _bottom_ns(values.min(), linear), max(values.max(), linear) * 2, linear)
    sizes = np.concatenate([table["working_set_bytes"].to_numpy(float) for table in tables])
    axes.log_size(ax, sizes.min() / 1.5, sizes.max() * 1.5)
    ax.axhline(0, color=style.colour(style.NEUTRAL), linewidth=1.0, zorder=1.6)
    handles = []
    for run, table in zip(runs, tables, strict=True):
        x = table["working_set_bytes"]
        draw_intervals(ax.vlines, run, x, table["extra_lo_ns"], table["extra_hi_ns"], style.WARMUP)
        handles += draw_points(ax, run, x, table["extra_ns"], style.WARMUP)
    ax.set_xlabel(f"working set, {access} access")
    ax.set_ylabel("warm-up of one switch")
    return handles


def _bottom_ns(lowest_ns: float, linear: float) -> float:
    """Where the axis ends below zero: just below it, or below the lowest median where one is negative."""
    return min(-linear, lowest_ns * 1.6) if lowest_ns < 0 else -0.4 * linear


def _linear_ns(table: pd.DataFrame) -> float:
    """Where the logarithmic axis turns linear to pass through zero: the power of ten nearest to the noise.

    At least 100 ns, because nobody plans a program around less, and below the direct cost.
    """
    floors = table["floor_ns"].to_numpy(dtype=float)
    floors = floors[np.isfinite(floors) & (floors > 0)]
    direct = table["direct_ns"].to_numpy(dtype=float)
    direct = direct[np.isfinite(direct) & (direct > 0)]
    noise = round(math.log10(np.median(floors))) if floors.size else 2
    most = math.floor(math.log10(np.median(direct))) if direct.size else 9
    return 10.0 ** max(2, min(noise, most))


def _warmup_caption(runs: Sequence[Compared]) -> str:
    access = _access(runs)
    said = []
    for run in runs:
        rows = run.table[(run.table["access"] == access) & run.table["seen"].astype(bool)]
        rows = rows[rows["extra_ns"] > 0]
        if rows.empty:
            said.append(f"no warm-up stands clear of the noise on {run.name}")
            continue
        top = highest(rows, "extra_ns")
        size = axes.size_text(top["working_set_bytes"])
        said.append(f"up to {axes.time_text(top['extra_ns'])} on {run.name} (at {size})")
    return f"Warming up after a switch, {access} access: {'; '.join(said)}."


compares(warmup.KIND, warmup.frame, lambda runs: 350 + 19 * len(runs), _warmup_panel, _warmup_caption)
