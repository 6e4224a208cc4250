"""What had the CPU while threads waited: waiting time by the length of the wait, stacked by occupant."""

from __future__ import annotations

from typing import Any

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
    listed,
    machine_name,
    times_ns,
)

KIND = "attribution.waits"
_COLUMNS = ("trial", "condition", "bin_low_ns", "bin_high_ns", "occupied_by", "part_ns")
# Colour and hatch: the kernel's own work keeps one colour, and so does what nobody can be blamed for.
_LOOKS = {
    "idle": (style.WAKEUP, ""),
    "same_program": (style.OWN, ""),
    "other_task": (style.RIVAL, ""),
    "kernel_thread": (style.SYSTEM, ""),
    "interrupt": (style.SYSTEM, "////"),
    "realtime": (style.REALTIME, ""),
    "throttled": (style.THROTTLED, ""),
    "migrated": (style.NEUTRAL, "...."),
    "unattributed": (style.NEUTRAL, ""),
}
WORDS = {
    "idle": "idle, waking up",
    "same_program": "the program's own threads",
    "other_task": "other programs",
    "kernel_thread": "kernel threads",
    "interrupt": "interrupts",
    "realtime": "real-time threads",
    "throttled": "quota used up",
    "migrated": "moved unseen",
    "unattributed": "not known",
}
TITLES = {"alone": "alone", "own_threads": "among its own threads", "rival": "beside a rival program"}
_SMALL_PERCENT = 0.5  # an occupant with less of every condition is in the table, and not in the legend


def frame(result: Drawable) -> pd.DataFrame:
    """What the figure shows, one row per condition, bar and occupant, shortest waits first.

    - condition: "alone", "own_threads", "rival"
    - low_ns, high_ns: the bar: waits of this length, four bars to a doubling
    - occupied_by: what had the CPU meanwhile
    - share_percent: its part of all waiting time of the condition, all trials together

    Raises ResultError when the result holds no waiting time.
    """
    data = columns(result.data, _COLUMNS, "This attribution of waits")
    data = data[data["part_ns"] > 0]
    if data.empty:
        raise ResultError("No thread waited for a CPU.", "Measure longer, or with more threads.")
    keys = ["condition", "bin_low_ns", "bin_high_ns", "occupied_by"]
    table = data.groupby(keys, sort=False)["part_ns"].sum().reset_index()
    table["share_percent"] = 100 * table["part_ns"] / table.groupby("condition")["part_ns"].transform("sum")
    table = table.rename(columns={"bin_low_ns": "low_ns", "bin_high_ns": "high_ns"})
    order = {name: at for at, name in enumerate([*TITLES, *table["condition"].unique()])}
    table["place"] = table["condition"].map(order)
    table = table.sort_values(["place", "low_ns"], kind="stable", ignore_index=True)
    return table[["condition", "low_ns", "high_ns", "occupied_by", "share_percent"]]


@draws(KIND)
def draw(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """Draw one panel per condition: waiting time by the length of the wait, stacked by what had the CPU."""
    table, summary = frame(result), result.summary()
    pale = None if recorded is None else frame(recorded)
    conditions = list(table["condition"].unique())
    shown = _worth_a_name(table)
    marks = times_ns(predictions)
    with style.drawing():
        drawing = canvas(95 + 26 * ((len(shown) + 2) // 2) + 135 * len(conditions))
        panels = drawing.subplots(len(conditions), 1, sharex=True, squeeze=False)[:, 0]
        handles = [_patch(name) for name in shown]
        for ax, condition in zip(panels, conditions, strict=True):
            _panel(ax, table[table["condition"] == condition], _title(summary, condition))
            if pale is not None and recorded is not None and (pale["condition"] == condition).any():
                line = _recorded(ax, pale[pale["condition"] == condition], machine_name(recorded.machine))
                if ax is panels[0]:
                    handles.append(line)
            for label, ns in marks:
                line = ax.axvline(ns, label=label, **dashed())
                if ax is panels[0]:
                    handles.append(line)
        times = [ns for _, ns in marks]
        parts = [part for part in (table, pale) if part is not None]
        low = max(50.0, min([*(part["low_ns"].min() for part in parts), *times]))
        high = max([*(part["high_ns"].max() for part in parts), *times])
        axes.log_time(panels[-1], "x", low / 1.2, high * 1.2)
        panels[-1].set_xlabel("how long the whole wait took")
        panels[len(panels) // 2].set_ylabel("part of all waiting time")
        drawing.legend(handles=handles, loc="outside upper left", ncols=2)
    return Figure(
        drawing,
        alt=_alt(table, summary),
        caption=_caption(table, summary),
        data=table,
        title="What had the CPU while threads waited",
    )


def _worth_a_name(table: pd.DataFrame) -> list[str]:
    shares = table.groupby(["condition", "occupied_by"])["share_percent"].sum()
    return [
        name
        for name in _LOOKS
        if name in shares.index.get_level_values(1)
        and shares.xs(name, level="occupied_by").max() >= _SMALL_PERCENT
    ]


def _patch(name: str) -> Patch:
    colour, hatch = _LOOKS[name]
    return Patch(
        facecolor=style.colour(colour), hatch=hatch, edgecolor=style.colour(style.PAPER), label=WORDS[name]
    )


def _panel(ax: Axes, rows: pd.DataFrame, title: str) -> None:
    below: dict[float, float] = {}
    for name, (colour, hatch) in _LOOKS.items():
        part = rows[rows["occupied_by"] == name]
        for low, high, share in zip(part["low_ns"], part["high_ns"], part["share_percent"], strict=True):
            start = max(float(low), 1.0)
            ax.bar(
                start,
                share,
                width=high - start,
                bottom=below.get(low, 0.0),
                align="edge",
                color=style.colour(colour),
                hatch=hatch,
                edgecolor=style.colour(style.PAPER),
                linewidth=0.6,
                zorder=2,
            )
            below[low] = below.get(low, 0.0) + share
    ax.set_title(title, fontsize=style.SMALL)
    ax.set_ylim(0, 1.08 * max(below.values()))
    ax.yaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 5, 10]))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{axes.number_text(value)} %"))
    ax.grid(visible=False, axis="x")


def _recorded(ax: Axes, pale: pd.DataFrame, name: str) -> Any:
    """The outline of all occupants together; bins without a wait are gaps in it."""
    sums = pale.groupby(["low_ns", "high_ns"], as_index=False)["share_percent"].sum()
    colour = style.colour(style.RECORDED)
    for low, high, share in zip(sums["low_ns"], sums["high_ns"], sums["share_percent"], strict=True):
        start = max(float(low), 1.0)
        line = ax.plot(
            [start, start, high, high], [0, share, share, 0], color=colour, linewidth=1.6, zorder=2.5
        )[0]
    line.set_label(f"recorded: {name}")
    ax.set_ylim(0, max(ax.get_ylim()[1], 1.08 * sums["share_percent"].max()))
    return line


def _title(summary: pd.DataFrame, condition: str) -> str:
    name = TITLES.get(condition, condition.replace("_", " "))
    rows = summary[summary["condition"] == condition]
    if rows.empty:
        return name
    first = rows.iloc[0]
    return f"{name}: {int(first['waits']):,} waits of {axes.time_text(first['wait_mean_ns'])} on average"


def _shares(summary: pd.DataFrame, condition: str) -> pd.Series[Any]:
    """What each occupant had, in per cent of the waiting time of all trials, as the bars have it."""
    rows = summary[summary["condition"] == condition].set_index("occupied_by")
    return (100 * rows["share"]).sort_values(ascending=False)


def _percent(value: float) -> str:
    return f"{axes.number_text(value, 3 if value >= 10 else 2)} %"


def _caption(table: pd.DataFrame, summary: pd.DataFrame) -> str:
    parts = []
    for condition in table["condition"].unique():
        shares = _shares(summary, condition)
        name = str(shares.index[0])
        where = TITLES.get(condition, condition.replace("_", " "))
        if name == "unattributed":
            return "How long the program waited is known, and not what had the CPU meanwhile."
        rows = summary[summary["condition"] == condition].set_index("occupied_by")
        others = rows.drop(index=name)
        most = f"{where} {_percent(shares.iloc[0])} went to {_OF[name]}"
        if rows.loc[name, "share_lo"] <= others["share_hi"].max():
            most += f" (the trials do not tell that from {_OF[others['share_hi'].idxmax()]})"
        parts.append(most)
    return f"Of a program's waiting time, {listed(parts)}."


_OF = {
    "idle": "waking the idle CPU up",
    "same_program": "its own threads",
    "other_task": "other programs",
    "kernel_thread": "kernel threads",
    "interrupt": "interrupts",
    "realtime": "real-time threads",
    "throttled": "a used-up quota",
    "migrated": "moves that were not seen",
    "unattributed": "what is not known",
}


def _alt(table: pd.DataFrame, summary: pd.DataFrame) -> str:
    parts = [
        "Stacked bars on a logarithmic axis: waiting time by the length of the wait, by what had the CPU."
    ]
    for condition in table["condition"].unique():
        shares = _shares(summary, condition)
        told = [f"{WORDS[str(name)]} {_percent(share)}" for name, share in shares.items() if share >= 0.1]
        parts.append(f"{_title(summary, condition).capitalize()}: {', '.join(told)}.")
    return " ".join(parts)
