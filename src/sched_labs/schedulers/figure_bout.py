"""A bout as a picture: for each scheduler and each workload, how many times better than the kernel's own."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pandas as pd

from ..core.errors import ResultError
from ..draw import style
from ..draw.base import Figure, canvas

if TYPE_CHECKING:
    from .bouts import Bout

KIND = "scheduler.bout"
MOST = 8
_AS_GOOD = 0.95  # from here to its inverse nobody speaks of better or worse
_LIMIT = 1000.0  # what is further away is drawn there, with its number


def frame(bout: Bout) -> pd.DataFrame:
    """What the figure shows: the schedulers in the order of `Bout.table()`, at most eight of them.

    - scheduler, workload: which
    - times_better: than the kernel's own scheduler; below 1 it is worse, missing where it failed
    - verdict: "better", "as good" (within 5 %), "worse" or "failed"

    Raises ResultError for a bout without a row.
    """
    if bout.rows.empty:
        raise ResultError("This bout has no rows.", "Give it a scheduler and a workload.")
    order = {name: place for place, name in enumerate(bout.table()["scheduler"][:MOST])}
    shown = bout.rows.loc[bout.rows["scheduler"].isin(order), ["scheduler", "workload", "times_better"]]
    shown = shown.sort_values("scheduler", key=lambda names: names.map(order), kind="stable")
    return shown.assign(verdict=shown["times_better"].map(_verdict)).reset_index(drop=True)


def _verdict(times: float) -> str:
    if math.isnan(times):
        return "failed"
    return "worse" if times < _AS_GOOD else "as good" if times <= 1 / _AS_GOOD else "better"


def _times_text(times: float) -> str:
    return "failed" if math.isnan(times) else f"{times:.2f}" if times >= 0.1 else f"1/{1 / times:.0f}"


def draw(bout: Bout) -> Figure:
    """A panel for each scheduler, a line for each workload: to the right is better than the kernel's own."""
    table = frame(bout)
    names = list(dict.fromkeys(table["scheduler"]))
    workloads = list(dict.fromkeys(bout.rows["workload"]))
    columns = min(2, len(names))
    with style.drawing():
        drawing = canvas(math.ceil(len(names) / columns) * (70 + 26 * len(workloads)))
        panels = drawing.subplots(
            math.ceil(len(names) / columns), columns, sharex=True, sharey=True, squeeze=False
        )
        for panel in panels.flat[len(names) :]:
            panel.set_visible(False)
        values = table["times_better"].dropna().clip(1 / _LIMIT, _LIMIT)
        low, high = min(0.4, values.min()), max(2.5, values.max())
        for panel, name in zip(panels.flat, names, strict=False):
            rows = table[table["scheduler"] == name].set_index("workload")
            _panel(panel, rows, workloads)
            panel.set_title(name)
            # Room for the numbers beside the dots.
            panel.set_xscale("log")
            panel.set_xlim(low / (high / low) ** 0.35, high * (high / low) ** 0.35)
            ticks = [tick for tick in (0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0) if low <= tick <= high]
            panel.set_xticks(ticks, [_tick_text(tick) for tick in ticks])
            panel.minorticks_off()
        drawing.supxlabel("times as good as the kernel's own (log scale)", size=style.TEXT)
    return Figure(
        drawing,
        KIND,
        alt=" ".join(
            f"{name}: " + ", ".join(f"{one.workload} {_times_text(one.times_better)}" for one in part) + "."
            for name in names
            if (part := list(table[table["scheduler"] == name].itertuples()))
        ),
        caption=_caption(table, len(set(bout.rows["scheduler"]))),
        provenance=bout.provenance_line(),
        data=table,
        title="What each scheduler won, and what it paid",
    )


def _panel(panel: Any, rows: pd.DataFrame, workloads: list[str]) -> None:
    ink, neutral = style.colour(style.INK), style.colour(style.NEUTRAL)
    panel.axvline(1.0, color=neutral, linewidth=1.4)
    for place, workload in enumerate(workloads):
        times = float(rows["times_better"][workload])
        at = min(max(times, 1 / _LIMIT), _LIMIT) if not math.isnan(times) else 1.0
        if not math.isnan(times):
            panel.plot([1.0, at], [place, place], color=ink, linewidth=3.0)
            panel.plot([at], [place], marker="o", color=ink, markersize=6.5)
        panel.annotate(
            _times_text(times),
            (at, place),
            xytext=(7 if at >= 1 else -7, 0),
            textcoords="offset points",
            ha="left" if at >= 1 else "right",
            va="center",
            size=style.SMALL,
            color=neutral if math.isnan(times) else ink,
        )
    panel.set_yticks(range(len(workloads)), workloads)
    panel.set_ylim(len(workloads) - 0.5, -0.5)
    panel.grid(axis="y", visible=False)


def _tick_text(times: float) -> str:
    return f"{times:g}" if times >= 1 else f"1/{1 / times:.0f}"


def _caption(table: pd.DataFrame, entered: int) -> str:
    """One message: does anybody win without paying?"""
    verdicts = table.groupby("scheduler", sort=False)["verdict"].agg(set)
    free = [
        str(name) for name, seen in verdicts.items() if "better" in seen and not seen & {"worse", "failed"}
    ]
    of = f"Of the best {MOST} of {entered}" if entered > MOST else "Of these"
    if len(verdicts) > 1:
        if free:
            return f"{of}, {_and(free)} won somewhere and lost nowhere more than 5 %."
        return f"{of}, none won somewhere without losing more than 5 % elsewhere."
    name = str(verdicts.index[0])
    told = {
        verdict: _and(list(table.loc[table["verdict"] == verdict, "workload"]))
        for verdict in ("better", "worse", "failed")
    }
    parts = [
        f"{word} {told[verdict]}"
        for verdict, word in (("better", "won at"), ("worse", "lost at"), ("failed", "failed at"))
        if told[verdict]
    ]
    return (
        f"{name} {', and '.join(parts)}."
        if parts
        else f"{name} is within 5 % of the kernel's own everywhere."
    )


def _and(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)
