"""What a CPU limit does to requests: a histogram per condition, and what each instrument shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

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
    listed,
    times_ns,
)
from sched_labs.draw.panels import TIME, Panel, check_predictions

from .experiment import closest, modelled, usual_ns

LATENCY, CONTENTION = "service.latency", "service.contention"
BARS_PER_DOUBLING = 4
_KEYS = ["limit", "demand_percent", "neighbour", "hogs"]
_SUMMARY = (
    *_KEYS,
    "arrived",
    "p50_ns",
    "p99_ns",
    "p99_lo_ns",
    "p99_hi_ns",
    "second_mode_ns",
    "periods",
    "throttled_percent",
    "run_delay_ns",
    "pressure_percent",
)
_CAUSES = ("held_ns", "rivals_ns")
_ROW = 40.0


def frame(result: Drawable) -> pd.DataFrame:
    """What the figure shows, one row per condition and bar that is not empty.

    - limit, demand_percent, neighbour, hogs: the condition
    - low_ns, high_ns: the bar, a quarter of a doubling wide
    - requests, share_percent: how many requests of the condition took so long
    - beyond: whether the bar lies beyond what 99 % of the requests did not exceed without a limit, at the
      highest demand

    A request that nobody had taken at the end counts with the time that it had waited until then.
    Raises ResultError when nothing was measured.
    """
    data = columns(result.data, (*_KEYS, "latency_ns", "waited_ns"), "This run of a service")
    data["latency_ns"] = data["latency_ns"].fillna(data["waited_ns"])
    table = _bars_of(data)
    table["beyond"] = table["low_ns"] >= usual_ns(data)
    return table


def _bars_of(data: pd.DataFrame) -> pd.DataFrame:
    bar = np.floor(np.log2(data["latency_ns"].clip(lower=1.0)) * BARS_PER_DOUBLING).astype(int)
    table = data.assign(bar=bar).groupby([*_KEYS, "bar"], sort=False).size().rename("requests").reset_index()
    table["low_ns"] = 2.0 ** (table["bar"] / BARS_PER_DOUBLING)
    table["high_ns"] = 2.0 ** ((table["bar"] + 1) / BARS_PER_DOUBLING)
    table["share_percent"] = 100 * table["requests"] / table.groupby(_KEYS)["requests"].transform("sum")
    return table.drop(columns="bar")


def label(limit: str, demand: float, neighbour: str, hogs: float) -> str:
    """A condition in words."""
    words = {"none": "no limit", "quota": f"quota, demand {demand:g} %"}.get(limit, limit)
    if (limit, neighbour) == ("none", "idle"):
        return f"{words}, demand {demand:g} %"
    if neighbour == "busy":  # always with the highest demand
        return f"{words.partition(',')[0]}, busy neighbour"
    return {"idle": words}.get(neighbour, f"{words}, {hogs:g} hog{'s' * int(hogs > 1)}")


@draws(LATENCY)
def draw(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """Draw how long requests took, a row of bars per condition, with p99 and throttled periods."""
    table = frame(result)
    summary = columns(result.summary(), _SUMMARY, "The summary of this service")
    pale = None if recorded is None else frame(recorded)
    computed = _bars_of(modelled(result))  # type: ignore[arg-type]
    conditions = list(each(summary))
    rows = len(conditions)
    with style.drawing():
        drawing = canvas(110 + _ROW * rows + 18 * (recorded is not None) + 18 * bool(predictions))
        ax = drawing.add_subplot()
        values = [table["low_ns"].min(), table["high_ns"].max(), *(ns for _, ns in times_ns(predictions))]
        if pale is not None:
            values += [pale["low_ns"].min(), pale["high_ns"].max()]
        axes.log_time(ax, "x", min(values) / 1.1, max(values) * 1.1)
        top = float(table["share_percent"].max())
        for number, row in enumerate(conditions):
            base = rows - 1 - number
            _row(ax, base, _own(table, row), top, row)
            if pale is not None:
                _outline(ax, base, _own(pale, row), top, style.RECORDED)
            _outline(ax, base, _own(computed, row), top, style.NEUTRAL)
        _around(ax, conditions)
        handles = _handles(conditions, table, recorded)
        if len(computed):
            handles.append(Line2D([], [], color=style.colour(style.NEUTRAL), label="computed: the model"))
        handles += [ax.axvline(ns, label=text, **dashed()) for text, ns in times_ns(predictions)]
        drawing.legend(handles=handles, loc="outside upper left", ncols=2)
        axes.thin(ax)
    return Figure(
        drawing,
        alt=_alt(summary),
        caption=_caption(summary),
        data=table,
        title="How long requests took, under each limit",
    )


def _own(table: pd.DataFrame, row: Any) -> pd.DataFrame:
    wanted = [getattr(row, key) for key in _KEYS]
    return table[(table[_KEYS] == wanted).all(axis=1)]


def _late(row: Any) -> str:
    """The colour of what is later than usual: by the limit where there is one, else by somebody else."""
    return style.THROTTLED if str(row.limit).startswith("quota") else style.RIVAL


def _row(ax: Axes, base: float, bars: pd.DataFrame, top: float, row: Any) -> None:
    for beyond, colour in ((False, style.OWN), (True, _late(row))):
        part = bars[bars["beyond"] == beyond]
        ax.bar(
            part["low_ns"],
            0.86 * part["share_percent"] / top,
            width=part["high_ns"] - part["low_ns"],
            bottom=base,
            align="edge",
            color=style.colour(colour),
            edgecolor=style.colour(style.PAPER),
            linewidth=0.6,
        )
    ax.axhline(base, color=style.colour(style.GRID), linewidth=1.0, zorder=0.8)


def _outline(ax: Axes, base: float, bars: pd.DataFrame, top: float, colour: str) -> None:
    """The same bars of another run as a line above the row's floor."""
    if bars.empty:
        return
    bars = bars.sort_values("low_ns")
    steps = np.round(np.log2(bars["low_ns"].to_numpy(float)) * BARS_PER_DOUBLING).astype(int)
    heights = np.zeros(steps[-1] - steps[0] + 1)
    heights[steps - steps[0]] = bars["share_percent"]
    edges = 2.0 ** (np.arange(steps[0], steps[-1] + 2) / BARS_PER_DOUBLING)
    ax.stairs(
        base + 0.86 * np.minimum(heights / top, 1.1),
        edges,
        baseline=base,
        color=style.colour(colour),
        linewidth=1.6,
        zorder=3,
    )


def _around(ax: Axes, conditions: Sequence[Any]) -> None:
    """Names on the left; p99 and the share of throttled periods in columns on the right."""
    rows = len(conditions)
    ax.set_ylim(-0.1, rows)
    names = [label(row.limit, row.demand_percent, row.neighbour, row.hogs) for row in conditions]
    ax.set_yticks([rows - 1 - n + 0.3 for n in range(rows)], [name.replace(", ", ",\n") for name in names])
    ax.tick_params(axis="y", length=0)
    ax.grid(visible=False, axis="y")
    ax.spines["left"].set_visible(False)
    ax.set_xlabel("from the moment a request was due until it was served")
    for x, head, values in (
        (46, "p99", [axes.time_text(row.p99_ns) for row in conditions]),
        (122, "throttled", [f"{row.throttled_percent:.0f} %" if row.periods else "–" for row in conditions]),
    ):
        for y, text in [
            (rows + 0.05, head),
            *((rows - 1 - n + 0.3, value) for n, value in enumerate(values)),
        ]:
            axes.beside(ax, y, text, x, "bold" if y > rows else "normal")


def _handles(conditions: Sequence[Any], bars: pd.DataFrame, recorded: Drawable | None) -> list[Any]:
    compared = any(row.limit == "none" and row.neighbour == "idle" for row in conditions)
    usual = "as without a limit" if compared else "requests"
    handles: list[Any] = [Patch(color=style.colour(style.OWN), label=usual)]
    words = {style.THROTTLED: "later, under a quota", style.RIVAL: "later, without one"}
    for colour in dict.fromkeys(_late(row) for row in conditions if _own(bars, row)["beyond"].any()):
        handles.append(Patch(color=style.colour(colour), label=words[colour]))
    handles += also_in_legend(recorded, ())
    return handles


def _caption(summary: pd.DataFrame) -> str:
    plain = summary[(summary["limit"] == "none") & (summary["neighbour"] == "idle")]
    quota = summary[(summary["limit"] == "quota") & (summary["neighbour"] == "idle")]
    if plain.empty or quota.empty:
        alone = summary[summary["neighbour"] == "idle"]
        rows = each(summary if alone.empty else alone)
        said = [
            f"{axes.time_text(row.p99_ns)} ({label(row.limit, row.demand_percent, row.neighbour, row.hogs)})"
            for row in rows
        ]
        return f"One request in a hundred took more than {listed(said)}."
    one, other = plain.iloc[0], quota.sort_values("demand_percent").iloc[-1]
    apart = other["p99_lo_ns"] > one["p99_hi_ns"] or other["p99_hi_ns"] < one["p99_lo_ns"]
    text = (
        f"At a demand of {other['demand_percent']:g} % of the quota "
        f"{other['throttled_percent']:.0f} % of the periods were throttled, and the slowest "
        f"hundredth took {axes.time_text(other['p99_ns'])} or more; without a limit, "
        f"{axes.time_text(one['p99_ns'])}{'' if apart else ' (the intervals overlap)'}"
    )
    if np.isfinite(other["second_mode_ns"]):
        densest = axes.time_text(other["second_mode_ns"], 2)
        text += f"; under the quota, what took longer than that lies densest near {densest}"
    return f"{text}."


def _alt(summary: pd.DataFrame) -> str:
    parts = ["Rows of histograms on one logarithmic time axis: how long requests took in each condition."]
    for row in each(summary):
        throttled = f", {row.throttled_percent:.0f} % of the periods throttled" if row.periods else ""
        parts.append(
            f"{label(row.limit, row.demand_percent, row.neighbour, row.hogs)}: 99 % at most "
            f"{axes.time_text(row.p99_ns)}{throttled}."
        )
    return " ".join(parts)


# ---- contention ----

_INSTRUMENTS = (
    ("p99_ns", "slowest hundredth of the requests"),
    ("throttled_percent", "throttled periods (cpu.stat)"),
    ("run_delay_ns", "run-queue wait per request (schedstat)"),
    ("held_ns", "wait per request, held back by the quota (BPF)"),
    ("rivals_ns", "wait per request, another thread had the CPU (BPF)"),
    ("pressure_percent", "time under CPU pressure (PSI)"),
)
_ASKED = "run_delay_ns"  # which of them the chapter asks a prediction of


def contention_frame(result: Drawable) -> pd.DataFrame:
    """What the figure of service.contention shows: alone, the quota, and the hogs with the nearest p99.

    limit, demand_percent, neighbour, hogs, p99_ns, throttled_percent (missing where no limit was set),
    run_delay_ns, held_ns, rivals_ns (per request; the last two missing without BPF) and pressure_percent, as
    in the summary.
    Raises ResultError when nothing was measured.
    """
    summary = columns(result.summary(), (*_SUMMARY, *_CAUSES), "The summary of this service")
    table = closest(summary)
    if not (table["limit"] == "quota").any():
        table["throttled_percent"] = np.nan  # no cpu.stat was read
    return table[[*_KEYS, *(name for name, _ in _INSTRUMENTS)]].reset_index(drop=True)


@draws(CONTENTION)
def draw_contention(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """Draw what each instrument shows of a service alone, under a quota and among hogs."""
    table = contention_frame(result)
    pale = None if recorded is None else contention_frame(recorded)
    shown = _shown(table)
    check_predictions([Panel(title, name, TIME) for name, title in shown if name == _ASKED], predictions)
    with style.drawing():
        drawing = canvas((46 + 19 * len(table)) * len(shown) + 40 + 18 * bool(predictions))
        panels = drawing.subplots(len(shown), 1, squeeze=False)[:, 0]
        handles: list[Any] = []
        for ax, (name, title) in zip(panels, shown, strict=True):
            _bars(ax, table, pale, name, title)
            if name == _ASKED:
                handles += [ax.axvline(ns, label=text, **dashed()) for text, ns in times_ns(predictions)]
                ax.set_xlim(0, max([ax.get_xlim()[1], *(1.03 * ns for _, ns in times_ns(predictions))]))
        handles += also_in_legend(recorded, (), marker="D", linestyle="none")
        if handles:
            drawing.legend(handles=handles, loc="outside upper left", ncols=1)
    return Figure(
        drawing,
        alt=_contention_alt(table),
        caption=_contention_caption(table),
        data=table,
        title="A limit and a neighbour, seen with several instruments",
    )


def _shown(table: pd.DataFrame) -> list[tuple[str, str]]:
    """The instruments that this machine has."""
    return [(name, title) for name, title in _INSTRUMENTS if table[name].notna().any()]


def _short(row: Any) -> str:
    if row.limit == "quota":
        return "quota"
    return "alone" if row.neighbour == "idle" else f"{row.hogs:g} hog{'s' * int(row.hogs > 1)}"


def _text(name: str, value: float) -> str:
    if not np.isfinite(value):
        return "unknown"
    return axes.time_text(value) if name.endswith("_ns") else f"{axes.number_text(value, 2)} %"


def _bars(ax: Axes, table: pd.DataFrame, pale: pd.DataFrame | None, name: str, title: str) -> None:
    colours = {"alone": style.OWN, "quota": style.THROTTLED}
    words = [_short(row) for row in each(table)]
    values = table[name].to_numpy(float)
    before = {} if pale is None else {_short(row): float(getattr(row, name)) for row in each(pale)}
    most = np.nanmax([*values, *(before.get(word, 0.0) for word in words), 1e-9])
    for y, (word, value) in enumerate(zip(words, values, strict=True)):
        ax.barh(
            y,
            max(value, 0) if np.isfinite(value) else 0,
            height=0.66,
            color=style.colour(colours.get(word, style.RIVAL)),
        )
        if np.isfinite(before.get(word, np.nan)):
            ax.plot(before[word], y, "D", color=style.colour(style.RECORDED), zorder=3)
        axes.right_of(ax, y, _text(name, value), 8)
    ax.set_xlim(0, most * 1.03)
    ax.set_ylim(len(words) - 0.4, -0.6)
    ax.set_yticks(range(len(words)), words)
    ax.set_xticks([])
    ax.grid(visible=False)
    ax.tick_params(axis="y", length=0)
    ax.spines["bottom"].set_visible(False)
    ax.set_title(title)


def _contention_caption(table: pd.DataFrame) -> str:
    rows = {("quota" if row.limit == "quota" else row.neighbour): row for row in each(table)}
    hogs, quota = rows.get("hogs"), rows.get("quota")
    if quota is None or hogs is None:
        return "No limit was set here."
    return (
        f"The slowest hundredth takes {axes.time_text(quota.p99_ns)} under the quota and "
        f"{axes.time_text(hogs.p99_ns)} among {hogs.hogs:g} hog{'s' * int(hogs.hogs > 1)}; cpu.stat "
        f"counts {axes.number_text(quota.throttled_percent, 2)} % of the periods as throttled in the one, "
        "and none in the other, which has no limit."
    )


def _contention_alt(table: pd.DataFrame) -> str:
    parts = ["Horizontal bars, a panel per instrument."]
    for name, title in _shown(table):
        values = ", ".join(f"{_short(row)} {_text(name, getattr(row, name))}" for row in each(table))
        parts.append(f"{title[0].upper()}{title[1:]}: {values}.")
    return " ".join(parts)
