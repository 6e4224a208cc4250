"""What a batch saves and what it costs: switches and CPU time for each event, and how long it waits."""

from __future__ import annotations

import pandas as pd

from sched_labs.draw import axes, style
from sched_labs.draw.base import Drawable, Figure, Predictions, columns, draws
from sched_labs.draw.panels import NUMBER, TIME, Panel, Series, check_predictions, lines

KIND = "batching.sweep"
SWITCHES = Panel("Context switches for each event", "switches_per_event", NUMBER, "switches_lo_per_event",
                 "switches_hi_per_event")  # fmt: skip
DELAY = Panel("Half are done after", "delay_p50_ns", TIME, "delay_p50_lo_ns", "delay_p50_hi_ns")
_COLUMNS = (
    *("batch_events", "switches_per_event", "switches_lo_per_event", "switches_hi_per_event"),
    *("cpu_ns_per_event", "delay_p50_ns", "delay_p50_lo_ns", "delay_p50_hi_ns", "delay_p99_ns"),
)


def frame(result: Drawable) -> pd.DataFrame:
    """What the figure shows, one row per batch size.

    - batch_events: how many events are put together
    - switches_per_event, switches_lo_per_event, switches_hi_per_event: median, 95 % interval
    - cpu_ns_per_event: CPU time of the worker
    - delay_p50_ns, delay_p50_lo_ns, delay_p50_hi_ns, delay_p99_ns: from an event's time until it was done

    Raises ResultError when nothing was measured.
    """
    return columns(result.summary(), _COLUMNS, "The summary of these batches")


@draws(KIND)
def draw(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """Draw switches and delay over the batch size; predictions are times."""
    check_predictions([DELAY], predictions)
    table = frame(result)
    series = [Series(table, "this run", style.DIRECT)]
    if recorded is not None:
        series.insert(0, Series(frame(recorded), "recorded", style.RECORDED))
    drawing = lines(
        series,
        [SWITCHES, DELAY],
        x=Panel("events in a batch", "batch_events", NUMBER),
        predictions=predictions,
    )
    first, last = table.iloc[0], table.iloc[-1]
    switches = [axes.number_text(row.switches_per_event, 2) for row in (first, last)]
    caption = (
        f"In batches of {int(first.batch_events):,} and of {int(last.batch_events):,}, switches for each "
        f"event: {' and '.join(switches)}; half of the events are done after "
        f"{axes.time_text(first.delay_p50_ns)} and {axes.time_text(last.delay_p50_ns)}."
    )
    said = "; ".join(
        f"{int(row.batch_events):,} events {SWITCHES.text(row.switches_per_event)} switches, "
        f"{DELAY.text(row.delay_p50_ns)}"
        for _, row in table.iterrows()
    )
    return Figure(
        drawing,
        alt=f"Two lines on logarithmic axes over the batch size: {said}.",
        caption=caption,
        data=table,
        title="Switches and delay of an event, by batch size",
    )
