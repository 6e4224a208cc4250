"""One run, several instruments: what BPF, schedstat, perf, PSI and a thread's own clock say of its waits.

BPF sees each wait from the moment that the thread is put on a run queue.  Schedstat adds waits up in the
kernel and costs nothing, but its clock starts late: of a short wait it sees a part.  PSI says how much of the
time some thread of the machine waited, and not how many or how long.  A thread that notes how late it runs
needs no privilege, and what it sees begins when its timer was due: delivery is in it, and timer slack.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Sequence
from typing import Any

import pandas as pd

from sched_labs import machine, workloads
from sched_labs.core.errors import ProbeError
from sched_labs.core.result import Result
from sched_labs.core.stats import in_columns, median_interval
from sched_labs.machine import files
from sched_labs.probes import peers, runqlat
from sched_labs.probes.waits import bin_edges_ns, quantile_ns
from sched_labs.run import checks
from sched_labs.run.base import Instrument, Run, experiment
from sched_labs.steer import placement

CONDITIONS = ("idle", "hog", "queue")
WORKERS = 3  # of the condition `queue`
PERIOD_US = 1009
BIN_BITS = 6  # of wakeup.c
LONGEST_S = 60.0


def summarise(result: Result) -> pd.DataFrame:
    """One row per condition and instrument.

    condition                        idle, hog, queue
    instrument                       bpf, schedstat, own_clock, own_clock_slack, perf, psi
    waits                            how many it counted in all trials; missing for psi, which counts none
    mean_ns, mean_lo_ns, mean_hi_ns  the mean wait, median of the trials and 95 % interval; missing for psi
    p50_ns, p99_ns                   medians of the trials' quantiles; missing without a histogram
    waiting_percent                  waiting time by time, median of the trials; above 100 where several
                                     threads wait at once, except for psi
    """
    rows = []
    for (condition, name), data in result.data.groupby(["condition", "instrument"], sort=False):
        counted = data["waits"].notna().all() and (data["waits"] > 0).all()
        mean = median_interval((data["wait_ns"] / data["waits"]).to_numpy(float)) if counted else None
        rows.append(
            {
                "condition": condition,
                "instrument": name,
                "waits": float(data["waits"].sum()) if counted else math.nan,
                **in_columns("mean", "ns", mean),
                "p50_ns": float(data["p50_ns"].median()),
                "p99_ns": float(data["p99_ns"].median()),
                "waiting_percent": float((100 * data["wait_ns"] / data["window_ns"]).median()),
            }
        )
    return pd.DataFrame(rows)


def instrument(survey: machine.Machine) -> Instrument:
    """All that this machine has."""
    able = runqlat.available()
    names = ["BPF"] if able.ok else []
    names += ["schedstat", "a thread's own clock"] + (["PSI"] if _psi_ns() is not None else [])
    return Instrument(", ".join(names), "" if able.ok else f"{able.why} {able.remedy}".strip())


@experiment("instruments.compared", summarise=summarise, instrument=instrument, workloads=("burn", "wakeup"))
def compared(run: Run, *, cpu: int | None = None, duration_s: float | None = None) -> None:
    """Let a thread wait in three ways, each watched by every instrument at once.

    cpu         the CPU that everything runs on; default: a quiet one
    duration_s  how long each trial of a condition takes; default: by profile

    The conditions: `idle`, a thread that a timer wakes on an idle CPU; `hog`, the same beside a thread of
    another program that never sleeps; `queue`, three threads of one program that never sleep.

    Data: one row per trial, condition and instrument: waits, wait_ns (their sum), p50_ns, p99_ns (missing
    without a histogram), window_ns.  bpf of `queue` counts the waits of threads that lost the CPU, and not
    those of the start.  own_clock is how late the thread ran after its time with a timer slack
    of 1 ns (in `queue`: the gaps in the workers' clocks), own_clock_slack the same with the slack that
    programs inherit; perf (in every third trial of `queue`, for root) is what perf sched latency makes of a
    recording, the start in it; psi is what /proc/pressure/cpu calls `some`, of the whole machine.

    Facts: slack_ns, the timer slack that programs inherit here.
    """
    cpu = placement.quiet_cpu() if cpu is None else cpu
    duration_s = run.choose(tiny=0.15, quick=0.4, full=4.0) if duration_s is None else duration_s
    checks.cpu(cpu)
    checks.seconds("duration_s", duration_s, 0.05, LONGEST_S)
    trials = run.choose(tiny=1, quick=3, full=9)
    run.begin()
    run.parameters |= {"cpu": cpu, "duration_s": duration_s, "trials": trials, "period_us": PERIOD_US}
    able = runqlat.available()
    if not able.ok:
        run.note("missing", f"BPF is missing: {able.why} {able.remedy}".strip())
    if _psi_ns() is None:
        run.note("missing", "PSI is missing: this kernel keeps no /proc/pressure/cpu.")
    steps = [
        (trial, condition)
        for trial in range(trials)
        for condition in (CONDITIONS if trial % 2 == 0 else reversed(CONDITIONS))
    ]
    for trial, condition in run.each(steps, label=lambda step: step[1]):
        recorded = condition == "queue" and trial % 3 == 0
        rows = _trial(run, condition, cpu, duration_s, able.ok, recorded)
        run.add([{"trial": trial, "condition": condition, **row} for row in rows])


def _trial(
    run: Run, condition: str, cpu: int, duration_s: float, wanted: bool, recorded: bool
) -> list[dict[str, Any]]:
    deadline_s = 6 * duration_s + 30
    name, arguments = "burn", ["--workers", str(WORKERS), "--duration-ms", str(round(1000 * duration_s))]
    if condition != "queue":
        wakes = max(20, round(duration_s * 1e6 / PERIOD_US))
        name, arguments = "wakeup", ["--period-us", str(PERIOD_US), "--wakes", str(wakes), "--blocks", "1"]
    with contextlib.ExitStack() as stack:
        if condition == "hog":
            longer = ["--workers", "1", "--duration-ms", str(math.ceil(1000 * deadline_s))]
            hog = stack.enter_context(workloads.start("burn", longer, deadline_s=deadline_s + 5))
            placement.pin(hog.tids, [cpu])
            hog.go()
        program = stack.enter_context(workloads.start(name, arguments, deadline_s=deadline_s))
        placement.pin(program.tids, [cpu])
        probe = None
        if wanted:
            try:
                probe = stack.enter_context(runqlat.watch([program.pid], deadline_s, interval_s=30))
            except ProbeError as error:
                run.note("missing", f"BPF is missing: {error.what} {error.remedy}".strip())
        perf = _perf(run, stack) if recorded else None
        if probe:
            probe.start()
        before, began_ns = _psi_ns(), time.monotonic_ns()
        records = program.run()
        after, elapsed_ns = _psi_ns(), time.monotonic_ns() - began_ns
        waits = probe.stop() if probe else None
        rows = _own(condition, records)
        window_ns = rows[0]["window_ns"]
        if waits is not None:
            # In the queue the others count from the common start on: how the workers are woken for it is no
            # wait of theirs, and neither are the waits of the thread that starts them.
            cause = "preempted" if condition == "queue" else None
            data = waits.data if cause is None else waits.data[waits.data["cause"] == cause]
            middle = (data["bin_low_ns"] + data["bin_high_ns"]) / 2
            rows.append(
                {
                    "instrument": "bpf",
                    "waits": int(data["waits"].sum()),
                    "wait_ns": float((middle * data["waits"]).sum()),
                    "p50_ns": waits.quantile_ns(0.5, cause),
                    "p99_ns": waits.quantile_ns(0.99, cause),
                    "window_ns": window_ns,
                }
            )
        if before is not None and after is not None:
            rows.append(_psi_row(after - before, elapsed_ns))
    # Only now has perf read its recording.
    if perf:
        rows += _from_perf(run, perf, program.tids, window_ns)
    if condition != "queue":
        rows += _with_slack(run, condition, cpu, wakes)
    return rows


def _perf(run: Run, stack: contextlib.ExitStack) -> peers.Peer | None:
    try:
        return stack.enter_context(peers.running("perf"))
    except peers.PeerError as error:
        run.note("missing", f"perf sched is missing: {error}.")
        return None


def _from_perf(run: Run, perf: peers.Peer, tids: Sequence[int], window_ns: int) -> list[dict[str, Any]]:
    delays = perf.delays()
    found = [delays[tid] for tid in tids if tid in delays]
    if not found:
        run.note("missing", "perf sched is missing: its recording has none of these threads.")
        return []
    return [
        {
            "instrument": "perf",
            "waits": sum(switches for switches, _, _ in found),
            "wait_ns": sum(switches * mean for switches, mean, _ in found),
            "p50_ns": math.nan,
            "p99_ns": math.nan,
            "window_ns": window_ns,
        }
    ]


def _own(condition: str, records: Sequence[workloads.Record]) -> list[dict[str, Any]]:
    """What the program says of itself: its own clock, and schedstat as it read it."""
    own = _gaps(records) if condition == "queue" else _lateness(records)
    tallies = [record for record in records if record.kind in ("worker", "block")]
    rows = [{"instrument": "own_clock", **own}]
    if all("timeslices" in record.values for record in tallies):
        rows.append(
            {
                "instrument": "schedstat",
                "waits": sum(record["timeslices"] for record in tallies),
                "wait_ns": float(sum(record["wait_ns"] for record in tallies)),
                "p50_ns": math.nan,
                "p99_ns": math.nan,
                "window_ns": own["window_ns"],
            }
        )
    return rows


def _lateness(records: Sequence[workloads.Record]) -> dict[str, Any]:
    block = next(record for record in records if record.kind == "block")
    edges = [(*bin_edges_ns(r["bin"], BIN_BITS), r["wakes"]) for r in records if r.kind == "late"]
    late = pd.DataFrame(edges, columns=["bin_low_ns", "bin_high_ns", "waits"])
    return {
        "waits": block["wakes"],
        "wait_ns": float(block["late_sum_ns"]),
        "p50_ns": quantile_ns(late, 0.5),
        "p99_ns": quantile_ns(late, 0.99),
        "window_ns": block["elapsed_ns"],
    }


def _gaps(records: Sequence[workloads.Record]) -> dict[str, Any]:
    gaps = pd.Series(
        [record["ns"] for record in records if record.kind == "gap" and record["switches"] > 0], dtype=float
    )
    last = max((record["at_ns"] + record["ns"] for record in records if record.kind == "gap"), default=0)
    return {
        "waits": len(gaps),
        "wait_ns": float(gaps.sum()),
        "p50_ns": float(gaps.median()) if len(gaps) else math.nan,
        "p99_ns": float(gaps.quantile(0.99)) if len(gaps) else math.nan,
        "window_ns": max(1, last),
    }


def _with_slack(run: Run, condition: str, cpu: int, wakes: int) -> list[dict[str, Any]]:
    """The same thread without anybody watching, with the timer slack that programs inherit."""
    if condition != "idle":
        return []
    # The first block of two has a slack of 1 ns, and is not what is asked for here.
    arguments = ["--period-us", str(PERIOD_US), "--wakes", str(max(10, wakes // 2)), "--blocks", "2"]
    with workloads.start("wakeup", arguments) as program:
        placement.pin(program.tids, [cpu])
        records = program.run()
    block = next(r for r in records if r.kind == "block" and r["block"] == 1)
    run.facts["slack_ns"] = block["slack_ns"]
    inherited = [r for r in records if r.kind == "late" and r["block"] == 1]
    return [{"instrument": "own_clock_slack", **_lateness([block, *inherited])}]


def _psi_row(waited_ns: int, window_ns: int) -> dict[str, Any]:
    return {
        "instrument": "psi",
        "waits": math.nan,
        "wait_ns": float(waited_ns),
        "p50_ns": math.nan,
        "p99_ns": math.nan,
        "window_ns": window_ns,
    }


def _psi_ns() -> int | None:
    """Time during which some thread of the machine waited for a CPU, since boot; None without PSI."""
    for line in (files.read("/proc/pressure/cpu") or "").splitlines():
        if line.startswith("some") and "total=" in line:
            return int(line.rpartition("total=")[2]) * 1000
    return None
