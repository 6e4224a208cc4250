"""Several runs of one experiment on one axis: the first one strong, the others paler, with other markers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from matplotlib.lines import Line2D

from ..errors import ResultError
from . import axes, histogram, matrix, style, warmup
from .base import Drawable, Figure, canvas, draw, highest, machine_name, one_clock, provenance

MOST = 4
_MARKERS = ("o", "s", "D", "^")
_STRENGTHS = (1.0, 0.6, 0.38, 0.22)


@dataclass(frozen=True)
class _Run:
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
    if kind not in _KINDS:
        if len(results) > 2:
            raise ResultError(
                f"No figure shows {len(results)} results of the kind {kind!r}.",
                f"Give two; up to {MOST} can be compared of: {', '.join(_KINDS)}.",
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


def _drawn(kind: str, results: Sequence[Drawable]) -> Figure:
    height, panel, caption = _KINDS[kind][1:]
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


def _runs(results: Sequence[Drawable]) -> list[_Run]:
    taken: dict[str, int] = {}
    runs = []
    for result, marker, strength in zip(results, _MARKERS, _STRENGTHS, strict=False):
        name = machine_name(result.machine, longest=44)
        taken[name] = taken.get(name, 0) + 1
        if taken[name] > 1:
            name = f"{name} (run {taken[name]})"
        runs.append(_Run(name, result, _KINDS[result.kind][0](result), marker, strength))
    return runs


def _draw(ax: Axes, run: _Run, x: Any, y: Any, name: str, **look: Any) -> list[Line2D]:
    """A run's points; those of paler runs stand on paper, so that nothing shines through."""
    look = {"marker": run.marker, "markeredgewidth": 0, **look}
    if run.strength < 1:
        under = {key: value for key, value in look.items() if key != "linestyle"}
        ax.plot(x, y, linestyle="none", color=style.colour(style.PAPER), zorder=2.4, **under)
    return ax.plot(x, y, color=style.colour(name), alpha=run.strength, label=run.name, zorder=2.5, **look)


def _intervals(lines: Callable[..., Any], run: _Run, at: Any, low: Any, high: Any, name: str) -> None:
    """The 95 % intervals that are known, by `ax.vlines` or `ax.hlines`."""
    at, low, high = (np.asarray(values, dtype=float) for values in (at, low, high))
    known = np.isfinite(low) & np.isfinite(high)
    lines(
        at[known], low[known], high[known],
        color=style.colour(name), alpha=run.strength, linewidth=1.8, zorder=2.3,
    )  # fmt: skip


# ---- context_switch.matrix ----


def _cases(runs: Sequence[_Run]) -> dict[str, list[tuple[str, str]]]:
    """For every placement the mechanisms and partners that any run judged, in the order of the matrix."""
    every = pd.concat([matrix.judged(run.table) for run in runs], ignore_index=True)
    if every.empty:
        raise ResultError("None of these runs has a case that could be judged.", "Compare other runs.")
    return {
        str(place): list(dict.fromkeys(zip(rows["mechanism"], rows["between"], strict=True)))
        for place, rows in every.groupby("placement", sort=False)
    }


def _matrix_height(runs: Sequence[_Run]) -> float:
    cases = _cases(runs)
    return 80 + 19 * len(runs) + 44 * len(cases) + 20 * sum(len(pairs) for pairs in cases.values())


def _matrix_panel(drawing: Drawing, runs: Sequence[_Run]) -> list[Any]:
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
            _intervals(ax.hlines, run, ys, low, rows["net_hi_ns"], style.DIRECT)
            drawn = _draw(ax, run, rows["net_per_switch_ns"], ys, style.DIRECT, linestyle="none")
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


def _matrix_caption(runs: Sequence[_Run]) -> str:
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


# ---- warmup.sweep ----


def _access(runs: Sequence[_Run]) -> str:
    """The pattern to compare: random where every run has it, because sequential access hides the warm-up."""
    common = set.intersection(*(set(run.table["access"]) for run in runs))
    if not common:
        raise ResultError("These runs have no access pattern in common.", "Compare runs that do.")
    return "random" if "random" in common else sorted(common)[0]


def _warmup_panel(drawing: Drawing, runs: Sequence[_Run]) -> list[Any]:
    ax = drawing.add_subplot()
    access = _access(runs)
    tables = [run.table[run.table["access"] == access] for run in runs]
    values = np.concatenate([table["extra_ns"].to_numpy(float) for table in tables])
    linear = max(warmup.linear_ns(table) for table in tables)
    axes.symlog_time(ax, warmup.bottom_ns(values.min(), linear), max(values.max(), linear) * 2, linear)
    sizes = np.concatenate([table["working_set_bytes"].to_numpy(float) for table in tables])
    axes.log_size(ax, sizes.min() / 1.5, sizes.max() * 1.5)
    ax.axhline(0, color=style.colour(style.NEUTRAL), linewidth=1.0, zorder=1.6)
    handles = []
    for run, table in zip(runs, tables, strict=True):
        x = table["working_set_bytes"]
        _intervals(ax.vlines, run, x, table["extra_lo_ns"], table["extra_hi_ns"], style.WARMUP)
        handles += _draw(ax, run, x, table["extra_ns"], style.WARMUP)
    ax.set_xlabel(f"working set, {access} access")
    ax.set_ylabel("warm-up of one switch")
    return handles


def _warmup_caption(runs: Sequence[_Run]) -> str:
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


# ---- runqlat.histogram ----


def _histogram_panel(drawing: Drawing, runs: Sequence[_Run]) -> list[Any]:
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
        handles += _draw(ax, run, times, np.clip(longer, 0, 100), style.INK, markevery=4, markersize=6)
    ax.set_ylim(0, 104)
    ax.set_yticks([0, 25, 50, 75, 100], ["0", "25 %", "50 %", "75 %", "100 %"])
    ax.set_xlabel("time a thread waited for a CPU")
    ax.set_ylabel("waits that took longer")
    return handles


def _histogram_caption(runs: Sequence[_Run]) -> str:
    said = []
    for run in runs:
        marks = histogram.quantiles(run.result)
        said.append(f"{axes.time_text(marks[0.5])} and {axes.time_text(marks[0.99])} on {run.name}")
    return f"Half of the waits, and 99 % of them, took at most {'; '.join(said)}."


def _plain(height: float) -> Callable[[Sequence[_Run]], float]:
    return lambda runs: height + 19 * len(runs)


_KINDS: dict[str, tuple[Callable[..., pd.DataFrame], Callable[..., float], Callable[..., list[Any]], Any]] = {
    matrix.KIND: (matrix.frame, _matrix_height, _matrix_panel, _matrix_caption),
    warmup.KIND: (warmup.frame, _plain(350), _warmup_panel, _warmup_caption),
    histogram.KIND: (histogram.frame, _plain(330), _histogram_panel, _histogram_caption),
}
