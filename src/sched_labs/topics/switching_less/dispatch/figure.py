"""Who gets the next connection, and how long quick requests take: by where the workers wait."""

from __future__ import annotations

import pandas as pd

from sched_labs.draw import axes, style
from sched_labs.draw.base import Drawable, Figure, Predictions, columns, draws, each
from sched_labs.draw.panels import NUMBER, SHARE, TIME, Panel, dot_figure

KIND = "dispatch.ways"
NAMES = {
    "each": "an epoll for each",
    "exclusive": "EPOLLEXCLUSIVE",
    "shared": "one epoll for all",
    "reuseport": "SO_REUSEPORT",
}
PANELS = (
    Panel("What the busiest worker had of the requests", "busiest_share", SHARE, "busiest_lo_share",
          "busiest_hi_share", guessed=False),
    Panel("99 of 100 quick requests were done after", "p99_ns", TIME, "p99_lo_ns", "p99_hi_ns"),
    Panel("Context switches for each request", "switches_per_request", NUMBER, "switches_lo_per_request",
          "switches_hi_per_request", guessed=False),
)  # fmt: skip


def frame(result: Drawable) -> pd.DataFrame:
    """What the figure shows, one row per way to wait.

    - way, workers: as in the summary
    - busiest_share, busiest_lo_share, busiest_hi_share: of the requests that the busiest worker had, 0 to 1
    - p99_ns, p99_lo_ns, p99_hi_ns: of quick requests
    - switches_per_request, switches_lo_per_request, switches_hi_per_request: of all workers

    Raises ResultError when nothing was measured.
    """
    table = result.summary()
    shares = {f"busiest{end}_share": table[f"busiest{end}_percent"] / 100 for end in ("", "_lo", "_hi")}
    wanted = [name for panel in PANELS for name in (panel.column, panel.low, panel.high) if name]
    return columns(table.assign(**shares), ["way", "workers", *wanted], "The summary of these workers")


@draws(KIND)
def draw(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """Draw three panels, a row in each for each way; a prediction is a time."""
    table = frame(result)
    said = ", ".join(
        f"{NAMES.get(str(row.way), str(row.way))} {axes.number_text(100 * row.busiest_share, 2)} % and "
        f"{axes.time_text(row.p99_ns)}"
        for row in each(table)
    )
    return dot_figure(
        table,
        PANELS,
        key="way",
        names=NAMES,
        roles={"reuseport": style.ALONE},
        pale=frame,
        recorded=recorded,
        predictions=predictions,
        alt="Dot plots.",
        caption=f"The busiest worker's share of the requests, and the p99 of quick ones: {said}.",
        title="Who gets the next connection, by where the workers wait",
    )
