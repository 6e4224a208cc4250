"""What a CPU limit does to threads that never sleep: stalls on a timeline and against the formula."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from sched_labs.draw import axes, style
from sched_labs.draw.base import (
    Drawable,
    Figure,
    Predictions,
    canvas,
    columns,
    dashed,
    draws,
    each,
    interval_in_legend,
    recorded_name,
    times_ns,
)

HOG, THREADS = "quota.hog", "quota.threads"
MORE_CPUS = 16  # for how many CPUs the formula is drawn beside this machine's
_SHOWN = 3  # periods on the timeline, and a bit
_HOG = (
    "share_percent", "period_ns", "stalls", "stall_ns", "stall_lo_ns", "stall_hi_ns", "formula_stall_ns",
    "tolerance_ns", "throttled_percent", "cpu_percent",
)  # fmt: skip
_THREADS = (
    "threads", "cpus", "quota_ns", "period_ns", "ran_ns", "ran_lo_ns", "ran_hi_ns", "formula_ran_ns",
    "stall_ns", "tolerance_ns", "throttled_percent", "cpu_percent",
)  # fmt: skip


def frame(result: Drawable) -> pd.DataFrame:
    """What the lower part of the figure of quota.hog shows, one row per share and period.

    - share_percent (100: without a limit), period_ns
    - stalls: how many; stall_ns, stall_lo_ns, stall_hi_ns: median and 95 % interval; missing without any
    - formula_stall_ns: period - quota; tolerance_ns: a slice of quota and a tick
    - throttled_percent of the periods; cpu_percent of one CPU, over all the time

    Raises ResultError when nothing was measured.
    """
    table = columns(result.summary(), _HOG, "The summary of these stalls")
    return table.sort_values(["period_ns", "share_percent"], ignore_index=True)


def timeline(result: Drawable) -> pd.DataFrame:
    """What the upper part shows: where the worker was off its CPU, in the longest period's first trial.

    share_percent, at_ns, gap_ns, stall (whether the gap is one of the stalls that are counted)
    """
    data = columns(
        result.data, ("share_percent", "period_ns", "trial", "at_ns", "gap_ns"), "This run of a hog"
    )
    period = data["period_ns"].max()
    own = data[(data["period_ns"] == period) & (data["trial"] == data["trial"].min())].copy()
    least = np.maximum(period * (1 - own["share_percent"] / 100) / 2, 1e6)
    throttled = {
        block["share_percent"]
        for block in result.records("blocks")
        if block["throttled_periods"]
        and block["period_ns"] == period
        and block["trial"] == data["trial"].min()
    }
    own["stall"] = own["share_percent"].isin(throttled) & (own["gap_ns"] >= least)
    return own[["share_percent", "at_ns", "gap_ns", "stall"]].reset_index(drop=True)


@draws(HOG)
def draw(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """Draw one trial as a timeline, and the median stall of each limit against period - quota."""
    table, line = frame(result), timeline(result)
    period = float(table["period_ns"].max())
    limited = table[table["share_percent"] < 100]
    pale = None if recorded is None else frame(recorded)
    rows = line["share_percent"].nunique()
    with style.drawing():
        drawing = canvas(120 + 26 * rows + (290 if len(limited) or pale is not None else 0))
        heights = [26 * rows + 40, 250]
        if len(limited) or pale is not None:
            top, below = drawing.subplots(2, 1, gridspec_kw={"height_ratios": heights})
            handles = _formula(below, limited, pale, recorded, predictions)
        else:
            top, handles = drawing.add_subplot(), []
        handles = _timeline(top, line, period) + handles
        drawing.legend(handles=handles, loc="outside upper left", ncols=2)
    return Figure(
        drawing,
        alt=_alt(table, period),
        caption=_caption(table),
        data=table,
        title="A thread that never sleeps under a CPU limit",
    )


def _timeline(ax: Axes, line: pd.DataFrame, period: float) -> list[Any]:
    shares = sorted(line["share_percent"].unique())
    end = _SHOWN * period * 1.1
    line = line[line["at_ns"] < end]
    running, stall, other = (style.colour(name) for name in (style.OWN, style.THROTTLED, style.RIVAL))
    for y, share in enumerate(shares):
        ax.barh(y, end, height=0.62, color=running, linewidth=0)
        for row in each(line[line["share_percent"] == share]):
            width = min(row.gap_ns, end - row.at_ns)
            ax.barh(y, width, left=row.at_ns, height=0.62, color=style.colour(style.PAPER), linewidth=0)
            ax.barh(
                y,
                width,
                left=row.at_ns,
                height=0.12 if row.stall else 0.62,
                color=stall if row.stall else other,
                linewidth=0,
            )
    ax.set_yticks(range(len(shares)), ["no limit" if share == 100 else f"{share:g} %" for share in shares])
    ax.set_xlim(0, end)
    ax.xaxis.set_major_locator(FixedLocator([period * n / 2 for n in range(2 * _SHOWN + 1)]))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: axes.time_text(value)))
    ax.grid(visible=False, axis="y")
    ax.tick_params(axis="y", length=0)
    ax.set_title(f"One thread, its quota as a part of {axes.time_text(period)}")
    handles = [Patch(color=running, label="runs")]
    if line["stall"].any():
        handles.append(Patch(color=stall, label="held back by the limit"))
    if ((line["gap_ns"] > 0) & ~line["stall"]).any():
        handles.append(Patch(color=other, label="off the CPU, no stall counted"))
    return handles


def _formula(
    ax: Axes,
    table: pd.DataFrame,
    pale: pd.DataFrame | None,
    recorded: Drawable | None,
    predictions: Predictions,
) -> list[Any]:
    before = pale[pale["share_percent"] < 100] if pale is not None else table.iloc[:0]
    shown = pd.concat([table, before], ignore_index=True)
    values = shown[["formula_stall_ns", "stall_ns"]].to_numpy(float).ravel()
    values = np.concatenate([values[np.isfinite(values)], [ns for _, ns in times_ns(predictions)]])
    low, high = values.min() / 1.6, values.max() * 1.6
    axes.log_time(ax, "x", low, high)
    axes.log_time(ax, "y", low, high)
    line = np.geomspace(low, high, 100)
    tolerance = float(shown["tolerance_ns"].max())
    handles: list[Any] = [
        ax.fill_between(
            line,
            np.maximum(line - tolerance, low / 10),
            line + tolerance,
            color=style.colour(style.FLOOR),
            linewidth=0,
            zorder=0.6,
            label="within a slice and a tick",
        )
    ]
    handles += ax.plot(line, line, color=style.colour(style.NEUTRAL), linewidth=1.3, label="period − quota")
    for row in each(before[np.isfinite(before["stall_ns"])]):
        ax.plot(
            row.formula_stall_ns,
            row.stall_ns,
            "o",
            color=style.colour(style.RECORDED),
            markersize=9,
            zorder=2,
        )
    if recorded is not None and len(before):
        handles += ax.plot([], [], "o", color=style.colour(style.RECORDED), label=recorded_name(recorded))
    colour = style.colour(style.THROTTLED)
    for row in each(table[np.isfinite(table["stall_ns"])]):
        if np.isfinite(row.stall_lo_ns) and np.isfinite(row.stall_hi_ns):
            ax.plot([row.formula_stall_ns] * 2, [row.stall_lo_ns, row.stall_hi_ns], color=colour, zorder=3)
        ax.plot(row.formula_stall_ns, row.stall_ns, "o", color=colour, zorder=3.5)
    handles += interval_in_legend(style.THROTTLED, table["stall_hi_ns"], upright=True)
    handles += [ax.axhline(ns, label=label, **dashed()) for label, ns in times_ns(predictions)]
    ax.set_xlabel("the rest of the period: period − quota")
    ax.set_ylabel("stall")
    return handles


def _caption(table: pd.DataFrame) -> str:
    limited = table[(table["share_percent"] < 100) & np.isfinite(table["stall_ns"])]
    if limited.empty:
        cpu = float(table["cpu_percent"].iloc[-1])
        why = "no limit was set here" if (table["share_percent"] == 100).all() else "no limit held it back"
        return f"Without a limit the thread had {axes.number_text(cpu, 2)} % of a CPU; {why}."
    row = limited.sort_values(["period_ns", "share_percent"]).iloc[-1]
    middle = limited[limited["share_percent"] == 50]
    row = middle.sort_values("period_ns").iloc[-1] if len(middle) else row
    # Where the formula's stall is shorter than a slice and a tick, nothing could disagree with it.
    told = table[(table["share_percent"] < 100) & (table["formula_stall_ns"] > table["tolerance_ns"])]
    near = (abs(told["stall_ns"] - told["formula_stall_ns"]) <= told["tolerance_ns"]).sum()
    grain = axes.time_text(table["tolerance_ns"].max(), 2)
    agree = (
        f"of the {len(told)} limits whose rest is longer than {grain} (a slice of quota and a tick), {near} "
        f"had a median stall within {grain} of that rest"
    )
    return (
        f"With {row['share_percent']:g} % of {axes.time_text(row['period_ns'])} the thread stands still for "
        f"{axes.time_text(row['stall_ns'])} at a time, where the rest of the period is "
        f"{axes.time_text(row['formula_stall_ns'])}{f'; {agree}' if len(told) > 1 else ''}."
    )


def _alt(table: pd.DataFrame, period: float) -> str:
    limited = table[table["share_percent"] < 100]
    parts = [
        f"Above, bars on a time axis: when one thread ran and when it did not, with a period of "
        f"{axes.time_text(period)}."
    ]
    if len(limited):
        parts.append("Below, the stalls against the rest of the period.")
    for row in each(limited):
        seen = axes.time_text(row.stall_ns) if np.isfinite(row.stall_ns) else "no stall"
        parts.append(f"{row.share_percent:g} % of {axes.time_text(row.period_ns)}: {seen}.")
    return " ".join(parts)


# ---- threads ----


def threads_frame(result: Drawable) -> pd.DataFrame:
    """What the figure of quota.threads shows, one row per number of threads.

    - threads, cpus; quota_ns, period_ns
    - ran_ns, ran_lo_ns, ran_hi_ns: from the start of a period until none of them ran; missing without a stall
    - formula_ran_ns: quota / min(threads, cpus); more_cpus_ns: the same for 16 CPUs, computed
    - stall_ns; tolerance_ns; throttled_percent of the periods; cpu_percent of one CPU

    Raises ResultError when nothing was measured.
    """
    table = columns(result.summary(), _THREADS, "The summary of these threads")
    table["more_cpus_ns"] = table["quota_ns"] / np.minimum(table["threads"], MORE_CPUS)
    return table.sort_values("threads", ignore_index=True)


@draws(THREADS)
def draw_threads(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """Draw how soon a quota is used up by how many threads, beside the formula for here and for 16 CPUs."""
    table = threads_frame(result)
    pale = None if recorded is None else threads_frame(recorded)
    shown = pd.concat([part for part in (table, pale) if part is not None], ignore_index=True)
    with style.drawing():
        drawing = canvas(360)
        ax = drawing.add_subplot()
        values = shown[["ran_ns", "ran_lo_ns", "ran_hi_ns", "formula_ran_ns", "more_cpus_ns"]].to_numpy(float)
        times = [*values[np.isfinite(values)], *(ns for _, ns in times_ns(predictions))]
        axes.log_time(ax, "y", min(times) / 1.3, max(times) * 1.3)
        ax.set_xscale("log", base=2)
        counts = sorted(table["threads"])
        ax.xaxis.set_major_locator(FixedLocator(counts))
        ax.xaxis.set_minor_locator(NullLocator())
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        many = np.geomspace(min(counts), max(counts), 100)
        quota, cpus = float(table["quota_ns"].iloc[0]), int(table["cpus"].iloc[0])
        handles = ax.plot(
            many,
            quota / np.minimum(many, cpus),
            color=style.colour(style.NEUTRAL),
            linewidth=1.5,
            label=f"quota / min(threads, {cpus} CPU{'s' * (cpus > 1)})",
        )
        handles += ax.plot(
            many,
            quota / np.minimum(many, MORE_CPUS),
            color=style.colour(style.NEUTRAL),
            linewidth=1.5,
            linestyle=(0, (1, 2)),
            label=f"the same for {MORE_CPUS} CPUs: computed, not measured",
        )
        if pale is not None and recorded is not None:
            handles += ax.plot(
                pale["threads"],
                pale["ran_ns"],
                "o",
                color=style.colour(style.RECORDED),
                markersize=9,
                zorder=2.5,
                label=recorded_name(recorded),
            )
        colour = style.colour(style.THROTTLED)
        for row in each(table):
            if np.isfinite(row.ran_lo_ns) and np.isfinite(row.ran_hi_ns):
                ax.plot([row.threads] * 2, [row.ran_lo_ns, row.ran_hi_ns], color=colour, zorder=3)
        if np.isfinite(table["ran_ns"]).any():
            handles += ax.plot(
                table["threads"], table["ran_ns"], "o", color=colour, zorder=3.5, label="measured"
            )
        handles += interval_in_legend(style.THROTTLED, table["ran_hi_ns"], upright=True)
        handles += [ax.axhline(ns, label=label, **dashed()) for label, ns in times_ns(predictions)]
        ax.set_xlabel("threads that never sleep")
        ax.set_ylabel("until the quota is used up")
        drawing.legend(handles=handles, loc="outside upper left", ncols=1)
    return Figure(
        drawing,
        alt=_threads_alt(table),
        caption=_threads_caption(table),
        data=table,
        title="How soon threads use up a quota",
    )


def _threads_caption(table: pd.DataFrame) -> str:
    seen = table[np.isfinite(table["ran_ns"])]
    if seen.empty:
        return "No limit held threads back here: nothing was used up."
    one, many = seen.iloc[0], seen.iloc[-1]
    lasts = [f"{_count(row['threads'])} {axes.time_text(row['ran_ns'])}" for row in (one, many)]
    who = "it stands" if many["threads"] == 1 else f"all {many['threads']:g} stand"
    return (
        f"A quota of {axes.time_text(many['quota_ns'])} lasts {' and '.join(dict.fromkeys(lasts))} on "
        f"{many['cpus']:g} CPU{'s' * int(many['cpus'] > 1)}; then "
        f"{who} still for {axes.time_text(many['stall_ns'])}."
    )


def _count(threads: float) -> str:
    return f"{threads:g} thread{'' if threads == 1 else 's'}"


def _threads_alt(table: pd.DataFrame) -> str:
    parts = ["Dots, both axes logarithmic: time until a quota is used up against threads."]
    for row in each(table):
        seen = axes.time_text(row.ran_ns) if np.isfinite(row.ran_ns) else "no stall seen"
        parts.append(f"{_count(row.threads)}: {seen}.")
    return " ".join(parts)
