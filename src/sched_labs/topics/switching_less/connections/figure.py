"""One event loop against a thread for each connection: switches, CPU time and delay of a request."""

from __future__ import annotations

import pandas as pd

from sched_labs.draw import axes, style
from sched_labs.draw.base import Drawable, Figure, Predictions, columns, draws
from sched_labs.draw.panels import NUMBER, TIME, Panel, Series, check_predictions, lines

KIND = "connections.sweep"
NAMES = {"loop": "event loop", "threads": "a thread for each"}
PANELS = (
    Panel("Context switches for each request", "switches_per_request", NUMBER, "switches_lo_per_request",
          "switches_hi_per_request"),
    Panel("Server's CPU time for each request", "cpu_ns_per_request", TIME, "cpu_ns_lo_per_request",
          "cpu_ns_hi_per_request", guessed=False),
    Panel("99 of 100 requests are answered within", "p99_ns", TIME, "p99_lo_ns", "p99_hi_ns"),
)  # fmt: skip


def frame(result: Drawable) -> pd.DataFrame:
    """What the figure shows, one row per server, number of connections and rate.

    - by: "loop" or "threads"
    - connections, rate_per_s
    - switches_per_request, switches_lo_per_request, switches_hi_per_request: of the server
    - cpu_ns_per_request, cpu_ns_lo_per_request, cpu_ns_hi_per_request: of the server
    - p99_ns, p99_lo_ns, p99_hi_ns: from a request's scheduled time to its answer

    Raises ResultError when nothing was measured.
    """
    wanted = [name for panel in PANELS for name in (panel.column, panel.low, panel.high) if name]
    return columns(
        result.summary(), ["by", "connections", "rate_per_s", *wanted], "The summary of this sweep"
    )


def _series(table: pd.DataFrame) -> list[Series]:
    roles = {"loop": style.ALONE, "threads": style.DIRECT}
    rates = sorted(table["rate_per_s"].unique())
    return [
        Series(
            table[(table["by"] == by) & (table["rate_per_s"] == rate)],
            f"{NAMES[by]}, {rate:,}/s",
            roles[by],
            "os^Dv"[place % 5],
        )
        for by in NAMES
        for place, rate in enumerate(rates)
    ]


@draws(KIND)
def draw(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """Draw switches, CPU time and delay over the number of connections; predictions are of the delay."""
    check_predictions(PANELS, predictions)
    table = frame(result)
    series = [one for one in _series(table) if not one.rows.empty]
    if recorded is not None:
        pale = frame(recorded)
        series = [Series(one.rows, f"recorded: {one.label}", style.RECORDED, one.marker)
                  for one in _series(pale) if not one.rows.empty] + series  # fmt: skip
    drawing = lines(
        series, PANELS, x=Panel("connections", "connections", NUMBER), height=165, predictions=predictions
    )
    return Figure(
        drawing,
        alt="Lines on logarithmic axes over the number of connections: switches and CPU time of a request, "
        f"and within what time 99 of 100 are answered. {_said(table)}",
        caption=_caption(table),
        data=table,
        title="Switches, CPU time and delay of a request, by server and connections",
    )


def _said(table: pd.DataFrame) -> str:
    parts = []
    for (by, rate), rows in table.groupby(["by", "rate_per_s"], sort=False):
        values = ", ".join(
            f"{int(row.connections):,} connections ({axes.number_text(row.switches_per_request, 2)}, "
            f"{axes.time_text(row.cpu_ns_per_request)}, {axes.time_text(row.p99_ns)})"
            for _, row in rows.iterrows()
        )
        parts.append(f"{NAMES[str(by)]}, {rate:,} requests/s: {values}.")
    return " ".join(parts)


def _caption(table: pd.DataFrame) -> str:
    most = table[table["connections"] == table["connections"].max()]
    busy = most[most["rate_per_s"] == most["rate_per_s"].max()].set_index("by")
    switches = busy["switches_per_request"].map(lambda value: axes.number_text(value, 2))
    cpu = busy["cpu_ns_per_request"].map(axes.time_text)
    said = ", ".join(f"{switches[by]} and {cpu[by]} ({NAMES[str(by)]})" for by in busy.index)
    count, rate = int(most.connections.iloc[0]), int(most.rate_per_s.max())
    return (
        f"With {count:,} connections and at {rate:,} requests a second, context switches and CPU time for "
        f"each request: {said}."
    )
