"""How long one wait in ten for a lock takes at least, by lock and by what its holder's group may use."""

from __future__ import annotations

import pandas as pd

from sched_labs.draw import axes, style
from sched_labs.draw.base import Drawable, Figure, Predictions, columns, draws
from sched_labs.draw.panels import TIME, Panel, dot_figure

KIND = "holder.waits"
NAMES = {
    "mutex": "mutex, no quota",
    "mutex, quota": "mutex, quota",
    "mutex, quota + burst": "mutex, quota and burst",
    "inherit, quota": "inheritance, quota",
    "file": "lock of a file, no quota",
    "file, quota": "lock of a file, quota",
}
P90 = Panel("One wait in ten takes so long or longer", "p90_ns", TIME, "p90_lo_ns", "p90_hi_ns")
_COLUMNS = ("situation", "p90_ns", "p90_lo_ns", "p90_hi_ns")


def frame(result: Drawable) -> pd.DataFrame:
    """What the figure shows, one row per situation: situation, p90_ns, p90_lo_ns and p90_hi_ns, as in the
    summary.  Raises ResultError when nothing was measured.
    """
    return columns(result.summary(), _COLUMNS, "The summary of these waits")


@draws(KIND)
def draw(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """A dot per situation; predictions are times."""
    table = frame(result)
    return dot_figure(
        table,
        [P90],
        key="situation",
        names=NAMES,
        roles={name: style.THROTTLED if "quota" in name else style.NEUTRAL for name in NAMES},
        pale=frame,
        recorded=recorded,
        predictions=predictions,
        caption=_caption(table),
        title="How long a process waits for a lock whose holder has a CPU quota",
    )


def _caption(table: pd.DataFrame) -> str:
    p90 = {name: axes.time_text(ns) for name, ns in zip(table.situation, table.p90_ns, strict=True)}
    said = [
        f"{what} {p90[f'{lock}, quota']} with a quota on its holder and {p90[lock]} without"
        for lock, what in (("mutex", "for a mutex"), ("file", "for the kernel's lock of a file"))
        if {lock, f"{lock}, quota"} <= set(p90)
    ] or [f"{NAMES.get(name, name)} {text}" for name, text in p90.items()]
    return f"One wait in ten takes at least: {'; '.join(said)}."
