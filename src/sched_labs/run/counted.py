"""Events that a workload counts around its measured region, as columns of an experiment's data."""

from __future__ import annotations

from collections.abc import Sequence

from .. import machine
from ..core.errors import ProbeError
from ..probes import perf
from ..workloads import Record
from .base import Run

EVENTS = ("dTLB-load-misses", "L1-dcache-load-misses", "LLC-load-misses", "cycles", "instructions")


def ask_for(run: Run, events: Sequence[str] | None) -> list[str]:
    """The arguments that make a workload count these events; default: what this machine offers of EVENTS.

    Keeps the choice in the run's parameters, and says so where there is nothing to count.
    Raises ParameterError for an unknown event.
    """
    chosen = perf.offered(EVENTS) if events is None else list(events)
    arguments = perf.arguments(chosen)
    run.facts["events"] = chosen
    if not chosen:
        # Elsewhere events may have been left out, or the counters be another user's to read.
        none = machine.survey().fact("pmu.name").value == "none"
        why = ": this machine offers no such counter" if none else ""
        run.note("missing", f"No cache or translation misses were counted{why}.")
    return arguments


def columns(run: Run, record: Record, operations: int) -> dict[str, float]:
    """One column for each event of an `events` record: its count for one operation.

    No column, and a note, where it could not be counted; flagged where the counts are estimates.
    """
    try:
        counts = perf.from_record(record)
    except ProbeError as error:
        run.note("missing", str(error))
        return {}
    if counts.scaled:
        run.note("flag", "The processor had fewer counters than were wanted: counts are scaled-up estimates.")
    return {name: counts.value(name) / operations for name in counts.values}
