"""Several runs of one experiment on one axis: the first one strong, the others paler, with other markers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from matplotlib.lines import Line2D

from ..core import registry
from ..core.errors import ResultError
from . import axes, style
from .base import Drawable, Figure, canvas, draw, machine_name, one_clock, provenance

MOST = 4
_MARKERS = ("o", "s", "D", "^")
_STRENGTHS = (1.0, 0.6, 0.38, 0.22)


@dataclass(frozen=True)
class Compared:
    """One of the compared runs: its name, its rows, and how it is drawn."""

    name: str
    result: Drawable
    table: pd.DataFrame
    marker: str
    strength: float


def frame(*results: Drawable) -> pd.DataFrame:
    """The compared rows, one under the other: `run` (its name in the figure), then the columns of the kind.

    Runs are named by machine; where two have the same name, a number tells them apart.
    """
    return pd.concat([run.table.assign(run=run.name) for run in _runs(results)], ignore_index=True).pipe(
        lambda table: table[["run", *(name for name in table.columns if name != "run")]]
    )


def compare(*results: Drawable) -> Figure:
    """Draw two to four results of one kind on one axis.

    Kinds that have no comparison of their own lay the second run pale under the first, as a recorded one.
    Raises ResultError for fewer or more (for such kinds: for more than two) and for different kinds,
    ParameterError for runs whose times have no common axis and for a kind that has no figure, and what
    drawing one of them would raise.
    """
    kinds = {result.kind for result in results}
    if not 2 <= len(results) <= MOST or len(kinds) != 1:
        raise ResultError(
            f"Cannot compare {len(results)} results of {len(kinds)} kinds in one figure.",
            f"Give two to {MOST} results of one kind.",
        )
    kind = kinds.pop()
    registry.figure(kind)  # loads what compares the kind, too
    if kind not in _KINDS:
        if len(results) > 2:
            raise ResultError(
                f"No figure shows {len(results)} results of the kind {kind!r}.", "Give two of them."
            )
        return draw(results[0], recorded=results[1])
    timing = one_clock(results)
    if timing == axes.EMULATED:
        for result in results:
            draw(result)  # refuses those that are about times too short for such a machine
    with axes.clock(timing):
        figure = _drawn(kind, results)
    figure.timing = timing
    return figure


class Comparison(NamedTuple):
    """How several results of one kind are drawn on one axis; see `compares`."""

    frame: Callable[..., pd.DataFrame]
    height: Callable[[Sequence[Compared]], float]
    panel: Callable[[Drawing, Sequence[Compared]], list[Any]]
    caption: Callable[[Sequence[Compared]], str]


_KINDS: dict[str, Comparison] = {}


def compares(
    kind: str,
    frame: Callable[..., pd.DataFrame],
    height: Callable[[Sequence[Compared]], float],
    panel: Callable[[Drawing, Sequence[Compared]], list[Any]],
    caption: Callable[[Sequence[Compared]], str],
) -> None:
    """Register how results of this kind are compared: their frame, the height in points, what fills the
    drawing and returns its legend, and the sentence below it.
    """
    _KINDS[kind] = Comparison(frame, height, panel, caption)


def _drawn(kind: str, results: Sequence[Drawable]) -> Figure:
    _, height, panel, caption = _KINDS[kind]
    runs = _runs(results)
    with style.drawing():
        drawing = canvas(height(runs))
        handles = panel(drawing, runs)
        drawing.legend(handles=handles, loc="outside upper left", ncols=1)
    said = caption(runs)
    return Figure(
        drawing,
        kind,
        alt=f"{len(runs)} runs on one axis: {', '.join(run.name for run in runs)}. {said}",
        caption=said,
        provenance=" — ".join(
            f"{run.name}: {provenance(r, None)}" for run, r in zip(runs, results, strict=True)
        ),
        data=frame(*results),
        title=f"Comparison of {len(runs)} runs",
    )


def _runs(results: Sequence[Drawable]) -> list[Compared]:
    taken: dict[str, int] = {}
    runs = []
    for result, marker, strength in zip(results, _MARKERS, _STRENGTHS, strict=False):
        name = machine_name(result.machine, longest=44)
        taken[name] = taken.get(name, 0) + 1
        if taken[name] > 1:
            name = f"{name} (run {taken[name]})"
        runs.append(Compared(name, result, _KINDS[result.kind].frame(result), marker, strength))
    return runs


def draw_points(ax: Axes, run: Compared, x: Any, y: Any, name: str, **look: Any) -> list[Line2D]:
    """A run's points; those of paler runs stand on paper, so that nothing shines through."""
    look = {"marker": run.marker, "markeredgewidth": 0, **look}
    if run.strength < 1:
        under = {key: value for key, value in look.items() if key != "linestyle"}
        ax.plot(x, y, linestyle="none", color=style.colour(style.PAPER), zorder=2.4, **under)
    return ax.plot(x, y, color=style.colour(name), alpha=run.strength, label=run.name, zorder=2.5, **look)


def draw_intervals(lines: Callable[..., Any], run: Compared, at: Any, low: Any, high: Any, name: str) -> None:
    """The 95 % intervals that are known, by `ax.vlines` or `ax.hlines`."""
    at, low, high = (np.asarray(values, dtype=float) for values in (at, low, high))
    known = np.isfinite(low) & np.isfinite(high)
    lines(
        at[known], low[known], high[known],
        color=style.colour(name), alpha=run.strength, linewidth=1.8, zorder=2.3,
    )  # fmt: skip
