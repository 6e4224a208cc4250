"""Should the workers of a pool be pinned?  Whose data are hot, and what else wants the CPU  (lab L32)

Pinning is a bet.  A worker that may not move keeps its data near, and waits for its CPU however long somebody
else has it; a worker that may move waits less and begins with cold caches.  So it matters whose the data are
(then a move costs nothing where they come from afar in any case), and how long the CPU is taken away.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from .. import machine, placement, policies, stats, workloads
from ..errors import ParameterError
from ..probes import runqlat
from ..probes.attribution import Attribution
from ..result import Result
from . import memory
from .base import Instrument, Run, experiment
from .memory import KIB
from .spread import spread

OWNERS = ("thread", "request")
PLACEMENTS = ("pinned", "free")
INTRUDERS = ("none", "short", "long")
KEYS = ["owner", "intruder", "placement"]
MOST_WORKERS = 8
SESSIONS = 64
SHORT_US, SHORT_EVERY_US = 100, 1009  # a tenth of the CPU, and no multiple of the requests' period
LONG_US, LONG_EVERY_US = 8_000, 80_000  # a tenth of the CPU as well


def summarise(result: Result) -> pd.DataFrame:
    """One row per owner, intruder and placement; medians over trials and 95 % intervals.

    owner, intruder, placement
    p50_ns, p99_ns           from the time at which a request was due until it was done; p99 with _lo_, _hi_
    work_p50_ns, work_p99_ns the part of that in a worker's hands, what took its CPU meanwhile included
    ratio_p99, ratio_lo_p99, ratio_hi_p99   p99 pinned over p99 free, paired by trial; only in rows of pinned
    moves_per_request        how often a worker ended a request on another CPU than the one before
    kernel_moves_per_request the same as the kernel counted it: not fewer; missing where it does not tell
    switches_per_request, switches_lo_per_request, switches_hi_per_request   of the workers, by the kernel
    cpu_ns_per_request, cpu_lo_ns_per_request, cpu_hi_ns_per_request   CPU time of the workers
    queue_requests           the longest queue of a worker (or of all, where they share one) in the program
    waiting_threads          the most threads of the pool that can be on a run queue: its workers
    wait_max_ns              the longest wait of a worker for a CPU between two requests; missing where the
                             kernel does not tell
    affected_share           requests that took longer than twice the usual one of the row without an intruder
    stall_ns                 for how long the intruder has the CPU at a time
    trials
    """
    data = result.data.assign(latency_ns=result.data["done_ns"] - result.data["due_ns"])
    data["work_ns"] = data["done_ns"] - data["start_ns"]
    counted = pd.DataFrame(result.parameters["counted"])
    by_trial = data.groupby([*KEYS, "trial"], sort=False)["latency_ns"].quantile(0.99).sort_index()
    rows: list[dict[str, Any]] = []
    for owner in [name for name in OWNERS if (data["owner"] == name).any()]:
        mine = data[data["owner"] == owner]
        usual: dict[str, float] = {}
        for intruder in [name for name in INTRUDERS if (mine["intruder"] == name).any()]:
            for placed in PLACEMENTS:
                part = mine[(mine["intruder"] == intruder) & (mine["placement"] == placed)]
                if part.empty:
                    continue
                told = _of(counted, owner, intruder, placed)
                usual.setdefault(placed, float(part["latency_ns"].median()))
                row: dict[str, Any] = {"owner": owner, "intruder": intruder, "placement": placed}
                trials = part.groupby("trial")
                row |= spread("p99", "ns", trials["latency_ns"].quantile(0.99))
                row["p50_ns"] = float(trials["latency_ns"].median().median())
                row["work_p50_ns"] = float(part["work_ns"].median())
                row["work_p99_ns"] = float(part["work_ns"].quantile(0.99))
                row |= _ratio(by_trial, owner, intruder) if placed == "pinned" else _ratio_missing()
                row["moves_per_request"] = float(told["moves"].sum() / told["requests"].sum())
                row["kernel_moves_per_request"] = float(
                    told["kernel_moves"].astype(float).sum(skipna=False) / told["requests"].sum()
                )
                switches = told["voluntary_switches"] + told["involuntary_switches"]
                row |= spread("switches", "per_request", switches / told["requests"])
                row |= spread("cpu", "ns_per_request", told["cpu_ns"] / told["requests"])
                row["queue_requests"] = float(np.median([_longest_queue(one) for _, one in trials]))
                row["waiting_threads"] = int(result.parameters["workers"])
                row["wait_max_ns"] = float(trials["wait_ns"].max().median())
                row["affected_share"] = float((part["latency_ns"] > 2 * usual[placed]).mean())
                row["stall_ns"] = 1000.0 * result.parameters["stall_us"][intruder]
                row["trials"] = int(part["trial"].nunique())
                rows.append(row)
    return pd.DataFrame(rows)


def _of(counted: pd.DataFrame, owner: str, intruder: str, placed: str) -> pd.DataFrame:
    return counted[
        (counted["owner"] == owner) & (counted["intruder"] == intruder) & (counted["placement"] == placed)
    ]


def _ratio(by_trial: pd.Series, owner: str, intruder: str) -> dict[str, float]:
    """p99 pinned over free, of the trials that have both."""
    both = by_trial.loc[owner, intruder].unstack("placement").reindex(columns=list(PLACEMENTS)).dropna()
    if both.empty:
        return _ratio_missing()
    middle, low, high = stats.median_interval(both["pinned"] / both["free"])
    return {"ratio_p99": middle, "ratio_lo_p99": low, "ratio_hi_p99": high}


def _ratio_missing() -> dict[str, float]:
    return dict.fromkeys(("ratio_p99", "ratio_lo_p99", "ratio_hi_p99"), np.nan)


def _longest_queue(trial: pd.DataFrame) -> int:
    """The most requests that were due and in nobody's hand, in any one queue."""
    shared = trial["owner"].iloc[0] == "request"
    return max(
        _depth(queue["due_ns"].to_numpy(), queue["start_ns"].to_numpy())
        for _, queue in ([(0, trial)] if shared else trial.groupby("worker"))
    )


def _depth(due: np.ndarray, start: np.ndarray) -> int:
    due, start = np.sort(due), np.sort(start)
    return int((np.arange(1, len(due) + 1) - np.searchsorted(start, due, side="right")).max())


def waits(result: Result) -> pd.DataFrame:
    """What had the CPU while the pool's threads waited, one row per case and occupant.

    owner, intruder, placement, occupied_by (of probes.attribution.OCCUPANTS), wait_ns (the sum in that
    trial), share.  Empty where the BPF probe could not be had.
    """
    table = pd.DataFrame(
        result.parameters["waits"], columns=["owner", "intruder", "placement", "occupied_by", "wait_ns"]
    )
    if table.empty:
        return table.assign(share=[])
    return table.assign(share=table["wait_ns"] / table.groupby(KEYS)["wait_ns"].transform("sum"))


def instrument(survey: machine.Machine) -> Instrument:
    """The program's clock and the kernel's counters; with BPF also what had the CPU during the waits."""
    able = runqlat.available()
    if able.ok:
        return Instrument("clock, counted switches and moves, and waits by cause (BPF)")
    return Instrument("clock, counted switches and moves", f"{able.why} {able.remedy}".strip())


@experiment("pool.pinned", summarise=summarise, instrument=instrument)
def pinned(
    run: Run,
    *,
    workers: int = 2,
    hot_bytes: int | None = None,
    period_us: int = 800,
    burst: int = 1,
    short_us: int = SHORT_US,
    long_us: int = LONG_US,
    duration_s: float | None = None,
    trials: int | None = None,
) -> None:
    """Serve requests with a pool whose workers are pinned or free, while somebody takes one of their CPUs.

    The pool has as many CPUs as workers in both placements: pinned, each worker has one of them; free, each
    may use all.  A dispatcher on the first sends the requests; the intruder is on the last.  It takes a tenth
    of its CPU in short pieces or in long ones, with a real-time policy where this user may give one, so that
    no worker gets past it.  The data belong to the thread (each worker has one set, and a queue of its own)
    or to the request (each of 64 sessions has one, and there is one queue for all workers).

    workers     of the pool, from 2, and of the CPUs that it uses
    hot_bytes   what one request reads and writes; default: half of a second-level cache, at most 256 KiB
    period_us   from one request to the next, on a schedule of absolute times
    burst       how many requests come together, as many as that rarer
    short_us, long_us   how long the intruder has the CPU at a time; its pauses are nine times as long
    duration_s  of a trial
    trials      of each case; in each, the order of the placements turns round

    Data: one row per request: owner, intruder (none, short, long), placement, trial, worker, cpu (at the
    end), due_ns, start_ns (a worker had it in hand), done_ns, wait_ns (in which the worker could have run
    and had no CPU, since its last request; missing where the kernel does not tell), moved.
    The result's parameters also hold counted, one row per trial and case with what the kernel counted for the
    workers, and waits (see `waits`), from one more trial of each case of the long intruder, which is not in
    the data because the probe would be in its times.
    """
    survey = machine.survey()
    duration_s = run.choose(tiny=0.06, quick=0.16, full=1.0) if duration_s is None else duration_s
    trials = run.choose(tiny=2, quick=4, full=9) if trials is None else trials
    hot = _hot(survey) if hot_bytes is None else hot_bytes
    _check(survey, workers, hot, period_us, burst, short_us, long_us, duration_s, trials)
    cpus = _cpus(survey, workers)
    stall_us = {"none": 0, "short": short_us, "long": long_us}
    every_us = {
        "none": LONG_EVERY_US,
        "short": max(1000, round(short_us * SHORT_EVERY_US / SHORT_US)),
        "long": max(1000, round(long_us * LONG_EVERY_US / LONG_US)),
    }
    run.begin()
    run.parameters |= {
        "workers": workers,
        "cpus": cpus,
        "hot_bytes": hot,
        "period_us": period_us,
        "sessions": SESSIONS,
        "stall_us": stall_us,
        "every_us": every_us,
        "duration_s": duration_s,
        "trials": trials,
        "counted": [],
        "waits": [],
    }
    common = [
        "--workers",
        workers,
        "--sessions",
        SESSIONS,
        "--hot",
        hot,
        "--line",
        max(16, survey.line_bytes),
    ]
    common += ["--period-us", period_us, "--burst", burst, "--duration-ms", round(1000 * duration_s)]
    steps = [
        (trial, owner, intruder, placed)
        for trial in range(trials)
        for owner in OWNERS
        for intruder in INTRUDERS
        for placed in (PLACEMENTS if trial % 2 == 0 else reversed(PLACEMENTS))
    ]
    watched = _watched(run)
    for trial, owner, intruder, placed in run.each(
        [*steps, *((-1, *case) for case in watched)], label=lambda s: f"{s[1]}'s data, {s[2]}, {s[3]}"
    ):
        words = [
            *common,
            "--owner",
            owner,
            "--stall-us",
            stall_us[intruder],
            "--every-us",
            every_us[intruder],
        ]
        about = {"owner": owner, "intruder": intruder, "placement": placed}
        with workloads.start("pool", [str(word) for word in words], deadline_s=10 * duration_s + 30) as pool:
            _place(run, pool.tids, cpus, placed)
            if trial < 0:
                _attribute(run, pool, about, duration_s)
            else:
                _keep(run, pool.run(), about | {"trial": trial})
    _check_counts(run)


def _hot(survey: machine.Machine) -> int:
    return max(16 * KIB, min(256 * KIB, memory.down_to_power(memory.second_level(survey) / 2)))


def _cpus(survey: machine.Machine, workers: int) -> list[int]:
    """The quiet CPU and its nearest neighbours that are no SMT siblings, as far as there are such."""
    home = placement.quiet_cpu()
    siblings = set(survey.smt_siblings(home))
    near = set(survey.same_cache_cpus(home))
    others = [cpu for cpu in survey.cpus_allowed if cpu != home]
    others.sort(key=lambda cpu: (cpu in siblings, cpu not in near, -cpu))
    return [*sorted(others[: workers - 1]), home]


def _check(
    survey: machine.Machine,
    workers: int,
    hot: int,
    period_us: int,
    burst: int,
    short_us: int,
    long_us: int,
    duration_s: float,
    trials: int,
) -> None:
    if len(survey.cpus_allowed) < 2:
        raise ParameterError(
            "A pool on one CPU has nowhere to move: this experiment needs two.",
            "Give the virtual machine a second CPU.",
        )
    if not isinstance(workers, int) or not 2 <= workers <= min(MOST_WORKERS, len(survey.cpus_allowed)):
        raise ParameterError(
            f"{workers!r} workers cannot have a CPU each.",
            f"Give 2 to {min(MOST_WORKERS, len(survey.cpus_allowed))}.",
        )
    memory.check("hot_bytes", [hot], 4096)
    memory.check_room(SESSIONS * hot, 0, survey)
    for name, value, most in (("period_us", period_us, 100_000), ("burst", burst, 1000)):
        if not isinstance(value, int) or not 1 <= value <= most:
            raise ParameterError(f"{name} must be a number from 1 to {most:,}, not {value!r}.")
    for name, value in (("short_us", short_us), ("long_us", long_us)):
        if not isinstance(value, int) or not 1 <= value <= 20_000:
            raise ParameterError(f"{name} must be a number from 1 to 20,000 µs, not {value!r}.")
    if not isinstance(duration_s, int | float) or not 0.02 <= duration_s <= 60:
        raise ParameterError(f"duration_s must lie between 0.02 and 60 s, not at {duration_s!r}.")
    if not isinstance(trials, int) or not 1 <= trials <= 1000:
        raise ParameterError(f"{trials!r} trials cannot be made.", "Give a whole number from 3.")
    if duration_s * 1e6 < 4 * period_us * burst:
        raise ParameterError(
            f"Fewer than four bursts of {burst} requests come in {duration_s} s.",
            "Measure longer, or let them come more often.",
        )


def _place(run: Run, tids: list[int], cpus: list[int], placed: str) -> None:
    dispatcher, intruder, *workers = tids
    placement.pin([dispatcher], [cpus[0]])
    placement.pin([intruder], [cpus[-1]])
    for worker, cpu in zip(workers, cpus, strict=True):
        placement.pin([worker], [cpu] if placed == "pinned" else cpus)
    for policy in (policies.FIFO, policies.nice(-20)):
        with contextlib.suppress(policies.PolicyError):
            policies.apply(intruder, policy)
            run.parameters["intruder_policy"] = policy.label
            break
    else:
        run.parameters["intruder_policy"] = policies.OTHER.label
    if run.parameters["intruder_policy"] != policies.FIFO.label:
        run.note(
            "missing",
            "This user may give no real-time policy: the intruder is an ordinary process "
            f"({run.parameters['intruder_policy']}), and a worker that wakes up may get past it.",
        )


def _keep(run: Run, records: list[workloads.Record], about: dict[str, Any]) -> None:
    rows, workers, late = [], [], []
    for record in records:
        if record.kind == "request":
            late.append(record["sent"] - record["due"])
            rows.append(
                about
                | {
                    "worker": record["worker"],
                    "cpu": record["cpu"],
                    "due_ns": record["due"],
                    "start_ns": record["start"],
                    "done_ns": record["done"],
                    "wait_ns": float(record["wait"]) if "wait" in record.values else np.nan,
                    "moved": bool(record["moved"]),
                }
            )
        elif record.kind == "worker":
            workers.append(record)
        else:
            intruder = record
    run.add(rows)
    known = all("kernel_moves" in worker.values for worker in workers)
    run.parameters["counted"].append(
        about
        | {
            "requests": sum(worker["requests"] for worker in workers),
            "moves": sum(bool(row["moved"]) for row in rows),
            "kernel_moves": sum(w["kernel_moves"] for w in workers) if known else None,
            "cpu_ns": sum(worker["cpu_ns"] for worker in workers),
            "voluntary_switches": sum(worker["voluntary"] for worker in workers),
            "involuntary_switches": sum(worker["involuntary"] for worker in workers),
            "dispatched_late_p99_ns": float(np.quantile(late, 0.99)),
            "stalls": intruder["stalls"],
            "stalled_cpu_ns": intruder["cpu_ns"],
        }
    )


def _watched(run: Run) -> Iterator[tuple[str, str, str]]:
    able = runqlat.available()
    if not able.ok:
        run.note(
            "missing",
            f"What had the CPU while workers waited is missing: {able.why} {able.remedy}".strip(),
        )
        return
    yield from (("thread", "long", placed) for placed in PLACEMENTS)


def _attribute(run: Run, pool: workloads.Workload, about: dict[str, str], duration_s: float) -> None:
    with runqlat.watch([pool.pid], 10 * duration_s + 30, interval_s=30, attribution=True) as probe:
        probe.start()
        pool.run()
        found = probe.stop().attribution
    assert isinstance(found, Attribution)
    run.parameters["waits"] += [
        about | {"occupied_by": occupant, "wait_ns": ns} for occupant, ns in found.total_ns().items()
    ]


def _check_counts(run: Run) -> None:
    """Whether pinned workers stayed, all requests were served, and the schedule was kept."""
    counted = pd.DataFrame(run.parameters["counted"])
    pinned_ones = counted[counted["placement"] == "pinned"]
    if (pinned_ones["moves"] > 0).any() or (pinned_ones["kernel_moves"] > 0).any():
        run.note("flag", "A pinned worker was moved all the same.")
    served = pd.concat(run.rows).groupby([*KEYS, "trial"])["worker"].size()
    if not (served == counted.set_index([*KEYS, "trial"])["requests"].reindex(served.index)).all():
        run.note("flag", "The workers counted another number of requests than were sent.")
    late = float(counted["dispatched_late_p99_ns"].median())
    if late > 1000 * run.parameters["period_us"]:
        run.note("flag", "The dispatcher itself came late: something else had its CPU.")
    if counted["kernel_moves"].isna().any():
        run.note("missing", "This kernel does not tell how often it moved a thread (nr_migrations).")
