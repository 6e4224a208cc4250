"""How long threads waited for a CPU, and why: a histogram of waits by cause with its quantiles marked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

from sched_labs.core.errors import ResultError
from sched_labs.draw import axes, style
from sched_labs.draw.base import (
    Drawable,
    Figure,
    Predictions,
    canvas,
    columns,
    dashed,
    draws,
    highest,
    listed,
    machine_name,
    times_ns,
)
from sched_labs.probes.waits import CAUSES, quantile_ns

KIND = "runqlat.histogram"
_COLUMNS = ("instrument", "bin_low_ns", "bin_high_ns", "cause", "waits")
QUANTILES = (0.5, 0.9, 0.99)
_COLOURS = {"wakeup": style.WAKEUP, "preempted": style.PREEMPTED}
_INSTRUMENTS = {"bpf": "counted by BPF", "self_timed": "by the threads' own clocks"}
_STEP = 0.25  # width of a bar in doublings
_WORDS = {"wakeup": "after a wake-up", "preempted": "after a preemption"}


def frame(result: Drawable) -> pd.DataFrame:
    """What the figure shows, one row per bar and cause, shortest waits first.

    - instrument: "bpf" (counted in the kernel) or, where there is none, "self_timed" (the thread clocks)
    - low_ns, high_ns: the bar, a quarter of a doubling wide (wider where the probe's own bins are wider)
    - cause: "wakeup" or "preempted"
    - waits: how many waits of this length and cause; a bin of the probe that lies across the edge of a bar is
      shared out by length, so this need not be whole
    - share_percent: the same as a part of all waits that the instrument saw

    Raises ResultError when the run saw no wait.
    """
    instrument, data = next(iter(_by_instrument(result).items()))
    low = data["bin_low_ns"].to_numpy(float)
    high = data["bin_high_ns"].to_numpy(float)
    # Bins of a few ns are wide for their length, but no bar ends there.
    widest = float(np.log2(high / np.maximum(low, 1.0))[high > 256].max(initial=0.0))
    step = _STEP if widest <= _STEP else math.ceil(widest)
    first = math.floor(math.log2(max(low.min(), 1.0)) / step)
    last = max(math.ceil(math.log2(high.max()) / step), first + 1)
    edges = 2.0 ** (step * np.arange(first, last + 1))
    reach = np.concatenate([[0.0], edges[1:]])  # a wait of 0 ns is in the first bar
    parts = []
    for cause in CAUSES:
        part = pd.DataFrame({"instrument": instrument, "low_ns": edges[:-1], "high_ns": edges[1:]})
        part["cause"] = cause
        part["waits"] = _shared_out(data[data["cause"] == cause], reach)
        part["share_percent"] = 100 * part["waits"] / data["waits"].sum()
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


def _by_instrument(result: Drawable) -> dict[str, pd.DataFrame]:
    """The waits of each instrument that saw any; the kernel's count first: it sees the shortest too."""
    data = columns(result.data, _COLUMNS, "This histogram of waits")
    data = data[data["waits"] > 0]
    if data.empty:
        raise ResultError("The run saw no thread wait for a CPU.", "Measure longer, or with more threads.")
    found = {str(name): rows.reset_index(drop=True) for name, rows in data.groupby("instrument", sort=False)}
    return dict(sorted(found.items(), key=lambda item: item[0] != "bpf"))


def _shared_out(bins: pd.DataFrame, edges: Any) -> Any:
    """How many of the waits in the bins fall between each two edges, spread evenly over their bin."""
    low, high = bins["bin_low_ns"].to_numpy(float)[:, None], bins["bin_high_ns"].to_numpy(float)[:, None]
    inside = np.clip(np.minimum(high, edges[1:]) - np.maximum(low, edges[:-1]), 0, None) / (high - low)
    return (inside * bins["waits"].to_numpy(float)[:, None]).sum(axis=0)


def quantiles(result: Drawable) -> dict[float, float]:
    """The times in ns that half, 90 % and 99 % of the waits in the frame did not exceed: {0.5: ns, ...}."""
    data = next(iter(_by_instrument(result).values()))
    return {q: quantile_ns(data, q) for q in QUANTILES}


@draws(KIND)
def draw(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """Draw the waits by length, stacked by cause, with median and tail marked."""
    table = frame(result)
    marks = quantiles(result)
    pale = None if recorded is None else frame(recorded)
    with style.drawing():
        drawing = canvas(380)
        ax = drawing.add_subplot()
        _axes(ax, [part for part in (table, pale) if part is not None], predictions)
        handles = _bars(ax, table)
        if pale is not None and recorded is not None:
            handles += _recorded(ax, pale, machine_name(recorded.machine))
        handles += [ax.axvline(ns, label=label, **dashed()) for label, ns in times_ns(predictions)]
        drawing.legend(handles=handles, loc="outside upper left", ncols=2)
        drawing.draw_without_rendering()
        axes.mark_x(ax, _marks(marks))
    return Figure(
        drawing,
        alt=_alt(table, marks),
        caption=_caption(table, marks),
        data=table,
        title="How long threads waited for a CPU",
    )


def _axes(ax: Axes, tables: Sequence[pd.DataFrame], predictions: Predictions) -> None:
    times = [ns for _, ns in times_ns(predictions)]
    low = min([*(part["low_ns"].min() for part in tables), *(t / 1.5 for t in times)])
    high = max([*(part["high_ns"].max() for part in tables), *(t * 1.5 for t in times)])
    axes.log_time(ax, "x", low, high * 1.15)
    instrument = str(tables[0]["instrument"].iloc[0])
    ax.set_xlabel(f"time a thread waited for a CPU, {_INSTRUMENTS.get(instrument, instrument)}")
    top = max(part.groupby("low_ns")["share_percent"].sum().max() for part in tables)
    # Room at the top for the names of the quantiles, one row each.
    ax.set_ylim(0, top * 1.38)
    ax.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{axes.number_text(value)} %"))
    ax.set_ylabel("share of all waits")
    ax.grid(visible=False, axis="x")


def _bars(ax: Axes, table: pd.DataFrame) -> list[Any]:
    handles: list[Any] = []
    below: Any = 0.0
    for cause in CAUSES:
        rows = table[table["cause"] == cause]
        colour = style.colour(_COLOURS[cause])
        low, high = rows["low_ns"].to_numpy(float), rows["high_ns"].to_numpy(float)
        share = rows["share_percent"].to_numpy(float)
        if share.sum() > 0:
            ax.bar(
                low,
                share,
                width=high - low,
                bottom=below,
                align="edge",
                color=colour,
                edgecolor=style.colour(style.PAPER),
                linewidth=0.8,
                zorder=2,
            )
            handles.append(Patch(color=colour, label=f"{_WORDS[cause]} ({_percent(share.sum())})"))
        below = below + share
    return handles


def _recorded(ax: Axes, pale: pd.DataFrame, name: str) -> list[Any]:
    sums = pale.groupby(["low_ns", "high_ns"], as_index=False)["share_percent"].sum()
    edges = [*sums["low_ns"], sums["high_ns"].iloc[-1]]
    look: dict[str, Any] = {"color": style.colour(style.RECORDED), "linewidth": 2.0, "zorder": 2.5}
    return [ax.stairs(sums["share_percent"], edges, label=f"recorded: {name}", **look)]


def _marks(marks: dict[float, float]) -> dict[str, float]:
    """The quantiles with their names; those that read the same share a mark."""
    names: dict[str, list[str]] = {}
    places: dict[str, float] = {}
    for q, ns in marks.items():
        text = axes.time_text(ns)
        names.setdefault(text, []).append("half" if q == 0.5 else f"{100 * q:g} %")
        places[text] = ns
    return {f"{listed(names[text])} ≤ {text}": ns for text, ns in places.items()}


def _shares(table: pd.DataFrame) -> dict[str, float]:
    return {cause: float(table.loc[table["cause"] == cause, "share_percent"].sum()) for cause in CAUSES}


def _percent(share: float) -> str:
    """Of one precision for both causes, so that they add up; a share that this would hide has two digits."""
    return f"{share:.1f} %" if share >= 0.05 else f"{axes.number_text(share, 2)} %"


def _caption(table: pd.DataFrame, marks: dict[float, float]) -> str:
    waits = round(float(table["waits"].sum()))
    share = _shares(table)
    most = max(share, key=lambda cause: share[cause])
    words = {"wakeup": "followed a wake-up", "preempted": "followed a preemption"}[most]
    return (
        f"Half of the {waits:,} waits for a CPU took at most {axes.time_text(marks[0.5])}, "
        f"one in a hundred more than {axes.time_text(marks[0.99])}; "
        f"{_percent(share[most])} {words}."
    )


def _alt(table: pd.DataFrame, marks: dict[float, float]) -> str:
    first = str(table["instrument"].iloc[0])
    waits = round(float(table["waits"].sum()))
    parts = [
        f"Histogram on a logarithmic time axis: {waits:,} waits for a CPU, "
        f"{_INSTRUMENTS.get(first, first)}, stacked by cause.",
        "; ".join(f"{100 * q:g} % took at most {axes.time_text(ns)}" for q, ns in marks.items()) + ".",
    ]
    for cause in CAUSES:
        rows = table[(table["cause"] == cause) & (table["waits"] > 0)]
        if rows.empty:
            parts.append(f"No wait {_WORDS[cause]}.")
            continue
        top = highest(rows, "waits")
        often = f", most often {axes.range_text(top['low_ns'], top['high_ns'])} long"
        tied = (rows["waits"] == top["waits"]).sum() > 1
        parts.append(f"{_percent(rows['share_percent'].sum())} {_WORDS[cause]}{'' if tied else often}.")
    return " ".join(parts)
