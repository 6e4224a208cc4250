"""The same waits through several instruments: the mean wait that each of them reports."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

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

KIND = "instruments.compared"
_COLUMNS = ("condition", "instrument", "mean_ns", "mean_lo_ns", "mean_hi_ns", "waiting_percent")
_NAMES = {
    "bpf": "BPF",
    "schedstat": "schedstat",
    "own_clock": "own clock",
    "own_clock_slack": "own clock, with slack",
    "perf": "perf sched",
    "psi": "PSI",
}
_TITLES = {"idle": "woken on an idle CPU", "hog": "woken beside a hog", "queue": "three hogs take turns"}
_COLOURS = {"idle": style.WAKEUP, "hog": style.WAKEUP, "queue": style.PREEMPTED}


def frame(result: Drawable) -> pd.DataFrame:
    """What the figure shows, one row per condition and instrument that counts waits.

    - condition: "idle", "hog", "queue"
    - instrument: "bpf", "schedstat", "own_clock", "own_clock_slack", "perf"
    - mean_ns, mean_lo_ns, mean_hi_ns: the mean wait, with its 95 % interval where there are several trials

    Raises ResultError when no instrument counted a wait.
    """
    table = columns(result.summary(), _COLUMNS, "This comparison of instruments")
    shown = columns(table[table["mean_ns"] > 0], _COLUMNS[:-1], "This comparison without counted waits")
    shown["place"] = [
        (list(_TITLES).index(c), list(_NAMES).index(i))
        for c, i in zip(shown["condition"], shown["instrument"], strict=True)
    ]
    return shown.sort_values("place", ignore_index=True).drop(columns="place")


@draws(KIND)
def draw(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """Draw the mean wait by instrument, one panel per condition."""
    table = frame(result)
    pale = None if recorded is None else frame(recorded)
    conditions = list(table["condition"].unique())
    marks = times_ns(predictions)
    with style.drawing():
        extra = 26 * (1 + len(marks) + (pale is not None))
        drawing = canvas(70 + extra + 46 * len(conditions) + 26 * len(table))
        heights = [1 + (table["condition"] == name).sum() for name in conditions]
        panels = drawing.subplots(
            len(conditions), 1, sharex=True, squeeze=False, gridspec_kw={"height_ratios": heights}
        )[:, 0]
        handles: list[Any] = interval_in_legend(style.INK, table["mean_hi_ns"])
        for ax, condition in zip(panels, conditions, strict=True):
            rows = table[table["condition"] == condition]
            places = np.arange(len(rows))[::-1]
            colour = style.colour(_COLOURS[condition])
            ax.plot(rows["mean_ns"], places, linestyle="none", marker="o", color=colour, zorder=3)
            known = np.isfinite(rows["mean_lo_ns"]) & np.isfinite(rows["mean_hi_ns"])
            ax.hlines(
                places[known], rows["mean_lo_ns"][known], rows["mean_hi_ns"][known], color=colour, zorder=2.8
            )
            if pale is not None and recorded is not None:
                of = pale[pale["condition"] == condition].set_index("instrument")["mean_ns"]
                line = ax.plot(
                    [of.get(name, np.nan) for name in rows["instrument"]],
                    places,
                    linestyle="none",
                    marker="D",
                    markersize=5,
                    color=style.colour(style.RECORDED),
                    label=recorded_name(recorded),
                )
                handles += line if ax is panels[0] else []
            lines = [ax.axvline(ns, label=label, **dashed()) for label, ns in marks]
            handles += lines if ax is panels[0] else []
            ax.set_yticks(places, [_NAMES[name] for name in rows["instrument"]])
            ax.set_ylim(-0.6, len(rows) - 0.4)
            ax.set_title(_TITLES[condition], fontsize=style.SMALL)
        parts = [part["mean_ns"] for part in (table, pale) if part is not None]
        values = np.concatenate([*(part.to_numpy(float) for part in parts), [ns for _, ns in marks]])
        axes.log_time(panels[-1], "x", values.min() / 2, values.max() * 2)
        panels[-1].set_xlabel("mean wait")
        if handles:
            drawing.legend(handles=handles, loc="outside upper left", ncols=1)
    return Figure(
        drawing,
        alt=(_alt(table, result.summary())),
        caption=_caption(table),
        data=table,
        title="The same waits through several instruments",
    )


def _means(table: pd.DataFrame, condition: str) -> dict[str, float]:
    rows = table[table["condition"] == condition]
    return dict(zip(rows["instrument"], rows["mean_ns"], strict=True))


def _caption(table: pd.DataFrame) -> str:
    parts = []
    for condition, words in (("queue", "Of a wait in a queue"), ("idle", "of a wake-up on an idle CPU")):
        means = _means(table, condition)
        if {"schedstat", "bpf"} <= set(means):
            parts.append(f"{words} schedstat sees {means['schedstat'] / means['bpf']:.0%} of what BPF sees")
    if parts:
        text = "; ".join(parts)
        return f"{text[:1].upper()}{text[1:]}."
    condition = str(table["condition"].iloc[0])
    told = [f"{_NAMES[name]} {axes.time_text(ns, 2)}" for name, ns in _means(table, condition).items()]
    return f"The mean wait, {_TITLES[condition]}: {', '.join(told)}."


def _alt(table: pd.DataFrame, summary: pd.DataFrame) -> str:
    parts = ["Dots on a logarithmic time axis: the mean wait that each instrument reports."]
    for condition in table["condition"].unique():
        rows = table[table["condition"] == condition]
        told = ", ".join(f"{_NAMES[row.instrument]} {axes.time_text(row.mean_ns)}" for row in each(rows))
        psi = summary[(summary["condition"] == condition) & (summary["instrument"] == "psi")]
        pressure = (
            ""
            if psi.empty
            else f"; PSI: some thread waited during {psi['waiting_percent'].iloc[0]:.1f} % of the time"
        )
        parts.append(f"{_TITLES[condition][0].upper()}{_TITLES[condition][1:]}: {told}{pressure}.")
    return " ".join(parts)
