"""Which requests meet a throttled group?  One run of a service under a quota, seen on a timeline (lab L12).

Three clocks look at the same seconds: the server's, for every request; cpu.stat, twice in each period; and,
where the kernel may be watched, every interval in which the group's run queue of a CPU was throttled.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd

from sched_labs import machine, workloads
from sched_labs.core.result import Result
from sched_labs.limits import cgroups
from sched_labs.probes import throttle
from sched_labs.run import checks, optional
from sched_labs.run.base import Instrument, Run, experiment
from sched_labs.topics.cgroup_throttling.service.experiment import (
    Condition,
    Server,
    calibrate,
    check,
    check_time,
    may_limit,
    serve,
)

SPANS = ["trial", "cpu", "begin_ns", "end_ns"]
SAMPLES = ["trial", "at_ns", "periods", "throttled_periods", "throttled_ns"]
LONGEST_WATCH_S = 3600.0


def instrument(survey: machine.Machine) -> Instrument:
    """The server's clock, cpu.stat and BPF, as far as this user may have them."""
    able, why = cgroups.possible()
    if not able:
        return Instrument("the server's clock, without a limit", why.replace("\n", " "))
    watched = throttle.available()
    if not watched.ok:
        return Instrument("the server's clock and cpu.stat", f"{watched.why} {watched.remedy}".strip())
    return Instrument("the server's clock, cpu.stat, and BPF for every throttled interval")


def requests(result: Result) -> pd.DataFrame:
    """The requests, and whether the group was throttled somewhere while they waited or were served.

    The data's columns; latency_ns is what it had waited for one that nobody took; held: True or False, or
    missing where the intervals were not watched.
    """
    table = result.data.assign(latency_ns=lambda d: d.latency_ns.fillna(d.waited_ns))
    spans = pd.DataFrame(result.records("spans"), columns=SPANS)
    held = pd.Series(pd.NA, index=table.index, dtype="boolean")
    for trial in result.facts["watched"]:
        own, seen = table[table.trial == trial], spans[spans.trial == trial]
        begin, end = own.arrival_ns.to_numpy(float), (own.arrival_ns + own.latency_ns).to_numpy(float)
        met = (seen.begin_ns.to_numpy()[None, :] < end[:, None]) & (
            seen.end_ns.to_numpy()[None, :] > begin[:, None]
        )
        held[own.index] = met.any(axis=1)
    return table.assign(held=held)


def summarise(result: Result) -> pd.DataFrame:
    """One row per trial.

    trial
    arrived, completed, waiting   requests; waiting are those that nobody had taken at the end
    periods, throttled_periods    from cpu.stat
    throttled_ns                  from cpu.stat, summed over CPUs
    spans, spans_ns               throttled intervals seen in the kernel, and their sum; missing without BPF
    longest_span_ns               missing without any
    held_percent                  requests that met such an interval; missing without BPF
    held_p50_ns, other_p50_ns     half of those, and of the others, took no longer
    other_p99_ns                  nor did 99 of 100 of the others
    """
    table = requests(result)
    spans = pd.DataFrame(result.records("spans"), columns=SPANS)
    rows = []
    for block in result.records("blocks"):
        trial = block["trial"]
        own = table[table.trial == trial]
        watched = trial in result.facts["watched"]
        lengths = (spans.end_ns - spans.begin_ns)[spans.trial == trial]
        held = own.latency_ns[own.held.fillna(False).astype(bool)]
        others = own.latency_ns[~own.held.fillna(True).astype(bool)]
        rows.append(
            {name: block[name] for name in ("trial", "arrived", "completed", "waiting")}
            | {name: block[name] for name in ("periods", "throttled_periods", "throttled_ns")}
            | {
                "spans": len(lengths) if watched else np.nan,
                "spans_ns": float(lengths.sum()) if watched else np.nan,
                "longest_span_ns": float(lengths.max()) if len(lengths) else np.nan,
                "held_percent": 100 * len(held) / max(len(own), 1) if watched else np.nan,
                "held_p50_ns": float(held.median()) if len(held) else np.nan,
                "other_p50_ns": float(others.median()) if len(others) else np.nan,
                "other_p99_ns": float(others.quantile(0.99)) if len(others) else np.nan,
            }
        )
    return pd.DataFrame(rows)


@experiment(
    "throttle.timeline",
    summarise=summarise,
    instrument=instrument,
    workloads=("service", "burn"),
    needs=("cgroup",),
)
def timeline(
    run: Run,
    *,
    quota_us: int = 20_000,
    period_us: int = 40_000,
    demand_percent: int = 80,
    work_us: int = 1_000,
    threads: int = 4,
    batch: int = 4,
    trials: int | None = None,
    duration_s: float | None = None,
) -> None:
    """Serve requests under a quota, and look at throttling from three sides at once.

    The parameters are those of service.latency; demand_percent is the mean CPU demand as a part of the quota.

    Data: one row per request: trial, arrival_ns (due time, from the start of the trial), latency_ns (missing
    for those that nobody had taken at the end), queued_ns, waited_ns, as in service.latency.  The
    tables are spans: trial, cpu, begin_ns, end_ns of each throttled interval; samples: trial, at_ns, periods,
    throttled_periods, throttled_ns of each look at cpu.stat, on the same clock as
    the requests; watched, the trials whose intervals were seen; and blocks, as in service.latency.

    Where no group may be made the requests are served without a limit; where BPF may not be had, spans is
    empty.  Both are noted.
    """
    cgroups.check_limit(quota_us, period_us, 0)
    check(work_us, threads, batch)
    checks.whole("demand_percent", demand_percent, 1, 200)
    trials = run.choose(tiny=1, quick=1, full=5) if trials is None else trials
    duration_s = run.choose(tiny=0.3, quick=1.5, full=5.0) if duration_s is None else duration_s
    check_time(trials, duration_s)
    run.begin()
    limited = may_limit(run)
    cpus = machine.survey().cpus_allowed[-2:]
    server = Server(
        cpus, threads, batch, work_us, calibrate(work_us), quota_us, period_us, "poisson", duration_s, limited
    )
    run.parameters |= asdict(server) | {
        "trials": trials,
        "demand_percent": demand_percent,
        "slice_us": cgroups.slice_us(),
    }
    run.facts["watched"] = []
    condition = Condition("quota" if limited else "none", demand_percent, "idle")
    for trial in run.each(range(trials), label=lambda number: f"run {number + 1}"):
        seen = _Seen()
        records = serve(run, server, condition, trial, seen.around(run, period_us))
        began = next(record for record in records if record.kind == "service")["began_ns"]
        if seen.samples:
            run.tables["samples"] += [
                dict(zip(SAMPLES, (trial, at - began, *rest), strict=True)) for at, *rest in seen.samples.rows
            ]
        if seen.probe:
            run.facts["watched"].append(trial)
            _keep(run, seen.probe.stop(), trial, began)


class _Seen:
    """What watched one run of the server; nothing where it could not."""

    def __init__(self) -> None:
        self.probe: throttle.Watch | None = None
        self.samples: throttle.Samples | None = None

    def around(self, run: Run, period_us: int) -> Any:
        @contextlib.contextmanager
        def watching(service: workloads.Workload, group: cgroups.Group | None) -> Iterator[None]:
            if not group:
                yield
                return
            with contextlib.ExitStack() as stack:
                self.probe = optional.probe(
                    run,
                    stack,
                    throttle.available(),
                    lambda: throttle.watch([service.pid], LONGEST_WATCH_S),
                    "Throttled intervals were not seen from inside the kernel",
                )
                if self.probe:
                    self.probe.start()
                with throttle.sampled(group, period_us=period_us) as self.samples:
                    yield
                if self.probe:
                    self.probe.stop()

        return watching


def _keep(run: Run, seen: throttle.Throttled, trial: int, began: int) -> None:
    """The intervals on the requests' clock; flags a run in which some found no room."""
    spans = seen.spans
    run.tables["spans"] += [
        dict(zip(SPANS, (trial, int(cpu), int(begin) - began, int(end) - began), strict=True))
        for cpu, begin, end in spans.itertuples(index=False)
    ]
    if seen.lost:
        run.note("flag", f"{seen.lost} throttled intervals found no room in the probe's table.")
