"""Several workers wait for connections: who gets the next one, and who waits for it?  (lab L34)"""

from __future__ import annotations

import pandas as pd

from sched_labs import machine, workloads
from sched_labs.core import stats
from sched_labs.core.result import Result
from sched_labs.run import checks
from sched_labs.run.base import Instrument, Run, experiment

WAYS = ("each", "exclusive", "shared", "reuseport")
MOST_WORKERS, MOST_REQUESTS = 16, 20_000  # of dispatch.c


def summarise(result: Result) -> pd.DataFrame:
    """One row per way to wait; 95 % intervals over trials.

    way          each (an epoll instance for each worker, one socket), exclusive (the same with
                 EPOLLEXCLUSIVE), shared (one epoll instance for all), reuseport (a socket for each)
    workers
    busiest_percent, busiest_lo_percent, busiest_hi_percent   of the requests that the busiest worker had
    p50_ns, p99_ns, p99_lo_ns, p99_hi_ns   from when a quick request was due until it was done, all trials
                 together; the slow ones are left out
    empty_per_request, empty_lo_per_request, empty_hi_per_request   how often epoll_wait() returned and there
                 was nothing left to accept
    switches_per_request, switches_lo_per_request, switches_hi_per_request   of all workers, counted by the
                 kernel
    quick        requests behind p99
    trials
    """
    rows = []
    workers = result.tables["workers"]
    for way, cell in result.data.groupby("way", sort=False):
        quick = cell[~cell.slow]
        did = workers[workers.way == way]
        trials = did.groupby("trial")
        each = trials[["requests", "empty", "voluntary", "involuntary"]].sum()
        tail = stats.pooled_quantile(quick.late_ns, quick.trial, 0.99)
        rows.append(
            {
                "way": way,
                "workers": int(did.worker.nunique()),
                **stats.spread("busiest", "percent", 100 * trials.requests.max() / each.requests),
                "p50_ns": float(quick.late_ns.median()),
                **stats.in_columns("p99", "ns", tail),
                **stats.spread("empty", "per_request", each["empty"] / each.requests),
                **stats.spread(
                    "switches", "per_request", (each.voluntary + each.involuntary) / each.requests
                ),
                "quick": len(quick),
                "trials": len(each),
            }
        )
    return pd.DataFrame(rows)


def instrument(survey: machine.Machine) -> Instrument:
    """The workers' own clock and counts, and switches that the kernel counts."""
    return Instrument("the workers' clock and counts, and counted switches")


@experiment(
    "dispatch.ways", summarise=summarise, instrument=instrument, workloads=("dispatch",), needs=("network",)
)
def ways(
    run: Run,
    *,
    workers: int = 4,
    period_us: int = 1000,
    slow_us: int = 5000,
    requests: int | None = None,
    trials: int | None = None,
) -> None:
    """Let workers wait for connections in four ways, and connect to them over the loopback.

    workers    how many wait
    period_us  between two requests, on average; the same schedule in every way of a trial
    slow_us    how long a slow request, one of ten, keeps its worker asleep
    requests   in each way of a trial, a connection each
    trials     the order of the ways turns from trial to trial

    Data: one row per request: way, trial, worker, slow, late_ns (from when it was due until it was done).
    The table workers has requests, empty (epoll_wait() returned and there was no connection left), voluntary
    and involuntary switches of each worker.
    """
    requests = run.choose(tiny=40, quick=150, full=2000) if requests is None else requests
    trials = run.choose(tiny=1, quick=6, full=12) if trials is None else trials
    checks.whole("workers", workers, 1, MOST_WORKERS)
    checks.whole("period_us", period_us, 100, 100_000)
    checks.whole("slow_us", slow_us, 0, 100_000)
    checks.whole("requests", requests, 10, MOST_REQUESTS)
    checks.whole("trials", trials, 1, 1000)
    run.begin()
    run.parameters |= {"requests": requests, "trials": trials}
    words = ["--workers", workers, "--period-us", period_us, "--slow-us", slow_us, "--requests", requests]
    words += ["--trials", trials]
    deadline_s = 60 + 12 * trials * requests * period_us / 1e6
    with workloads.start("dispatch", [str(word) for word in words], deadline_s=deadline_s) as server:
        server.go()
        records = server.records()
        for _ in run.each([(t, w) for t in range(trials) for w in WAYS], label=lambda n: f"trial {n[0] + 1}"):
            rows = []
            for record in records:
                if record.kind == "end":
                    break
                row = {"way": record.text("way"), "trial": record["trial"], "worker": record["worker"]}
                if record.kind == "request":
                    rows.append(row | {"slow": bool(record["slow"]), "late_ns": record["late_ns"]})
                else:
                    counts = ("requests", "empty", "voluntary", "involuntary")
                    run.tables["workers"].append(row | {name: record[name] for name in counts})
            run.add(rows)
            if record["unserved"]:
                run.note("flag", f"{record['unserved']} requests of a trial were not served.")
