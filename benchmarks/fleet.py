"""What a question to a machine of a fleet costs, against what Dask takes for the smallest task of its own."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

from table import Line, NotMeasurable, alternate, ratio_interval, remark_on, show

from sched_labs.core.errors import SchedLabError
from sched_labs.fleet import cluster as clusters

BLOCKS, QUESTIONS = 20, 15
TARGET = 2.0


def _block(ask: Callable[[], object]) -> float:
    """The median of a block of questions, one after the other, in s."""
    times = []
    for _ in range(QUESTIONS):
        start = time.perf_counter()
        ask()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def _heard(cluster: clusters.Cluster, worker: str) -> None:
    future = cluster.ask(worker, {"do": "hello"})
    future.result(timeout=60)
    clusters.heard(future)


def lines() -> list[Line]:
    """A worker is asked which machine it is on, and for the length of a word, in turns."""
    what = "a question to a fleet's worker / Dask's smallest task"
    try:
        with clusters.connect() as cluster:
            (worker,) = cluster.workers()
            ask = cluster.client.submit
            ours, theirs = alternate(
                lambda: _block(lambda: _heard(cluster, worker)),
                lambda: _block(lambda: ask(len, "x", workers=[worker], pure=False).result()),
                blocks=BLOCKS,
            )
    except (SchedLabError, NotMeasurable) as error:
        return [Line(what, "not measurable", f"< {TARGET:g}", None, str(error).replace("\n", " "))]
    ratio, low, high = ratio_interval(ours, theirs)
    remark = f"medians {1e3 * statistics.median(ours):.1f} and {1e3 * statistics.median(theirs):.1f} ms"
    remark += remark_on(low < TARGET < high)
    value = f"{ratio:.2f} [{low:.2f}, {high:.2f}]"
    return [Line(what, value, f"< {TARGET:g}", ratio < TARGET, remark)]


if __name__ == "__main__":
    found = lines()
    show(found)
    sys.exit(any(line.ok is False for line in found))
