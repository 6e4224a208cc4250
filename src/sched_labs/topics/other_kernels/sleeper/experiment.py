"""A light sleeper among hogs: how late does a thread that rarely runs get the CPU when its time has come?

One thread wakes at fixed points in time, works a little, and sleeps again.  It shares one CPU with threads
that never sleep, all under the fair scheduler.  Whether the kernel lets it run at once or makes it wait for
the end of a slice is a decision of the scheduler, and kernels decide differently: run it with `kernel=`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas as pd

from sched_labs import machine, workloads
from sched_labs.core.result import Result
from sched_labs.run import checks
from sched_labs.run.base import Instrument, Run, experiment
from sched_labs.steer import placement

MOST_HOGS = 64
# Longer than a timer, an interrupt and a switch take, shorter than a slice: somebody else had the CPU.
WAITED_NS = 100_000
WAITED_EMULATED_NS = 1_000_000  # an emulated machine says nothing about shorter times
TIMER_SLACK_NS = 1  # what the workload sets with prctl(PR_SET_TIMERSLACK); the default is 50 µs


def summarise(result: Result) -> pd.DataFrame:
    """One row.

    wakes                  how many wake-ups
    p50_ns, p90_ns, p99_ns, max_ns   how late: half, 90 %, 99 %, all of them were not later
    waited_ns              from here on a wake-up counts as late
    made_wait_percent      share of the wake-ups that were later than that; one that is due while the sleeper
                           is still at the work of an earlier one has not waited of itself (`waits.waits`)
    sleeper_cpu_percent    what the sleeper used of the CPU, of all that it and the hogs used
    fair_percent           what an equal share would be
    involuntary            how often the sleeper lost the CPU while it worked
    """
    late = result.data["late_ns"]
    known = result.parameters | result.facts
    used = known["sleeper_cpu_ns"] + sum(known["hog_cpu_ns"])
    limit = WAITED_EMULATED_NS if result.timing == "vm-emulated" else WAITED_NS
    row: dict[str, Any] = {"wakes": len(late)}
    for name, share in (("p50_ns", 0.5), ("p90_ns", 0.9), ("p99_ns", 0.99), ("max_ns", 1.0)):
        row[name] = float(late.quantile(share, interpolation="higher"))
    return pd.DataFrame(
        [
            row
            | {
                "waited_ns": limit,
                "made_wait_percent": 100 * float((late > limit).mean()),
                "sleeper_cpu_percent": 100 * known["sleeper_cpu_ns"] / used,
                "fair_percent": 100 / (1 + known["hogs"]),
                "involuntary": known["sleeper_involuntary_switches"],
            }
        ]
    )


def instrument(survey: machine.Machine) -> Instrument:
    """The sleeper's own clock: it needs nothing that a machine could lack."""
    return Instrument("the sleeper's own clock")


@experiment("sleeper.among_hogs", summarise=summarise, instrument=instrument, workloads=("sleeper",))
def among_hogs(
    run: Run, *, hogs: int = 3, period_us: int = 2017, work_us: int = 300, wakes: int | None = None
) -> None:
    """Wake a thread again and again among hogs on its CPU, and note how late it gets to run.

    hogs       threads that compute without end on the same CPU
    period_us  the sleeper is due this often, on absolute time: one late wake-up does not delay the next.
               The default is no whole part of a scheduler's tick, so wake-ups meet every moment of it.
    work_us    how long the sleeper works each time; by default 15 % of the CPU, less than its equal share
    wakes      how often; default: by profile

    Data: one row per wake-up: wake_index, late_ns, and the parameters hogs, period_us, work_us.
    The parameters also hold cpu and timer_slack_ns.  Facts are what the kernel counted of the sleeper and of
    each hog: sleeper_cpu_ns, sleeper_voluntary_switches, sleeper_involuntary_switches, hog_cpu_ns.
    """
    wakes = run.choose(tiny=60, quick=1000, full=10_000) if wakes is None else wakes
    _check(hogs, period_us, work_us, wakes)
    cpu = placement.quiet_cpu()
    if work_us * (hogs + 1) > period_us:
        run.note("info", "The sleeper asks for more than an equal share of the CPU; it must wait somewhere.")
    run.begin()
    words = ["--hogs", hogs, "--period-us", period_us, "--work-us", work_us, "--wakes", wakes]
    deadline_s = 30 + 5 * wakes * period_us / 1e6
    label = f"{wakes:,} wake-ups among {hogs} hogs"
    for _ in run.each([cpu], label=lambda _: label):
        with workloads.start("sleeper", [str(word) for word in words], deadline_s=deadline_s) as sleeper:
            placement.pin(sleeper.tids, [cpu])
            records = sleeper.run()
    counted = told(records)
    late = counted.pop("late_ns")
    run.add(
        pd.DataFrame(
            {
                "wake_index": range(len(late)),
                "late_ns": late,
                "hogs": hogs,
                "period_us": period_us,
                "work_us": work_us,
            }
        )
    )
    run.parameters |= {"wakes": wakes, "cpu": cpu, "timer_slack_ns": TIMER_SLACK_NS}
    run.facts |= counted


def told(records: Iterable[workloads.Record]) -> dict[str, Any]:
    """What the sleeper workload tells: late_ns of each wake-up in order, sleeper_cpu_ns,
    sleeper_voluntary_switches, sleeper_involuntary_switches, and hog_cpu_ns of each hog."""
    records = list(records)
    sleeper = next(record for record in records if record.kind == "sleeper")
    return {
        "late_ns": [record["late_ns"] for record in records if record.kind == "wake"],
        "sleeper_cpu_ns": sleeper["cpu_ns"],
        "sleeper_voluntary_switches": sleeper["voluntary"],
        "sleeper_involuntary_switches": sleeper["involuntary"],
        "hog_cpu_ns": [record["cpu_ns"] for record in records if record.kind == "hog"],
    }


def _check(hogs: int, period_us: int, work_us: int, wakes: int) -> None:
    limits = {
        "hogs": (hogs, 0, MOST_HOGS),
        "period_us": (period_us, 10, 1_000_000),
        "work_us": (work_us, 0, 1_000_000),
        "wakes": (wakes, 1, 1_000_000),
    }
    for name, (value, least, most) in limits.items():
        checks.whole(name, value, least, most)
