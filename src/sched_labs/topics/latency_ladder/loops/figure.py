"""Switch benchmarks of the literature: time divided by what they assume, and by what was counted."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from sched_labs.draw import axes, style
from sched_labs.draw.base import (
    Drawable,
    Figure,
    Predictions,
    also_in_legend,
    canvas,
    columns,
    dashed,
    draws,
    each,
    interval_in_legend,
    listed,
    times_ns,
)

KIND = "loops.counted"
LOOPS = {
    "process_futex": "futex, processes",
    "thread_futex": "futex, threads",
    "thread_yield": "yield, threads",
}
SETTINGS = {
    "none": "“No CPU affinity”",
    "affinity": "“With CPU affinity”",
    "cpu_0": "“With CPU affinity to CPU 0”",
}
_COLUMNS = (
    "loop", "affinity", "cpus", "assumed_per_iteration", "counted_per_iteration", "published_ns",
    "published_lo_ns", "published_hi_ns", "counted_ns", "counted_lo_ns", "counted_hi_ns",
)  # fmt: skip
_ROW, _HEAD = 24.0, 44.0


def frame(result: Drawable) -> pd.DataFrame:
    """What the figure shows, one row per setting and loop of the summary, without the loop of system calls.

    - affinity: "none", "affinity" or "cpu_0"; cpus: those that both sides really could use
    - loop: "process_futex", "thread_futex" or "thread_yield"; name: what the collection calls it
    - assumed_per_iteration, counted_per_iteration: switches
    - published_ns, published_lo_ns, published_hi_ns: time / assumed switches
    - counted_ns, counted_lo_ns, counted_hi_ns: time / counted switches; missing where hardly any were counted
    - error_ratio: counted_ns / published_ns, how far the published number is off; missing likewise

    Raises ResultError when nothing was measured.
    """
    table = columns(result.summary(), _COLUMNS, "The summary of these loops")
    table = columns(table[table["loop"].isin(list(LOOPS))], _COLUMNS, "The part of this run with switches")
    table["name"] = table["loop"].map(LOOPS)
    table["error_ratio"] = table["counted_ns"] / table["published_ns"]
    for name, order in (("affinity", SETTINGS), ("loop", LOOPS)):
        table[f"_{name}"] = table[name].map({value: place for place, value in enumerate(order)})
    return table.sort_values(["_affinity", "_loop"], ignore_index=True).drop(columns=["_affinity", "_loop"])


@draws(KIND, short_times=True)
def draw(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """Draw both quotients of every loop, one panel per setting of affinity."""
    table = frame(result)
    pale = None if recorded is None else frame(recorded).set_index(["affinity", "loop"])
    settings = list(dict.fromkeys(table["affinity"]))
    heights = [_HEAD + _ROW * (table["affinity"] == setting).sum() for setting in settings]
    with style.drawing():
        drawing = canvas(sum(heights) + 100 + 18 * (recorded is not None) + 18 * bool(predictions))
        panels = drawing.subplots(
            len(settings), 1, sharex=True, squeeze=False, gridspec_kw={"height_ratios": heights}
        )[:, 0]
        for ax, setting in zip(panels, settings, strict=True):
            rows = table[table["affinity"] == setting]
            axes.log_time(ax, "x", *_limits(table, pale, predictions))
            for y, row in enumerate(each(rows)):
                _row(ax, y, row, pale)
            for _, ns in times_ns(predictions):
                ax.axvline(ns, **dashed())
            axes.rows(ax, list(rows["name"]))
            ax.spines["left"].set_visible(False)
            ax.set_title(f"{SETTINGS[setting]}: {_cpus(rows['cpus'].iloc[0])}")
        for ax in panels[:-1]:
            ax.spines["bottom"].set_visible(False)
            ax.tick_params(axis="x", bottom=False, labelbottom=False)
        drawing.set_layout_engine(axes.Layout(h_pad=7 / 72))
        panels[-1].set_xlabel("time per switch")
        drawing.legend(handles=_handles(table, recorded, predictions), loc="outside upper left", ncols=2)
        axes.thin(panels[-1])
    return Figure(
        drawing,
        alt=_alt(table),
        caption=_caption(table),
        data=table,
        title="What switch benchmarks assume and what the kernel counted",
    )


def _cpus(cpus: str) -> str:
    return f"CPU {cpus}" if cpus.isdigit() else f"CPUs {cpus}"


def _limits(table: pd.DataFrame, pale: pd.DataFrame | None, predictions: Predictions) -> tuple[float, float]:
    values = [ns for _, ns in times_ns(predictions)]
    for part in (table, pale):
        if part is not None:
            values += [*part["published_ns"], *part["counted_ns"].dropna()]
    positive = [float(value) for value in values if value > 0]
    return min(positive) / 2, max(positive) * 2


def _row(ax: Axes, y: int, row: Any, pale: pd.DataFrame | None) -> None:
    ink, direct, paper = (style.colour(name) for name in (style.INK, style.DIRECT, style.PAPER))
    if pale is not None and (row.affinity, row.loop) in pale.index:
        before = pale.loc[(row.affinity, row.loop)]
        ax.plot(before["counted_ns"], y, "o", color=style.colour(style.RECORDED), markersize=9, zorder=2)
    if math.isfinite(row.counted_ns):
        ax.plot(
            [row.published_ns, row.counted_ns],
            [y, y],
            color=style.colour(style.GRID),
            linewidth=1.6,
            zorder=1,
        )
        if math.isfinite(row.counted_lo_ns) and math.isfinite(row.counted_hi_ns):
            ax.plot([row.counted_lo_ns, row.counted_hi_ns], [y, y], color=direct, zorder=3)
        ax.plot(row.counted_ns, y, "o", color=direct, zorder=3.4)
    ax.plot(
        row.published_ns,
        y,
        "D",
        color=ink,
        markerfacecolor=paper,
        markeredgewidth=1.6,
        zorder=3.6,
        markersize=7,
    )
    axes.right_of(ax, y, f"{row.assumed_per_iteration:.0f} assumed, {_count(row)}", 10)


def _count(row: Any) -> str:
    some = math.isfinite(row.counted_ns)
    return (
        f"{row.counted_per_iteration:.1f} counted" if some else f"{_few(row.counted_per_iteration)} counted"
    )


def _few(counted: float) -> str:
    """Too few switches an iteration to divide by."""
    return "none" if counted == 0 else "hardly any"


def _handles(table: pd.DataFrame, recorded: Drawable | None, predictions: Predictions) -> list[Line2D]:
    handles = [
        Line2D(
            [],
            [],
            label="divided by assumed switches",
            color=style.colour(style.INK),
            marker="D",
            markerfacecolor=style.colour(style.PAPER),
            markeredgewidth=1.6,
            linestyle="none",
        ),
        Line2D([], [], label="divided by counted switches", color=style.colour(style.DIRECT), marker="o"),
    ]
    handles += interval_in_legend(style.DIRECT, table["counted_hi_ns"])
    return handles + also_in_legend(recorded, predictions, marker="o", markersize=9, linestyle="none")


def _caption(table: pd.DataFrame) -> str:
    agree = abs(table["counted_per_iteration"] / table["assumed_per_iteration"] - 1) <= 0.02
    sentences = [
        f"In {int(agree.sum())} of {len(table)} cases the kernel counted as many switches as the benchmark "
        "assumes (within 2 %)."
    ]
    none = table[table["counted_ns"].isna()]
    if len(none):
        worst = none.iloc[0]
        sentences.append(
            f"The loop “{worst['name']}” with {SETTINGS[worst['affinity']]} would report "
            f"{axes.time_text(worst['published_ns'])} a switch and made "
            f"{_few(worst['counted_per_iteration'])}."
        )
    return " ".join(sentences)


def _alt(table: pd.DataFrame) -> str:
    parts = ["Pairs of marks on a logarithmic time axis: time divided by assumed and by counted switches."]
    for setting, rows in table.groupby("affinity", sort=False):
        said = [
            f"{row.name} {axes.time_text(row.published_ns)} by {row.assumed_per_iteration:.0f} assumed, "
            + (f"{axes.time_text(row.counted_ns)} by " if math.isfinite(row.counted_ns) else "")
            + _count(row)
            for row in each(rows)
        ]
        parts.append(f"{SETTINGS[str(setting)]}, {_cpus(rows['cpus'].iloc[0])}: {listed(said)}.")
    return " ".join(parts)
