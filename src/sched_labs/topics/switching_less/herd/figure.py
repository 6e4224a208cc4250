"""How many threads one event wakes: switches in the kernel, and what the program sees of them."""

from __future__ import annotations

import pandas as pd

from sched_labs.draw import axes, style
from sched_labs.draw.base import Drawable, Figure, Predictions, columns, draws
from sched_labs.draw.panels import NUMBER, Panel, dot_figure

KIND = "herd.wakeups"
NAMES = {"shared": "one fd for all threads", "exclusive": "EPOLLEXCLUSIVE", "own": "an fd for each"}
PANELS = (
    Panel("Context switches for each event", "switches_per_event", NUMBER, "switches_lo_per_event",
          "switches_hi_per_event"),
    Panel("Returns of epoll_wait() for each event", "returns_per_event", NUMBER, "returns_lo_per_event",
          "returns_hi_per_event"),
)  # fmt: skip


def frame(result: Drawable) -> pd.DataFrame:
    """What the figure shows, one row per way to wait.

    - by: "shared", "exclusive" or "own"
    - threads: how many wait
    - switches_per_event, switches_lo_per_event, switches_hi_per_event: of all threads, counted by the kernel
    - returns_per_event, returns_lo_per_event, returns_hi_per_event: of epoll_wait()

    Raises ResultError when nothing was measured.
    """
    wanted = [name for panel in PANELS for name in (panel.column, panel.low, panel.high) if name]
    return columns(result.summary(), ["by", "threads", *wanted], "The summary of this herd")


@draws(KIND)
def draw(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """Draw switches and returns for each event.  There is no axis for a prediction."""
    table = frame(result)
    switches = table.set_index("by")["switches_per_event"].map(lambda value: axes.number_text(value, 2))
    said = ", ".join(f"{NAMES.get(str(by), str(by))} {text}" for by, text in switches.items())
    return dot_figure(
        table,
        PANELS,
        key="by",
        names=NAMES,
        roles={"own": style.ALONE},
        pale=frame,
        recorded=recorded,
        predictions=predictions,
        caption=f"Switches for each event among {table.threads.iloc[0]} waiting threads: {said}.",
        title="Switches and returns for each event, by what the threads watch",
    )
