"""What the kernel's work for a neighbour takes from a program: interrupts and kernel threads, apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

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
    interval_in_legend,
    recorded_name,
    times_ns,
)

KIND = "interference.neighbours"
_COLUMNS = ("neighbour", "nice", "part", "ms_per_s", "ms_per_s_lo", "ms_per_s_hi", "attributed")
# What of the summary each bar holds; the kernel's own work keeps the colour that it has everywhere.
_BARS = {
    "interrupts": (("interrupt", "over_it"), "////", "interruptions: interrupts, softirqs, a hypervisor's"),
    "kernel_threads": (("kernel_thread",), "", "kernel threads"),
}
_SAID = {"interrupts": "interruptions", "kernel_threads": "kernel threads"}
_NAMES = {"nobody": "nobody", "packets": "a sender\nof packets", "files": "a writer\nof files"}


def frame(result: Drawable) -> pd.DataFrame:
    """What the figure shows, one row per neighbour, nice value and bar.

    - neighbour: "nobody", "packets", "files"
    - nice: the victim's nice value
    - by: "interrupts" (while the victim waited, and while it ran) or "kernel_threads"
    - ms_per_s, ms_per_s_lo, ms_per_s_hi: what they took of each second; the ends of the
      interval are sums, where there are two parts

    Raises ResultError when the waits are not attributed: nobody knows then what had the CPU.
    """
    table = columns(result.summary(), _COLUMNS, "This comparison of neighbours")
    if not table["attributed"].all():
        raise ResultError(
            "Without the BPF probe it is not known what had the CPU during the waits.",
            "`.summary()` has their sum.",
            lacking=True,
        )
    rows = []
    for neighbour, nice in table[["neighbour", "nice"]].drop_duplicates().itertuples(index=False):
        cell = table[(table["neighbour"] == neighbour) & (table["nice"] == nice)].set_index("part")
        for by, (parts, _, _) in _BARS.items():
            known = cell.loc[[part for part in parts if part in cell.index]]
            sums = known[["ms_per_s", "ms_per_s_lo", "ms_per_s_hi"]].sum()
            rows.append({"neighbour": neighbour, "nice": int(nice), "by": by, **sums.to_dict()})
    return pd.DataFrame(rows)


@draws(KIND)
def draw(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """Draw what interrupts and kernel threads took of each second, by neighbour and nice value."""
    table = frame(result)
    pale = None if recorded is None else frame(recorded)
    neighbours = list(table["neighbour"].unique())
    nices = list(table["nice"].unique())
    step = len(_BARS) * len(nices) + 1
    with style.drawing():
        drawing = canvas(
            150
            + 30 * len(nices) * len(_BARS) * len(neighbours)
            + 26 * (1 + (pale is not None) + len(predictions))
        )
        ax = drawing.add_subplot()
        handles: list[Any] = [
            Patch(
                facecolor=style.colour(style.SYSTEM),
                hatch=hatch,
                edgecolor=style.colour(style.PAPER),
                label=words,
            )
            for _, hatch, words in _BARS.values()
        ]
        handles += interval_in_legend(style.INK, table["ms_per_s_hi"])
        recordings: list[tuple[float, float]] = []
        places, labels = [], []
        for row in each(table):
            place = -(neighbours.index(row.neighbour) * step + nices.index(row.nice) * len(_BARS)) - list(
                _BARS
            ).index(row.by)
            ax.barh(
                place,
                row.ms_per_s,
                height=0.8,
                color=style.colour(style.SYSTEM),
                hatch=_BARS[row.by][1],
                edgecolor=style.colour(style.PAPER),
                zorder=2,
            )
            if np.isfinite(row.ms_per_s_hi):
                ax.hlines(place, row.ms_per_s_lo, row.ms_per_s_hi, color=style.colour(style.INK), zorder=3)
            if pale is not None:
                same = pale[
                    (pale["neighbour"] == row.neighbour) & (pale["nice"] == row.nice) & (pale["by"] == row.by)
                ]
                recordings += [(float(ms), place) for ms in same["ms_per_s"]]
            if row.by == "interrupts":
                places.append(place - 0.5)
                name = _NAMES.get(row.neighbour, row.neighbour) if row.nice == nices[0] else ""
                labels.append(f"{name}\nnice {row.nice}".strip())
        if recorded is not None and recordings:
            handles += ax.plot(
                *zip(*recordings, strict=True),
                linestyle="none",
                marker="D",
                markersize=5,
                color=style.colour(style.RECORDED),
                label=recorded_name(recorded),
                zorder=4,
            )
        ax.set_yticks(places, labels)
        marks = [(label, ns / 1e6) for label, ns in times_ns(predictions)]
        handles += [ax.axvline(ms, label=label, **dashed()) for label, ms in marks]
        ends = [
            *(ms for _, ms in marks),
            *table["ms_per_s"],
            *table["ms_per_s_hi"],
            *(ms for ms, _ in recordings),
        ]
        ax.set_xlim(0, 1.05 * max(0.1, *(end for end in ends if np.isfinite(end))))
        ax.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{axes.number_text(value)} ms"))
        ax.grid(visible=False, axis="y")
        ax.set_xlabel("taken from the program in each second")
        drawing.legend(handles=handles, loc="outside upper left", ncols=1)
    return Figure(
        drawing,
        alt=_alt(table),
        caption=_caption(table),
        data=table,
        title="What the kernel's work for a neighbour takes",
    )


def _words(neighbour: str) -> str:
    return _NAMES.get(neighbour, neighbour).replace("\n", " ")


def _ms(value: float) -> str:
    return f"{axes.number_text(value, 2)} ms"


def _cell(table: pd.DataFrame, neighbour: str, by: str) -> float:
    rows = table[(table["neighbour"] == neighbour) & (table["by"] == by)]
    return float(rows["ms_per_s"].iloc[0]) if len(rows) else np.nan


def _caption(table: pd.DataFrame) -> str:
    nice = table["nice"].iloc[0]
    start = f"Of each second, with nice {nice}" if table["nice"].nunique() > 1 else "Of each second"
    table = table[table["nice"] == nice]
    parts = [
        f"{_ms(_cell(table, name, 'interrupts'))} and {_ms(_cell(table, name, 'kernel_threads'))} beside "
        f"{_words(name)}"
        for name in table["neighbour"].unique()
    ]
    return f"{start}, interruptions and kernel threads took {', '.join(parts)}."


def _alt(table: pd.DataFrame) -> str:
    parts = ["Horizontal bars: what was taken from the program in each second, by neighbour."]
    for (neighbour, nice), rows in table.groupby(["neighbour", "nice"], sort=False):
        told = ", ".join(
            f"{_SAID[row.by]} {_ms(row.ms_per_s)}"
            + (
                f" (interval {_ms(row.ms_per_s_lo)} to {_ms(row.ms_per_s_hi)})"
                if np.isfinite(row.ms_per_s_hi)
                else ""
            )
            for row in each(rows)
        )
        parts.append(f"{_words(str(neighbour))}, nice {nice}: {told}.")
    return " ".join(parts)
