"""How often threads are switched, and what that says: `pidstat -wt` and a reading of it.

    from sched_labs import switch_rates, switches
    rates = switch_rates([4711], interval_s=1)
    switches.classify(rates)

The counts are the kernel's own (/proc/<pid>/task/<tid>/status), of every thread and not only of the leader.
They need no privilege for one's own processes.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from ..core.errors import ParameterError, ProbeError
from ..core.words import number_text
from ..machine import files

IO_BOUND = "I/O-bound"
CONTENDED = "CPU-contended"
BOTH = "I/O-bound and CPU-contended"
YIELDING = "yielding"
UNCONTENDED = "CPU-bound, uncontended"
IDLE = "idle"
POOL = "pool with an idle leader"
LABELS = (IO_BOUND, CONTENDED, BOTH, YIELDING, UNCONTENDED, IDLE, POOL)

QUIET_PER_S = 2.0  # fewer switches a second are a process's background
ONE_SIDED = 0.1  # of its switches: less than this is not the other kind of life
LEADING = 0.02  # of the others' switches: a leader with fewer is idle
ANY_WAITS = 0.01  # of its switches: a thread that never sleeps has fewer voluntary ones than this
SHORT_STINT_NS = 50_000  # nobody is taken off the CPU so soon by the end of a slice: it was offered
WAITING = 0.05  # of the time: less than this in the run queue is no contention
BUSY = 0.5  # of a CPU


class Label(NamedTuple):
    """What a process does, in one of LABELS, and the numbers that say so."""

    label: str
    evidence: str


class _Counts(NamedTuple):
    name: str
    voluntary: int
    involuntary: int
    run_ns: float
    wait_ns: float
    at_ns: int


def switch_rates(pids: Sequence[int], interval_s: float = 1.0) -> pd.DataFrame:
    """Watch processes for interval_s; one row per thread that was there at both ends.

    pid, tid, name
    leader                       whether this is the thread that tools without a view of threads show
    voluntary_per_s              switches because it blocked
    involuntary_per_s            switches although it could have gone on: taken off the CPU, or it yielded
    cpu_share, run_delay_share   of the interval: on a CPU, and runnable without one; missing where the kernel
                                 keeps no /proc/<pid>/task/<tid>/schedstat
    stint_ns                     CPU time from one switch to the next; missing without a switch
    interval_s                   how long it really was

    Raises ParameterError for an impossible interval, ProbeError when none of the processes is there any more.
    Method: sysstat's `pidstat -wt`, with run delay beside it.
    """
    if isinstance(pids, (int, str)) or not pids:
        raise ParameterError(f"pids does not take {pids!r}.", "Give a list of process ids, such as [4711].")
    if not 0.01 <= interval_s <= 3600:
        raise ParameterError(f"interval_s must lie between 0.01 and 3600 s, not at {interval_s!r}.")
    before = _look(pids)
    time.sleep(interval_s)
    after = _look(pids)
    rows = []
    for (pid, tid), now in after.items():
        if (then := before.get((pid, tid))) is None:
            continue
        seconds = (now.at_ns - then.at_ns) / 1e9
        voluntary, involuntary = now.voluntary - then.voluntary, now.involuntary - then.involuntary
        ran = now.run_ns - then.run_ns
        rows.append(
            {
                "pid": pid,
                "tid": tid,
                "name": now.name,
                "leader": pid == tid,
                "voluntary_per_s": voluntary / seconds,
                "involuntary_per_s": involuntary / seconds,
                "cpu_share": ran / 1e9 / seconds,
                "run_delay_share": (now.wait_ns - then.wait_ns) / 1e9 / seconds,
                "stint_ns": ran / (voluntary + involuntary) if voluntary + involuntary else np.nan,
                "interval_s": seconds,
            }
        )
    if not rows:
        raise ProbeError(
            "None of these processes was there for the whole interval.", "Name processes that still run."
        )
    return pd.DataFrame(rows)


def _look(pids: Sequence[int]) -> dict[tuple[int, int], _Counts]:
    found = {}
    for pid in pids:
        for tid in files.names(f"/proc/{pid}/task"):
            folder = f"/proc/{pid}/task/{tid}"
            lines = (files.read(f"{folder}/status") or "").splitlines()
            status = dict(line.split(":", 1) for line in lines if ":" in line)
            if "voluntary_ctxt_switches" not in status:
                continue  # it has ended
            scheduled = (files.read(f"{folder}/schedstat") or "").split()
            run, wait = (float(word) for word in scheduled[:2]) if len(scheduled) == 3 else (np.nan, np.nan)
            found[pid, int(tid)] = _Counts(
                status["Name"].strip(),
                int(status["voluntary_ctxt_switches"]),
                int(status["nonvoluntary_ctxt_switches"]),
                run,
                wait,
                time.monotonic_ns(),
            )
    return found


def classify(rates: pd.DataFrame) -> Label:
    """What one process does, from the rows that `switch_rates` gave for its threads.

    A process that blocks for most of its switches is I/O-bound, whatever it waits for: a timer, a pipe or a
    lock.  So is one that hardly ever waits for a CPU, however a few switches of a short look fall out.
    One that is taken off the CPU is CPU-contended, unless its stints are far shorter than any slice: then it
    offered the CPU itself (the kernel counts sched_yield as involuntary), or it was preempted by the very
    thread that it had just woken, which is a part of its waiting.  One that yields and finds nobody to yield
    to cannot be told from one that works: nothing is switched.  One whose leader sleeps while other
    threads switch is a pool: a tool that shows leaders only sees nothing of it.

    Raises ParameterError for rows of several processes, or of none.
    """
    if rates["pid"].nunique() != 1:
        raise ParameterError("classify() reads one process at a time.", "Give it the rows of one pid.")
    leader, others = rates[rates["leader"]], rates[~rates["leader"]]
    if not others.empty and _idle_beside(leader, others):
        inside = _read(others)
        return Label(
            POOL,
            f"the leader makes {_rate(_switches(leader))} switches/s, its {len(others)} other threads "
            f"{_rate(_switches(others))}; these are {inside.label}: {inside.evidence}",
        )
    return _read(rates)


def _read(rates: pd.DataFrame) -> Label:
    """One label for these threads, taken together."""
    voluntary, involuntary = float(rates["voluntary_per_s"].sum()), float(rates["involuntary_per_s"].sum())
    total, cpu = voluntary + involuntary, float(rates["cpu_share"].sum(min_count=1))
    waiting = min(float(rates["run_delay_share"].sum(min_count=1)), len(rates))  # the looks are not instants
    stint_ns = cpu / total * 1e9 if total else np.nan
    evidence = f"{_rate(voluntary)} voluntary and {_rate(involuntary)} involuntary switches/s"
    if len(rates) > 1:
        evidence += f" of {len(rates)} threads together"
    if not np.isnan(cpu):
        evidence += f", {cpu:.0%} of a CPU, {waiting:.0%} of the time runnable without one"
    if cpu >= BUSY and waiting < WAITING and involuntary >= voluntary:
        return Label(UNCONTENDED, evidence)
    if total < QUIET_PER_S and not cpu >= BUSY and not waiting >= WAITING:
        return Label(IDLE, evidence)
    if involuntary < ONE_SIDED * total:
        return Label(IO_BOUND, evidence)
    if stint_ns < SHORT_STINT_NS:
        evidence += f", in stints of {stint_ns / 1e3:.0f} µs"
        return Label(YIELDING if voluntary < ONE_SIDED * total else IO_BOUND, evidence)
    if waiting < WAITING:
        return Label(IO_BOUND, evidence)
    if voluntary < ANY_WAITS * total or voluntary < QUIET_PER_S:
        return Label(CONTENDED, evidence)
    return Label(BOTH, evidence)


def _idle_beside(leader: pd.DataFrame, others: pd.DataFrame) -> bool:
    quiet = max(QUIET_PER_S, LEADING * _switches(others))
    busy = float(leader["cpu_share"].sum()) > WAITING
    return not busy and _switches(leader) < quiet < _switches(others)


def _rate(per_s: float) -> str:
    """Two digits of a rate: a few switches in a look are not none."""
    return number_text(per_s, 2)


def _switches(rows: pd.DataFrame) -> float:
    return float(rows["voluntary_per_s"].sum() + rows["involuntary_per_s"].sum())
