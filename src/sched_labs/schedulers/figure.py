"""The timeline of the decisions: who had the CPU, who waited for it, and since when."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.patches import Patch

from ..core.errors import ParameterError, ResultError
from ..draw import axes, style
from ..draw.base import Drawable, Figure, Prediction, canvas, columns, draws, each, provenance
from .decisions import COLUMNS

KIND = "scheduler.run"
_AROUND_US, _MOST_US = 12_000.0, 120_000.0
_STATES = {"running": style.OWN, "wake-up": style.WAKEUP, "preemption": style.PREEMPTED}
_LABELS = {
    "running": "has the CPU",
    "wake-up": "waits, woken",
    "preemption": "waits, preempted",
}


def longest_wait(data: pd.DataFrame) -> pd.Series:
    """The row of `.data` that ended the longest wait of these threads since all of them have begun, and in
    `of` which waits were looked at.

    All begin at the same moment, so one of them waits for all others then, whatever the scheduler does.  The
    first turn of a thread is before that moment, its second one the first after it.  Where a thread never had
    a second one, or nobody waited later, every wait counts.

    Raises ResultError where nobody ever waited.
    """
    waits = data[data["waited_us"].notna()].assign(of="this run")
    if waits.empty:
        raise ResultError("No thread of this workload ever waited for a CPU.", "Look at `.data`.")
    second = data.groupby("pid")["start_us"].nth(1)
    later = waits[waits["start_us"] - waits["waited_us"] >= second.max()]
    if len(second) == data["pid"].nunique() and len(later):
        waits = later.assign(of="this run since each of its threads had its second turn")
    return waits.iloc[int(waits["waited_us"].argmax())]


def frame(result: Drawable) -> pd.DataFrame:
    """What the figure shows: intervals of the workload's threads around the longest wait of the run.

    - thread: whose
    - state: "running", or what it waits since: "wake-up", "preemption"
    - from_us, to_us: the interval, since the record began; cut at the figure's edges
    - queue: for "running", from which queue it was picked

    Raises ResultError for a run without decisions.
    """
    data = columns(result.data, COLUMNS, "This run of a scheduler")
    names = [str(one["thread"]) for one in result.records("threads")]
    pids = [one["tid"] for one in result.records("threads")]
    data = data[data["pid"].isin(pids)]
    longest = longest_wait(data)
    end = float(longest["start_us"]) + _AROUND_US
    start = max(0.0, end - 2 * _AROUND_US - float(longest["waited_us"]), end - _MOST_US)
    rows = []
    for one in each(data):
        spans = [("running", one.start_us, one.start_us + one.ran_us, one.queue)]
        if one.after in _STATES:
            spans.append((one.after, one.start_us - one.waited_us, one.start_us, None))
        rows += [
            {
                "thread": one.thread,
                "state": state,
                "from_us": max(low, start),
                "to_us": min(high, end),
                "queue": queue,
            }
            for state, low, high, queue in spans
            if low < end and high > start
        ]
    shown = pd.DataFrame(rows)
    order = {name: place for place, name in enumerate(names)}
    return shown.sort_values(["thread", "from_us"], key=lambda c: c.map(order) if c.name == "thread" else c)


@draws(KIND)
def draw(result: Drawable, recorded: Drawable | None, predictions: Sequence[Prediction]) -> Figure:
    """One row for each thread of the workload; a bar where it has the CPU, a line where it waits."""
    if recorded is not None or predictions:
        raise ParameterError("A timeline has no room for another run or a prediction.", "Draw it alone.")
    table = frame(result)
    names = list(dict.fromkeys(str(one["thread"]) for one in result.records("threads")))
    virtual = getattr(result, "timing", axes.NATIVE) == axes.VIRTUAL
    start_ms, end_ms = table["from_us"].min() / 1e3, table["to_us"].max() / 1e3
    with style.drawing():
        drawing = canvas(90 + 34 * len(names))
        panel = drawing.subplots()
        for state, colour in _STATES.items():
            height = 0.62 if state == "running" else 0.16
            for place, name in enumerate(names):
                part = table[(table["thread"] == name) & (table["state"] == state)]
                spans = [
                    (low / 1e3, (high - low) / 1e3)
                    for low, high in zip(part["from_us"], part["to_us"], strict=True)
                ]
                panel.broken_barh(
                    spans, (place - height / 2, height), color=style.colour(colour), linewidth=0.3
                )
        panel.set_yticks(range(len(names)), names)
        panel.set_ylim(len(names) - 0.5, -0.5)
        panel.set_xlim(start_ms, end_ms)
        panel.set_xlabel(f"time since the start, {'million virtual ns' if virtual else 'ms'}")
        panel.grid(axis="y", visible=False)
        handles = [
            Patch(color=style.colour(colour), label=_LABELS[state]) for state, colour in _STATES.items()
        ]
        drawing.legend(handles=handles, loc="outside upper left", ncols=3)
    worst = longest_wait(
        result.data[result.data["pid"].isin([one["tid"] for one in result.records("threads")])]
    )
    longest = axes.time_text(1e3 * float(worst["waited_us"]))
    scheduler = str(result.machine.get("scheduler"))
    return Figure(
        drawing,
        KIND,
        alt=f"A timeline of {len(names)} threads under {scheduler}, from {start_ms:.0f} to {end_ms:.0f} ms: "
        "bars where a thread has the CPU, thin lines where it waits.  "
        f"{worst['thread']} has the longest wait of {worst['of']}, {longest}.",
        caption=f"Under {scheduler}, {worst['thread']} waited {longest} for the CPU: "
        f"the longest wait of {worst['of']}.",
        provenance=provenance(result, None),
        data=table,
        title="Who has the CPU, and who waits for it",
    )
