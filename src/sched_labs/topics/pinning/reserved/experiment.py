"""Who lives on a reserved CPU?  What the kernel does there beside a thread that never sleeps (lab L37).

Affinity, cpusets and partitions are about other programs' threads.  Interrupts, what the kernel defers from
them, and the threads that the kernel itself has bound to the CPU are not.  The kernel counts all three.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from sched_labs import machine, workloads
from sched_labs.core import stats
from sched_labs.core.errors import ParameterError, PlacementError
from sched_labs.core.result import Result
from sched_labs.limits import cgroups
from sched_labs.machine import clock, files
from sched_labs.run import checks
from sched_labs.run.base import Instrument, Run, experiment
from sched_labs.steer import placement

CONDITIONS = ("pinned", "cpuset", "partition")
_PF_KTHREAD = 0x00200000  # in the flags of /proc/<pid>/stat
_CALLS = ("RES", "CAL", "TLB", "IPI")  # what CPUs ask of each other, by its label in /proc/interrupts
_ITSELF = "IRQ work"  # what a CPU asks of itself (arch_irq_work_raise()), with such a label on some


def summarise(result: Result) -> pd.DataFrame:
    """One row per condition and resident that was there.

    condition            pinned, cpuset or partition
    kind                 timer, call (one CPU asks another), device, other (the rest of /proc/interrupts),
                         softirq, kernel_thread, anybody (who took the CPU from the thread)
    name                 as the kernel calls it
    per_s, per_lo_s, per_hi_s   how often in a second, median over trials, 95 % interval; of kernel threads,
                         how often they left the CPU again; of anybody, how often the thread was taken off
    cpu_ns_per_s         CPU time in a second; kernel threads only, and only where the kernel tells
    tick_free            the kernel was booted to leave this CPU without a tick when alone (nohz_full)
    trials
    """
    rows = []
    for (condition, kind, name), part in result.data.groupby(["condition", "kind", "name"], sort=False):
        seconds = part["elapsed_ns"] / 1e9
        rows.append(
            {
                "condition": condition,
                "kind": kind,
                "name": name,
                **stats.spread("per", "s", part["events"] / seconds),
                "cpu_ns_per_s": float((part["cpu_ns"] / seconds).median()),
                "tick_free": bool(result.facts["tick_free"]),
                "trials": len(part),
            }
        )
    return pd.DataFrame(rows)


def instrument(survey: machine.Machine) -> Instrument:
    """The kernel's counts of interrupts, soft interrupts and its threads' switches, for every user."""
    return Instrument("/proc/interrupts, /proc/softirqs and the switches of the kernel's threads")


@experiment("reserved.residents", summarise=summarise, instrument=instrument, workloads=("burn",))
def residents(
    run: Run,
    *,
    conditions: Sequence[str] = CONDITIONS,
    cpu: int | None = None,
    trials: int | None = None,
    duration_s: float | None = None,
) -> None:
    """Let a thread compute on a CPU that is reserved for it, and count what else happens there.

    conditions   of pinned, cpuset (a cpuset with this CPU alone), partition (isolated, cgroup v2); what this
                 user cannot have is left out with a note
    cpu          which; default: a quiet CPU
    trials, duration_s   how often, and for how long each

    Data: one row per condition, trial and resident: kind, name, events, cpu_ns (missing for all but kernel
    threads), elapsed_ns (for kernel threads a little longer: from one look at all of them to the other).
    What did not happen in any trial is left out, except the kernel threads that are bound to this CPU.  The
    parameters also hold cpu; the fact tick_free is whether it runs without a tick.
    """
    checks.words("conditions", conditions, CONDITIONS)
    cpu = placement.quiet_cpu() if cpu is None else cpu
    survey = machine.survey()
    checks.cpu(cpu)
    trials = run.choose(tiny=2, quick=3, full=9) if trials is None else trials
    duration_s = run.choose(tiny=0.1, quick=0.4, full=3.0) if duration_s is None else duration_s
    if trials < 1 or not 0.05 <= duration_s <= 60:
        raise ParameterError("trials start at 1, and duration_s lies between 0.05 and 60 s.")
    if len(survey.cpus_allowed) < 2:
        run.note("missing", "This process may use one CPU only: it cannot be kept free of all else.")
    run.begin()
    run.parameters |= {"cpu": cpu, "trials": trials, "duration_s": duration_s}
    run.facts |= {
        "tick_free": cpu in files.cpu_list(str(survey.fact("cpu.nohz_full").value).replace("none", ""))
    }
    asked = [name for name in CONDITIONS if name in conditions]
    if interrupts(cpu) is None:
        run.note("missing", "/proc/interrupts does not tell this CPU's interrupts here.")
    counted: list[dict[str, Any]] = []
    dropped: set[str] = set()
    cells = [(trial, name) for trial in range(trials) for name in asked]
    try:
        for trial, name in run.each(cells, label=lambda cell: cell[1]):
            if name in dropped:
                continue
            try:
                counted += [
                    {"condition": name, "trial": trial} | row for row in _block(name, cpu, duration_s)
                ]
            except PlacementError as error:
                dropped.add(name)
                run.note("missing", f"{name}: {error.what}")
    finally:  # an interrupted run, too, tells what was there in the trials that were over
        if counted:
            data = _complete(pd.DataFrame(counted))
            happened = data.groupby(["kind", "name"])["events"].transform("sum") > 0
            run.add(data[happened | data["kind"].isin(["kernel_thread", "anybody"])])


def _complete(data: pd.DataFrame) -> pd.DataFrame:
    """With a row of no events for who was there in other trials only: threads of the kernel come and go."""
    whole = data.groupby(["condition", "trial"])["elapsed_ns"].first().rename("block_ns").reset_index()
    every = whole.merge(data[["kind", "name"]].drop_duplicates(), how="cross")
    full = every.merge(data, how="left", on=["condition", "trial", "kind", "name"])
    full["elapsed_ns"] = full["elapsed_ns"].fillna(full.pop("block_ns")).astype(int)
    absent = full["events"].isna()
    full.loc[absent & (full["kind"] == "kernel_thread"), "cpu_ns"] = 0.0
    full["events"] = full["events"].fillna(0).astype(int)
    order = {name: place for place, name in enumerate(CONDITIONS)}
    return full.sort_values("condition", key=lambda names: names.map(order), kind="stable", ignore_index=True)


def _block(condition: str, cpu: int, duration_s: float) -> list[dict[str, Any]]:
    words = ["--workers", "1", "--duration-ms", str(round(1000 * duration_s)), "--threshold-us", "1000"]
    with contextlib.ExitStack() as stack:
        burn = stack.enter_context(workloads.start("burn", words, deadline_s=30 + 3 * duration_s))
        if condition != "pinned":
            group = stack.enter_context(cgroups.group("victim", cpus=[cpu]))
            group.add(burn.pid)
            if condition == "partition":
                group.isolate()
        else:
            placement.pin(burn.tids, [cpu])
        look_ns, threads_before = time.monotonic_ns(), bound_threads(cpu)
        before, begin_ns = _counts(cpu), time.monotonic_ns()
        records = burn.run()
        end_ns, after = time.monotonic_ns(), _counts(cpu)
        looked_ns, threads_after = time.monotonic_ns(), bound_threads(cpu)
        # Longer than the thread computes: it starts in there, too.  A look at all threads takes a while, so
        # the time between them is from the middle of one to that of the other.
        elapsed_ns = end_ns - begin_ns
        between_ns = (looked_ns + time.monotonic_ns() - look_ns - begin_ns) // 2
    worker = next(record for record in records if record.kind == "worker")
    events = {key: (count - before.get(key, 0), np.nan) for key, count in after.items()}
    for tid, (name, switches, cpu_ns) in threads_after.items():
        # One that is new has switched since it began; one that has gone is not counted.
        _, switches_before, cpu_ns_before = threads_before.get(tid, (name, 0, 0.0))
        known = events.get(("kernel_thread", name), (0, 0.0))
        more = (known[0] + switches - switches_before, known[1] + cpu_ns - cpu_ns_before)
        events["kernel_thread", name] = more
    events["anybody", "whoever took the CPU"] = (worker["involuntary"], np.nan)
    return [
        {"kind": kind, "name": name, "events": count, "cpu_ns": cpu_ns}
        | {"elapsed_ns": between_ns if kind == "kernel_thread" else elapsed_ns}
        for (kind, name), (count, cpu_ns) in events.items()
    ]


def _counts(cpu: int) -> dict[tuple[str, str], int]:
    """(kind, name) -> events so far of all interrupts, at once and deferred, that are counted on a CPU."""
    return (interrupts(cpu) or {}) | {("softirq", name): n for name, n in soft_interrupts(cpu).items()}


def _column(path: str, cpu: int) -> list[tuple[str, int, str]]:
    """The rows of a table with a column per CPU: label, this CPU's count, and what follows the counts."""
    lines = (files.read(path) or "").splitlines()
    cpus = lines[0].split() if lines else []
    if f"CPU{cpu}" not in cpus:
        return []
    column = cpus.index(f"CPU{cpu}")
    rows = []
    for line in lines[1:]:
        label, _, rest = line.partition(":")
        words = rest.split()
        if len(words) >= len(cpus) and words[column].isdigit():
            rows.append((label.strip(), int(words[column]), " ".join(words[len(cpus) :])))
    return rows


def interrupts(cpu: int) -> dict[tuple[str, str], int] | None:
    """(kind, name) -> count of this CPU's interrupts so far; None where the kernel does not tell."""
    found: dict[tuple[str, str], int] = {}
    for label, count, what in _column("/proc/interrupts", cpu):
        name = f"{label} {what}".strip()
        if clock.counts_a_tick(label, what):
            key = ("timer", name)
        elif label.rstrip("0123456789") in _CALLS and _ITSELF not in what:
            key = ("call", name)
        elif label.isdigit():
            key = ("device", f"{label} {what.split()[-1] if what else ''}".strip())
        else:
            key = ("other", name)
        found[key] = found.get(key, 0) + count
    return found or None


def soft_interrupts(cpu: int) -> dict[str, int]:
    """Name -> count of what the kernel deferred from interrupts and did on this CPU; {} if nobody tells."""
    return {label: count for label, count, _ in _column("/proc/softirqs", cpu)}


def bound_threads(cpu: int) -> dict[int, tuple[str, int, float]]:
    """The kernel's own threads that may run on this CPU only: tid -> (name, switches, CPU time in ns or NaN).

    Workers of one pool (kworker/1:0, kworker/1:2-events) have the name of the pool.
    """
    found: dict[int, tuple[str, int, float]] = {}
    for pid in files.names("/proc"):
        if not pid.isdigit():
            continue
        after_name = (files.read(f"/proc/{pid}/stat") or "").rpartition(")")[2].split()
        if len(after_name) < 7 or not int(after_name[6]) & _PF_KTHREAD:
            continue
        lines = (files.read(f"/proc/{pid}/status") or "").splitlines()
        status = dict(line.split(":", 1) for line in lines if ":" in line)
        if status.get("Cpus_allowed_list", "").strip() != str(cpu):
            continue
        switches = sum(int(status.get(f"{word}_ctxt_switches", 0)) for word in ("voluntary", "nonvoluntary"))
        told = (files.read(f"/proc/{pid}/schedstat") or "").split()
        name = re.split("[:-]", status.get("Name", "").strip())[0]
        found[int(pid)] = (name, switches, float(told[0]) if told else np.nan)
    return found
