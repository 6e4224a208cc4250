"""What a hand-over costs, inside one thread and through the kernel: one row per way."""

from __future__ import annotations

import pandas as pd

from sched_labs.draw import axes, style
from sched_labs.draw.base import Drawable, Figure, Predictions, columns, draws
from sched_labs.draw.panels import NUMBER, TIME, Panel, dot_figure

KIND = "hops.compared"
NAMES = {
    "call": "function call",
    "stack": "stack switch",
    "ucontext": "swapcontext",
    "greenlet": "greenlet (Python)",
    "go_1": "Go channel, 1 P",
    "go_2": "Go channel, 2 P",
    "asyncio": "asyncio (Python)",
    "futex": "futex, two threads",
    "pipe": "pipe, two threads",
}
PANELS = (
    Panel("Time of one hop", "ns_per_hop", TIME, "ns_lo_per_hop", "ns_hi_per_hop"),
    Panel(
        "Kernel switches for each hop",
        "kernel_switches_per_hop",
        NUMBER,
        "kernel_switches_lo_per_hop",
        "kernel_switches_hi_per_hop",
        least=1e-5,
    ),
)


def frame(result: Drawable) -> pd.DataFrame:
    """What the figure shows, one row per way to hand over, in its order.

    - by: "call", "stack", "ucontext", "greenlet", "go_1", "go_2", "asyncio", "futex" or "pipe"
    - ns_per_hop, ns_lo_per_hop, ns_hi_per_hop: wall time of one hop, median and 95 % interval
    - kernel_switches_per_hop, kernel_switches_lo_per_hop, kernel_switches_hi_per_hop: counted by the kernel

    Raises ResultError when nothing was measured.
    """
    wanted = ["by", *(name for panel in PANELS for name in (panel.column, panel.low, panel.high) if name)]
    table = columns(result.summary(), wanted, "The summary of these hops")
    order = {name: place for place, name in enumerate(NAMES)}
    return table.sort_values("by", key=lambda names: names.map(order), kind="stable", ignore_index=True)


@draws(KIND, short_times=True)
def draw(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """Draw time and kernel switches of one hop; predictions are times."""
    table = frame(result)
    return dot_figure(
        table,
        PANELS,
        key="by",
        names=NAMES,
        roles={name: style.ALONE for name in NAMES if name not in ("futex", "pipe")},
        pale=frame,
        recorded=recorded,
        predictions=predictions,
        caption=_caption(table.set_index("by")["ns_per_hop"]),
        title="Time and kernel switches of one hop, by way",
    )


def _caption(time: pd.Series[float]) -> str:
    if not {"stack", "pipe"} <= set(time.index):
        quickest = str(time.idxmin())
        return f"The quickest hop: {NAMES.get(quickest, quickest)}, {axes.time_text(float(time.min()))}."
    own, pipe = float(time["stack"]), float(time["pipe"])
    return (
        f"A bare stack switch takes {axes.time_text(own)}; a hop to another thread through a pipe "
        f"{axes.time_text(pipe)}, {axes.number_text(pipe / own)} times as long."
    )
