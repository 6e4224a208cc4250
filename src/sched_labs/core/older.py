"""What earlier versions of a result's file look like, made into today's.

Version 1 kept what a run found among its parameters.  Whoever reads a file of that version finds it where
version 2 has it: the tables beside the data, the facts by themselves.
"""

from __future__ import annotations

from typing import Any

_TABLES = ("blocks", "found", "idle", "samples", "spans", "trials_counted", "used", "waits")
_COLUMNS = {  # of tables that were lists of values
    "spans": ("trial", "cpu", "begin_ns", "end_ns"),
    "samples": ("trial", "at_ns", "periods", "throttled_periods", "throttled_ns"),
}
_FACTS = (
    "burst_ns", "chunk_ns", "data_bytes", "default_period_ns", "device_interrupts", "firmware_distances",
    "global_lock", "hog_cpu_ns", "image_bytes", "instrument", "instruments", "interrupts", "intruder_policy",
    "involuntary", "involuntary_switches", "last_cpu", "lost_edges", "lost_stacks", "lost_waits", "observers",
    "run_delay_ns", "slack_ns", "sleeper_cpu_ns", "sleeper_involuntary_switches",
    "sleeper_voluntary_switches", "slice_before_ns", "started_threads", "stat_fields", "switch_every_ns",
    "tags", "threshold_ns", "tick_free", "timer_interrupts", "timeslices", "voluntary", "watched",
    "window_ns",
)  # fmt: skip


def from_version_1(head: dict[str, Any]) -> dict[str, Any]:
    """The head of a file of version 1 as version 2 would have written it.  KeyError, TypeError: damaged."""
    parameters = dict(head["parameters"])
    tables = {
        name: [
            dict(zip(_COLUMNS[name], row, strict=True)) if name in _COLUMNS else row
            for row in parameters.pop(name)
        ]
        for name in _TABLES
        if isinstance(parameters.get(name), list)
    }
    facts = {name: parameters.pop(name) for name in _FACTS if name in parameters}
    # `events` are counters that were read where they are words, and a number that was asked for elsewhere.
    if isinstance(parameters.get("events"), list):
        facts["events"] = parameters.pop("events")
    return {**head, "version": 2, "parameters": parameters, "tables": tables, "facts": facts}
