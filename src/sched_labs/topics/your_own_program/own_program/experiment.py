"""A shop that is slow for one of several reasons, watched as a reader's own program is."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator

import pandas as pd

from sched_labs import machine, workloads
from sched_labs.core.errors import ParameterError
from sched_labs.core.result import Result
from sched_labs.limits import cgroups
from sched_labs.probes import runqlat
from sched_labs.probes.waits import OCCUPANTS
from sched_labs.run import checks
from sched_labs.run.base import Instrument, Run, experiment
from sched_labs.steer import placement
from sched_labs.watching import program
from sched_labs.watching.target import Processes

WORKERS = 2
WORK_US = 1000
LEAST_S = 0.3
LONGEST_S = 60.0
PREPARED_S = 300.0  # the probes at most: in an emulated machine they are compiled for minutes


def summarise(result: Result) -> pd.DataFrame:
    """One row for running, and one for each thing that had the CPU while a thread waited.

    part          "running", or one of probes.waits.OCCUPANTS
    ms_per_s      how much of every second it took, over all threads together
    share         of what the threads wanted: the time in which they ran or could have run
    """
    causes = result.records("causes")
    parts = {row["occupied_by"]: row["long_ms_per_s"] + row["short_ms_per_s"] for row in causes}
    rows = {"running": result.facts["running_ms_per_s"], **{name: parts.get(name, 0.0) for name in OCCUPANTS}}
    total = sum(rows.values())
    return pd.DataFrame(
        [
            {"part": part, "ms_per_s": float(ms), "share": ms / total if total else math.nan}
            for part, ms in rows.items()
        ]
    )


def instrument(survey: machine.Machine) -> Instrument:
    """Every wait counted by BPF; without it, how long threads waited in sum, and an estimate of what for."""
    able = runqlat.available()
    if able.ok:
        return Instrument("BPF probe that counts every wait, /proc and control groups")
    return Instrument(
        "/proc and control groups: waits in sum, what had the CPU estimated",
        f"{able.why} {able.remedy}".strip(),
    )


@contextlib.contextmanager
def _shop(seconds: float, *options: str, workers: int = WORKERS) -> Iterator[workloads.Workload]:
    """The program at its barrier; it outlives the window."""
    lasts = [
        "--workers",
        str(workers),
        "--work-us",
        str(WORK_US),
        "--duration-ms",
        str(round(1e3 * (seconds + PREPARED_S))),
    ]
    with workloads.start("orders", [*lasts, *options], deadline_s=seconds + PREPARED_S + 30) as shop:
        yield shop


@contextlib.contextmanager
def _nothing(seconds: float) -> Iterator[workloads.Workload]:
    with _shop(seconds, "--pause-us", "20000") as shop:
        yield shop


@contextlib.contextmanager
def _too_many(seconds: float) -> Iterator[workloads.Workload]:
    cpus = len(machine.survey().cpus_allowed)
    with _shop(seconds, workers=3 * cpus) as shop:
        yield shop


@contextlib.contextmanager
def _quota(seconds: float) -> Iterator[workloads.Workload]:
    with cgroups.group("shop", quota_us=50_000) as group, _shop(seconds) as shop:
        group.add(shop.pid)
        yield shop


@contextlib.contextmanager
def _mask(seconds: float) -> Iterator[workloads.Workload]:
    placement.other_cpu(cpu := placement.quiet_cpu())  # the other one is to stand idle
    with _shop(seconds) as shop:
        placement.pin(shop.tids, [cpu])
        yield shop


@contextlib.contextmanager
def _rival(seconds: float) -> Iterator[workloads.Workload]:
    lasts = [
        "--workers",
        str(2 * len(machine.survey().cpus_allowed)),
        "--duration-ms",
        str(round(1e3 * (seconds + PREPARED_S))),
    ]
    with (
        workloads.start("burn", lasts, deadline_s=seconds + PREPARED_S + 30) as rival,
        _shop(seconds) as shop,
    ):
        rival.go()
        yield shop


@contextlib.contextmanager
def _lock(seconds: float) -> Iterator[workloads.Workload]:
    with _shop(seconds, "--lock", workers=4) as shop:
        yield shop


TROUBLES: dict[str, Callable[[float], contextlib.AbstractContextManager[workloads.Workload]]] = {
    "nothing": _nothing,
    "own_threads": _too_many,
    "quota": _quota,
    "mask": _mask,
    "rival": _rival,
    "locks": _lock,
}


@experiment("own_program.watch", summarise=summarise, instrument=instrument, workloads=("orders", "burn"))
def watch(run: Run, *, trouble: str = "rival", seconds: float | None = None) -> None:
    """Let a small shop take orders with something wrong about it, and watch it as any program is watched.

    trouble   nothing, own_threads (three for each CPU), quota (half a CPU), mask (one CPU for two workers),
              rival (another program on every CPU), locks (one lock around the work)
    seconds   how long it is watched; default: by profile

    Data: one row per thread, the busiest first, in ms of every second of the window: pid, tid, name;
    running_ms_per_s and waiting_ms_per_s (on a CPU, and runnable without one, by schedstat; being throttled
    is waiting); asleep_ms_per_s, the rest of its life in the window, and asleep_for, what it mostly slept for
    (sampled); system_ms_per_s, the part of running inside the kernel, in ticks of 10 ms; voluntary_per_s and
    involuntary_per_s (switches), migrations_per_s, minor_faults_per_s, major_faults_per_s; policy, nice,
    allowed_cpus.

    Tables:
    findings  one row per reason, the first to look at on top: name, title, size_ms_per_s, share (of what the
              threads wanted: the time in which they ran or could have run), evidence, instead (what else
              could look like this), attempt (what to try), page (of the book), scheduling (whether it is a
              wait for a CPU)
    causes    what had the CPU during the waits: occupied_by, long_ms_per_s and short_ms_per_s (of waits from
              50 µs on, and of shorter ones), counted (or estimated)
    cpus      cpu, used and allowed (by the program), user_ms_per_s, system_ms_per_s, idle_ms_per_s,
              irq_ms_per_s, softirq_ms_per_s, steal_ms_per_s
    groups    the control group and those around it: path, limit_cpus, period_us, weight, periods,
              throttled_periods, throttled_ms_per_s (summed over CPUs), pressure_ms_per_s
    rivals    other processes that may use its CPUs: pid, name, cpu_ms_per_s, kernel, client (whether it
              connected to the program, on this machine, or sends it datagrams), woke_share (of the times that
              the program was woken, those by one that may send it datagrams), policy, nice, group,
              group_weight, session, allowed_cpus, took_it (times after a thread of its own that could have
              gone on), had_ms_per_s (while its threads waited for that CPU: from the timeline where there is
              one, else estimated from the switches between both)
    sleeps    asleep_for, asleep_ms_per_s, of all threads together
    waits     every wait counted: bin_low_ns, bin_high_ns (excluded), cause (wakeup, preempted), waits
    turns     in a watch with timeline=True: who had which CPU when (probes.timeline.Timeline.turns)
    longest   likewise, the longest waits (probes.timeline.Timeline.worst)
    edges     switches from or to its threads: cpu, prev_tid, prev_name, next_tid, next_name, state, switches

    Facts: window_s; counted, whether the helper counted every wait; running_ms_per_s, waiting_ms_per_s and
    throttled_ms_per_s of all threads together; price, a sentence on what its switches cost;
    looking_ms_per_s, what our own looks at /proc cost.
    """
    if trouble not in TROUBLES:
        raise ParameterError(f"There is no trouble {trouble!r}.", f"There are: {', '.join(TROUBLES)}.")
    seconds = run.choose(tiny=0.6, quick=1.0, full=10.0) if seconds is None else seconds
    checks.seconds("seconds", seconds, LEAST_S, LONGEST_S)
    run.begin()
    run.parameters |= {"trouble": trouble, "seconds": seconds}
    for name in run.each([trouble], label=str):
        with TROUBLES[name](seconds) as shop:
            shop.go()
            found = program.observe(Processes([shop.pid]), seconds, progress=False)
        run.parameters["program"] = found.parameters["program"]
        run.facts |= found.facts
        for table in found.tables:
            run.tables[table] = found.records(table)
        for note in found.notes:
            run.note(note.level, note.text)
        run.interrupted |= found.interrupted
        run.add(found.data)
