"""What interrupts a lonely thread: how often something regular does, and all its gaps by length and place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from sched_labs.draw import axes, style
from sched_labs.draw.base import (
    Drawable,
    Figure,
    Predictions,
    canvas,
    columns,
    dashed,
    draws,
    machine_name,
    recorded_name,
    times_ns,
)

KIND = "ticks.gaps"


def frame(result: Drawable) -> pd.DataFrame:
    """What the figure shows, one row per gap.

    - trial, at_ns, gap_ns: when it began, and how long it was
    - phase_percent: where in its trial's period it began, 0 to 100; the whole trial is one period where none
      was found

    Raises ResultError when there was no gap.
    """
    data = columns(result.data, ("trial", "at_ns", "gap_ns"), "This run of gaps")
    found = {t["trial"]: t for t in result.records("found")}
    whole = float(data["at_ns"].max()) or 1.0
    phase = np.empty(len(data))
    for trial, rows in data.groupby("trial"):
        this = found.get(trial, {})
        period = this.get("period_ns")
        if period and math.isfinite(period):
            phase[rows.index] = 100 * ((rows["at_ns"] / period - this.get("phase", 0.0) + 0.5) % 1.0)
        else:
            phase[rows.index] = 100 * rows["at_ns"] / whole
    return data.assign(phase_percent=phase)


@draws(KIND)
def draw(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """Above, the periods that the trials found; below, every gap as a dot by its place in them and length."""
    table = frame(result)
    row = result.summary().iloc[0]
    some = _some(result)
    marks = times_ns(predictions)
    with style.drawing():
        drawing = canvas(460 + 22 * len(marks))
        periods, ax = drawing.subplots(2, 1, height_ratios=[1, 9])
        above = _periods(periods, result, row, recorded, marks)
        axes.log_time(ax, "y", table["gap_ns"].min() / 1.4, table["gap_ns"].max() * 1.4)
        shown = table if len(table) <= 1500 else table.sample(1500, random_state=0)
        handles: list[Any] = [
            *above,
            ax.scatter(
                shown["phase_percent"], shown["gap_ns"], s=16, linewidth=0, alpha=0.6,
                color=style.colour(style.PREEMPTED),
                label="a gap: something else had the CPU"
                + (f" ({len(shown):,} of {len(table):,} drawn)" if len(shown) < len(table) else ""),
            )
        ]  # fmt: skip
        if recorded is not None:
            other = float(recorded.summary()["in_phase_p50_ns"].iloc[0])
            if math.isfinite(other):
                name = f"half of the regular gaps, recorded: {machine_name(recorded.machine)}"
                handles.append(ax.axhline(other, color=style.colour(style.RECORDED), linewidth=3, label=name))
        ax.set_xlim(0, 100)
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0f} %"))
        ax.set_xlabel(_across(row, some))
        ax.set_ylabel("length of the gap")
        drawing.legend(handles=handles, loc="outside upper left", ncols=1)
    of = f"{len(shown):,}" if len(shown) == len(table) else f"{len(shown):,} of {len(table):,}"
    found = math.isfinite(row["period_ns"])
    across = "place in the period" + (", in trials without one time" if some else "") if found else "time"
    return Figure(
        drawing,
        alt=(
            f"{'Above, the period found' if found else 'Above, no period'}, on a logarithmic axis. Below, a "
            f"scatter plot of {of} gaps: length against {across}. {_caption(row, some)}"
        ),
        caption=_caption(row, some),
        data=table,
        title="What interrupts a thread that computes alone",
    )


def _periods(
    ax: Axes, result: Drawable, row: pd.Series, recorded: Drawable | None, marks: Sequence[tuple[str, float]]
) -> list[Any]:
    """The period that each trial found, the kernel's own, a recorded one and the reader's guess."""
    found = [t["period_ns"] for t in result.records("found") if math.isfinite(t["period_ns"] or math.nan)]
    pale = math.nan if recorded is None else float(recorded.summary()["period_ns"].iloc[0])
    tick = float(row["tick_ns"])
    times = [ns for ns in (*found, pale, tick, *(ns for _, ns in marks)) if math.isfinite(ns)] or [1e6, 1e7]
    axes.log_time(ax, "x", min(times) / 2, max(times) * 2)
    ax.set_xlabel("from one regular gap to the next")
    ax.set_yticks([])
    ax.set_ylim(0, 1)
    for side in ("left", "right", "top"):
        ax.spines[side].set_visible(False)
    handles: list[Any] = []
    if math.isfinite(pale) and recorded is not None:
        name = recorded_name(recorded)
        handles.append(ax.axvline(pale, color=style.colour(style.RECORDED), linewidth=6, label=name))
    if math.isfinite(tick):
        look: dict[str, Any] = {"color": style.colour(style.NEUTRAL), "linewidth": 1.4}
        handles.append(ax.axvline(tick, label=f"the kernel's tick, 1/HZ: {axes.time_text(tick)}", **look))
    if found:
        handles += ax.plot(
            found, [0.5] * len(found), linestyle="none", marker="D", markersize=7,
            color=style.colour(style.PREEMPTED),
            label="the period found, a mark for each trial that shows one",
        )  # fmt: skip
    return handles + [ax.axvline(ns, label=text, **dashed()) for text, ns in marks]


def _some(result: Drawable) -> str:
    """In how many trials a period was found, where some have one and others none."""
    periods = [t["period_ns"] or math.nan for t in result.records("found")]
    found = sum(math.isfinite(period) for period in periods)
    return f"found in {found} of {len(periods)} trials" if 0 < found < len(periods) else ""


def _across(row: pd.Series, some: str) -> str:
    if math.isfinite(row["period_ns"]):
        place = f"place in a period of {axes.time_text(row['period_ns'])}, "
        return place + ("or in a trial without one" if some else "the regular gaps at 50 %")
    return "time in the trial (no period found)"


def _caption(row: pd.Series, some: str) -> str:
    took = f"{axes.number_text(row['lost_percent'], 2)} % of the time"
    if not math.isfinite(row["period_ns"]):
        return f"The {int(row['gaps']):,} gaps took {took} and show no period."
    seen = f", {some}," if some else ""
    return (
        f"The {int(row['gaps']):,} gaps took {took}; the regular ones among them{seen} come every "
        f"{axes.time_text(row['period_ns'])}, and half of these take "
        f"{axes.time_text(row['in_phase_p50_ns'])} or less."
    )
