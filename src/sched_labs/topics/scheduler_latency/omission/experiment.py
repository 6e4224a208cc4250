"""Which client notices that a server stalled?  Closed loop against open loop: coordinated omission (lab L46).

A server stalls once.  A client that waits for each answer before it sends again has one slow request
to report; on a schedule that does not wait, every request that was due in the stall is slow.
"""

from __future__ import annotations

import contextlib
import math
from typing import Any

import pandas as pd

from sched_labs import machine, workloads
from sched_labs.core import stats
from sched_labs.core.errors import ParameterError, WorkloadError
from sched_labs.core.result import Result
from sched_labs.run import checks
from sched_labs.run.base import Instrument, Run, experiment
from sched_labs.steer import placement

CLIENTS = ("closed", "open")


def summarise(result: Result) -> pd.DataFrame:
    """One row per client.

    client                 closed (waits for its answer) or open (keeps to its schedule)
    requests               sent, all trials together
    missing_requests       that a schedule of the same length has and this client did not send
    p50_ns, p99_ns, p99_lo_ns, p99_hi_ns   how long half, 99 % of the requests took at most: median over the
                           trials, 95 % interval
    max_ns                 the longest
    slow_percent           requests that took more than a tenth of the stall
    expected_slow_percent  what the stall says: 0.9 of its part of the time
    waited_ns              time that requests took beyond their median, in sum, per trial
    stall_ns               how long the server stood still, median over the trials
    run_delay_ns           how long it was runnable without a CPU, per trial; missing where not counted
    """
    rows = []
    known = result.parameters
    blocks = result.tables["blocks"]
    per_trial = known["duration_s"] * 1e6 / known["period_us"]
    for client, cell in result.data.groupby("client", sort=False):
        trials = cell.groupby("trial")["took_ns"]
        counted = blocks[blocks["client"] == client]
        delay = counted["run_delay_ns"]
        stall = float(counted["stall_ns"].median())
        rows.append(
            {
                "client": client,
                "requests": len(cell),
                "missing_requests": max(0, round(per_trial * len(counted)) - len(cell)),
                "p50_ns": float(trials.median().median()),
                **stats.spread("p99", "ns", trials.quantile(0.99)),
                "max_ns": float(cell["took_ns"].max()),
                "slow_percent": 100 * float((cell["took_ns"] > 0.1 * stall).mean()) if stall else math.nan,
                "expected_slow_percent": 100 * 0.9 * stall / (known["duration_s"] * 1e9),
                "waited_ns": float(trials.apply(lambda t: (t - t.median()).clip(lower=0).sum()).median()),
                "stall_ns": stall,
                "run_delay_ns": float(delay.median()) if delay.notna().all() else math.nan,
            }
        )
    return pd.DataFrame(rows)


def instrument(survey: machine.Machine) -> Instrument:
    """The clients' own clocks."""
    return Instrument("the clients' own clocks")


@experiment("omission.compared", summarise=summarise, instrument=instrument, workloads=("requests",))
def compared(
    run: Run,
    *,
    period_us: int = 1000,
    work_us: int = 50,
    stall_ms: int = 50,
    trials: int | None = None,
    duration_s: float | None = None,
) -> None:
    """Measure a server that stalls once, with a client that waits for it and with one that does not.

    period_us   between two requests
    work_us     what the server does for each
    stall_ms    how long it stands still, once, in the middle of each trial
    trials      how often; the clients take turns
    duration_s  of each trial

    Data: one row per request: trial, client, sent_ns (from the trial's start; the open client counts from
    when the request was due), took_ns.  The table blocks has what each
    trial's stall_ns and run_delay_ns really were.
    """
    trials = run.choose(tiny=1, quick=3, full=9) if trials is None else trials
    duration_s = run.choose(tiny=0.2, quick=0.4, full=2.0) if duration_s is None else duration_s
    limits = {
        "period_us": (period_us, 100, 1_000_000),
        "work_us": (work_us, 1, 100_000),
        "stall_ms": (stall_ms, 1, 10_000),
        "trials": (trials, 1, 1000),
    }
    for name, (value, least, most) in limits.items():
        checks.whole(name, value, least, most)
    checks.seconds("duration_s", duration_s, 0.01, 60)
    if work_us >= period_us:
        raise ParameterError(
            f"A server that works {work_us} µs cannot answer a request every {period_us} µs.",
            "Give a work_us well below period_us.",
        )
    if stall_ms >= 400 * duration_s:
        raise ParameterError(
            f"stall_ms of {stall_ms} leaves a trial of {duration_s} s no time to recover.",
            f"Give less than {400 * duration_s:.0f} ms.",
        )
    cpu = placement.quiet_cpu()
    run.begin()
    run.parameters |= {"trials": trials, "duration_s": duration_s}
    words = ["--period-us", period_us, "--work-us", work_us, "--stall-ms", stall_ms, "--blocks", trials]
    words += ["--duration-ms", round(1000 * duration_s)]
    deadline_s = 60 + 4 * trials * (2 * duration_s + 1)
    with contextlib.ExitStack() as stack:
        started = {}
        for client in CLIENTS:
            given = [str(word) for word in (*words, "--client", client)]
            started[client] = stack.enter_context(workloads.start("requests", given, deadline_s=deadline_s))
            placement.pin(started[client].tids[1:], [cpu])
        order = [(trial, client) for trial in range(trials) for client in CLIENTS]
        for trial, client in run.each(order, label=lambda o: f"{o[1]} client"):
            started[client].go()
            _keep(run, trial, client, started[client])


def _keep(run: Run, trial: int, client: str, workload: workloads.Workload) -> None:
    rows: list[tuple[Any, ...]] = []
    for record in workload.records():
        if record.kind == "end":
            break
        rows.append((trial, client, record["sent_ns"], record["took_ns"]))
    else:
        raise WorkloadError("The workload requests ended in the middle of a block.")
    run.add(pd.DataFrame(rows, columns=["trial", "client", "sent_ns", "took_ns"]))
    delay = record["run_delay_ns"]
    run.tables["blocks"].append(
        {
            "trial": trial,
            "client": client,
            "stall_ns": record["stall_ns"],
            "run_delay_ns": delay if delay >= 0 else None,
        }
    )
    if delay < 0:
        run.note("missing", "This kernel keeps no run delay for threads (CONFIG_SCHED_INFO).")
    if not record["stall_ns"]:
        run.note("flag", f"{client}: no request came after the middle of the trial, so nothing stalled.")
