"""A batch job beside a service: the service's slowest requests, and the job's CPU time."""

from __future__ import annotations

import pandas as pd

from sched_labs.draw import axes, style
from sched_labs.draw.base import Drawable, Figure, Predictions, columns, draws, listed
from sched_labs.draw.panels import SHARE, TIME, Panel, dot_figure

KIND = "colocation.batch"
NAMES = {
    "alone": "no batch job",
    "beside": "batch job, nothing done",
    "quota": "a quota: half of the CPUs",
    "weight": "the least weight",
    "SCHED_BATCH": "SCHED_BATCH",
    "SCHED_IDLE": "SCHED_IDLE, own group",
    "SCHED_IDLE inside": "SCHED_IDLE, service's group",
    "cpu.idle": "cpu.idle for its group",
    "apart": "one CPU each",
    "apart, quota": "the same, and a quota",
}
PANELS = (
    Panel("p99 of the service's requests", "p99_ns", TIME, "p99_lo_ns", "p99_hi_ns"),
    Panel(
        "CPU time of the job, of the CPUs of both", "batch_share", SHARE, "batch_lo_share", "batch_hi_share"
    ),
)


def frame(result: Drawable) -> pd.DataFrame:
    """What the figure shows, one row per way: way, p50_ns, p99_ns, p99_lo_ns and p99_hi_ns as in the summary,
    and batch_share, batch_lo_share and batch_hi_share, of all CPUs that service and batch job may use.

    Raises ResultError when nothing was measured.
    """
    ends = ("", "_lo", "_hi")
    percents = [f"batch{end}_percent" for end in ends]
    needed = ("way", "p50_ns", *(f"p99{end}_ns" for end in ends))
    table = columns(result.summary(), (*needed, *percents), "The summary of this service and its neighbour")
    percent = 100 * len(result.parameters["cpus"])
    return table.drop(columns=percents).assign(
        **{f"batch{end}_share": table[f"batch{end}_percent"] / percent for end in ends}
    )


@draws(KIND)
def draw(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """Draw the service's p99 above and the batch job's CPU time below, a row for each way."""
    table = frame(result)
    return dot_figure(
        table,
        PANELS,
        key="way",
        names=NAMES,
        roles=dict.fromkeys(NAMES, style.RIVAL) | {"alone": style.ALONE, "quota": style.THROTTLED},
        pale=frame,
        recorded=recorded,
        predictions=predictions,
        caption=_caption(table.set_index("way")),
        title="A batch job beside a service, and what is done to it",
        alt="Dot plots.",
    )


def _caption(table: pd.DataFrame) -> str:
    said = [
        f"{axes.time_text(row.p99_ns)} ({NAMES[way]})"
        for way, row in table.iterrows()
        if way in ("alone", "beside", "SCHED_IDLE")
    ]
    return f"One in a hundred of the service's requests takes longer than {listed(said)}."
