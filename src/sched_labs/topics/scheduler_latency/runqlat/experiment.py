"""How long do threads that never sleep wait for the CPU that they share?  Run-queue latency, wait by wait.

Two instruments look at the same waits.  The BPF probe counts them in the kernel, each with its cause.  The
workers time themselves: a worker that looks at its clock after every half microsecond or so of work sees each
time that it was off the CPU, and needs no privilege for it.  Where both are there they check each other, and
the kernel's own counts of switches and its run delay (/proc/thread-self/schedstat) check them.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import time
from collections import Counter
from collections.abc import Sequence

import pandas as pd

from sched_labs import machine, workloads
from sched_labs.core.errors import ParameterError
from sched_labs.core.result import Result
from sched_labs.probes import runqlat
from sched_labs.probes.waits import CAUSES, Waits, bin_edges_ns, quantile_ns
from sched_labs.run import checks, optional
from sched_labs.run.base import Instrument, Run, experiment
from sched_labs.steer import placement

COLUMNS = ("instrument", "cause", "bin_low_ns", "bin_high_ns", "waits")
MOST_WORKERS = 64
LONGEST_S = 600.0
TICK_S = 0.25  # between two steps of the progress bar, and two snapshots of the probe
BIN_BITS = 4  # of the self-timed histogram: sixteen bins in each power of two, each 4 to 6 % wide
COUNT_TOLERANCE = 0.05  # by how much the probe's count may differ from the kernel's count of switches
LOST_TOLERANCE = 0.01  # of the waits; some sandboxes hide a switch now and then
MEDIAN_TOLERANCE = 0.15  # by how much the medians of the two instruments may differ: two bins and some
MIDDLE = (
    0.4,
    0.6,
)  # where there are two humps, a few waits more or less carry the median from one to the other


def summarise(result: Result) -> pd.DataFrame:
    """One row per instrument and cause, and cause "all".

    instrument           bpf (counted in the kernel) or self_timed (the workers' own clocks)
    cause                wakeup (the thread was woken), preempted (it lost its CPU), all
    waits                how many
    p50_ns, p90_ns, p99_ns   half, 90 %, 99 % of the waits were not longer; good to the width of a bin
    max_ns               the upper edge of the longest wait's bin
    schedstat_mean_ns    the workers' run delay / the times they were switched in, as the kernel counted both,
                         the same in every row; missing where it does not count
    """
    slices = result.facts.get("timeslices")
    mean = result.facts["run_delay_ns"] / slices if slices else math.nan
    rows = []
    for instrument, of_instrument in result.data.groupby("instrument", sort=False):
        parts = {"all": of_instrument} | {
            cause: of_instrument[of_instrument["cause"] == cause] for cause in CAUSES
        }
        for cause, bins in parts.items():
            if bins.empty:
                continue
            rows.append(
                {
                    "instrument": instrument,
                    "cause": cause,
                    "waits": int(bins["waits"].sum()),
                    "p50_ns": quantile_ns(bins, 0.5),
                    "p90_ns": quantile_ns(bins, 0.9),
                    "p99_ns": quantile_ns(bins, 0.99),
                    "max_ns": int(bins["bin_high_ns"].max()),
                    "schedstat_mean_ns": mean,
                }
            )
    names = ["instrument", "cause", "waits", "p50_ns", "p90_ns", "p99_ns", "max_ns", "schedstat_mean_ns"]
    return pd.DataFrame(rows, columns=names)


def instrument(survey: machine.Machine) -> Instrument:
    """The BPF probe where this user may have it, the workers' own clocks everywhere."""
    able = runqlat.available()
    if able.ok:
        return Instrument("BPF probe, checked by the workers' own clocks and schedstat")
    return Instrument("the workers' own clocks and schedstat", f"{able.why} {able.remedy}".strip())


@experiment("runqlat.histogram", summarise=summarise, instrument=instrument, workloads=("burn",))
def histogram(
    run: Run,
    *,
    workers: int | None = None,
    cpus: Sequence[int] | None = None,
    duration_s: float | None = None,
) -> None:
    """Let threads that never sleep share CPUs, and count every wait for one.

    workers     how many threads; default 4
    cpus        the CPUs that they share; default: one quiet CPU
    duration_s  how long; default: by profile

    Data: one row per bin that is not empty: instrument (bpf or self_timed), cause (wakeup or preempted),
    bin_low_ns, bin_high_ns (excluded), waits.  A self-timed wait is a gap in a worker's clock during which
    the kernel counted an involuntary switch; it contains the chunk of work that was under way.  There are no
    self-timed wake-ups, because the workers never sleep, and no self-timed waits below threshold_ns.

    Facts: instruments; threshold_ns and chunk_ns of the workers' clocks; sums
    over the workers of chunks, voluntary_switches, involuntary_switches, run_delay_ns and timeslices (None
    where the kernel does not count); gaps_without_switch and their sum interrupted_ns (interrupts, or a
    hypervisor that ran something else); lost_waits of the probe.

    The run is flagged where the probe's count of preemptions differs from the kernel's count of involuntary
    switches by more than 5 % and two per worker, where it lost more than 1 % of the waits, or where the
    median of the workers' clocks lies more than 15 % outside the middle fifth of the probe's waits.
    """
    workers = 4 if workers is None else workers
    duration_s = run.choose(tiny=0.5, quick=2.0, full=30.0) if duration_s is None else duration_s
    cpus = [placement.quiet_cpu()] if cpus is None else cpus
    _check(workers, cpus, duration_s)
    cpus = sorted(set(cpus))
    run.begin()
    run.parameters |= {"workers": workers, "cpus": cpus, "duration_s": duration_s}
    if workers <= len(cpus):
        run.note("info", "There is a CPU for every worker: only other programs can make them wait.")

    arguments = ["--workers", str(workers), "--duration-ms", str(math.ceil(1000 * duration_s))]
    deadline_s = 2 * duration_s + 60  # with many workers, the last one's final wait comes on top
    with workloads.start("burn", arguments, deadline_s=deadline_s) as burn, contextlib.ExitStack() as stack:
        placement.pin(burn.tids, cpus)
        probe = _probe(run, burn.pid, deadline_s, stack)
        if probe:
            probe.start()
        burn.go()
        interrupted = None
        try:
            _pass_time(run, workers, cpus, duration_s, probe)
        except KeyboardInterrupt as stop:
            interrupted = stop
            os.kill(burn.pid, signal.SIGINT)  # ends the workers, which then report what they saw
        records = list(burn.records())
        waits = probe.stop() if probe else None
    run.facts["instruments"] = ["bpf", "self_timed"] if probe else ["self_timed"]
    counted = None
    if waits is not None:
        counted = waits.data.assign(instrument="bpf")[list(COLUMNS)]
        run.add(counted)
    timed = _own_clocks(run, records)
    run.add(timed)
    if waits is not None and counted is not None:
        _check_counts(run, waits, workers)
        _check_medians(run, counted, timed)
    if interrupted:
        raise interrupted


def _check(workers: int, cpus: Sequence[int], duration_s: float) -> None:
    if not isinstance(workers, int) or not 1 <= workers <= MOST_WORKERS:
        raise ParameterError(f"workers must be a number from 1 to {MOST_WORKERS}, not {workers!r}.")
    checks.seconds("duration_s", duration_s, 0.001, LONGEST_S)
    if isinstance(cpus, (int, str)) or not cpus:
        raise ParameterError(f"cpus does not take {cpus!r}.", "Give a list of CPU numbers, such as [0].")
    for cpu in cpus:
        checks.cpu(cpu)


def _probe(run: Run, pid: int, duration_s: float, stack: contextlib.ExitStack) -> runqlat.Watch | None:
    """The BPF probe, loaded; or None, with a note that says why and what would help."""
    return optional.probe(
        run,
        stack,
        runqlat.available(),
        lambda: runqlat.watch([pid], duration_s=duration_s, interval_s=TICK_S),
        "The kernel's own view of the waits is missing",
        "The workers' clocks and schedstat were used instead.",
    )


def _pass_time(
    run: Run, workers: int, cpus: Sequence[int], duration_s: float, probe: runqlat.Watch | None
) -> None:
    """Until the workers are about to end, with progress; the probe's snapshots are taken as they come."""
    end = time.monotonic() + duration_s
    steps = max(1, round(duration_s / TICK_S))
    for step in run.each(
        range(steps), label=lambda n: f"{workers} workers, {min(n * TICK_S, duration_s):.1f} s"
    ):
        if probe:
            if seen := next(iter(probe), None):
                run.preview(seen.data.assign(instrument="bpf")[list(COLUMNS)], cpus)
        else:
            time.sleep(max(0.0, end - time.monotonic()) / (steps - step))


def _own_clocks(run: Run, records: Sequence[workloads.Record]) -> pd.DataFrame:
    """The gaps in the workers' clocks as rows; what else they reported goes into the run's parameters."""
    bins: Counter[int] = Counter()
    interrupted = []
    sums: Counter[str] = Counter()
    scheduled = True
    for record in records:
        if record.kind == "chunk":
            run.facts |= {"chunk_ns": record["ns"], "threshold_ns": record["threshold_ns"]}
        elif record.kind == "gap":
            if record["switches"] > 0:
                bins[_bin(record["ns"])] += 1
            else:
                interrupted.append(record["ns"])
        else:
            scheduled = scheduled and "timeslices" in record.values
            for key in ("chunks", "voluntary", "involuntary", "lost"):
                sums[key] += record[key]
            if scheduled:
                sums["wait_ns"] += record["wait_ns"]
                sums["timeslices"] += record["timeslices"]
    if sums["lost"]:
        run.note(
            "flag",
            f"The workers had no memory left for {sums['lost']} of the gaps that they saw; "
            "the self-timed histogram leaves those out.",
        )
    if not scheduled:
        run.note("missing", "This kernel keeps no run delay for threads (CONFIG_SCHED_INFO).")
    run.parameters |= {
        "chunks": sums["chunks"],
        "voluntary_switches": sums["voluntary"],
        "gaps_without_switch": len(interrupted),
        "interrupted_ns": sum(interrupted),
    }
    run.facts |= {
        "involuntary_switches": sums["involuntary"],
        "run_delay_ns": sums["wait_ns"] if scheduled else None,
        "timeslices": sums["timeslices"] if scheduled else None,
    }
    rows = [
        ("self_timed", "preempted", *bin_edges_ns(number, BIN_BITS), waits)
        for number, waits in sorted(bins.items())
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype(
        {"bin_low_ns": "int64", "bin_high_ns": "int64", "waits": "int64"}
    )


def _bin(ns: int) -> int:
    """The number of the bin that a time is in; the inverse of `bin_edges_ns`."""
    shift = max(0, ns.bit_length() - 1 - BIN_BITS)
    return (shift << BIN_BITS) + (ns >> shift)


def _check_counts(run: Run, waits: Waits, workers: int) -> None:
    """Whether the probe counted as many preemptions as the kernel counted involuntary switches."""
    probe = sum(waits.counts.get("preempted", {}).values())
    kernel = run.facts["involuntary_switches"]
    run.facts["lost_waits"] = waits.lost
    if waits.lost:
        level = "flag" if waits.lost > LOST_TOLERANCE * waits.total else "info"
        run.note(level, f"The probe could not count {waits.lost} of {waits.total + waits.lost} waits.")
    if abs(probe - kernel) > COUNT_TOLERANCE * kernel + 2 * workers:
        run.note(
            "flag",
            f"The probe counted {probe} waits after a preemption, the kernel {kernel} involuntary switches.",
        )


def _check_medians(run: Run, counted: pd.DataFrame, timed: pd.DataFrame) -> None:
    """Whether both instruments saw the same waits, as far as the workers' clocks can see them."""
    threshold = run.facts["threshold_ns"]
    seen = counted[(counted["bin_low_ns"] >= threshold) & (counted["cause"] == "preempted")]
    if min(seen["waits"].sum(), timed["waits"].sum()) < 30:
        return  # too few for their median to mean anything
    low, high = (quantile_ns(seen, q) for q in MIDDLE)
    clocks = quantile_ns(timed, 0.5)
    if not low * (1 - MEDIAN_TOLERANCE) <= clocks <= high * (1 + MEDIAN_TOLERANCE):
        run.note(
            "flag",
            f"Half of the waits took at most {quantile_ns(seen, 0.5) / 1e6:.3f} ms by the probe, "
            f"{clocks / 1e6:.3f} ms by the workers' own clocks.",
        )
