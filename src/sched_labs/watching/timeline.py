"""The timeline of the page: the turns of a Result as few numbers, which timeline.js draws.

The script needs no network: it stands in the page with its data.  Its colours are those of the figures.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..core.result import Result
from ..draw import axes, style
from . import lanes

SCRIPT = Path(__file__).with_name("timeline.js")
MOST_THREADS = 24  # that have a lane of their own: those that ran or waited most
COLOURS = {
    "own": style.ALONE,
    "other": style.RIVAL,
    "unknown": style.FLOOR,
    "waiting": style.PREEMPTED,
    "ink": style.INK,
    "quiet": style.NEUTRAL,
    "grid": style.GRID,
    "paper": style.PAPER,
}


def values(result: Result) -> dict[str, Any] | None:
    """What the page's template takes: data (JSON), script, colours, waits; None without a timeline."""
    if "turns" not in result.tables or "longest" not in result.tables:
        return None
    among = lanes.spans(result)
    waits = [
        {
            "name": wait["name"],
            "length": axes.time_text(wait["waited_ns"]),
            "told": lanes.told(result, wait, among),
        }
        for wait in result.records("longest")
    ]
    return {
        "data": _json(data(result)),
        "script": SCRIPT.read_text(encoding="utf-8"),
        "colours": {name: style.PALETTE[meaning] for name, meaning in COLOURS.items()},
        "waits": waits,
    }


def data(result: Result) -> dict[str, Any]:
    """threads: [tid, name, whether its own]; cpus: number, and for each turn the ns since the turn before,
    the place in `threads`, whether it follows it, the ns that the thread had waited and, from 1 on, the
    place of who ran where it was woken; own: places of the threads with a lane; longest: CPU, place, ready_ns
    and at_ns of each.
    """
    table, own = lanes.turns(result), lanes.own(result)
    names = table.drop_duplicates("tid", keep="last").set_index("tid")["name"].to_dict()
    known = dict(zip(result.data["tid"], result.data["name"], strict=True))
    tids = sorted({*table["tid"], *table["waker_tid"]}, key=int)
    place = {tid: at for at, tid in enumerate(tids)}
    cpus = []
    for cpu, rows in table.groupby("cpu", sort=True):
        woken = np.where(rows["waking_ns"].isna(), 0, rows["waker_tid"].map(place) + 1)
        waited = (rows["at_ns"] - rows["ready_ns"]).fillna(0)
        columns = (
            np.diff(rows["at_ns"], prepend=0),
            rows["tid"].map(place),
            rows["follows"],
            waited,
            woken,
        )
        cpus.append([int(str(cpu)), *(np.asarray(column).astype("int64").tolist() for column in columns)])
    seen = [tid for tid in result.data["tid"] if tid in place][:MOST_THREADS]
    return {
        "threads": [[int(tid), known.get(tid) or names.get(tid) or "?", int(tid in own)] for tid in tids],
        "cpus": cpus,
        "own": [place[tid] for tid in seen],
        "longest": [
            [int(one["cpu"]), place[one["tid"]], int(one["ready_ns"]), int(one["at_ns"])]
            for one in result.records("longest")
        ],
        "end": int(max(pd.Series(table["at_ns"]).max(), 1e9 * result.facts["window_s"])),
    }


def _json(values: dict[str, Any]) -> str:
    """For a <script>: nothing in it ends that, whatever threads are called."""
    text = json.dumps(values, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
