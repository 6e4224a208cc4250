"""A call that gives memory back, by what the other CPUs do: how long it takes, and whom it interrupts."""

from __future__ import annotations

import pandas as pd

from sched_labs.draw import axes, style
from sched_labs.draw.base import Drawable, Figure, Predictions, columns, draws, each
from sched_labs.draw.panels import NUMBER, TIME, Panel, dot_figure

KIND = "shootdown.calls"
NAMES = {
    "alone": "no other thread",
    "asleep": "its other threads sleep",
    "process": "another process runs",
    "threads": "its other threads run",
    "untouched": "the same, pages never used",
}
ROLES = {
    "alone": style.ALONE,
    "asleep": style.ALONE,
    "process": style.RIVAL,
    "threads": style.OWN,
    "untouched": style.OWN,
}
_PANELS = (
    Panel("how long the call takes", "call_ns", TIME, "call_lo_ns", "call_hi_ns"),
    Panel("interrupts of another CPU, per call", "interrupts_per_call", NUMBER,
          "interrupts_lo_per_call", "interrupts_hi_per_call",
          guessed=False, linear=True),
)  # fmt: skip
_SELDOM = 0.5  # of the calls: what stops a thread less often is no shootdown for each call


def frame(result: Drawable) -> pd.DataFrame:
    """What the figure shows, one row per condition, as in the summary of shootdown.calls: condition; call_ns,
    interrupts_per_call, lost_ns and extra_ns, each with its interval; stopped_share and seen.

    lost_ns is missing where a bystander was stopped in less than half of the calls: by something else.
    Raises ResultError when nothing was measured.
    """
    wanted = [
        "condition", "call_ns", "call_lo_ns", "call_hi_ns", "interrupts_per_call", "interrupts_lo_per_call",
        "interrupts_hi_per_call", "stopped_share", "lost_ns", "lost_lo_ns", "lost_hi_ns", "extra_ns",
        "extra_lo_ns", "extra_hi_ns", "seen",
    ]  # fmt: skip
    table = columns(result.summary(), wanted, "The summary of these calls").copy()
    table.loc[~(table.stopped_share >= _SELDOM), ["lost_ns", "lost_lo_ns", "lost_hi_ns"]] = float("nan")
    return table


@draws(KIND, short_times=True)
def draw(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """A row per condition; a panel for the call, and one for the interrupts where they are counted."""
    table = frame(result)
    panels = [panel for panel in _PANELS if table[panel.column].notna().any()]
    counts = ", the counts on one from zero" if _PANELS[1] in panels else ""
    return dot_figure(
        table,
        panels,
        key="condition",
        names=NAMES,
        roles=ROLES,
        pale=frame,
        recorded=recorded,
        predictions=predictions,
        caption=_caption(table),
        title="Giving memory back, by what the other CPUs do",
        alt=f"Dot plots: the times on a logarithmic axis{counts}.",
    )


def _caption(table: pd.DataFrame) -> str:
    rows = {str(row.condition): row for row in each(table)}
    if not {"alone", "threads"} <= set(rows):
        return "How long a call takes that gives memory back, by what the other CPUs do meanwhile."
    alone, running = rows["alone"], rows["threads"]
    text = (
        f"The call takes {axes.time_text(alone.call_ns)} alone, and {axes.time_text(running.call_ns)} while "
        "threads of the same process run on other CPUs"
    )
    share = f"such a thread is stopped during {running.stopped_share:.1%} of the calls"
    if pd.notna(running.lost_ns):
        return f"{text}; {share}, for {axes.time_text(running.lost_ns)} in the median."
    return f"{text}; {share}." if pd.notna(running.stopped_share) else f"{text}."
