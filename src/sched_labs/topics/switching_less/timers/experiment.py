"""Sixteen periodic jobs: at their own times, or together?  What waking up costs in all (lab L44)."""

from __future__ import annotations

import pandas as pd

from sched_labs import machine, workloads
from sched_labs.core.errors import ParameterError
from sched_labs.core.result import Result
from sched_labs.core.stats import spread
from sched_labs.run.base import Instrument, Run, experiment
from sched_labs.steer import placement

WAYS = ("own", "slack", "together", "one")


def summarise(result: Result) -> pd.DataFrame:
    """One row per way to wait for the time; medians over trials and 95 % intervals.

    by               own (each thread at times of its own, slack 1 ns), slack (the same, with slack), together
                     (every thread at the same times), one (one thread does everything that is due)
    threads, period_ns, slack_ns
    bursts_per_event, bursts_lo_per_event, bursts_hi_per_event   wake-ups after at least 100 µs of quiet
    switches_per_event, switches_lo_per_event, switches_hi_per_event   of all threads, counted by the kernel
    cpu_ns_per_event, cpu_ns_lo_per_event, cpu_ns_hi_per_event   CPU time of all threads
    late_p50_ns, late_p50_lo_ns, late_p50_hi_ns   how long after its time an event was served
    late_p99_ns, late_p99_lo_ns, late_p99_hi_ns
    trials
    """
    known, rows = result.parameters, []
    for by, part in result.data.groupby("by", sort=False):
        switches = (part.voluntary_switches + part.involuntary_switches) / part.events
        rows.append(
            {
                "by": by,
                "threads": known["threads"],
                "period_ns": 1000.0 * known["period_us"],
                "slack_ns": 1000.0 * known["slack_us"] if by == "slack" else 1.0,
                **spread("bursts", "per_event", part.bursts / part.events),
                **spread("switches", "per_event", switches),
                **spread("cpu_ns", "per_event", part.cpu_ns / part.events),
                **spread("late_p50", "ns", part.p50_ns),
                **spread("late_p99", "ns", part.p99_ns),
                "trials": len(part),
            }
        )
    return pd.DataFrame(rows)


def instrument(survey: machine.Machine) -> Instrument:
    """Counted switches and the threads' own clocks."""
    return Instrument("clock and counted switches")


@experiment("timers.aligned", summarise=summarise, instrument=instrument, workloads=("timers",))
def aligned(
    run: Run,
    *,
    threads: int = 16,
    period_us: int = 10_000,
    slack_us: int = 5_000,
    periods: int | None = None,
    trials: int | None = None,
) -> None:
    """Let threads wake up once in every period, at times of their own or together.

    threads    how many things are due in a period
    period_us  of each of them
    slack_us   how late the kernel may wake a thread in the way `slack` (prctl PR_SET_TIMERSLACK)
    periods    in a trial
    trials     the order of the ways turns round from trial to trial

    All threads share one CPU.  Data: one row per trial and way: by, events, bursts, voluntary_switches,
    involuntary_switches, cpu_ns, p50_ns, p99_ns.
    """
    periods = run.choose(tiny=5, quick=10, full=100) if periods is None else periods
    trials = run.choose(tiny=2, quick=5, full=15) if trials is None else trials
    if not 1 <= threads <= 64 or not 100 <= period_us <= 1_000_000 or not 1 <= slack_us <= period_us:
        raise ParameterError(
            f"{threads} threads every {period_us} µs with a slack of {slack_us} µs cannot be measured.",
            "Give 1 to 64 threads and a slack that is not longer than the period.",
        )
    if periods < 1 or trials < 1:
        raise ParameterError("periods and trials start at 1.", "Leave them out to use the profile's.")
    run.begin()
    run.parameters |= {"periods": periods, "trials": trials, "cpu": placement.quiet_cpu()}
    arguments = ["--threads", str(threads), "--period-us", str(period_us), "--periods", str(periods),
                 "--slack-us", str(slack_us), "--trials", str(trials)]  # fmt: skip
    deadline_s = 30 + 16 * trials * periods * period_us / 1e6
    with workloads.start("timers", arguments, deadline_s=deadline_s) as one:
        placement.pin(one.tids, [placement.quiet_cpu()])
        one.go()
        records = one.records()
        for _ in run.each(range(trials), label=lambda n: f"trial {n + 1}"):
            for row in [next(records) for _ in WAYS]:
                run.add(
                    [
                        {
                            "by": row.text("by"),
                            "trial": row["trial"],
                            "events": row["events"],
                            "bursts": row["bursts"],
                            "voluntary_switches": row["voluntary"],
                            "involuntary_switches": row["involuntary"],
                            "cpu_ns": row["cpu_ns"],
                            "p50_ns": row["p50_ns"],
                            "p99_ns": row["p99_ns"],
                        }
                    ]
                )
