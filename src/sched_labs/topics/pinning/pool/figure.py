"""A pool of workers, pinned or free: how long requests take while a CPU is taken away."""

from __future__ import annotations

import pandas as pd

from sched_labs.draw import axes, style
from sched_labs.draw.base import Drawable, Figure, Predictions, columns, draws
from sched_labs.draw.panels import TIME, Panel, dot_figure

from .experiment import WHO

KIND = "pool.pinned"
PANELS = [
    Panel("The thread's data: half are done within", "thread_p50_ns", TIME, "thread_p50_lo_ns",
          "thread_p50_hi_ns", guessed=False),
    Panel("The thread's data: 99 % are done within", "thread_p99_ns", TIME, "thread_p99_lo_ns",
          "thread_p99_hi_ns"),
    Panel("The request's data: 99 % are done within", "request_p99_ns", TIME, "request_p99_lo_ns",
          "request_p99_hi_ns", guessed=False),
]  # fmt: skip
_VALUES = ("p50_ns", "p50_lo_ns", "p50_hi_ns", "p99_ns", "p99_lo_ns", "p99_hi_ns", "queue_requests")
_COLUMNS = ("owner", "intruder", "placement", *_VALUES)


def frame(result: Drawable) -> pd.DataFrame:
    """What the figure shows, one row per intruder and placement.

    - case: intruder and placement in one word, such as short_pinned
    - thread_p50_ns, thread_p99_ns, with _lo_ and _hi_: from the time at which a request was due until it was
      done, where the data are the thread's
    - request_p50_ns, request_p99_ns, with _lo_ and _hi_: the same where they are the request's
    - thread_queue_requests, request_queue_requests: the longest queue in the program

    Raises ResultError when nothing was measured.
    """
    table = columns(result.summary(), _COLUMNS, "The summary of this pool")
    table["case"] = table["intruder"] + "_" + table["placement"]
    sides = [
        table[table["owner"] == owner].set_index("case")[list(_VALUES)].add_prefix(f"{owner}_")
        for owner in ("thread", "request")
    ]
    return pd.concat(sides, axis=1).rename_axis("case").reset_index()


@draws(KIND)
def draw(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """Draw the middle request and the slowest hundredth; predictions are of the latter."""
    table = frame(result)
    names = {
        f"{intruder}_{placement}": f"{placement}: {who}"
        for intruder, who in WHO.items()
        for placement in ("pinned", "free")
    }
    return dot_figure(
        table,
        PANELS,
        key="case",
        names=names,
        roles={case: style.DIRECT if case.endswith("pinned") else style.ALONE for case in table["case"]},
        pale=frame,
        recorded=recorded,
        predictions=predictions,
        alt="Rows of dots with intervals on logarithmic axes, by placement and by who takes a CPU away.",
        caption=_caption(table),
        title="Requests of a pool whose workers are pinned or free",
    )


def _caption(table: pd.DataFrame) -> str:
    """Pinned against free, where the data are the thread's: the middle, and the tail by who takes a CPU."""
    cases = table.set_index("case")

    def both(column: str, intruder: str) -> str:
        pinned, free = (
            axes.time_text(cases[column][f"{intruder}_{placed}"]) for placed in ("pinned", "free")
        )
        return f"{pinned} pinned and {free} free"

    words = {"none": "with nobody else there", "long": "with a CPU taken in long pieces"}
    there = [name for name in words if {f"{name}_pinned", f"{name}_free"} <= set(cases.index)]
    if not there:
        return "Only one placement was measured."
    late = ", ".join(f"{words[name]} {both('thread_p99_ns', name)}" for name in there)
    return (
        "Where the data are the thread's, half of the requests are done within "
        f"{both('thread_p50_ns', there[0])}, {words[there[0]]}; "
        f"99 of 100 are done within: {late}."
    )
