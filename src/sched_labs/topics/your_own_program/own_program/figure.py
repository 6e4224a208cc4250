"""Where the time went that a program's threads wanted: running, and waiting, by what had the CPU."""

from __future__ import annotations

import pandas as pd

from sched_labs.core.errors import ResultError
from sched_labs.draw import style
from sched_labs.draw.base import Drawable, Figure, Predictions, columns, draws
from sched_labs.draw.panels import SHARE, Panel, dot_figure

KIND = "own_program.watch"
NAMES = {
    "running": "running",
    "same_program": "waiting: its own threads",
    "other_task": "waiting: other programs",
    "throttled": "waiting: quota used up",
    "realtime": "waiting: real-time threads",
    "kernel_thread": "waiting: kernel threads",
    "interrupt": "waiting: interrupts",
    "idle": "waiting: an idle CPU woke up",
    "migrated": "waiting: moved unseen",
    "unattributed": "waiting: not known for what",
}
ROLES = {
    "running": style.ALONE,
    "same_program": style.OWN,
    "other_task": style.RIVAL,
    "throttled": style.THROTTLED,
    "realtime": style.REALTIME,
    "kernel_thread": style.SYSTEM,
    "interrupt": style.SYSTEM,
    "idle": style.WAKEUP,
    "migrated": style.NEUTRAL,
    "unattributed": style.NEUTRAL,
}
PANELS = (Panel("Part of the time that its threads wanted", "share", SHARE),)
ALWAYS = ("running", "same_program", "other_task", "throttled")
LEAST = 0.005  # of the time: what else has less is left out


def frame(result: Drawable) -> pd.DataFrame:
    """What the figure shows, one row per part of the time that its threads wanted.

    - part: "running", or what had the CPU while a thread waited (a name of `probes.waits.OCCUPANTS`)
    - share: of that time, 0 to 1
    - ms_per_s: how much of every second, over all threads together

    Raises ResultError when no thread wanted a CPU.
    """
    table = columns(result.summary(), ["part", "share", "ms_per_s"], "This watch")
    if not table["ms_per_s"].sum() > 0:
        raise ResultError("No thread of it wanted a CPU.", "Watch it longer, or while it works.")
    kept = table[table["part"].isin(ALWAYS) | (table["share"] >= LEAST)]
    order = {name: at for at, name in enumerate(NAMES)}
    return kept.sort_values("part", key=lambda names: names.map(order), ignore_index=True)


@draws(KIND)
def draw(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """Draw one dot for each part of the time; predictions are shares."""
    table = frame(result)
    return dot_figure(
        table,
        PANELS,
        key="part",
        names=NAMES,
        roles=ROLES,
        pale=frame,
        recorded=recorded,
        predictions=predictions,
        alt="Dot plot.",
        caption=_caption(table),
        title="Where the time went that the program's threads wanted",
    )


def _caption(table: pd.DataFrame) -> str:
    share = table.set_index("part")["share"]
    waits = share.drop("running", errors="ignore")
    ran = f"Of the time in which its threads ran or could have run, they ran {float(share['running']):.0%}"
    if not waits.max() > LEAST:
        return f"{ran}: they hardly ever waited for a CPU."
    name = str(waits.idxmax())
    why = NAMES[name].partition(": ")[2]
    return f"{ran}; the largest part of the waiting, {float(waits.max()):.0%}, is {why}."
