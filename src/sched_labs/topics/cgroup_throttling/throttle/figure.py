"""Requests, throttled intervals and cpu.stat on one time axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter

from sched_labs.draw import axes, style
from sched_labs.draw.base import (
    Drawable,
    Figure,
    Predictions,
    also_drawn,
    canvas,
    columns,
    dashed,
    draws,
    each,
    machine_name,
    provenance,
    times_ns,
)

from .experiment import SAMPLES, SPANS, requests

KIND = "throttle.timeline"
SHOWN_PERIODS = 10


def frame(result: Drawable) -> pd.DataFrame:
    """What the upper part shows, one row per request of the first trial: arrival_ns, latency_ns, held.

    held: whether the group was throttled while it waited or was served; missing where that was not seen.
    Raises ResultError when nothing was measured.
    """
    columns(result.data, ("trial", "arrival_ns", "latency_ns", "waited_ns"), "This run of a service")
    table = requests(result)  # type: ignore[arg-type]
    own = table[(table.trial == table.trial.min()) & (table.arrival_ns < _end(result))]
    return own[["arrival_ns", "latency_ns", "held"]].reset_index(drop=True)


def spans(result: Drawable) -> pd.DataFrame:
    """What the middle shows: cpu, begin_ns, end_ns, lasted_ns of the first trial's throttled intervals."""
    table = result.tables.get("spans", pd.DataFrame(columns=SPANS))
    seen = _shown(table[table.trial == result.data.trial.min()], result, "begin_ns", "end_ns")
    return seen.assign(lasted_ns=seen["end_ns"] - seen["begin_ns"])


def samples(result: Drawable) -> pd.DataFrame:
    """What the lower part shows: begin_ns, end_ns between two looks at cpu.stat, and the throttled_ns added.

    The kernel adds a throttling to cpu.stat when it ends.  A look beyond the axis is left out, because it may
    have found what came after it.
    """
    table = pd.DataFrame(result.records("samples"), columns=SAMPLES)
    table = table[table.trial == result.data.trial.min()]
    steps = pd.DataFrame(
        {"begin_ns": table.at_ns.shift(), "end_ns": table.at_ns, "throttled_ns": table.throttled_ns.diff()}
    ).iloc[1:]
    return _shown(steps[steps.end_ns <= _end(result)], result, "begin_ns", "end_ns")


def _end(result: Drawable) -> float:
    p = result.parameters
    return min(1e9 * p["duration_s"], 1000.0 * SHOWN_PERIODS * p["period_us"])


def _shown(table: pd.DataFrame, result: Drawable, begin: str, end: str) -> pd.DataFrame:
    """The part of it that is on the axis."""
    table = table[(table[end] > 0) & (table[begin] < _end(result))]
    return table.assign(
        **{begin: table[begin].clip(lower=0), end: table[end].clip(upper=_end(result))}
    ).reset_index(drop=True)


@draws(KIND)
def draw(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """Draw each request where it was due, above the intervals in which its group was held back."""
    ours = frame(result)
    held_back, looks = spans(result), samples(result)
    pale = None if recorded is None or len(looks) else recorded
    cpus = sorted(held_back["cpu"].unique())
    with style.drawing():
        heights = [200, *([26 + 16 * len(cpus)] if cpus else []), *([80] if len(looks) else [])]
        drawing = canvas(sum(heights) + 90 + 18 * (pale is not None) + 18 * bool(predictions))
        panels = drawing.subplots(
            len(heights), 1, sharex=True, squeeze=False, gridspec_kw={"height_ratios": heights}
        )[:, 0]
        handles = _requests(panels[0], ours, pale, predictions)
        rest = list(panels[1:])
        if cpus:
            _intervals(rest.pop(0), held_back, cpus)
        if len(looks):
            _looks(rest.pop(0), looks)
        if cpus or looks["throttled_ns"].sum() > 0:
            handles.append(Patch(color=style.colour(style.THROTTLED), label="throttled"))
        last, period = panels[-1], 1000 * result.parameters["period_us"]
        last.set_xlim(0, _end(result))
        step = period * max(1, round(_end(result) / period / 5))
        last.xaxis.set_major_locator(FixedLocator(list(np.arange(0, _end(result) + 1, step))))
        last.xaxis.set_major_formatter(FuncFormatter(lambda value, _: axes.time_text(value)))
        last.set_xlabel("time since the server began")
        drawing.legend(handles=handles, loc="outside upper left", ncols=2)
    return Figure(
        drawing,
        KIND,
        alt=_alt(ours, held_back, looks) + also_drawn(pale, predictions),
        caption=_caption(result),
        provenance=provenance(result, pale),
        data=ours,
        also=(held_back, looks),
        title="Requests on a timeline, under a quota",
    )


def _requests(ax: Axes, table: pd.DataFrame, pale: Drawable | None, predictions: Predictions) -> list[Any]:
    before = None if pale is None else frame(pale)
    shown = table if before is None else pd.concat([table, before], ignore_index=True)
    times = [*shown["latency_ns"].clip(lower=1e3), *(ns for _, ns in times_ns(predictions))]
    axes.log_time(ax, "y", min(times) / 1.4, max(times) * 1.4)
    handles: list[Any] = []
    if before is not None and pale is not None:
        name = f"recorded: {machine_name(pale.machine)}"
        colour = style.colour(style.RECORDED)
        handles += ax.plot(before["arrival_ns"], before["latency_ns"], "o", color=colour, label=name)
    held = table["held"].fillna(False).astype(bool)
    for part, role, text in (
        (table[~held], style.OWN, "a request" if table["held"].isna().all() else "met no throttling"),
        (table[held], style.THROTTLED, "met a throttled group"),
    ):
        if len(part):
            colour = style.colour(role)
            handles += ax.plot(
                part["arrival_ns"], part["latency_ns"], "o", color=colour, markersize=4.5, label=text
            )
    handles += [ax.axhline(ns, label=text, **dashed()) for text, ns in times_ns(predictions)]
    ax.set_ylabel("until served")
    ax.set_title("Requests, where they were due")
    return [handle for handle in handles if isinstance(handle, Line2D)]


def _intervals(ax: Axes, table: pd.DataFrame, cpus: Sequence[int]) -> None:
    for row in each(table):
        ax.barh(
            cpus.index(row.cpu),
            row.end_ns - row.begin_ns,
            left=row.begin_ns,
            height=0.62,
            color=style.colour(style.THROTTLED),
            linewidth=0,
        )
    axes.rows(ax, [f"CPU {cpu}" for cpu in cpus])
    ax.set_title("Run queues held back, seen in the kernel")


def _looks(ax: Axes, table: pd.DataFrame) -> None:
    ax.bar(
        table["begin_ns"],
        table["throttled_ns"],
        width=table["end_ns"] - table["begin_ns"],
        align="edge",
        color=style.colour(style.THROTTLED),
        linewidth=0,
    )
    ax.set_ylim(0, max(float(table["throttled_ns"].max()) * 1.15, 1.0))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: axes.time_text(value)))
    ax.yaxis.set_major_locator(FixedLocator(sorted({0.0, float(table["throttled_ns"].max())})))
    ax.set_title("Throttled time added to cpu.stat, look by look")


def _caption(result: Drawable) -> str:
    row = result.summary().iloc[0]
    table = frame(result)
    if not row["periods"]:
        return (
            f"Without a limit half of the requests took {axes.time_text(table['latency_ns'].median(), 2)} or "
            "less; no limit was set here."
        )
    text = (
        f"In the whole first trial cpu.stat counts {row['throttled_periods']:.0f} of {row['periods']:.0f} "
        "periods as throttled"
    )
    if np.isfinite(row["held_percent"]) and np.isfinite(row["held_p50_ns"]):
        text += f"; {axes.number_text(row['held_percent'], 2)} % of the requests met a throttled group"
        if np.isfinite(row["other_p50_ns"]):
            text += (
                f", and half of them took more than {axes.time_text(row['held_p50_ns'])}, half of the "
                f"others more than {axes.time_text(row['other_p50_ns'])}"
            )
    return f"{text}."


def _alt(table: pd.DataFrame, intervals: pd.DataFrame, looks: pd.DataFrame) -> str:
    parts = [
        f"On one time axis. Above, {len(table)} dots, a request each: how long it took, from "
        f"{axes.time_text(table['latency_ns'].min())} to {axes.time_text(table['latency_ns'].max())}."
    ]
    if len(intervals):
        many, cpus = ("s" * int(number > 1) for number in (len(intervals), intervals["cpu"].nunique()))
        parts.append(
            f"Below it, {len(intervals)} throttled interval{many} on {intervals['cpu'].nunique()} CPU{cpus}, "
            f"the longest {axes.time_text(intervals['lasted_ns'].max())}."
        )
    if len(looks):
        parts.append(
            f"At the bottom, {axes.time_text(looks['throttled_ns'].sum())} of throttled time in cpu.stat."
        )
    return " ".join(parts)
