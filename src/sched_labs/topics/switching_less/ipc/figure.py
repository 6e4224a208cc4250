"""Less work for each second of CPU time, by cause, and what two common instruments say of each."""

from __future__ import annotations

import pandas as pd

from sched_labs.draw import style
from sched_labs.draw.base import Drawable, Figure, Predictions, columns, draws, listed
from sched_labs.draw.panels import NUMBER, SHARE, Panel, dot_figure

KIND = "ipc.causes"
NAMES = {
    "alone": "alone",
    "switches": "switched often",
    "bare": "nothing touched",
    "sibling": "SMT sibling busy",
    "streamer": "memory streamer",
    "busy": "CPU busy elsewhere",
}
ROLES = {
    "alone": style.ALONE,
    "switches": style.DIRECT,
    "bare": style.DIRECT,
    "sibling": style.OWN,
    "streamer": style.WARMUP,
    "busy": style.NEUTRAL,
}
PANELS = [
    Panel("Less work for each second of CPU time", "loss_share", SHARE, "loss_lo_share", "loss_hi_share"),
    Panel("Switches of the victim in a second", "switches_per_s", NUMBER, "switches_lo_per_s",
          "switches_hi_per_s", least=0.5),
    Panel("The SMT sibling's CPU was busy for", "sibling_busy_share", SHARE),
    Panel("Another core's CPU was busy for", "neighbour_busy_share", SHARE),
]  # fmt: skip
_COLUMNS = (
    *("condition", "lines_per_cpu_s", "loss_share", "loss_lo_share", "loss_hi_share", "floor_share"),
    *("switches_per_s", "switches_lo_per_s", "switches_hi_per_s", "sibling_busy_share"),
    *("neighbour_busy_share", "ipc", "misses_per_line"),
)


def frame(result: Drawable) -> pd.DataFrame:
    """What the figure shows, one row per condition, as in the summary.

    - condition, lines_per_cpu_s, floor_share
    - loss_share, loss_lo_share, loss_hi_share
    - switches_per_s, switches_lo_per_s, switches_hi_per_s
    - sibling_busy_share, neighbour_busy_share, ipc, misses_per_line

    Raises ResultError when nothing was measured.
    """
    return columns(result.summary(), _COLUMNS, "The summary of this run of causes")


@draws(KIND)
def draw(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """Draw the loss, the switches and other CPUs by condition; no panel takes predictions."""
    table = frame(result)
    panels = [panel for panel in PANELS if table[panel.column].notna().any()]
    return dot_figure(
        table,
        panels,
        key="condition",
        names=NAMES,
        roles=ROLES,
        pale=frame,
        recorded=recorded,
        predictions=predictions,
        alt="Rows of dots by what goes on beside the victim.",
        caption=_caption(table),
        title="One loss of work, and its causes",
    )


def _caption(table: pd.DataFrame) -> str:
    """What each cause costs where it is seen."""
    others = table[table["condition"] != "alone"]
    clear = others[others["loss_lo_share"] > others["floor_share"]]
    if clear.empty:
        return "No loss of work stands clear of the noise in this run."
    said = [
        f"{PANELS[0].text(row['loss_share'])} with {NAMES[str(row['condition'])]}"
        for _, row in clear.iterrows()
    ]
    return f"Less work than alone for each second of CPU time, clear of the noise: {listed(said)}."
