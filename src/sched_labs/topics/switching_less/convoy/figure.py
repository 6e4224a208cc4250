"""What a lock makes of many producers: time and switches for every item, one row per lock."""

from __future__ import annotations

import pandas as pd

from sched_labs.draw import axes, style
from sched_labs.draw.base import Drawable, Figure, Predictions, columns, draws
from sched_labs.draw.panels import NUMBER, TIME, Panel, dot_figure

from .experiment import NAMES

KIND = "convoy.locks"
PANELS = (
    Panel("Time for each item", "ns_per_item", TIME, "ns_lo_per_item", "ns_hi_per_item"),
    Panel(
        "Context switches for each item",
        "switches_per_item",
        NUMBER,
        "switches_lo_per_item",
        "switches_hi_per_item",
        least=1e-5,
    ),
)
_COLUMNS = (
    *("lock", "ns_per_item", "ns_lo_per_item", "ns_hi_per_item", "switches_per_item"),
    *("switches_lo_per_item", "switches_hi_per_item", "jain_share", "items_per_turn", "p99_ns"),
)


def frame(result: Drawable) -> pd.DataFrame:
    """What the figure shows, one row per lock, in its order.

    - lock: "alone" (one producer), "fifo", "try", "mutex", "adaptive", "spin" or one of Java's
    - ns_per_item, ns_lo_per_item, ns_hi_per_item: wall time for each item, median and 95 % interval
    - switches_per_item, switches_lo_per_item, switches_hi_per_item: counted by the kernel
    - jain_share, items_per_turn, p99_ns: fairness and wait, for the text

    Raises ResultError when nothing was measured.
    """
    table = columns(result.summary(), _COLUMNS, "The summary of these locks")
    order = {name: place for place, name in enumerate(NAMES)}
    return table.sort_values("lock", key=lambda names: names.map(order), kind="stable", ignore_index=True)


@draws(KIND)
def draw(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """Draw time and switches for each item; predictions are times."""
    table = frame(result)
    return dot_figure(
        table,
        PANELS,
        key="lock",
        names=NAMES,
        roles={"alone": style.ALONE},
        pale=frame,
        recorded=recorded,
        predictions=predictions,
        caption=_caption(table.set_index("lock")),
        title="Time and context switches for each item, by lock",
    )


def _caption(table: pd.DataFrame) -> str:
    if not {"fifo", "mutex"} <= set(table.index):
        slow = str(table.ns_per_item.idxmax())
        longest = axes.time_text(float(table.ns_per_item.max()))
        return f"The slowest lock here ({NAMES.get(slow, slow)}) needs {longest} for each item."
    time = table["ns_per_item"].map(axes.time_text)
    switches = table["switches_per_item"].map(lambda value: axes.number_text(value, 2))
    return (
        f"Time and context switches for each item: {time['fifo']} and {switches['fifo']} served strictly in "
        f"order, {time['mutex']} and {switches['mutex']} under the default mutex, which never spins."
    )
