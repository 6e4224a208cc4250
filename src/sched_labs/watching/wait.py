"""One wait as a figure: what had each CPU while the thread could run and had none."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.patches import Patch

from ..core.result import Result
from ..draw import style
from ..draw.base import Figure, canvas
from . import lanes

AROUND = 0.15  # of the wait's length, before and after it
COLOURS = {
    "own": (style.ALONE, "its own threads"),
    "other": (style.RIVAL, "other threads"),
    lanes.NOT_KEPT: (style.FLOOR, "not kept"),
    "waiting": (style.PREEMPTED, "waiting for a CPU"),
}


def figure(result: Result, rank: int = 1) -> Figure:
    """The wait with this rank among the longest, as lanes of the CPUs and of the thread itself.

    The figure's data: cpu, tid, name, begin_ns, end_ns, known, whose (own, other, idle, not kept).  Raises
    ResultError where the watch kept no timeline, and ParameterError where there are fewer waits.
    """
    wait = lanes.longest(result, rank)
    every = lanes.spans(result)
    margin = max(1000.0, AROUND * wait["waited_ns"])
    begin, end = wait["ready_ns"] - margin, wait["at_ns"] + margin
    table = every[(every["begin_ns"] < end) & (every["end_ns"] > begin)].reset_index(drop=True)
    own = lanes.own(result)
    table["whose"] = [
        lanes.NOT_KEPT if not known else "idle" if tid == 0 else "own" if tid in own else "other"
        for tid, known in zip(table["tid"], table["known"], strict=True)
    ]
    cpus = sorted(int(cpu) for cpu in table["cpu"].unique())
    with style.drawing():
        drawing = canvas(120 + 34 * (len(cpus) + 1))
        axis = drawing.subplots()
        clock = Clock(wait)
        for place, cpu in enumerate(cpus):
            rows = table[table["cpu"] == cpu]
            for whose in ("own", "other", lanes.NOT_KEPT):
                clock.bars(axis, place, rows[rows["whose"] == whose], COLOURS[whose][0])
        clock.bars(axis, len(cpus), table[table["tid"] == wait["tid"]], style.ALONE)
        waiting = pd.DataFrame({"begin_ns": [wait["ready_ns"]], "end_ns": [wait["at_ns"]]})
        clock.bars(axis, len(cpus), waiting, style.PREEMPTED)
        axis.set_yticks(range(len(cpus) + 1), [*(f"CPU {cpu}" for cpu in cpus), wait["name"]])
        axis.set_ylim(len(cpus) + 0.5, -0.5)
        axis.set_xlim(clock(begin), clock(end))
        axis.set_xlabel(f"{clock.unit} since it could run")
        axis.grid(axis="y", visible=False)
        handles = [Patch(color=style.colour(colour), label=label) for colour, label in COLOURS.values()]
        drawing.legend(handles=handles, loc="outside upper left", ncols=2)
    said = lanes.told(result, wait, every)
    return Figure(
        drawing,
        "own_program.wait",
        alt=f"Lanes of {len(cpus)} CPUs and of the waiting thread. {said}",
        caption=said,
        provenance=result.provenance_line(),
        data=table,
        title="What had the CPU while it waited",
    )


class Clock:
    """Times since a wait began, in the unit that suits its length."""

    def __init__(self, wait: dict[str, Any]) -> None:
        self.zero = wait["ready_ns"]
        self.scale, self.unit = (1e6, "ms") if wait["waited_ns"] >= 1e6 else (1e3, "µs")

    def __call__(self, ns: float) -> float:
        return float(ns - self.zero) / self.scale

    def bars(self, axis: Any, place: int, rows: pd.DataFrame, colour: str) -> None:
        pairs = zip(rows["begin_ns"], rows["end_ns"], strict=True)
        bars = [(self(begin), (end - begin) / self.scale) for begin, end in pairs]
        axis.broken_barh(bars, (place - 0.31, 0.62), color=style.colour(colour), linewidth=0.3)
