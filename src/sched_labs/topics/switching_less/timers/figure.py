"""Periodic jobs at their own times or together: bursts of wake-ups, CPU time and lateness for each."""

from __future__ import annotations

import pandas as pd

from sched_labs.draw import axes
from sched_labs.draw.base import Drawable, Figure, Predictions, columns, draws
from sched_labs.draw.panels import NUMBER, TIME, Panel, dot_figure

KIND = "timers.aligned"
NAMES = {
    "own": "own times, precise",
    "slack": "own times, with slack",
    "together": "all at the same times",
    "one": "one thread for all",
}
PANELS = (
    Panel("Wake-ups after 0.1 ms of quiet, for each event", "bursts_per_event", NUMBER, "bursts_lo_per_event",
          "bursts_hi_per_event"),
    Panel("CPU time for each event", "cpu_ns_per_event", TIME, "cpu_ns_lo_per_event", "cpu_ns_hi_per_event",
          guessed=False),
    Panel("Half of the events are later than", "late_p50_ns", TIME, "late_p50_lo_ns", "late_p50_hi_ns"),
)  # fmt: skip


def frame(result: Drawable) -> pd.DataFrame:
    """What the figure shows, one row per way to wait for the time.

    - by: "own", "slack", "together" or "one"
    - threads, period_ns
    - bursts_per_event, bursts_lo_per_event, bursts_hi_per_event: wake-ups after at least 100 µs of quiet
    - cpu_ns_per_event, cpu_ns_lo_per_event, cpu_ns_hi_per_event: of all threads
    - late_p50_ns, late_p50_lo_ns, late_p50_hi_ns: how long after its time an event was served

    Raises ResultError when nothing was measured.
    """
    wanted = [name for panel in PANELS for name in (panel.column, panel.low, panel.high) if name]
    return columns(result.summary(), ["by", "threads", "period_ns", *wanted], "The summary of these timers")


@draws(KIND)
def draw(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """Draw bursts, CPU time and lateness for each event; predictions are of the lateness."""
    table = frame(result)
    order = {name: place for place, name in enumerate(NAMES)}
    table = table.sort_values("by", key=lambda names: names.map(order), kind="stable", ignore_index=True)
    by = table.set_index("by")
    cpu = by["cpu_ns_per_event"].map(axes.time_text)
    said = "; ".join(f"{NAMES.get(str(name), str(name))} {cpu[name]}" for name in table["by"])
    return dot_figure(
        table,
        PANELS,
        key="by",
        names=NAMES,
        roles={},
        pale=frame,
        recorded=recorded,
        predictions=predictions,
        caption=f"CPU time for each event: {said}.",
        title="Wake-ups, CPU time and lateness of periodic events",
    )
