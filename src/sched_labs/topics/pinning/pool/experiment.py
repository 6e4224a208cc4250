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

from sched_labs import machine, workloads
from sched_labs.core import stats
from sched_labs.core.errors import ParameterError
from sched_labs.core.result import Result
from sched_labs.core.stats import spread
from sched_labs.probes import runqlat
from sched_labs.probes.waits import Attribution
from sched_labs.run import checks, memory
from sched_labs.run.base import Instrument, Run, experiment
from sched_labs.run.memory import KIB
from sched_labs.steer import placement, policies

OWNERS = ("thread", "request")
PLACEMENTS = ("pinned", "free")
INTRUDERS = ("none", "short", "long")
WHO = {"none": "nobody", "short": "short pieces", "long": "long pieces"}  # takes a CPU away, in words
KEYS = ["owner", "intruder", "placement"]
MOST_WORKERS = 16  # of the workload
LEAST_MOVES = 20  # for the median of what comes after one
FIRST = 2  # requests of each worker that find cold what nobody has touched since the start
SESSIONS = 64
SHORT_US, SHORT_EVERY_US = 100, 1009  # a tenth of the CPU, and no multiple of the requests' period
LONG_US, LONG_EVERY_US = 4_000, 40_000  # a tenth of the CPU as well


def summarise(result: Result) -> pd.DataFrame:
    """One row per owner, intruder and placement; medians over trials and 95 % intervals.

    owner, intruder, placement
    p50_ns, p99_ns           from the time at which a request was due until it was done; with _lo_, _hi_
    work_p50_ns, work_p99_ns the part of that in a worker's hands, what took its CPU meanwhile included
    ratio_p50, ratio_p99     pinned over free, paired by trial; with ratio_lo_, ratio_hi_; in rows of pinned
    moves_per_request        how often a worker ended a request on another CPU than the one before
    kernel_moves_per_request the same as the kernel counted it: not fewer; missing where it does not tell
    move_ns                  what a move added to the work: the median of requests after a move minus that of
                             the others; only in rows of free with twenty moves and more
    foreseen_ns_per_request  move_ns times moves_per_request: what a pin could save
    saved_ns_per_request, saved_lo_ns_per_request, saved_hi_ns_per_request   CPU time free minus pinned,
                             paired by trial; only in rows of pinned
    floor_ns_per_request     what this difference is between trials that do not differ; only in rows of pinned
    switches_per_request, switches_lo_per_request, switches_hi_per_request   of the workers, by the kernel
    cpu_ns_per_request, cpu_lo_ns_per_request, cpu_hi_ns_per_request   CPU time of the workers
    queue_requests           the longest queue of a worker (or of all, where they share one) in the program
    waiting_threads          the most threads of the pool that can be on a run queue: its workers
    wait_max_ns              the longest wait of a worker for a CPU between two requests; missing where the
                             kernel does not tell
    stall_ns                 for how long the intruder has the CPU at a time
    trials
    """
    data = result.data
    rows: list[dict[str, Any]] = []
    for owner in [name for name in OWNERS if (data["owner"] == name).any()]:
        for intruder in INTRUDERS:
            for placed in PLACEMENTS:
                case = data[(data["owner"] == owner) & (data["intruder"] == intruder)]
                part = case[case["placement"] == placed]
                if part.empty:
                    continue
                row: dict[str, Any] = {"owner": owner, "intruder": intruder, "placement": placed}
                row |= spread("p50", "ns", part["p50_ns"]) | spread("p99", "ns", part["p99_ns"])
                for name in ("work_p50_ns", "work_p99_ns", "queue_requests", "wait_max_ns"):
                    row[name] = float(part[name].median())
                row |= _pair(case, pinned=placed == "pinned")
                row |= _moves(part, free=placed == "free")
                switches = part["voluntary_switches"] + part["involuntary_switches"]
                row |= spread("switches", "per_request", switches / part["requests"])
                row |= spread("cpu", "ns_per_request", part["cpu_ns"] / part["requests"])
                row["waiting_threads"] = int(result.parameters["workers"])
                row["stall_ns"] = 1000.0 * result.parameters["stall_us"][intruder]
                row["trials"] = int(part["trial"].nunique())
                rows.append(row)
    return pd.DataFrame(rows)


def _pair(case: pd.DataFrame, *, pinned: bool) -> dict[str, float]:
    """Pinned against free, of trials that have both: ratios of latency, and the difference of CPU time."""
    names = [f"ratio{part}_{quantile}" for quantile in ("p50", "p99") for part in ("", "_lo", "_hi")]
    names += ["floor_ns_per_request", *(f"saved{part}_ns_per_request" for part in ("", "_lo", "_hi"))]
    case = case.assign(cpu=case["cpu_ns"] / case["requests"]).set_index(["trial", "placement"])
    p50, p99, cpu = (
        case[name].unstack("placement").reindex(columns=list(PLACEMENTS)).dropna()
        for name in ("p50_ns", "p99_ns", "cpu")
    )
    if not pinned or p99.empty:
        return dict.fromkeys(names, np.nan)
    ratios = [stats.median_interval(part["pinned"] / part["free"]) for part in (p50, p99)]
    saved = stats.paired_difference(cpu["free"], cpu["pinned"])
    floor = stats.noise_floor(cpu["pinned"])
    return dict(zip(names, [*ratios[0], *ratios[1], floor, *saved], strict=True))


def _moves(part: pd.DataFrame, *, free: bool) -> dict[str, float]:
    """How often workers moved, and what that costs by the requests' own work."""
    requests = part["requests"].sum()
    told: dict[str, float] = {
        "moves_per_request": float(part["moves"].sum() / requests),
        "kernel_moves_per_request": float(part["kernel_moves"].sum(skipna=False) / requests),
        "move_ns": np.nan,
    }
    if free and part["moves"].sum() >= LEAST_MOVES:
        told["move_ns"] = float((part["moved_work_p50_ns"] - part["stayed_work_p50_ns"]).median())
    told["foreseen_ns_per_request"] = told["move_ns"] * told["moves_per_request"]
    return told


def _depth(due: np.ndarray, start: np.ndarray) -> int:
    """The most requests that were due and in nobody's hand."""
    due, start = np.sort(due), np.sort(start)
    return int((np.arange(1, len(due) + 1) - np.searchsorted(start, due, side="right")).max())


def _longest_queue(requests: pd.DataFrame, owner: str) -> int:
    """The most that stood in any one queue: each worker's, or the one of all."""
    queues = [requests] if owner == "request" else [one for _, one in requests.groupby("worker")]
    return max(_depth(queue["due"].to_numpy(), queue["start"].to_numpy()) for queue in queues)


def waits(result: Result) -> pd.DataFrame:
    """What had the CPU while the pool's threads waited, one row per case and occupant.

    owner, intruder, placement, occupied_by (of probes.waits.OCCUPANTS), wait_ns (the sum in that
    trial), share.  Empty where the BPF probe could not be had.
    """
    if "waits" not in result.tables:
        return pd.DataFrame(columns=[*KEYS, "occupied_by", "wait_ns", "share"])
    table = result.tables["waits"]
    return table.assign(share=table["wait_ns"] / table.groupby(KEYS)["wait_ns"].transform("sum"))


def instrument(survey: machine.Machine) -> Instrument:
    """The program's clock and the kernel's counters; with BPF also what had the CPU during the waits."""
    able = runqlat.available()
    if able.ok:
        return Instrument("clock, counted switches and moves, and waits by cause (BPF)")
    return Instrument("clock, counted switches and moves", f"{able.why} {able.remedy}".strip())


@experiment(
    "pool.pinned", summarise=summarise, instrument=instrument, workloads=("pool",), needs=("second CPU",)
)
def pinned(
    run: Run,
    *,
    workers: int = 2,
    cpus: int = 2,
    hot_bytes: int | None = None,
    session_bytes: int | None = None,
    thread_period_us: int = 800,
    request_period_us: int = 800,
    short_us: int = SHORT_US,
    long_us: int = LONG_US,
    duration_s: float | None = None,
    trials: int | None = None,
) -> None:
    """Serve requests with a pool whose workers are pinned or free, while somebody takes one of their CPUs.

    The pool has the same CPUs in both placements: pinned, each worker has one of them, in turn; free, each
    may use all, but begins where a pinned one does: two that the kernel happens to start on one CPU can stay
    there, which says nothing of moves.  The intruder is on the last.  It takes a tenth of its CPU in short
    pieces or in long ones, with a real-time policy where this user may give one, so that no worker gets past
    it.  The data belong to the thread (each worker has one set, and requests of its own at random moments) or
    to the request (each of 64 sessions has one, and a dispatcher on the first CPU puts them into one queue
    for all workers).

    workers     of the pool, one for each CPU at least
    cpus        that the pool uses, from 2
    hot_bytes   what one request reads and writes where the data are the thread's; default: half of a
                second-level cache, at most 512 KiB, so that a CPU keeps the data of a worker near
    session_bytes   the same where they are the request's; default: a quarter of hot_bytes, because they come
                from afar each time
    thread_period_us, request_period_us   from one request to the next, of each worker where the data are the
                thread's and of the whole pool where they are the request's, on a schedule of absolute times
                (by default so far apart that the intruder often finds a thread's worker asleep: one that it
                catches at work waits for the load balancer, free or not)
    short_us, long_us   how long the intruder has the CPU at a time; its pauses are nine times as long
    duration_s  of a trial
    trials      of each case; in each, the order of the placements turns round

    Data: one row per trial and case: owner, intruder (none, short, long), placement, trial; sent and requests
    (by the schedule, and as the workers counted them), moves (a worker ended a request on another CPU than
    the one before), kernel_moves (missing where the kernel does not tell), cpu_ns, voluntary_switches,
    involuntary_switches, of all workers; p50_ns, p99_ns, max_ns from due until done; work_p50_ns, work_p99_ns
    in a worker's hands, and of requests with and without a move moved_work_p50_ns, stayed_work_p50_ns
    (missing where there were none); all of these without the first two requests of each worker, which find
    cold what nobody has touched since the start; queue_requests, the longest queue in the program;
    wait_max_ns, the longest in which a worker could have run and had no CPU, between two requests (missing
    where the kernel does not tell); dispatched_late_p99_ns (missing without a dispatcher); stalls and
    stalled_cpu_ns of the intruder.
    The table waits has owner, intruder, placement, occupied_by and wait_ns (see `waits`), from one more trial
    of each case of the long intruder, which is not in the data because the probe would be in its times.  The
    fact intruder_policy is the policy that the intruder could have.
    """
    survey = machine.survey()
    duration_s = run.choose(tiny=0.06, quick=0.11, full=1.0) if duration_s is None else duration_s
    trials = run.choose(tiny=2, quick=6, full=9) if trials is None else trials
    hot = _hot(survey) if hot_bytes is None else hot_bytes
    a_session = max(4096, hot // 4) if session_bytes is None else session_bytes
    periods_us = {"thread": thread_period_us, "request": request_period_us}
    _check(survey, workers, cpus, hot, a_session, periods_us, short_us, long_us, duration_s, trials)
    run.begin()
    used = _cpus(survey, cpus)
    stall_us = {"none": 0, "short": short_us, "long": long_us}
    every_us = {
        "none": LONG_EVERY_US,
        "short": max(1000, round(short_us * SHORT_EVERY_US / SHORT_US)),
        "long": max(1000, round(long_us * LONG_EVERY_US / LONG_US)),
    }
    run.parameters |= {
        "on_cpus": used,
        "hot_bytes": hot,
        "session_bytes": a_session,
        "sessions": SESSIONS,
        "stall_us": stall_us,
        "every_us": every_us,
        "duration_s": duration_s,
        "trials": trials,
    }
    bytes_of = {"thread": hot, "request": a_session}
    common = ["--workers", workers, "--sessions", SESSIONS]
    common += ["--line", max(16, survey.line_bytes), "--duration-ms", round(1000 * duration_s)]
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
        words = [*common, "--owner", owner, "--hot", bytes_of[owner], "--period-us", periods_us[owner]]
        words += ["--stall-us", stall_us[intruder], "--every-us", every_us[intruder]]
        about = {"owner": owner, "intruder": intruder, "placement": placed}
        with workloads.start("pool", [str(word) for word in words], deadline_s=10 * duration_s + 30) as pool:
            _place(run, pool.tids, used, placed)
            if trial < 0:
                _attribute(run, pool, about, duration_s)
            else:
                run.add([about | {"trial": trial} | _told(pool.run(), owner)])
    _check_counts(run, periods_us)


def _hot(survey: machine.Machine) -> int:
    return max(64 * KIB, min(512 * KIB, memory.down_to_power(memory.second_level(survey) / 2)))


def _cpus(survey: machine.Machine, count: int) -> list[int]:
    """The quiet CPU and its nearest neighbours that are no SMT siblings, as far as there are such."""
    home = placement.quiet_cpu()
    siblings = set(survey.smt_siblings(home))
    near = set(survey.same_cache_cpus(home))
    others = [cpu for cpu in survey.cpus_allowed if cpu != home]
    others.sort(key=lambda cpu: (cpu in siblings, cpu not in near, -cpu))
    return [*sorted(others[: count - 1]), home]


def _check(
    survey: machine.Machine,
    workers: int,
    cpus: int,
    hot: int,
    a_session: int,
    periods_us: dict[str, int],
    short_us: int,
    long_us: int,
    duration_s: float,
    trials: int,
) -> None:
    most = len(survey.cpus_allowed)
    if most < 2:
        raise ParameterError(
            "A pool on one CPU has nowhere to move: this experiment needs two.",
            "Give the virtual machine a second CPU.",
            lacking=True,
        )
    if not isinstance(cpus, int) or not 2 <= cpus <= min(MOST_WORKERS, most):
        raise ParameterError(
            f"The pool cannot have {cpus!r} CPUs here.", f"Give 2 to {min(MOST_WORKERS, most)}."
        )
    if not isinstance(workers, int) or not cpus <= workers <= MOST_WORKERS:
        raise ParameterError(
            f"{workers!r} workers cannot share {cpus} CPUs.", f"Give {cpus} to {MOST_WORKERS} workers."
        )
    memory.check("hot_bytes", [hot], 4096)
    memory.check("session_bytes", [a_session], 4096)
    memory.check_room(max(workers * hot, SESSIONS * a_session), 0, survey)
    for owner, value in periods_us.items():
        if not isinstance(value, int) or not 10 <= value <= 100_000:
            raise ParameterError(f"{owner}_period_us must be a number from 10 to 100,000, not {value!r}.")
    for name, value in (("short_us", short_us), ("long_us", long_us)):
        if not isinstance(value, int) or not 1 <= value <= 20_000:
            raise ParameterError(f"{name} must be a number from 1 to 20,000 µs, not {value!r}.")
    checks.seconds("duration_s", duration_s, 0.02, 60)
    if not isinstance(trials, int) or not 1 <= trials <= 1000:
        raise ParameterError(f"{trials!r} trials cannot be made.", "Give a whole number from 3.")
    if duration_s * 1e6 < 4 * max(periods_us.values()):
        raise ParameterError(
            f"Fewer than four requests come in {duration_s} s.",
            "Measure longer, or let them come more often.",
        )


def _place(run: Run, tids: list[int], cpus: list[int], placed: str) -> None:
    dispatcher, intruder, *workers = tids
    placement.pin([dispatcher], [cpus[0]])
    placement.pin([intruder], [cpus[-1]])
    for number, worker in enumerate(workers):
        placement.pin([worker], [cpus[number % len(cpus)]] if placed == "pinned" else cpus)
    for policy in (policies.FIFO, policies.nice(-20)):
        with contextlib.suppress(policies.PolicyError):
            policies.apply(intruder, policy)
            run.facts["intruder_policy"] = policy.label
            break
    else:
        run.facts["intruder_policy"] = policies.OTHER.label
    if run.facts["intruder_policy"] != policies.FIFO.label:
        run.note(
            "missing",
            "This user may give no real-time policy: the intruder is an ordinary process "
            f"({run.facts['intruder_policy']}), and a worker that wakes up may get past it.",
        )


def _told(records: list[workloads.Record], owner: str) -> dict[str, Any]:
    """One trial in a row."""
    every = pd.DataFrame([record.values for record in records if record.kind == "request"])
    workers = pd.DataFrame([record.values for record in records if record.kind == "worker"])
    requests = every[every["number"] >= FIRST * len(workers)]
    (intruder,) = (record for record in records if record.kind == "intruder")
    latency, work = requests["done"] - requests["due"], requests["done"] - requests["start"]
    moved = requests["moved"].astype(bool)
    late = requests["sent"] - requests["due"] if "sent" in requests else pd.Series([np.nan])
    return {
        "requests": int(workers["requests"].sum()),
        "moves": int(every["moved"].sum()),
        "kernel_moves": float(workers["kernel_moves"].sum()) if "kernel_moves" in workers else np.nan,
        "cpu_ns": int(workers["cpu_ns"].sum()),
        "voluntary_switches": int(workers["voluntary"].sum()),
        "involuntary_switches": int(workers["involuntary"].sum()),
        "p50_ns": float(latency.median()),
        "p99_ns": float(latency.quantile(0.99)),
        "max_ns": float(latency.max()),
        "work_p50_ns": float(work.median()),
        "work_p99_ns": float(work.quantile(0.99)),
        "moved_work_p50_ns": float(work[moved].median()),
        "stayed_work_p50_ns": float(work[~moved].median()),
        "queue_requests": _longest_queue(every, owner),
        "wait_max_ns": float(requests["wait"].max()) if "wait" in requests else np.nan,
        "dispatched_late_p99_ns": float(late.quantile(0.99)),
        "stalls": intruder["stalls"],
        "stalled_cpu_ns": intruder["cpu_ns"],
        "sent": len(every),
    }


def _watched(run: Run) -> Iterator[tuple[str, str, str]]:
    able = runqlat.available()
    if not able.ok:
        run.note(
            "missing", f"What had the CPU while workers waited is missing: {able.why} {able.remedy}".strip()
        )
        return
    yield from (("thread", "long", placed) for placed in PLACEMENTS)


def _attribute(run: Run, pool: workloads.Workload, about: dict[str, str], duration_s: float) -> None:
    with runqlat.watch([pool.pid], 10 * duration_s + 30, interval_s=30, attribution=True) as probe:
        probe.start()
        pool.run()
        found = probe.stop().attribution
    assert isinstance(found, Attribution)
    run.tables["waits"] += [
        about | {"occupied_by": occupant, "wait_ns": ns} for occupant, ns in found.total_ns().items()
    ]


def _check_counts(run: Run, periods_us: dict[str, int]) -> None:
    """Whether pinned workers stayed, all requests were served, and the schedule was kept."""
    data = pd.concat(run.rows)
    pinned_ones = data[data["placement"] == "pinned"]
    if (pinned_ones["moves"] > 0).any() or (pinned_ones["kernel_moves"] > 0).any():
        run.note("flag", "A pinned worker was moved all the same.")
    if (data["requests"] != data["sent"]).any():
        run.note("flag", "The workers counted another number of requests than were sent.")
    late = data.loc[data["intruder"] == "none", "dispatched_late_p99_ns"].median()
    if late > 1000 * periods_us["request"]:
        run.note("flag", "The dispatcher itself came late: something else had its CPU.")
    for owner, period_us in periods_us.items():
        alone = data[(data["owner"] == owner) & (data["intruder"] == "none")]
        if (alone.groupby("placement")["p50_ns"].median() > 10_000 * period_us).any():
            run.note(
                "flag",
                f"The pool did not keep up where the data are the {owner}'s: half of the requests took more "
                f"than ten periods. Give a longer {owner}_period_us, or let other programs end first.",
            )
    if data["kernel_moves"].isna().any():
        run.note("missing", "This kernel does not tell how often it moved a thread (nr_migrations).")
