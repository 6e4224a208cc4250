"""Many wait for one event: how many are woken?  Thundering herd and EPOLLEXCLUSIVE (lab L34)."""

from __future__ import annotations

import pandas as pd

from sched_labs import machine, workloads
from sched_labs.core.errors import ParameterError
from sched_labs.core.result import Result
from sched_labs.core.stats import spread
from sched_labs.run.base import Instrument, Run, experiment

WAYS = ("shared", "exclusive", "own")


def summarise(result: Result) -> pd.DataFrame:
    """One row per way to wait; medians over trials and 95 % intervals.

    by           shared (one eventfd for all), exclusive (the same with EPOLLEXCLUSIVE), own (one for each)
    threads
    switches_per_event, switches_lo_per_event, switches_hi_per_event   of all threads, counted by the kernel;
                 one of each thread in a trial is its wait for the end
    returns_per_event, returns_lo_per_event, returns_hi_per_event   of epoll_wait() to a program
    empty_per_event   how often it returned and there was nothing left to read
    cpu_ns_per_event, cpu_ns_lo_per_event, cpu_ns_hi_per_event   CPU time of all threads, that wait included
    trials
    """
    rows = []
    for by, part in result.data.groupby("by", sort=False):
        switches = (part.voluntary_switches + part.involuntary_switches) / part.events
        rows.append(
            {
                "by": by,
                "threads": int(part.threads.iloc[0]),
                **spread("switches", "per_event", switches),
                **spread("returns", "per_event", part.wakes / part.events),
                "empty_per_event": float((part.empty_returns / part.events).median()),
                **spread("cpu_ns", "per_event", part.cpu_ns / part.events),
                "trials": len(part),
            }
        )
    return pd.DataFrame(rows)


def instrument(survey: machine.Machine) -> Instrument:
    """Counted switches; returns of epoll_wait() alone miss the herd inside the kernel."""
    return Instrument("counted switches and returns of epoll_wait()")


@experiment("herd.wakeups", summarise=summarise, instrument=instrument, workloads=("herd",))
def wakeups(
    run: Run, *, threads: int = 8, events: int | None = None, period_us: int = 600, trials: int | None = None
) -> None:
    """Let threads wait for events, each with its own epoll instance, and send one event after the other.

    threads    how many wait, 1 to 64
    events     in a trial
    period_us  from one event to the next: long enough for everybody to sleep again
    trials     the order of the three ways turns round from trial to trial

    Data: one row per trial and way: by, threads, events, wakes (epoll_wait() returned), empty_returns (and
    there was nothing to read), voluntary_switches, involuntary_switches and cpu_ns of all threads.
    """
    events = run.choose(tiny=30, quick=200, full=2000) if events is None else events
    trials = run.choose(tiny=2, quick=5, full=15) if trials is None else trials
    if not 1 <= threads <= 64 or events < 1 or trials < 1 or not 100 <= period_us <= 100_000:
        raise ParameterError(
            f"{threads} threads and {events} events every {period_us} µs cannot be measured.",
            "Give 1 to 64 threads and a period from 100 to 100,000 µs.",
        )
    run.begin()
    run.parameters |= {"events": events, "trials": trials}
    arguments = ["--threads", str(threads), "--events", str(events), "--period-us", str(period_us),
                 "--trials", str(trials)]  # fmt: skip
    deadline_s = 30 + 12 * trials * events * period_us / 1e6
    with workloads.start("herd", arguments, deadline_s=deadline_s) as one:
        one.go()
        records = one.records()
        for _ in run.each(range(trials), label=lambda n: f"trial {n + 1}"):
            for row in [next(records) for _ in WAYS]:
                run.add(
                    [
                        {
                            "by": row.text("by"),
                            "trial": row["trial"],
                            "threads": row["threads"],
                            "events": row["events"],
                            "wakes": row["wakes"],
                            "empty_returns": row["empty"],
                            "voluntary_switches": row["voluntary"],
                            "involuntary_switches": row["involuntary"],
                            "cpu_ns": row["cpu_ns"],
                        }
                    ]
                )
                if row["events"] < events:
                    run.note("flag", f"Only {row['events']} of {events} events were taken in one trial.")
