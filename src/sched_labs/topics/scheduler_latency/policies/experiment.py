"""What does a scheduling policy change?  Who runs when, who gets how much, and what the kernel promises.

`sweep` (lab L10): how late a periodic worker runs among hogs, policy by policy.  `hog` (lab L31): what a hog
leaves to another on the same CPU.  `admission` (lab L41): how much SCHED_DEADLINE bandwidth is promised.
"""

from __future__ import annotations

import contextlib
import errno
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from sched_labs import machine, workloads
from sched_labs.core import stats
from sched_labs.core.errors import ParameterError, PlacementError, WorkloadError
from sched_labs.core.result import Result
from sched_labs.machine import files
from sched_labs.machine.seen import series
from sched_labs.run import checks
from sched_labs.run.base import Instrument, Run, experiment
from sched_labs.steer import placement, policies
from sched_labs.steer.policies import Policy, PolicyError

LOADS = {"light": 0.02, "heavy": 0.2}  # part of the CPU that the worker asks for
_AWAY = 0.05  # part of the wake-ups on a CPU without hogs, from which on a run is flagged
FEWEST_FOR_TAIL = 100  # wake-ups of a trial, of which one in a hundred is at least one
DEFAULT_SLACK_NS = 50_000  # the kernel's, for threads that are not real-time
SLACKED = f"OTHER, slack {DEFAULT_SLACK_NS // 1000} µs"
# Under these it shows who may preempt at once; under the others it would repeat what a heavy worker shows.
_ALSO_LIGHT = ("OTHER", "nice -10", "slice 0.1 ms", "FIFO")


def _worker_policies(period_us: int) -> list[Policy]:
    """What the worker is given, in the order of the figure; the first is the baseline."""
    period_ns = 1000 * period_us
    return [
        policies.OTHER,
        policies.nice(10),
        policies.nice(-10),
        policies.BATCH,
        policies.IDLE,
        policies.slice_of(100_000),
        policies.FIFO,
        policies.RR,
        policies.deadline(4 * period_ns // 10, period_ns),
    ]


# ---- sweep ------------------------------------------------------------------------------------------------


def summarise_sweep(result: Result) -> pd.DataFrame:
    """One row per policy and load of the worker.

    policy, load           what it was given, and how much it asks for: light (2 % of a CPU), heavy (20 %)
    wakes, wakes_per_trial how often it was due, in all and in each trial
    p50_ns, p50_lo_ns, p50_hi_ns   how late: half of the wake-ups were not later; 95 % interval over trials
    p99_ns, p99_lo_ns, p99_hi_ns   99 %: one in a hundred was this late or later.  In a trial of fewer than a
                           hundred (FEWEST_FOR_TAIL) it is the latest of all
    max_ns                 all
    not_run                wake-ups that had not run when their block ended; they count as late as they were
                           then, so that their lateness is a lower bound
    worker_cpu_percent     what it used of the CPU, of all that it and the hogs used
    used_percent           what it and the hogs used of the time from its first wake-up on; other programs had
                           the rest
    at_home_percent        wake-ups that ran on the hogs' CPU
    """
    rows = []
    blocks = result.tables["blocks"]
    for key, cell in result.data.groupby(["load", "policy"], sort=False):
        load, policy = key
        trials = cell.groupby("trial")["late_ns"]
        counted = blocks[(blocks["load"] == load) & (blocks["policy"] == policy)]
        row: dict[str, Any] = {"policy": policy, "load": load, "wakes": len(cell)}
        row["wakes_per_trial"] = result.parameters["wakes"]
        for name, q in (("p50", 0.5), ("p99", 0.99)):
            row |= {**stats.spread(f"{name}", "ns", trials.quantile(q, interpolation="higher"))}
        used = counted["worker_cpu_ns"].sum() + counted["hogs_cpu_ns"].sum()
        ran = cell[cell["cpu"] >= 0]
        rows.append(
            row
            | {
                "max_ns": float(cell["late_ns"].max()),
                "not_run": int((cell["cpu"] < 0).sum()),
                "worker_cpu_percent": 100 * counted["worker_cpu_ns"].sum() / used,
                "used_percent": 100 * used / counted["elapsed_ns"].sum(),
                "at_home_percent": 100 * float((ran["cpu"] == result.parameters["cpu"]).mean())
                if len(ran)
                else math.nan,
            }
        )
    return pd.DataFrame(rows)


def away(rows: pd.DataFrame) -> pd.Series:
    """Which rows of the summary have more than a twentieth of their wake-ups on a CPU without hogs."""
    return rows["at_home_percent"] < 100 * (1 - _AWAY)


def instrument_sweep(survey: machine.Machine) -> Instrument:
    """The worker's own clock; the policies are those that this user may set."""
    missing = [key for key in ("fifo", "deadline", "nice_negative") if not survey.fact(f"policy.{key}").value]
    if missing:
        why = survey.fact(f"policy.{missing[0]}").why
        return Instrument("the worker's own clock, without some policies", f"{missing[0]} {why}")
    return Instrument("the worker's own clock")


@experiment(
    "policies.sweep",
    summarise=summarise_sweep,
    instrument=instrument_sweep,
    workloads=("periodic",),
    needs=("priority",),
)
def sweep(
    run: Run, *, hogs: int = 3, period_us: int = 2017, trials: int | None = None, wakes: int | None = None
) -> None:
    """Wake a worker again and again among hogs on its CPU, under one policy after the other.

    hogs       threads that compute without end on the same CPU, under the default policy
    period_us  the worker is due this often, on absolute time; the default is no whole part of a tick
    trials     how often each policy is measured; the policies take turns
    wakes      per trial

    The worker asks for a timer slack of 1 ns, so that the kernel does not deliver wake-ups late to save
    power; one more row shows the default policy with the default slack of 50 µs.  A light worker is measured
    under some of the policies only: OTHER, a better nice value, a short slice, and FIFO.

    Data: one row per wake-up: trial, load, policy, wake_index, late_ns, cpu (-1: it had not run when the
    block was over).  The table blocks has what the kernel counted in each: elapsed_ns,
    worker_cpu_ns, hogs_cpu_ns, voluntary_switches and involuntary_switches of the worker.  Policies that this
    kernel or this user cannot have are left out, with the reason as a note.
    """
    trials = run.choose(tiny=1, quick=3, full=9) if trials is None else trials
    # Of 101 the second latest is the p99: a single interrupt in the wrong moment is not yet a tail.
    wakes = run.choose(tiny=8, quick=101, full=500) if wakes is None else wakes
    _check_numbers(
        hogs=(hogs, 1, 64), period_us=(period_us, 200, 1_000_000), trials=(trials, 1, 1000),
        wakes=(wakes, 1, 100_000),
    )  # fmt: skip
    cpu = placement.quiet_cpu()
    run.begin()
    run.parameters |= {"trials": trials, "wakes": wakes, "cpu": cpu}
    usable = list(_usable(run, _worker_policies(period_us)))

    cells = [
        (load, part, policy, 1)
        for policy in usable
        for load, part in LOADS.items()
        if load == "heavy" or policy.label in _ALSO_LIGHT
    ]
    cells.append(("light", LOADS["light"], replace(policies.OTHER, label=SLACKED), DEFAULT_SLACK_NS))
    deadline_s = 60 + trials * len(cells) * (wakes * period_us / 1e6 + 1)
    words = ["--hogs", hogs, "--period-us", period_us, "--wakes", wakes, "--blocks", trials]
    with contextlib.ExitStack() as stack:
        started = []
        for load, part, policy, slack_ns in cells:
            given = [
                *words,
                "--work-us",
                max(1, round(part * period_us)),
                "--slack-ns",
                slack_ns,
                "--home",
                cpu,
            ]
            workload = workloads.start("periodic", [str(word) for word in given], deadline_s=deadline_s)
            stack.enter_context(workload)
            placement.pin(workload.tids, [cpu])
            _give(workload.tids[0], policy)
            started.append((load, policy, workload))
        order = [(trial, *cell) for trial in range(trials) for cell in started]
        for trial, load, policy, workload in run.each(order, label=lambda o: f"{o[1]}, {o[2].label}"):
            workload.go()
            _keep_wakes(run, trial, load, policy, workload)


def _check_numbers(**limits: tuple[Any, int, int]) -> None:
    for name, (value, least, most) in limits.items():
        checks.whole(name, value, least, most)


def _usable(run: Run, wanted: Sequence[Policy]) -> Iterator[Policy]:
    """The policies that can be had here; a note for each of the others."""
    yield wanted[0]
    for policy in wanted[1:]:
        tried = policies.tries([policy]).iloc[0]
        if tried["granted"]:
            yield policy
        else:
            code = f" ({tried['errno']})" if tried["errno"] else ""
            run.note("missing", f"{policy.label} was left out{code}: {tried['because']}.")


def _give(tid: int, policy: Policy) -> None:
    """Give a sleeping thread its policy; the default is what it was started with.

    Every policy has a thread of its own: an ordinary user may lower a thread, and not raise it again.
    """
    if policy.label in (policies.OTHER.label, SLACKED):
        return
    if policy.name == "DEADLINE":
        # The kernel refuses a reservation on part of the CPUs.  The thread stays on its CPU all the same: it
        # is moved only where another deadline thread is in its way.
        placement.pin([tid], machine.survey().cpus_allowed)
    policies.apply(tid, policy)


def _block(workload: workloads.Workload) -> tuple[list[workloads.Record], workloads.Record]:
    """The records of one block, and the one that ends it."""
    records: list[workloads.Record] = []
    for record in workload.records():
        if record.kind == "end":
            return records, record
        records.append(record)
    raise WorkloadError(f"The workload {workload.name} ended in the middle of a block.")


def _keep_wakes(run: Run, trial: int, load: str, policy: Policy, workload: workloads.Workload) -> None:
    records, end = _block(workload)
    run.add(
        pd.DataFrame(
            {
                "trial": trial,
                "load": load,
                "policy": policy.label,
                "wake_index": range(len(records)),
                "late_ns": [record["late_ns"] for record in records],
                "cpu": [record["cpu"] for record in records],
            }
        )
    )
    run.tables["blocks"].append(
        {
            "trial": trial,
            "load": load,
            "policy": policy.label,
            "elapsed_ns": end["elapsed_ns"],
            "worker_cpu_ns": end["worker_cpu_ns"],
            "hogs_cpu_ns": end["hogs_cpu_ns"],
            "voluntary_switches": end["voluntary"],
            "involuntary_switches": end["involuntary"],
        }
    )
    gone = sum(record["cpu"] not in (-1, run.parameters["cpu"]) for record in records)
    if gone > _AWAY * len(records):
        run.note(
            "flag", f"{policy.label}: in a trial {gone} of {len(records)} wake-ups ran on a CPU without hogs."
        )


# ---- hog --------------------------------------------------------------------------------------------------

PAIRS: dict[str, tuple[Policy, Policy]] = {
    "OTHER beside OTHER": (policies.OTHER, policies.OTHER),
    "OTHER beside nice +5": (policies.OTHER, policies.nice(5)),
    "OTHER beside IDLE": (policies.OTHER, policies.IDLE),
    "FIFO beside OTHER": (policies.FIFO, policies.OTHER),
}
_WATCHDOG = Policy("watchdog", "FIFO", priority=60)


def summarise_hog(result: Result) -> pd.DataFrame:
    """One row per pair.

    pair                   the policies of the first and of the second hog
    second_percent, second_lo_percent, second_hi_percent   what the second hog got of both hogs' CPU time:
                           median over the trials, 95 % interval
    used_percent           what both used together of the time that passed
    longest_gap_ns         the longest time that the second hog did not run
    block_ns               how long the shortest block took
    watchdog_late_ns       how late the watchdog could end a block, at worst
    trials
    """
    rows = []
    for pair, cell in result.data.groupby("pair", sort=False):
        both = cell["first_cpu_ns"] + cell["second_cpu_ns"]
        rows.append(
            {
                "pair": pair,
                **stats.spread("second", "percent", 100 * cell["second_cpu_ns"] / both),
                "used_percent": 100 * float(both.sum() / cell["elapsed_ns"].sum()),
                "longest_gap_ns": float(cell["longest_gap_ns"].max()),
                "block_ns": float(cell["elapsed_ns"].min()),
                "watchdog_late_ns": float(cell["watchdog_late_ns"].max()),
                "trials": len(cell),
            }
        )
    return pd.DataFrame(rows)


@experiment(
    "policies.hog",
    summarise=summarise_hog,
    instrument=instrument_sweep,
    workloads=("hogpair",),
    needs=("priority",),
)
def hog(run: Run, *, trials: int | None = None, real_time_s: float | None = None) -> None:
    """Put two hogs on one CPU, give them different policies, and see what the second one gets.

    trials       how often each pair is measured; the pairs take turns
    real_time_s  how long a real-time hog may run; at most 3 s.  The kernel's own protection works in periods
                 of a second, so shorter runs say less, and one of no whole number of seconds shows another
                 share than the kernel keeps free: 50 ms in 1.1 s are 4.5 %, not 5 %.

    The machine stays usable: the CPU is not the only one (the pairs with a real-time hog are left out, with a
    note, where there is one CPU), the kernel's throttling and fair server stay as they are, a watchdog of
    higher priority ends the block, and the kernel kills a real-time thread that runs on for a second more.

    Data: one row per trial and pair: trial, pair, first_cpu_ns, second_cpu_ns, elapsed_ns, longest_gap_ns (of
    the second hog), watchdog_late_ns.
    """
    trials = run.choose(tiny=1, quick=2, full=9) if trials is None else trials
    real_time_s = run.choose(tiny=0.2, quick=1.1, full=3.0) if real_time_s is None else real_time_s
    _check_numbers(trials=(trials, 1, 100))
    checks.seconds("real_time_s", real_time_s, 0.05, 3)
    fair_s = min(real_time_s, run.choose(tiny=0.1, quick=0.3, full=1.0))
    cpus = machine.survey().cpus_allowed
    cpu = placement.quiet_cpu()
    run.begin()
    usable = {policy.label for policy in _usable(run, [policies.OTHER, policies.nice(5), policies.IDLE])}
    if len(cpus) < 2:
        run.note(
            "missing", "A real-time hog must never have the last CPU: it was left out, for there is one."
        )
    else:
        usable |= {policy.label for policy in _usable(run, [policies.OTHER, policies.FIFO])}
    run.parameters |= {"trials": trials, "real_time_s": real_time_s, "cpu": cpu} | _protection()
    with contextlib.ExitStack() as stack:
        started = []
        for pair, (first, second) in PAIRS.items():
            if not {first.label, second.label} <= usable:
                continue
            real_time = first.name == "FIFO"
            length_s = real_time_s if real_time else fair_s
            words = ["--duration-ms", round(1000 * length_s), "--blocks", trials]
            deadline_s = 60 + 10 * trials * (real_time_s + 1)
            workload = stack.enter_context(
                workloads.start("hogpair", [str(word) for word in words], deadline_s=deadline_s)
            )
            watchdog, *hogs = workload.tids
            placement.pin(hogs, [cpu])
            if real_time:
                policies.apply(watchdog, _WATCHDOG)
            for tid, policy in zip(hogs, (first, second), strict=True):
                _give(tid, policy)
            started.append((pair, workload))
        order = [(trial, *cell) for trial in range(trials) for cell in started]
        for trial, pair, workload in run.each(order, label=lambda o: str(o[1])):
            workload.go()
            records, end = _block(workload)
            run.add(
                [
                    {
                        "trial": trial,
                        "pair": pair,
                        "first_cpu_ns": records[0]["cpu_ns"],
                        "second_cpu_ns": records[1]["cpu_ns"],
                        "elapsed_ns": end["elapsed_ns"],
                        "longest_gap_ns": records[1]["longest_gap_ns"],
                        "watchdog_late_ns": end["watchdog_late_ns"],
                    }
                ]
            )


def _protection() -> dict[str, Any]:
    """What this kernel has against a runaway real-time thread, as far as it tells."""
    survey = machine.survey()
    names = ("rt_runtime_us", "rt_period_us", "fair_server_runtime_ns", "fair_server_period_ns")
    return {name: survey.fact(f"tunable.{name}").value for name in names}


# ---- admission --------------------------------------------------------------------------------------------

STEPS_PER_CPU = 20  # a reservation is a twentieth of a CPU
_PERIOD_NS = 100_000_000
MOST_RESERVATIONS = 64  # threads of burn.c
MOST_STEP = 90  # percent of a CPU: a single thread gets no more where a part is reserved already


def summarise_admission(result: Result) -> pd.DataFrame:
    """One row.

    cpus                   how many CPUs the kernel may use for deadline threads
    granted                reservations before the first refusal
    granted_cpus           what they add up to, in CPUs
    granted_percent        the same per CPU: 95 where real-time threads may have 950 of every 1,000 ms
    step_percent           one reservation, per CPU: the edge is known to that
    refused_by             the kernel's name for the refusal; missing where there was none
    limit_percent          rt_runtime / rt_period, the limit that the kernel is set to; missing if unknown
    fair_server            whether the kernel may reserve a part itself, for normal threads: from 6.12 on
    """
    data = result.data
    known = result.parameters
    granted = data[data["granted"]]
    refused = data[~data["granted"]]
    runtime, period = known["rt_runtime_us"], known["rt_period_us"]
    step = float(data["reservation_percent"].iloc[0])
    return pd.DataFrame(
        [
            {
                "cpus": known["cpus"],
                "granted": len(granted),
                "granted_cpus": len(granted) * step / 100,
                "granted_percent": len(granted) * step / known["cpus"],
                "step_percent": step / known["cpus"],
                "refused_by": str(refused["errno"].iloc[0]) if len(refused) else None,
                "limit_percent": 100 * runtime / period if runtime and period and runtime > 0 else math.nan,
                "fair_server": (series(str(result.machine.get("kernel") or "")) or (0, 0)) >= (6, 12),
            }
        ]
    )


def instrument_admission(survey: machine.Machine) -> Instrument:
    """The kernel's answers."""
    fact = survey.fact("policy.deadline")
    return Instrument("the kernel's answers") if fact.value else Instrument("none", f"{fact.why}")


@experiment(
    "policies.admission",
    summarise=summarise_admission,
    instrument=instrument_admission,
    workloads=("burn",),
    needs=("priority",),
)
def admission(run: Run, *, step_percent: int | None = None) -> None:
    """Reserve CPU time for one sleeping thread after the other, until the kernel refuses.

    step_percent  how much of one CPU each thread reserves; default: 5, more on a machine with many CPUs

    Nothing runs: the threads sleep at their barrier, and their reservations end with them.

    Data: one row per reservation: number, reservation_percent (of one CPU), granted, errno (the kernel's name
    for the refusal, "" if none), because (in words).  Raises PlacementError where this user may have no
    deadline thread at all, or the machine has more CPUs than so many threads can reserve.
    """
    survey = machine.survey()
    cpus = survey.fact("cpu.count").value
    count = cpus if isinstance(cpus, int) else len(survey.cpus_allowed)
    # The kernel admits by root domain, and an isolated CPU is not in the others' one.
    isolated, online = (
        set(files.cpu_list(files.read(f"/sys/devices/system/cpu/{name}"))) for name in ("isolated", "online")
    )
    count = max(1, count - len(isolated & online))  # the kernel lists isolated ones that are offline, too
    least = math.ceil(100 * count / (MOST_RESERVATIONS - 2))
    if step_percent is not None:
        _check_numbers(step_percent=(step_percent, 1, MOST_STEP))
    if least > MOST_STEP:
        raise PlacementError(
            f"{MOST_RESERVATIONS} threads cannot reserve {count} CPUs.",
            f"This experiment fills {MOST_STEP * (MOST_RESERVATIONS - 2) // 100} CPUs at most.",
            lacking=True,
        )
    step = max(100 // STEPS_PER_CPU, least) if step_percent is None else step_percent
    if step < least:
        raise ParameterError(
            f"{step} % steps need more than {MOST_RESERVATIONS} threads on {count} CPUs.",
            f"Give at least {least}.",
        )
    run.begin()
    run.parameters |= {"step_percent": step, "cpus": count} | _protection()
    threads = min(MOST_RESERVATIONS, math.ceil(100 * count / step) + 1)
    with workloads.start("burn", ["--workers", str(threads), "--most-gaps", "1"]) as sleepers:
        for number, tid in run.each(
            list(enumerate(sleepers.tids)), label=lambda t: f"reservation {t[0] + 1}"
        ):
            refusal = _reserve(tid, step)
            run.add(
                [
                    {
                        "number": number + 1,
                        "reservation_percent": float(step),
                        "granted": refusal is None,
                        "errno": errno.errorcode.get(refusal.code, "") if refusal else "",
                        "because": refusal.why if refusal else "",
                    }
                ]
            )
            if refusal:
                if number == 0:
                    raise PlacementError(
                        refusal.what, "This experiment needs the policy SCHED_DEADLINE.", lacking=True
                    )
                break


def _reserve(tid: int, step_percent: int) -> PolicyError | None:
    try:
        policies.apply(tid, policies.deadline(_PERIOD_NS * step_percent // 100, _PERIOD_NS))
    except PolicyError as refusal:
        return refusal
    return None
