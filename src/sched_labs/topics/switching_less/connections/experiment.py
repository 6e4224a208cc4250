"""One event loop, or a thread for each connection?  Open-loop requests over many connections (lab L16)."""

from __future__ import annotations

import resource
from collections.abc import Sequence
from itertools import product

import numpy as np
import pandas as pd

from sched_labs import machine, workloads
from sched_labs.core.errors import ParameterError
from sched_labs.core.result import Result
from sched_labs.core.stats import spread
from sched_labs.machine import files
from sched_labs.run.base import Instrument, Run, experiment
from sched_labs.steer import placement
from sched_labs.topics.switching_less.threads.experiment import most_threads

SERVERS = ("loop", "threads")
MOST_CONNECTIONS = 10_000
_NO_SHARE = dict.fromkeys(("voluntary_share", "voluntary_lo_share", "voluntary_hi_share"), np.nan)
LATE_SHARE = 0.5  # of the 99th percentile of delays: a client that sends later than that measures itself


def summarise(result: Result) -> pd.DataFrame:
    """One row per server, number of connections and rate; medians over trials and 95 % intervals.

    by                  loop (one thread and epoll) or threads (one for each connection)
    connections
    rate_per_s          requests that the clients send in a second, over all connections
    switches_per_request, switches_lo_per_request, switches_hi_per_request   of the server, as counted
    voluntary_share, voluntary_lo_share, voluntary_hi_share   the voluntary ones of them; missing without any
    cpu_ns_per_request, cpu_ns_lo_per_request, cpu_ns_hi_per_request   CPU time of the server, from the first
                        request to the last answer
    p50_ns, p50_lo_ns, p50_hi_ns   from a request's scheduled time to its answer, half of them
    p99_ns, p99_lo_ns, p99_hi_ns
    memory_bytes        resident memory that the server took once it ran: what any start takes (its first
                        steps in code, heap and stack), and its threads' own; connections
                        are memory of the kernel
    requests_per_wait   requests for each return of epoll_wait(); missing for threads
    answered_share      of the requests that were sent
    trials
    """
    rows = []
    for (by, connections, rate), part in result.data.groupby(["by", "connections", "rate_per_s"], sort=False):
        counted = part.voluntary_switches + part.involuntary_switches
        switches, voluntary = counted / part.requests, (part.voluntary_switches / counted).dropna()
        rows.append(
            {
                "by": by,
                "connections": connections,
                "rate_per_s": rate,
                **spread("switches", "per_request", switches),
                **(spread("voluntary", "share", voluntary) if len(voluntary) else _NO_SHARE),
                **spread("cpu_ns", "per_request", part.cpu_ns / part.requests),
                **spread("p50", "ns", part.p50_ns),
                **spread("p99", "ns", part.p99_ns),
                "memory_bytes": float(part.memory_bytes.median()),
                "requests_per_wait": float((part.requests / part.waits).median()) if by == "loop" else np.nan,
                "answered_share": float((part.answered / part.sent).min()),
                "trials": len(part),
            }
        )
    return pd.DataFrame(rows)


def instrument(survey: machine.Machine) -> Instrument:
    """Counted switches and CPU time of the server, delays from the scheduled time of each request."""
    if len(survey.cpus_allowed) < 2:
        return Instrument("clock and counted switches, one CPU only", "a second CPU takes the clients away")
    return Instrument("clock and counted switches")


@experiment("connections.sweep", summarise=summarise, instrument=instrument, workloads=("connections",))
def sweep(
    run: Run,
    *,
    connections: Sequence[int] | None = None,
    rates_per_s: Sequence[int] = (2_000, 50_000),
    work_us: int = 0,
    trials: int | None = None,
    duration_ms: int | None = None,
) -> None:
    """Let clients send requests on a schedule, and a server answer them in one of two ways.

    connections  how many; default 10 and 1,000 in quick, five steps up to 10,000 in full; fewer where a limit
                 of this machine does not allow them, with a note
    rates_per_s  over all connections; a server that cannot keep up has ever longer delays
    work_us      for each request, besides reading it and writing the answer
    trials       in every other one the threads go first
    duration_ms  of each

    Connections are pairs of Unix sockets (SOCK_SEQPACKET) between two processes.  Where there are two CPUs,
    the clients have one and the server the other.
    Data: one row per trial and server: by, connections, rate_per_s, sent, answered, requests; of the server
    elapsed_ns, cpu_ns, voluntary_switches, involuntary_switches, memory_bytes, waits; p50_ns, p99_ns, max_ns
    and late_ns (the 99th percentile of how late a request was sent).
    """
    usual = run.choose(tiny=[5, 50], quick=[10, 1000], full=[10, 100, 1000, 3000, 10_000])
    wanted = usual if connections is None else list(connections)
    trials = run.choose(tiny=2, quick=3, full=9) if trials is None else trials
    duration_ms = run.choose(tiny=40, quick=100, full=1000) if duration_ms is None else duration_ms
    _check(wanted, rates_per_s, work_us, trials, duration_ms)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    most = most_threads() if hard == resource.RLIM_INFINITY else min(most_threads(), (hard - 64) // 2)
    counts = sorted({min(count, most) for count in wanted})
    if max(wanted) > most:
        run.note("missing", f"More than {most:,} connections were left out: they would come near the limits "
                 "of files, threads or memory here.")  # fmt: skip
    home = placement.quiet_cpu()
    other = placement.other_cpu(home) if len(machine.survey().cpus_allowed) > 1 else home
    if other == home:
        run.note("missing", "There is one CPU only: the clients disturb the server.")
    run.begin()
    run.parameters |= {"connections": counts, "trials": trials, "duration_ms": duration_ms, "cpu": home}
    cells = list(product(range(trials), counts, rates_per_s))
    for trial, count, rate in run.each(cells, label=lambda c: f"trial {c[0] + 1}, {c[1]:,} connections"):
        for by in SERVERS if trial % 2 == 0 else SERVERS[::-1]:
            arguments = ["--by", by, "--connections", str(count), "--rate", str(rate),
                         "--duration-ms", str(duration_ms), "--work-us", str(work_us)]  # fmt: skip
            with workloads.start("connections", arguments, deadline_s=60 + duration_ms / 250) as both:
                client, server = both.tids
                placement.pin([client], [other])
                placement.pin([int(tid) for tid in files.names(f"/proc/{server}/task")], [home])
                served, sent = both.run()
            run.add([_row(by, trial, count, rate, served, sent)])
            _doubt(run, by, count, rate, served, sent)


def _row(
    by: str, trial: int, count: int, rate: int, served: workloads.Record, sent: workloads.Record
) -> dict[str, float | str]:
    return {
        "by": by,
        "trial": trial,
        "connections": count,
        "rate_per_s": rate,
        **{name: sent[name] for name in ("sent", "answered", "p50_ns", "p99_ns", "max_ns", "late_ns")},
        **{name: served[name] for name in ("requests", "elapsed_ns", "cpu_ns", "waits")},
        "voluntary_switches": served["voluntary"],
        "involuntary_switches": served["involuntary"],
        "memory_bytes": served["rss_bytes"],
    }


def _doubt(
    run: Run, by: str, count: int, rate: int, served: workloads.Record, sent: workloads.Record
) -> None:
    if sent["answered"] != sent["sent"] or served["requests"] != sent["sent"]:
        run.note("flag", f"{by}, {count:,} connections, {rate:,} requests/s: {sent['sent']:,} were sent, "
                 f"{served['requests']:,} served and {sent['answered']:,} answered.")  # fmt: skip
    if sent["late_ns"] > LATE_SHARE * sent["p99_ns"]:
        run.note("info", "In some trials the clients themselves were late; delays count from the schedule "
                 "and include that.")  # fmt: skip


def _check(
    connections: Sequence[int], rates: Sequence[int], work_us: int, trials: int, duration_ms: int
) -> None:
    if not connections or min(connections) < 1 or max(connections) > MOST_CONNECTIONS:
        raise ParameterError(
            f"connections does not take {list(connections)}.", f"Give numbers from 1 to {MOST_CONNECTIONS:,}."
        )
    if isinstance(rates, int) or not rates or min(rates) < 10 or max(rates) > 1_000_000:
        raise ParameterError(f"rates_per_s does not take {rates!r}.", "Give numbers from 10 to 1,000,000.")
    if not 0 <= work_us <= 10_000 or trials < 1 or not 10 <= duration_ms <= 60_000:
        raise ParameterError(
            f"{trials} trials of {duration_ms} ms with {work_us} µs of work cannot be measured.",
            "Give work up to 10,000 µs, at least one trial, and 10 to 60,000 ms.",
        )
