"""What sched_yield does: how often the CPU changes hands, per call."""

from __future__ import annotations

import os
from typing import Any

from ...core.errors import ParameterError
from ...workloads.launch import start


def yielding(threads: int = 2, yields: int = 1000) -> dict[str, Any]:
    """So many threads on one CPU, each of which only yields, under the normal policy.

    Returns for each thread its voluntary and involuntary switches, and the threads' time for all their calls.
    """
    if not 2 <= threads <= 64 or not 10 <= yields <= 100_000:
        raise ParameterError(
            f"{threads} threads cannot yield {yields} times each.",
            "Choose 2 to 64 threads, 10 to 100,000 calls.",
        )
    words = ["--threads", str(threads), "--yields", str(yields), "--trials", "1"]
    with start("yielder", words, deadline_s=60) as running:
        for tid in running.tids:
            os.sched_setaffinity(tid, {max(os.sched_getaffinity(0))})
        together = [record for record in running.run() if record.text("condition") == "together"]
    return {
        "yields": yields,
        "voluntary": [record["voluntary"] for record in together],
        "involuntary": [record["involuntary"] for record in together],
        "elapsed_ns": [record["elapsed_ns"] for record in together],
    }
