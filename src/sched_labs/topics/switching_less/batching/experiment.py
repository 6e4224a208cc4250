"""What does a batch save, and what does it cost?  A steady stream of events and one worker (lab L33)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from sched_labs import machine, workloads
from sched_labs.core.errors import ParameterError
from sched_labs.core.result import Result
from sched_labs.core.stats import spread
from sched_labs.run.base import Instrument, Run, experiment
from sched_labs.steer import placement

BATCHES = (1, 10, 100, 1000)


def summarise(result: Result) -> pd.DataFrame:
    """One row per batch size; medians over trials and 95 % intervals.

    batch_events     events that come together before the worker is told
    switches_per_event, switches_lo_per_event, switches_hi_per_event   of the worker, counted by the kernel
    wakeups_per_event, wakeups_lo_per_event, wakeups_hi_per_event   the voluntary ones of them: it had slept
    cpu_ns_per_event, cpu_ns_lo_per_event, cpu_ns_hi_per_event   CPU time of the worker
    delay_p50_ns, delay_p50_lo_ns, delay_p50_hi_ns   from an event's time until it was done, half of them
    delay_p99_ns, delay_p99_lo_ns, delay_p99_hi_ns
    period_ns        from one event to the next
    trials
    """
    rows = []
    for batch, part in result.data.groupby("batch_events", sort=True):
        switches = (part.voluntary_switches + part.involuntary_switches) / part.events
        rows.append(
            {
                "batch_events": batch,
                **spread("switches", "per_event", switches),
                **spread("wakeups", "per_event", part.voluntary_switches / part.events),
                **spread("cpu_ns", "per_event", part.cpu_ns / part.events),
                **spread("delay_p50", "ns", part.p50_ns),
                **spread("delay_p99", "ns", part.p99_ns),
                "period_ns": 1000.0 * result.parameters["period_us"],
                "trials": len(part),
            }
        )
    return pd.DataFrame(rows)


def wait_ns(result: Result, batch_events: int) -> float:
    """How long half of the events of a run wait at least until their batch is complete.

    The last batch of a run is complete when its events are over, however few they are.
    """
    events, size = result.parameters["events"], int(batch_events)
    numbers = np.arange(events)
    ends = np.minimum((numbers // size + 1) * size, events) - 1
    return float(np.median(ends - numbers)) * 1000 * result.parameters["period_us"]


def instrument(survey: machine.Machine) -> Instrument:
    """Counted switches, and delays from the scheduled time of each event."""
    return Instrument("clock and counted switches")


@experiment("batching.sweep", summarise=summarise, instrument=instrument, workloads=("batching",))
def sweep(
    run: Run,
    *,
    batches: Sequence[int] = BATCHES,
    period_us: int = 100,
    work_us: int = 10,
    events: int | None = None,
    trials: int | None = None,
) -> None:
    """Let a source make events at a steady rate, and wake a worker for every so many of them.

    batches    how many events are put together
    period_us  from one event to the next, on a schedule of absolute times
    work_us    what the worker does for each
    events     in a trial
    trials     the order of the batches turns round from trial to trial

    Where there are two CPUs, the source has one and the worker the other.
    Data: one row per trial and batch: batch_events, events, elapsed_ns, and of the worker: cpu_ns,
    voluntary_switches, involuntary_switches, wakes; p50_ns, p99_ns, max_ns of the delays.
    """
    events = run.choose(tiny=200, quick=2000, full=20_000) if events is None else events
    trials = run.choose(tiny=2, quick=4, full=9) if trials is None else trials
    if isinstance(batches, int) or not batches or len(batches) > 16 or min(batches) < 1:
        raise ParameterError(f"batches does not take {batches!r}.", "Give a list such as [1, 10, 100].")
    if not 1 <= period_us <= 1_000_000 or not 0 <= work_us <= period_us or events < max(batches) // 5:
        raise ParameterError(
            f"{events} events every {period_us} µs with {work_us} µs of work cannot be measured.",
            "The work must fit into the period, and the events must fill a fifth of the largest batch.",
        )
    home = placement.quiet_cpu()
    run.begin()
    run.parameters |= {"events": events, "trials": trials, "cpu": home}
    length_s = events * period_us / 1e6 * len(batches)
    arguments = ["--batches", ",".join(map(str, batches)), "--events", str(events), "--trials", str(trials),
                 "--period-us", str(period_us), "--work-us", str(work_us)]  # fmt: skip
    with workloads.start("batching", arguments, deadline_s=4 * length_s * trials + 30) as one:
        source, worker = one.tids
        placement.pin([worker], [home])
        if len(machine.survey().cpus_allowed) > 1:
            placement.pin([source], [placement.other_cpu(home)])
        else:
            run.note("missing", "There is one CPU only: the source disturbs the worker.")
        one.go()
        records = one.records()
        for _ in run.each(range(trials), label=lambda n: f"trial {n + 1}"):
            for row in [next(records) for _ in batches]:
                run.add(
                    [
                        {
                            "trial": row["trial"],
                            "batch_events": row["size"],
                            "events": row["events"],
                            "elapsed_ns": row["elapsed_ns"],
                            "cpu_ns": row["cpu_ns"],
                            "voluntary_switches": row["voluntary"],
                            "involuntary_switches": row["involuntary"],
                            "wakes": row["wakes"],
                            **{name: row[name] for name in ("p50_ns", "p99_ns", "max_ns")},
                        }
                    ]
                )
