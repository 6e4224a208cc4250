"""A pool of workers, pinned or free: how long requests take while somebody has one of its CPUs."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from . import axes, style
from .base import Drawable, Figure, Prediction, also_drawn, columns, draws, listed, provenance
from .panels import NUMBER, TIME, Panel, check_predictions, dots, in_words

KIND = "pool.pinned"
WHO = {"none": "nobody", "short": "short pieces", "long": "long pieces"}
PANELS = [
    Panel("The thread's data: 99 % are done within", "thread_p99_ns", TIME, "thread_p99_lo_ns",
          "thread_p99_hi_ns"),
    Panel("The request's data: 99 % are done within", "request_p99_ns", TIME, "request_p99_lo_ns",
          "request_p99_hi_ns"),
    Panel("The thread's data: longest queue of requests", "thread_queue_requests", NUMBER, least=0.5),
]  # fmt: skip
_COLUMNS = ("owner", "intruder", "placement", "p99_ns", "p99_lo_ns", "p99_hi_ns", "queue_requests")


def frame(result: Drawable) -> pd.DataFrame:
    """What the figure shows, one row per intruder and placement.

    - case: intruder and placement in one word, such as short_pinned
    - thread_p99_ns, thread_p99_lo_ns, thread_p99_hi_ns: from the time at which a request was due until it was
      done, where the data are the thread's; the same with request_ where they are the request's
    - thread_queue_requests, request_queue_requests: the longest queue in the program

    Raises ResultError when nothing was measured.
    """
    table = columns(result.summary(), _COLUMNS, "The summary of this pool")
    table["case"] = table["intruder"] + "_" + table["placement"]
    values = ["p99_ns", "p99_lo_ns", "p99_hi_ns", "queue_requests"]
    sides = [
        table[table["owner"] == owner].set_index("case")[values].add_prefix(f"{owner}_")
        for owner in ("thread", "request")
    ]
    return pd.concat(sides, axis=1).rename_axis("case").reset_index()


@draws(KIND)
def draw(result: Drawable, recorded: Drawable | None, predictions: Sequence[Prediction]) -> Figure:
    """Draw the slowest hundredth of requests by whose the data are, and the queue; predictions are times."""
    check_predictions(PANELS, predictions)
    table = frame(result)
    names = {
        f"{intruder}_{placement}": f"{placement}: {who}"
        for intruder, who in WHO.items()
        for placement in ("pinned", "free")
    }
    drawing = dots(
        table,
        PANELS,
        key="case",
        names=names,
        roles={case: style.DIRECT if case.endswith("pinned") else style.ALONE for case in table["case"]},
        pale=None if recorded is None else frame(recorded),
        recorded=recorded,
        predictions=predictions,
    )
    return Figure(
        drawing,
        KIND,
        alt="Rows of dots with intervals on logarithmic axes, by placement and by who takes a CPU away. "
        + in_words(table, PANELS, "case", names)
        + also_drawn(recorded, predictions),
        caption=_caption(table),
        provenance=provenance(result, recorded),
        data=table,
        title="Requests of a pool whose workers are pinned or free",
    )


def _caption(table: pd.DataFrame) -> str:
    """Pinned against free, by the way in which a CPU is taken away, where the data are the thread's."""
    cases = table.set_index("case")
    words = {"none": "with nobody else there", "short": "with a CPU taken in short pieces",
             "long": "with as much of it taken in long ones"}  # fmt: skip
    parts = [
        f"{words[intruder]} {axes.time_text(cases.thread_p99_ns[f'{intruder}_pinned'], 2)} pinned and "
        f"{axes.time_text(cases.thread_p99_ns[f'{intruder}_free'], 2)} free"
        for intruder in words
        if {f"{intruder}_pinned", f"{intruder}_free"} <= set(cases.index)
    ]
    if not parts:
        return "Only one placement was measured."
    return f"Where the data are the thread's, 99 of 100 requests are done within: {listed(parts)}."
