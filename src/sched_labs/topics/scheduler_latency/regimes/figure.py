"""How long workers waited for a CPU in each regime: woken workers above the line, yielding ones below."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Patch

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
    each,
    machine_name,
    times_ns,
)

KIND = "regimes.sweep"
_COLUMNS = ("mode", "placement", "regime", "workers", "instrument", "bin_low_ns", "bin_high_ns", "waits")
_STEP = 0.25  # width of a bar in doublings
_COLOURS = {"sleep": style.WAKEUP, "yield": style.PREEMPTED}
_WORDS = {"sleep": "workers that sleep and are woken", "yield": "workers that yield (below the line)"}
_REGIMES = ("light", "matched", "oversubscribed")
_PLACES = {"spread": "on {} CPUs", "pinned": "on one CPU"}
FEWEST = 60  # waits in a cell, below which no histogram is drawn


def frame(result: Drawable) -> pd.DataFrame:
    """What the figure shows, one row per panel, mode and bar.

    - placement, regime, workers: the panel
    - mode: "sleep" or "yield"
    - instrument: "bpf" (counted in the kernel) or, where there is none, "self_timed" (the workers' clocks)
    - low_ns, high_ns: the bar, a quarter of a doubling wide
    - waits: how many waits of this length, all blocks together
    - share_percent: the same as a part of all waits of this mode in this panel

    A mode with fewer than 60 waits in a panel has no rows there: it hardly waited.  Raises ResultError when
    the run saw no wait at all.
    """
    data = columns(result.data, _COLUMNS, "This sweep of regimes")
    name = "bpf" if (data["instrument"] == "bpf").any() else "self_timed"
    data = data[(data["instrument"] == name) & (data["waits"] > 0)]
    parts = []
    for place in _PLACES:
        for regime in _REGIMES:
            for mode in _COLOURS:
                cell = data[
                    (data["placement"] == place) & (data["regime"] == regime) & (data["mode"] == mode)
                ]
                if cell["waits"].sum() >= FEWEST:
                    parts.append(_bars(cell))
    if not parts:
        raise ResultError(
            "The run saw hardly any thread wait for a CPU.", "Measure longer, or with more workers."
        )
    return pd.concat(parts, ignore_index=True)


def _bars(cell: pd.DataFrame) -> pd.DataFrame:
    middle = np.sqrt(cell["bin_low_ns"].clip(lower=1).to_numpy(float) * cell["bin_high_ns"].to_numpy(float))
    number = np.floor(np.log2(middle) / _STEP)
    waits = cell.groupby(number)["waits"].sum()
    first = cell.iloc[0]
    return pd.DataFrame(
        {
            "placement": first["placement"],
            "regime": first["regime"],
            "workers": first["workers"],
            "mode": first["mode"],
            "instrument": first["instrument"],
            "low_ns": 2.0 ** (_STEP * waits.index.to_numpy(float)),
            "high_ns": 2.0 ** (_STEP * (waits.index.to_numpy(float) + 1)),
            "waits": waits.to_numpy(),
            "share_percent": 100 * waits.to_numpy() / waits.sum(),
        }
    )


@draws(KIND)
def draw(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """One panel per regime and placement; the recorded run's median is a pale mark in each."""
    table, summary = frame(result), result.summary()
    pale = None if recorded is None else recorded.summary()
    marks = times_ns(predictions)
    panels = list(dict.fromkeys(zip(table["placement"], table["regime"], strict=True)))
    low = min([table["low_ns"].min(), *(ns for _, ns in marks)]) / 1.4
    high = max([table["high_ns"].max(), *(ns for _, ns in marks)]) * 1.4
    with style.drawing():
        drawing = canvas(74 * len(panels) + 96)
        found = drawing.subplots(len(panels), 1, squeeze=False, sharex=True)[:, 0]
        for ax, (place, regime) in zip(found, panels, strict=True):
            rows = table[(table["placement"] == place) & (table["regime"] == regime)]
            _panel(ax, rows, _title(summary, rows), low, high)
            if pale is not None:
                _recorded(ax, pale[(pale["placement"] == place) & (pale["regime"] == regime)])
            for _, ns in marks:
                ax.axvline(ns, **dashed())
        found[-1].set_xlabel("time a runnable thread waited for a CPU")
        drawing.supylabel("share of the waits", size=style.TEXT)
        drawing.legend(handles=_handles(table, recorded, marks), loc="outside upper left", ncols=1)
    return Figure(
        drawing,
        alt=_alt(table, summary),
        caption=_caption(summary),
        data=table,
        title="Waits for a CPU, by regime",
    )


def _title(summary: pd.DataFrame, rows: pd.DataFrame) -> str:
    first = rows.iloc[0]
    cpus = summary.query("placement == 'spread'")["cpus"]
    where = _PLACES[first["placement"]].format(int(cpus.iloc[0]) if len(cpus) else "all")
    workers = int(first["workers"])
    return f"{first['regime']}: {workers} worker{'' if workers == 1 else 's'} {where}".replace(
        "on 1 CPUs", "on one CPU"
    )


def _panel(ax: Axes, rows: pd.DataFrame, title: str, low: float, high: float) -> None:
    axes.log_time(ax, "x", low, high)
    top = rows["share_percent"].max() * 1.1
    up = "sleep" in set(rows["mode"])
    down = "yield" in set(rows["mode"])
    ax.set_ylim(-top if down else -0.12 * top, top if up else 0.12 * top)
    for mode, part in rows.groupby("mode"):
        sign = 1 if mode == "sleep" else -1
        ax.bar(
            part["low_ns"],
            sign * part["share_percent"],
            width=part["high_ns"] - part["low_ns"],
            align="edge",
            color=style.colour(_COLOURS[str(mode)]),
            edgecolor=style.colour(style.PAPER),
            linewidth=0.6,
        )
    ax.axhline(0, color=style.colour(style.NEUTRAL), linewidth=1.0)
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)
    ax.set_title(title, size=style.SMALL, pad=3)
    ax.grid(visible=True, axis="x")


def _recorded(ax: Axes, rows: pd.DataFrame) -> None:
    for row in each(rows.dropna(subset=["p50_ns"])):
        low, high = (0.5, 0.95) if row.mode == "sleep" else (0.05, 0.5)
        ax.axvline(row.p50_ns, low, high, color=style.colour(style.RECORDED), linewidth=3.0)


def _handles(table: pd.DataFrame, recorded: Drawable | None, marks: Sequence[tuple[str, float]]) -> list[Any]:
    handles: list[Any] = [
        Patch(color=style.colour(colour), label=_WORDS[mode])
        for mode, colour in _COLOURS.items()
        if mode in set(table["mode"])
    ]
    if recorded is not None:
        name = f"half of them, recorded: {machine_name(recorded.machine)}"
        handles.append(Patch(color=style.colour(style.RECORDED), label=name))
    return handles + [Patch(fill=False, edgecolor=style.colour(style.PREDICTED), linestyle="--", label=text)
                      for text, _ in marks]  # fmt: skip


def _half(table: pd.DataFrame, mode: str, place: str, regime: str) -> float:
    row = table[(table["mode"] == mode) & (table["placement"] == place) & (table["regime"] == regime)]
    return float(row["p50_ns"].iloc[0]) if len(row) else math.nan


def _caption(summary: pd.DataFrame) -> str:
    parts = []
    light, full = (_half(summary, "sleep", "spread", regime) for regime in ("light", "oversubscribed"))
    if math.isfinite(light) and math.isfinite(full):
        parts.append(
            "Spread over the CPUs, half of the waits of sleeping workers took at most "
            f"{axes.time_text(light)} in the light regime, {axes.time_text(full)} with four of them for each "
            "CPU"
        )
    pinned = _half(summary, "yield", "pinned", "oversubscribed")
    if math.isfinite(pinned):
        start = "half" if parts else "Half"
        workers = summary.query("placement == 'pinned' and regime == 'oversubscribed'")["workers"].iloc[0]
        parts.append(
            f"{start} of the waits of {workers} yielding workers on one CPU took at most "
            f"{axes.time_text(pinned)}"
        )
    if not parts:
        return "This run has too few waits for a sentence."
    return f"{'; '.join(parts)}."


def _alt(table: pd.DataFrame, summary: pd.DataFrame) -> str:
    parts = [
        "Histograms of waits on one logarithmic time axis, in panels by regime and placement; what half and "
        "99 % of the waits took at most, in the median of the trials that have 20 waits or more."
    ]
    drawn = table[["mode", "placement", "regime"]].drop_duplicates()
    for row in each(summary.dropna(subset=["p50_ns"]).merge(drawn)):
        parts.append(
            f"{row.workers} worker{'' if row.workers == 1 else 's'}, {row.regime}, {row.placement}, "
            f"{row.mode}: {axes.time_text(row.p50_ns)}, {axes.time_text(row.p99_ns)}."
        )
    return " ".join(parts)
