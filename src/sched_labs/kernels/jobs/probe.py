"""Jobs that watch a workload with the book's probes."""

from __future__ import annotations

import os
from typing import Any

from ...probes import runqlat
from ...probes.waits import bin_edges_ns
from ...workloads.launch import start


def run_queue(hogs: int = 3, period_us: int = 10_000, wakes: int = 100) -> dict[str, Any]:
    """Counts every wait of a sleeper among hogs on one CPU with the BPF probe.

    Returns counts by cause as [bin_low_ns, bin_high_ns, waits], what was lost, how long loading took, and the
    lateness and the switches that the workload itself saw.
    """
    words = ["--hogs", str(hogs), "--period-us", str(period_us), "--wakes", str(wakes)]
    seconds = period_us * wakes / 1e6
    with start("sleeper", words, deadline_s=120 + 5 * seconds) as running:
        for tid in running.tids:
            os.sched_setaffinity(tid, {max(os.sched_getaffinity(0))})
        with runqlat.watch([running.pid], duration_s=60 + 5 * seconds) as probe:
            probe.start()
            records = running.run()
            waits = probe.stop()
            load_s = probe.load_s
    return {
        "waits": {
            cause: [
                [*bin_edges_ns(number, waits.bin_bits), count] for number, count in sorted(counts.items())
            ]
            for cause, counts in waits.counts.items()
        },
        "losses": dict(waits.losses),
        "unseen": waits.unseen,
        "window_ns": waits.window_ns,
        "load_s": load_s,
        "sleeper_voluntary_switches": next(r["voluntary"] for r in records if r.kind == "sleeper"),
        "late_ns": [record["late_ns"] for record in records if record.kind == "wake"],
    }
