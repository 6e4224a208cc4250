"""What a policy changes: how late a worker runs, what a hog leaves to another, what the kernel promises."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter

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
    machine_name,
    percents,
    recorded_name,
    times_ns,
)

from .experiment import FEWEST_FOR_TAIL, away

SWEEP, HOG, ADMISSION = "policies.sweep", "policies.hog", "policies.admission"
_ROW = 38.0
_LOADS = {"light": ("o", -0.17), "heavy": ("s", 0.17)}
_LATEST: dict[str, Any] = {"marker": "|", "markersize": 11, "markeredgewidth": 1.6}
_NOT_RUN: dict[str, Any] = {"marker": ">", "markersize": 8}
_ASKS = {"light": "asks for 2 % of the CPU", "heavy": "asks for 20 %"}


# ---- sweep ------------------------------------------------------------------------------------------------


def sweep_frame(result: Drawable) -> pd.DataFrame:
    """What the figure of `policies.sweep` shows, one row per policy and load, in its order.

    - policy, load: what the worker was given, and how much it asks for ("light" or "heavy")
    - wakes, wakes_per_trial: how often it was due, in all and in each trial
    - p50_ns, p99_ns, max_ns: how late half, 99 % and all of its wake-ups were at most
    - p50_lo_ns, p50_hi_ns: 95 % interval of the first
    - not_run: wake-ups that had not run when their block was over; they count as late as they were
    - worker_cpu_percent: what it got of the CPU
    - at_home_percent: wake-ups that ran on the hogs' CPU; missing where none ran

    Raises ResultError when nothing was measured.
    """
    wanted = (
        "policy", "load", "wakes", "wakes_per_trial", "p50_ns", "p50_lo_ns", "p50_hi_ns", "p99_ns", "max_ns",
        "not_run", "worker_cpu_percent", "at_home_percent",
    )  # fmt: skip
    table = columns(result.summary(), wanted, "The summary of these policies")
    order = {policy: place for place, policy in enumerate(dict.fromkeys(table["policy"]))}
    # The same policy with the default timer slack belongs next to the one without.
    first = str(table["policy"].iloc[0])
    rank = table["policy"].map(lambda p: 0.5 if str(p).startswith(f"{first}, slack") else order[p])
    return table.iloc[rank.argsort(kind="stable")].reset_index(drop=True)


@draws(SWEEP)
def draw_sweep(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """A row per policy: from half of the wake-ups (mark) to 99 % (line's end) and the latest (tick)."""
    table = sweep_frame(result)
    pale = None if recorded is None else sweep_frame(recorded)
    names = list(dict.fromkeys(table["policy"]))
    marks = times_ns(predictions)
    parts = [part for part in (table, pale) if part is not None]
    low = min([*(part["p50_ns"].min() for part in parts), *(ns for _, ns in marks)]) / 1.6
    high = max([*(part["max_ns"].max() for part in parts), *(ns for _, ns in marks)]) * 1.6
    with style.drawing():
        drawing = canvas(_ROW * len(names) + 150)
        ax = drawing.add_subplot()
        axes.log_time(ax, "x", low, high)
        _rows_axis(ax, names)
        if pale is not None:
            _sweep_rows(ax, pale[pale["policy"].isin(names)], names, style.RECORDED, width=6.0)
        _sweep_rows(ax, table, names, style.WAKEUP, width=2.4)
        for _, ns in marks:
            ax.axvline(ns, **dashed())
        ax.set_xlabel("how late the worker ran")
        drawing.legend(handles=_sweep_handles(table, recorded, marks), loc="outside upper left", ncols=1)
    return Figure(
        drawing,
        alt=_sweep_alt(table),
        caption=_sweep_caption(table),
        data=table,
        title="How late a worker runs among hogs, by policy",
    )


def _rows_axis(ax: Axes, names: Sequence[str]) -> None:
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.set_yticks(range(len(names)), [name.replace(" beside ", "\nbeside ") for name in names])
    ax.tick_params(axis="y", length=0)
    ax.grid(visible=False, axis="y")
    ax.spines["left"].set_visible(False)


def _sweep_rows(ax: Axes, table: pd.DataFrame, names: Sequence[str], role: str, width: float) -> None:
    colour = style.colour(role)
    pale = role == style.RECORDED
    for row in each(table):
        marker, shift = _LOADS[str(row.load)]
        y = names.index(row.policy) + shift
        ax.plot([row.p50_ns, row.p99_ns], [y, y], color=colour, linewidth=width, zorder=1.8 if pale else 2.5)
        if not pale:
            filled = colour if row.load == "light" else style.colour(style.PAPER)
            ax.plot(row.p50_ns, y, marker=marker, color=colour, markerfacecolor=filled, markeredgewidth=2,
                    zorder=3)  # fmt: skip
            look = _NOT_RUN if row.not_run else _LATEST
            ax.plot(row.max_ns, y, color=colour, zorder=3, **look)


def _sweep_handles(
    table: pd.DataFrame, recorded: Drawable | None, marks: Sequence[tuple[str, float]]
) -> list[Line2D]:
    colour = style.colour(style.WAKEUP)
    handles = [
        Line2D([], [], color=colour, marker=marker, markeredgewidth=2,
               markerfacecolor=colour if load == "light" else style.colour(style.PAPER),
               label=f"{_ASKS[load]}: half of its wake-ups (mark) to 99 % (line)")
        for load, (marker, _) in _LOADS.items()
    ]  # fmt: skip
    handles.append(Line2D([], [], color=colour, linestyle="none", label="the latest of all", **_LATEST))
    if table["not_run"].any():
        words = "some had not run by then: a lower bound"
        handles.append(Line2D([], [], color=colour, linestyle="none", label=words, **_NOT_RUN))
    handles += also_in_legend(recorded, (), linewidth=6)
    return handles + [Line2D([], [], label=text, **dashed()) for text, _ in marks]


def _sweep_caption(table: pd.DataFrame) -> str:
    table = table[~away(table)]
    if table.empty:
        return "No worker kept to the hogs' CPU, so nothing can be compared."
    load = "heavy" if (table["load"] == "heavy").any() else "light"  # every policy has it; few have both
    compared = table[table["load"] == load].sort_values("p99_ns", kind="stable")
    best, worst = compared.iloc[0], compared.iloc[-1]
    of = int(table["wakes_per_trial"].min())
    which = "one in a hundred wake-ups" if of >= FEWEST_FOR_TAIL else f"the latest of {of} wake-ups"
    which += f" of the worker that {_ASKS[load]}"
    other = f"{axes.time_text(worst['p99_ns'])} under {worst['policy']}"
    if worst["not_run"] == worst["wakes"]:
        other = f"under {worst['policy']} none ran before its block ended"
    elif worst["not_run"]:
        other += f", where {worst['not_run']} of {worst['wakes']} had not run when their block ended"
    return (
        f"On the same CPU {which} is {axes.time_text(best['p99_ns'])} late or more under "
        f"{best['policy']}, and {other}."
    )


def _sweep_alt(table: pd.DataFrame) -> str:
    parts = [
        "Dot plot on a logarithmic time axis: how late half, 99 % and all of a worker's wake-ups are at most."
    ]
    for row in each(table):
        # What had not run counts as late as it was then: any quantile may be longer.
        least = " (or more)" if row.not_run else ""
        times = ", ".join(axes.time_text(ns) for ns in (row.p50_ns, row.p99_ns, row.max_ns))
        parts.append(f"{row.policy}, {row.load}: {times}{least}.")
    return " ".join(parts)


# ---- hog --------------------------------------------------------------------------------------------------


def hog_frame(result: Drawable) -> pd.DataFrame:
    """What the figure of `policies.hog` shows, one row per pair.

    - pair: the policies of the two hogs
    - second_percent, second_lo_percent, second_hi_percent: what the second hog got, median and 95 % interval
    - longest_gap_ns: the longest time for which it did not run

    Raises ResultError when nothing was measured.
    """
    wanted = ("pair", "second_percent", "second_lo_percent", "second_hi_percent", "longest_gap_ns")
    return columns(result.summary(), wanted, "The summary of these hogs")


@draws(HOG)
def draw_hog(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """Each pair's CPU as one bar: what the second hog got is the strong part."""
    marks = percents(predictions)
    table = hog_frame(result)
    names = [str(name) for name in table["pair"]]
    with style.drawing():
        drawing = canvas(_ROW * 1.2 * len(names) + 120 + 22 * len(marks))
        ax = drawing.add_subplot()
        _rows_axis(ax, names)
        first, second = style.colour(style.FLOOR), style.colour(style.ALONE)
        ax.barh(range(len(names)), 100, color=first, height=0.6)
        ax.barh(range(len(names)), table["second_percent"], color=second, height=0.6)
        for y, row in enumerate(each(table)):
            right = row.second_percent <= 60  # beyond that the words would leave the figure
            ax.annotate(
                f"{axes.number_text(row.second_percent, 2)} %, longest gap "
                f"{axes.time_text(row.longest_gap_ns, 2)}",
                (max(row.second_percent, 0), y), xytext=(6 if right else -6, 0), textcoords="offset points",
                ha="left" if right else "right", va="center", fontsize=style.SMALL, zorder=3.5,
                bbox={"facecolor": first, "edgecolor": "none", "pad": 1},
            )  # fmt: skip
        handles: list[Any] = [Patch(color=second, label="what the second of two hogs gets")]
        handles.append(Patch(color=first, label="what the first takes"))
        if recorded is not None:
            handles.append(_hog_recorded(ax, hog_frame(recorded), names, machine_name(recorded.machine)))
        handles += [ax.axvline(share, label=text, **dashed()) for text, share in marks]
        ax.set_xlim(0, max([100.0, *(1.03 * share for _, share in marks)]))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0f} %"))
        ax.set_xlabel("of what the two had of their CPU")
        drawing.legend(handles=handles, loc="outside upper left", ncols=1)
    return Figure(
        drawing,
        alt=_hog_alt(table),
        caption=_hog_caption(table),
        data=table,
        title="What a hog leaves to another",
    )


def _hog_recorded(ax: Axes, pale: pd.DataFrame, names: Sequence[str], machine: str) -> Line2D:
    look: dict[str, Any] = {"color": style.colour(style.RECORDED), "linewidth": 3.0}
    for row in each(pale[pale["pair"].isin(names)]):
        y = names.index(row.pair)
        ax.plot([row.second_percent] * 2, [y - 0.4, y + 0.4], **look)
    return Line2D([], [], label=f"recorded: {machine}", **look)


def _hog_caption(table: pd.DataFrame) -> str:
    row = table.iloc[-1]
    return (
        f"In the pair {row['pair']} the second hog gets {axes.number_text(row['second_percent'], 2)} % of "
        f"what the two have of their CPU, and once waited {axes.time_text(row['longest_gap_ns'])} for it."
    )


def _hog_alt(table: pd.DataFrame) -> str:
    parts = ["Bars: what the second of two hogs on one CPU gets, by pair of policies."]
    parts += [f"{row.pair}: {axes.number_text(row.second_percent, 2)} %." for row in each(table)]
    return " ".join(parts)


# ---- admission --------------------------------------------------------------------------------------------


def admission_frame(result: Drawable) -> pd.DataFrame:
    """What the figure of `policies.admission` shows, one row per reservation.

    - number: the how-manieth
    - asked_percent: all reservations so far and this one, per CPU
    - granted: whether the kernel took it

    Raises ResultError when nothing was measured.
    """
    data = columns(result.data, ("number", "reservation_percent", "granted"), "This row of reservations")
    cpus = int(result.summary()["cpus"].iloc[0])
    return pd.DataFrame(
        {
            "number": data["number"],
            "asked_percent": data["reservation_percent"].cumsum() / cpus,
            "granted": data["granted"].astype(bool),
        }
    )


@draws(ADMISSION)
def draw_admission(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """The reservations as steps up to the refusal, with the kernel's limit."""
    marks = percents(predictions)
    table = admission_frame(result)
    row = result.summary().iloc[0]
    granted, refused = table[table["granted"]], table[~table["granted"]]
    with style.drawing():
        drawing = canvas(300)
        ax = drawing.add_subplot()
        handles: list[Any] = [
            ax.bar(granted["number"], granted["asked_percent"], color=style.colour(style.ALONE), width=0.8,
                   label="granted")
        ]  # fmt: skip
        if len(refused):
            handles.append(
                ax.bar(refused["number"], refused["asked_percent"], fill=False, hatch="///", width=0.8,
                       edgecolor=style.colour(style.THROTTLED), label=f"refused ({row['refused_by']})")
            )  # fmt: skip
        if math.isfinite(row["limit_percent"]):
            look: dict[str, Any] = {"color": style.colour(style.NEUTRAL), "linewidth": 1.2}
            label = f"rt_runtime / rt_period: {axes.number_text(row['limit_percent'])} %"
            handles.append(ax.axhline(row["limit_percent"], label=label, **look))
        if recorded is not None:
            edge = float(recorded.summary()["granted_percent"].iloc[0])
            name = recorded_name(recorded)
            handles.append(ax.axhline(edge, color=style.colour(style.RECORDED), linewidth=3.0, label=name))
        handles += [ax.axhline(share, label=text, **dashed()) for text, share in marks]
        ax.set_ylim(0, max([105.0, *(1.03 * share for _, share in marks)]))
        ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0f} %"))
        ax.set_ylabel("reserved, per CPU")
        ax.set_xlabel("reservations asked for, one after the other")
        ax.grid(visible=False, axis="x")
        drawing.legend(handles=handles, loc="outside upper left", ncols=1)
    return Figure(
        drawing,
        alt=f"Bars that rise from reservation to reservation. {_admission_caption(row)}",
        caption=_admission_caption(row),
        data=table,
        title="How much CPU time the kernel promises",
    )


def _admission_caption(row: pd.Series) -> str:
    which = "the CPU" if row["cpus"] == 1 else f"each of {row['cpus']} CPUs"
    text = f"The kernel promises {axes.number_text(row['granted_percent'])} % of {which} to deadline threads"
    if row["refused_by"] is None or pd.isna(row["refused_by"]):
        return f"{text}, and had not refused when the threads ran out."
    return f"{text}; {axes.number_text(row['step_percent'])} % more is refused with {row['refused_by']}."
