"""Five processes without a label: what do their switches say that they do?  (lab L20)"""

from __future__ import annotations

import contextlib
import time
from typing import Any

import numpy as np
import pandas as pd

from sched_labs import machine, workloads
from sched_labs.core.errors import ParameterError
from sched_labs.core.result import Result
from sched_labs.probes import status as switches
from sched_labs.run.base import Instrument, Run, experiment
from sched_labs.steer import placement

# How the processes live, and what a reader of their switches should call it.
KINDS = {
    "sleeper": switches.IO_BOUND,
    "chatter": switches.IO_BOUND,
    "hog": switches.CONTENDED,
    "mixed": switches.BOTH,
    "yielder": switches.YIELDING,
    "pool": switches.POOL,
}
# What decides how hard each works: microseconds of work, and of sleep or period, from least to most.
_RANGES = {
    "sleeper": ((20, 200), (2_000, 8_000)),
    "chatter": ((1, 1), (2_000, 10_000)),
    "hog": ((1_000, 1_000), (1, 1)),
    "mixed": ((12_000, 24_000), (2_000, 8_000)),
    "yielder": ((1, 8), (1, 1)),
    "pool": ((20, 200), (8_000, 30_000)),
}
PROCESSES = 5


def summarise(result: Result) -> pd.DataFrame:
    """One row per set and process; rates are sums over its threads.

    set, process                     the number of the set, and the letter of the process in it
    threads
    leader_voluntary_per_s, leader_involuntary_per_s   of its leader alone: what a tool without threads shows
    voluntary_per_s, involuntary_per_s
    cpu_share, run_delay_share       of the interval, on a CPU and runnable without one; missing where the
                                     kernel does not count them
    stint_ns                         CPU time from one switch to the next
    leader_label                     what the rows of the leader alone would be called
    label, evidence                  what the process is called, and why
    truth                            what it does
    right                            whether that is the label
    """
    rows = []
    for (number, letter), part in result.data.groupby(["set", "process"], sort=True):
        part = part.assign(pid=1)
        called = switches.classify(part)
        rates = part.voluntary_per_s + part.involuntary_per_s
        cpu = part.cpu_share.sum(min_count=1)
        rows.append(
            {
                "set": number,
                "process": letter,
                "threads": len(part),
                "leader_voluntary_per_s": float(part.voluntary_per_s[part.leader].sum()),
                "leader_involuntary_per_s": float(part.involuntary_per_s[part.leader].sum()),
                "voluntary_per_s": float(part.voluntary_per_s.sum()),
                "involuntary_per_s": float(part.involuntary_per_s.sum()),
                "cpu_share": float(cpu),
                "run_delay_share": float(part.run_delay_share.sum(min_count=1)),
                "stint_ns": float(1e9 * cpu / rates.sum()) if rates.sum() else np.nan,
                "leader_label": switches.classify(part[part.leader]).label,
                "label": called.label,
                "evidence": called.evidence,
                "truth": str(part.truth.iloc[0]),
                "right": called.label == part.truth.iloc[0],
            }
        )
    return pd.DataFrame(rows)


def instrument(survey: machine.Machine) -> Instrument:
    """The kernel's counts of every thread, from /proc."""
    return Instrument("switches of every thread, from /proc")


@experiment("classify.processes", summarise=summarise, instrument=instrument, workloads=("mystery",))
def processes(run: Run, *, sets: int = 1, interval_s: float | None = None, seed: int | None = None) -> None:
    """Start five processes of one program that live differently, on one CPU, and watch their switches.

    sets        how many sets of five, one after the other
    interval_s  how long each is watched; default by profile
    seed        of what each process does, how hard, and in which order; default: another each time

    In every set are a hog, a mixed process, a yielder and a pool, and either a sleeper or a chatter.
    Data: one row per thread: set, process (a letter), leader, voluntary_per_s, involuntary_per_s, cpu_share,
    run_delay_share, stint_ns, and truth.  The workloads' own counts are compared with what /proc showed.
    """
    interval_s = run.choose(tiny=0.4, quick=1.0, full=2.0) if interval_s is None else interval_s
    if not isinstance(sets, int) or not 1 <= sets <= 200:
        raise ParameterError(f"sets must be a number from 1 to 200, not {sets!r}.")
    if not 0.1 <= interval_s <= 30:
        raise ParameterError(f"interval_s must lie between 0.1 and 30 s, not at {interval_s!r}.")
    seed = int(np.random.default_rng().integers(1 << 31)) if seed is None else seed
    run.begin()
    run.parameters |= {"interval_s": interval_s, "seed": seed, "cpu": placement.quiet_cpu()}
    random = np.random.default_rng(seed)
    for number in run.each(range(sets), label=lambda n: f"set {n + 1}"):
        _watch_set(run, number, interval_s, random)


def _watch_set(run: Run, number: int, interval_s: float, random: np.random.Generator) -> None:
    kinds = ["hog", "mixed", "yielder", "pool", str(random.choice(["sleeper", "chatter"]))]
    random.shuffle(kinds)
    duration_ms = round(1000 * interval_s + 500)
    with contextlib.ExitStack() as stack:
        started = []
        for kind in kinds:
            work, period = (int(random.integers(low, high + 1)) for low, high in _RANGES[kind])
            arguments = ["--kind", kind, "--work-us", str(work), "--period-us", str(period)]
            arguments += ["--duration-ms", str(duration_ms)]
            one = stack.enter_context(workloads.start("mystery", arguments, deadline_s=interval_s + 30))
            placement.pin(one.tids, [placement.quiet_cpu()])
            started.append(one)
        for one in started:
            one.go()
        time.sleep(0.1)  # what it takes to start is not how they live
        rates = switches.switch_rates([one.pid for one in started], interval_s)
        lives = [next(iter(one.records())) for one in started]
    rows: list[dict[str, Any]] = []
    for letter, kind, one, life in zip("ABCDE", kinds, started, lives, strict=True):
        mine = rates[rates.pid == one.pid]
        seen = float(
            (mine.voluntary_per_s * mine.interval_s + mine.involuntary_per_s * mine.interval_s).sum()
        )
        counted = life["voluntary"] + life["involuntary"]
        if seen > 1.02 * counted + 20:
            run.note("flag", f"/proc showed {seen:.0f} switches of a {kind}, which itself counted {counted}.")
        kept = mine[
            ["leader", "voluntary_per_s", "involuntary_per_s", "cpu_share", "run_delay_share", "stint_ns"]
        ]
        for row in kept.to_dict("records"):
            named = {"set": number, "process": letter, "truth": KINDS[kind]}
            rows.append(named | {str(column): value for column, value in row.items()})
    run.add(rows)
