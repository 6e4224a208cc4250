"""A job that records what the scheduler does with a workload, by the kernel's own tracing (tracefs)."""

from __future__ import annotations

import bisect
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...core.errors import ProbeError
from ...workloads.launch import start

_TRACING = Path("/sys/kernel/tracing")


def record(
    workload: str,
    words: Sequence[str],
    events: Sequence[str],
    kprobes: Sequence[str] = (),
    clock: str = "mono",
) -> dict[str, Any]:
    """Runs a workload on the last CPU, under the normal policy, and traces its threads.

    events   the tracepoints, as `sched/sched_switch`
    kprobes  more events of one's own, as lines of `kprobe_events`
    clock    of the trace, one of `trace_clock`

    Returns the tids in the order in which the workload names them, and the lines of the trace.
    """
    if kprobes:
        try:
            (_TRACING / "kprobe_events").write_text("\n".join(kprobes) + "\n")
        except OSError as error:
            raise ProbeError(
                f"The kernel refuses these kprobes: {(_TRACING / 'error_log').read_text()}"
            ) from error
        events = [*events, *(f"kprobes/{line.split()[0].partition(':')[2]}" for line in kprobes)]
    (_TRACING / "trace_clock").write_text(clock)
    (_TRACING / "buffer_size_kb").write_text("8192")
    with start(workload, list(words), deadline_s=600) as running:
        for tid in running.tids:
            os.sched_setaffinity(tid, {max(os.sched_getaffinity(0))})
        for event in events:
            (_TRACING / "events" / event / "enable").write_text("1")
        running.run()
        (_TRACING / "tracing_on").write_text("0")
        tids = running.tids
    lines = (_TRACING / "trace").read_text().splitlines()
    return {"tids": tids, "lines": [line for line in lines if not line.startswith("#")]}


def functions(addresses: Sequence[int]) -> dict[str, int]:
    """The kernel's functions that these addresses lie in, and where each begins."""
    table = []
    with open("/proc/kallsyms", encoding="ascii") as lines:  # noqa: PTH123 - as in guest.py
        for line in lines:
            start, kind, name = line.split()[:3]
            if kind in "tTwW":
                table.append((int(start, 16), name))
    table.sort()
    starts = [start for start, _ in table]
    found: dict[str, int] = {}
    for address in addresses:
        begin, function = table[bisect.bisect_right(starts, address) - 1]
        found[function] = begin
    return found
