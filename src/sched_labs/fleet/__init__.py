"""The same experiment on many machines: a room, a cluster, a cloud.

    from sched_labs import fleet
    with fleet.connect("tls://scheduler:8786") as cluster:       # without an address: this machine alone
        fleet.run("runqlat.histogram", cluster, "measured")
    fleet.report("measured", "fleet.html")

The cluster is Dask's (`pip install 'sched-labs[fleet]'`); nothing else here needs it.  Data flows one way:

    greeting    what a worker runs: text in, text out, so that a worker needs nothing of ours to answer
    onsite      what that leads to on a machine that has sched-labs: survey, measure, watch
    row         what one machine measured in one run, small, and checked when it arrives
    numbers     the numbers of a result, with their intervals and names
    store       a folder of rows and results: one file for each, written once
    cluster     the connection, and which workers are of which machine
    engine      one experiment at a time on each machine, until all have answered or have a reason
    tables      the rows of a folder as frames
    compare     what do the odd ones have in common?
    drift       which machine changed, and when?
    strips      every number by machine
    report      all of it as one HTML file and as Parquet
"""

from __future__ import annotations

import importlib
from typing import Any

_WHERE = {
    "connect": ("cluster", "connect"),
    "doctor": ("engine", "doctor"),
    "report": ("report", "write"),
    "run": ("engine", "run"),
    "watch": ("engine", "watch"),
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _WHERE[name]
    return getattr(importlib.import_module(f"{__name__}.{module}"), attribute)
