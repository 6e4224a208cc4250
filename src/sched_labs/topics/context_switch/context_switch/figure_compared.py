"""Several matrices of context switches on one axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure as Drawing

from sched_labs.core.errors import ResultError
from sched_labs.draw import axes, style
from sched_labs.draw.compare import Compared, compares, draw_intervals, draw_points

from . import figure as matrix


def _cases(runs: Sequence[Compared]) -> dict[str, list[tuple[str, str]]]:
    """For every placement the mechanisms and partners that any run judged, in the order of the matrix."""
    every = pd.concat([matrix.judged(run.table) for run in runs], ignore_index=True)
    if every.empty:
        raise ResultError("None of these runs has a case that could be judged.", "Compare other runs.")
    return {
        str(place): list(dict.fromkeys(zip(rows["mechanism"], rows["between"], strict=True)))
        for place, rows in every.groupby("placement", sort=False)
    }


def _matrix_height(runs: Sequence[Compared]) -> float:
    cases = _cases(runs)
    return 80 + 19 * len(runs) + 44 * len(cases) + 20 * sum(len(pairs) for pairs in cases.values())


def _matrix_panel(drawing: Drawing, runs: Sequence[Compared]) -> list[Any]:
    cases = _cases(runs)
    panels = drawing.subplots(
        len(cases),
        1,
        sharex=True,
        squeeze=False,
        gridspec_kw={"height_ratios": [44 + 20 * len(pairs) for pairs in cases.values()]},
    )[:, 0]
    values = np.concatenate([matrix.judged(run.table)["net_per_switch_ns"].to_numpy(float) for run in runs])
    handles: list[Any] = []
    for ax, (place, pairs) in zip(panels, cases.items(), strict=True):
        axes.log_time(ax, "x", values.min() / 1.6, values.max() * 1.6)
        for turn, run in enumerate(runs):
            rows = matrix.judged(run.table)
            rows = rows[rows["placement"] == place].set_index(["mechanism", "between"])
            # Runs stand a little above each other, so that equal ones are all seen.
            shift = (turn - (len(runs) - 1) / 2) * 0.22
            here = [pair for pair in pairs if pair in rows.index]
            ys = [pairs.index(pair) + shift for pair in here]
            rows = rows.loc[here]
            low = rows["net_lo_ns"].clip(lower=ax.get_xlim()[0])
            draw_intervals(ax.hlines, run, ys, low, rows["net_hi_ns"], style.DIRECT)
            drawn = draw_points(ax, run, rows["net_per_switch_ns"], ys, style.DIRECT, linestyle="none")
            handles += drawn if ax is panels[0] else []
        ax.set_title(matrix.PLACES.get(place, place))
        ax.set_yticks(range(len(pairs)), [f"{mechanism}, {between}" for mechanism, between in pairs])
        ax.set_ylim(len(pairs) - 0.4, -0.6)
        ax.tick_params(axis="y", length=0)
        ax.spines["left"].set_visible(False)
        if ax is not panels[-1]:
            ax.spines["bottom"].set_visible(False)
            ax.tick_params(axis="x", bottom=False, labelbottom=False)
    panels[-1].set_xlabel("net time per switch")
    return handles


def _matrix_caption(runs: Sequence[Compared]) -> str:
    keys = ["placement", "mechanism", "between"]
    first = matrix.judged(runs[0].table).set_index(keys)["net_per_switch_ns"]
    said = []
    for run in runs[1:]:
        ratio = (matrix.judged(run.table).set_index(keys)["net_per_switch_ns"] / first).dropna()
        if ratio.empty:
            said.append(f"{run.name} shares no judged case with {runs[0].name}")
            continue
        times = axes.number_text(ratio.median(), 2)
        said.append(
            f"A switch on {run.name} costs "
            + ("as much as" if times == "1" else f"{times} times what it costs")
            + f" on {runs[0].name} (median of {len(ratio)} cases, "
            f"{axes.number_text(ratio.min(), 2)} to {axes.number_text(ratio.max(), 2)} times)"
        )
    return ". ".join(said) + "."


compares(matrix.KIND, matrix.frame, _matrix_height, _matrix_panel, _matrix_caption)
