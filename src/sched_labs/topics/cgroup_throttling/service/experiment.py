"""What does a CPU limit do to a service's requests?  And is it the limit, or the neighbours? (L12, L35, L47)

A small server with an open-loop schedule of requests, each a fixed amount of work, in a control group of its
own.  Every condition is given the same requests: the schedule comes from a seed that only the trial changes.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from sched_labs import machine, workloads
from sched_labs.core import stats
from sched_labs.core.errors import ParameterError, PlacementError
from sched_labs.core.result import Result
from sched_labs.limits import bandwidth, cgroups
from sched_labs.machine import files
from sched_labs.probes import runqlat
from sched_labs.probes.waits import OCCUPANTS
from sched_labs.run import checks, optional
from sched_labs.run.base import Instrument, Run, experiment
from sched_labs.steer import placement

LIMITS = ("none", "quota", "quota + burst", "weight")
NEIGHBOURS = ("idle", "busy")
WEIGHT = 1000  # ten times a neighbour's
MOST_THREADS, MOST_HOGS = 256, 64
HOGS = (3,)
BEYOND = 0.03  # a second mode has at least this part of the requests
BINS_PER_DOUBLING = 4
SMOOTHED_BINS = 1.5  # the standard deviation of what a latency is spread over
COLUMNS = ("limit", "demand_percent", "neighbour")
PRESSURE = "/proc/pressure/cpu"
LONGEST_WATCH_S = 3600.0
MONOTONIC_COARSE = 6  # linux/time.h: the module time has no name for it
TICKS = 5  # the one that is seen most sharply counts
EDGE_NS = 1_000_000  # how precisely the begin of a period is to be seen
Around = Callable[[workloads.Workload, cgroups.Group | None], contextlib.AbstractContextManager[None]]
_MISSING = stats.Interval(np.nan, np.nan, np.nan)


@dataclass(frozen=True)
class Condition:
    """One way to run the service: demand_percent is the mean CPU demand as a part of the quota."""

    limit: str
    demand_percent: int
    neighbour: str
    hogs: int = 0


def instrument(survey: machine.Machine) -> Instrument:
    """The server's own clock and cpu.stat, where a group may be made."""
    able, why = cgroups.possible()
    if able:
        return Instrument(
            f"the server's clock, cpu.stat ({survey.fact('cgroup.version').value}) and run delay"
        )
    return Instrument("the server's clock and run delay, without limits", why.replace("\n", " "))


def summarise(result: Result) -> pd.DataFrame:
    """One row per condition.

    limit, demand_percent, neighbour, hogs   hogs: threads of the neighbour that never sleep
    arrived, completed, waiting   requests; waiting are those that nobody had taken at the end
    p50_ns, p99_ns, p99_lo_ns, p99_hi_ns   latency from the due time, of the requests of all trials together;
                               p99's 95 % interval by how trials vary
    p999_ns                    the same; missing with fewer than 1,000 requests
    beyond_percent             requests that took longer than p99_ns of those without a limit on idle CPUs, at
                               the highest demand (`usual_ns`)
    second_mode_ns             where those are densest; missing with fewer than 3 % of the requests
    periods, throttled_periods, throttled_percent   from cpu.stat
    throttled_ns_per_s         summed over CPUs, in each second
    cpu_percent                of one CPU, over all the time
    run_delay_ns, run_delay_lo_ns, run_delay_hi_ns   run-queue wait per request, from schedstat: median over
                               trials, 95 % interval; missing where the kernel keeps none
    held_ns, rivals_ns         run-queue wait per request under a throttled group, and while others had the
                               CPU: by the BPF probe, in service.contention alone; else missing
    preempted_per_request      involuntary switches
    pressure_percent           of the time some thread waited for a CPU (PSI: the group's, else the machine's)
    trials

    A request that nobody had taken at the end counts with the time that it had waited until then.
    """
    blocks = result.tables["blocks"]
    data = result.data.assign(latency_ns=lambda d: d.latency_ns.fillna(d.waited_ns))
    keys = [*COLUMNS, "hogs"]
    usual = usual_ns(data)
    rows = []
    for key, some in blocks.groupby(keys, sort=False):
        own = data[(data[keys] == pd.Series(dict(zip(keys, key, strict=True)))).all(axis=1)]
        if own.empty:
            continue
        tail = stats.pooled_quantile(own.latency_ns, own.trial, 0.99)
        delays = some.run_delay_ns / some.arrived.clip(lower=1)
        delay = stats.median_interval(delays) if some.run_delay_ns.sum() > 0 else _MISSING
        beyond = own.latency_ns[own.latency_ns > usual]
        arrived, elapsed = int(some.arrived.sum()), some.elapsed_ns.sum()
        causes = _causes(some)
        rows.append(
            dict(zip(keys, key, strict=True))
            | {
                "arrived": arrived,
                "completed": int(some.completed.sum()),
                "waiting": int(some.waiting.sum()),
                "p50_ns": float(own.latency_ns.quantile(0.5)),
                **stats.in_columns("p99", "ns", tail),
                "p999_ns": float(own.latency_ns.quantile(0.999)) if len(own) >= 1000 else np.nan,
                "beyond_percent": 100 * len(beyond) / len(own),
                "second_mode_ns": _mode_ns(beyond) if len(beyond) >= BEYOND * len(own) else np.nan,
                "periods": int(some.periods.sum()),
                "throttled_periods": int(some.throttled_periods.sum()),
                "throttled_percent": 100 * some.throttled_periods.sum() / max(some.periods.sum(), 1),
                "throttled_ns_per_s": 1e9 * some.throttled_ns.sum() / elapsed,
                "cpu_percent": 100 * some.cpu_ns.sum() / elapsed,
                **stats.in_columns("run_delay", "ns", delay),
                "held_ns": causes["throttled"],
                "rivals_ns": causes["same_program"] + causes["other_task"],
                "preempted_per_request": some.involuntary.sum() / max(arrived, 1),
                "pressure_percent": 100e3 * some.pressure_us.sum() / some.pressure_window_ns.sum()
                if some.pressure_us.notna().all()
                else np.nan,
                "trials": len(some),
            }
        )
    return pd.DataFrame(rows)


def usual_ns(requests: pd.DataFrame) -> float:
    """What 99 % of the requests did not exceed without a limit on idle CPUs, at the highest demand; infinite
    where none were measured.

    Other demands are not measured without a limit: what the limit adds at the highest is what the run shows.
    """
    plain = requests[(requests.limit == "none") & (requests.neighbour == "idle")]
    plain = plain[plain.demand_percent == plain.demand_percent.max()]
    return float(plain.latency_ns.fillna(plain.waited_ns).quantile(0.99)) if len(plain) else math.inf


def _causes(blocks: pd.DataFrame) -> dict[str, float]:
    """What occupied the CPU while threads waited for it, in ns per request; missing where nobody watched."""
    if "waits_ns" not in blocks:
        return dict.fromkeys(OCCUPANTS, np.nan)
    watched = blocks[blocks.waits_ns.map(lambda waits: isinstance(waits, dict))]
    arrived = watched.arrived.sum()
    return {
        name: sum(waits[name] for waits in watched.waits_ns) / arrived if arrived else np.nan
        for name in OCCUPANTS
    }


def _mode_ns(latencies: pd.Series[float]) -> float:
    """The middle of the bin, a quarter of a doubling wide, in which latencies are densest.

    The density is a kernel estimate on the logarithmic axis (Silverman, 1986), because the fullest bin of a
    broad hill is a matter of luck with a few hundred requests.
    """
    places = np.log2(latencies.to_numpy(float)) * BINS_PER_DOUBLING
    bins = np.arange(np.floor(places.min()), np.floor(places.max()) + 1) + 0.5
    density = np.exp(-(((places[:, None] - bins) / SMOOTHED_BINS) ** 2) / 2).sum(axis=0)
    return float(2 ** (bins[np.argmax(density)] / BINS_PER_DOUBLING))


@experiment(
    "service.latency",
    summarise=summarise,
    instrument=instrument,
    workloads=("service", "burn"),
    needs=("cgroup",),
)
def latency(
    run: Run,
    *,
    quota_us: int = 20_000,
    period_us: int = 40_000,
    demands_percent: Sequence[int] = (30, 80),
    work_us: int = 1_000,
    threads: int = 4,
    batch: int = 4,
    limits: Sequence[str] = LIMITS,
    neighbours: Sequence[str] = NEIGHBOURS,
    arrivals: str = "poisson",
    trials: int | None = None,
    duration_s: float | None = None,
) -> None:
    """Serve the same requests under no limit, a quota, a quota with burst, and a weight, beside a neighbour.

    quota_us, period_us   the limit; the burst is as large as the quota.  The period is shorter than the usual
                      100 ms, so that a run has so many that one of them is worth about 2 % of them
    demands_percent   mean CPU demand as a part of the quota; other limits are run with the highest alone
    work_us           CPU time of one request, undisturbed: measured at the start, then a fixed loop count
    threads           of the server
    batch             requests that arrive together
    limits            of none, quota, quota + burst, weight (ten times the neighbour's)
    neighbours        of idle, busy: in a group of its own, as many hogs as there are CPUs
    arrivals          poisson or even (open loop), closed (threads are clients that wait for their answer)
    trials, duration_s   how often each condition is run, and for how long

    Data: one row per request: limit, demand_percent, neighbour, hogs, trial, arrival_ns (due time, from the
    block's start), latency_ns (missing for those that nobody had taken at the end), queued_ns (until a
    thread began), waited_ns (what those without latency had waited at the end, else 0).  The table
    blocks has one row per run of the server, with its counts and those of the kernel: arrived,
    completed, waiting, elapsed_ns, cpu_ns, voluntary, involuntary, run_delay_ns, periods, throttled_periods,
    throttled_ns, bursts, pressure_us in pressure_window_ns, pressure_of (group or machine), and boundary_ns
    and tick_ns, when a period began and when a tick came, from the block's start (missing where that was not
    looked for, or not seen).

    Where no group may be made, only the conditions without a limit are run.
    """
    cgroups.check_limit(quota_us, period_us, quota_us)
    check(work_us, threads, batch)
    for name, chosen, known in (("limits", limits, LIMITS), ("neighbours", neighbours, NEIGHBOURS)):
        checks.words(name, chosen, known)
    if isinstance(demands_percent, int) or not all(1 <= demand <= 200 for demand in demands_percent):
        raise ParameterError(f"demands_percent does not take {demands_percent!r}.", "Give 1 to 200 each.")
    if arrivals not in ("poisson", "even", "closed"):
        raise ParameterError(f"arrivals is poisson, even or closed, not {arrivals!r}.")
    trials = run.choose(tiny=2, quick=3, full=9) if trials is None else trials
    duration_s = run.choose(tiny=0.15, quick=0.65, full=3.0) if duration_s is None else duration_s
    check_time(trials, duration_s)
    run.begin()
    limited = may_limit(run)
    limits = [limit for limit in LIMITS if limit in limits and (limited or limit == "none")] or ["none"]
    if "quota + burst" in limits and not cgroups.can_burst():
        limits.remove("quota + burst")
        run.note("missing", "This kernel has no burst (it came with 5.14): that limit was left out.")
    most = max(demands_percent)
    conditions = [
        Condition(limit, demand, neighbour)
        for neighbour in neighbours
        for limit in limits
        for demand in sorted(demands_percent)
        if demand == most or (limit == "quota" and neighbour == "idle")
    ]
    cpus = machine.survey().cpus_allowed[-2:]
    server = Server(
        cpus, threads, batch, work_us, calibrate(work_us), quota_us, period_us, arrivals, duration_s, limited
    )
    run.parameters |= asdict(server) | _about_run(trials) | {"weight": WEIGHT}
    cells = [(trial, condition) for trial in range(trials) for condition in conditions]
    for trial, c in run.each(
        cells, label=lambda cell: f"{cell[1].limit}, demand {cell[1].demand_percent} %, {cell[1].neighbour}"
    ):
        hogs = len(cpus) if c.neighbour == "busy" else 0
        serve(run, server, Condition(c.limit, c.demand_percent, c.neighbour, hogs), trial)


@experiment(
    "service.contention",
    summarise=summarise,
    instrument=instrument,
    workloads=("service", "burn"),
    needs=("cgroup",),
)
def contention(
    run: Run,
    *,
    quota_us: int = 20_000,
    period_us: int = 40_000,
    demand_percent: int = 85,
    hogs: Sequence[int] = HOGS,
    work_us: int = 1_000,
    threads: int = 4,
    batch: int = 4,
    trials: int | None = None,
    duration_s: float | None = None,
) -> None:
    """Make a service on one CPU slow in two ways, by a quota and by hogs, and look with every instrument.

    hogs   how many threads that never sleep share CPU and group with the service, one run for each number

    The other parameters and the data are those of service.latency, but that the requests need 85 % of what
    the quota allows, on average: of all of it the queue would grow for as long as the run lasts, and its p99
    would be a matter of the duration.  limit is none or quota, neighbour is idle or hogs.  Where the BPF
    probe can be had, the blocks also hold waits_ns: for each occupant of `sched_labs.probes.waits` how long
    threads of the service waited while it had the CPU.
    """
    cgroups.check_limit(quota_us, period_us, 0)
    check(work_us, threads, batch)
    if isinstance(hogs, int) or not hogs or not all(1 <= count <= MOST_HOGS for count in hogs):
        raise ParameterError(f"hogs does not take {hogs!r}.", f"Give numbers from 1 to {MOST_HOGS}.")
    checks.whole("demand_percent", demand_percent, 1, 200)
    trials = run.choose(tiny=2, quick=6, full=9) if trials is None else trials
    duration_s = run.choose(tiny=0.15, quick=0.6, full=3.0) if duration_s is None else duration_s
    check_time(trials, duration_s)
    run.begin()
    limited = may_limit(run)
    server = Server(
        [placement.quiet_cpu()], threads, batch, work_us, calibrate(work_us), quota_us, period_us, "poisson",
        duration_s, limited,
    )  # fmt: skip
    run.parameters |= asdict(server) | _about_run(trials)
    conditions = [Condition("none", demand_percent, "idle")]
    if limited:
        conditions.append(Condition("quota", demand_percent, "idle"))
    conditions += [Condition("none", demand_percent, "hogs", count) for count in hogs]
    cells = [(trial, condition) for trial in range(trials) for condition in conditions]
    for trial, condition in run.each(cells, label=lambda cell: f"limit {cell[1].limit}, {cell[1].hogs} hogs"):
        waits: dict[str, Any] = {}
        serve(run, server, condition, trial, _causes_of(run, waits))
        run.tables["blocks"][-1]["waits_ns"] = waits or None


def _causes_of(run: Run, waits: dict[str, Any]) -> Around:
    """Watches what keeps the server's threads waiting, and puts it into `waits`: {occupant: ns}."""

    @contextlib.contextmanager
    def watching(service: workloads.Workload, group: cgroups.Group | None) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            probe = optional.probe(
                run,
                stack,
                runqlat.available(),
                lambda: runqlat.watch([service.pid], LONGEST_WATCH_S, 60, attribution=True),
                "What threads waited for was not watched from inside the kernel",
            )
            if not probe:
                yield
                return
            probe.start()
            yield
            if seen := probe.stop().attribution:
                waits.update(seen.total_ns())

    return watching


def closest(table: pd.DataFrame) -> pd.DataFrame:
    """Of a summary of service.contention: alone, the quota, and the hogs whose p99 is nearest to the quota's.

    The same columns as the summary; without the quota's row where no limit was set.
    """
    quota, hogs = table[table.limit == "quota"], table[table.neighbour == "hogs"]
    target = float(quota.p99_ns.iloc[0]) if len(quota) else float(hogs.p99_ns.max())
    nearest = (hogs.p99_ns / target).apply(np.log).abs().idxmin()
    alone = table[(table.limit == "none") & (table.neighbour == "idle")]
    return pd.concat([alone, quota, hogs.loc[[nearest]]])


# ---- the model beside it ----


def modelled(result: Result) -> pd.DataFrame:
    """The requests of a result under the same quota, computed by `limits.bandwidth` and not measured.

    One row per request: limit, demand_percent, neighbour, hogs, trial, latency_ns.
    Only for conditions with a quota, Poisson or even arrivals and an idle neighbour; empty without any.  A
    request costs the CPU time that it took on average in its block, system calls included.  The model's group
    has its CPUs for itself.  Its periods begin when those of the measured group did, or with the run where
    that was not seen, and its ticks are where the machine's were.  As in the measurement, a request that
    nobody had finished at the end counts with the time that it had waited until then.
    """
    return pd.concat(
        [
            pd.DataFrame(columns=["latency_ns", *COLUMNS, "hogs", "trial"]).astype({"latency_ns": float}),
            *(
                pd.DataFrame({"latency_ns": 1000 * np.append(run.latency_us, run.waited_us)}).assign(**about)
                for about, run in _simulated(result)
            ),
        ],
        ignore_index=True,
    )


def model_error(result: Result) -> pd.DataFrame:
    """How far the model is from the measurement, one row per condition that it computes.

    limit, demand_percent
    throttled_percent, model_throttled_percent, off_by_points   throttled periods, both of those that the
                               kernel counted, and the difference.  It counts one before the first request
                               and one after the last where the counters are read so long before and after
    p99_ns, model_p99_ns       of the requests of all trials together
    second_mode_ns, model_second_mode_ns, off_by_bars   where latencies beyond what is usual without a limit
                               are densest, and the difference in bins of a quarter of a doubling; missing
                               without a mode
    """
    summary, computed, usual = result.summary(), modelled(result), usual_ns(result.data)
    counts: Counter[tuple[str, int]] = Counter()
    for about, run in _simulated(result):
        counts[about["limit"], about["demand_percent"]] += run.nr_throttled
    rows = []
    for (limit, demand), throttled in counts.items():
        same = (summary.limit == limit) & (summary.demand_percent == demand) & (summary.neighbour == "idle")
        measured = summary[same].iloc[0]
        own = computed[(computed.limit == limit) & (computed.demand_percent == demand)]
        latency = own.latency_ns
        beyond = latency[latency > usual]
        mode = _mode_ns(beyond) if len(beyond) >= BEYOND * max(len(latency), 1) else np.nan
        percent = 100 * throttled / max(measured.periods, 1)
        rows.append(
            {
                "limit": limit,
                "demand_percent": demand,
                "throttled_percent": measured.throttled_percent,
                "model_throttled_percent": percent,
                "off_by_points": percent - measured.throttled_percent,
                "p99_ns": measured.p99_ns,
                "model_p99_ns": float(own.latency_ns.quantile(0.99)),
                "second_mode_ns": measured.second_mode_ns,
                "model_second_mode_ns": mode,
                "off_by_bars": np.rint(BINS_PER_DOUBLING * np.log2(mode / measured.second_mode_ns)),
            }
        )
    names = [
        "limit", "demand_percent", "throttled_percent", "model_throttled_percent", "off_by_points",
        "p99_ns",
    ]  # fmt: skip
    names += ["model_p99_ns", "second_mode_ns", "model_second_mode_ns", "off_by_bars"]
    return pd.DataFrame(rows, columns=names)


def _simulated(result: Result) -> Iterator[tuple[dict[str, Any], bandwidth.Simulation]]:
    """For each block with a quota and no neighbour: its condition, and its requests put through the model."""
    data, p = result.data, result.parameters
    if "quota_us" not in p or p["arrivals"] == "closed":
        return  # closed: when a request is due depends on when the one before was served
    keys = [*COLUMNS, "hogs", "trial"]
    blocks = {tuple(block[name] for name in keys): block for block in result.records("blocks")}
    for key, own in data.groupby(keys, sort=False):
        about: dict[str, Any] = dict(zip(keys, key, strict=True))
        block = blocks[key]
        work_us = block["cpu_ns"] / block["completed"] / 1000 if block["completed"] else p["work_us"]
        if not about["limit"].startswith("quota") or about["neighbour"] != "idle":
            continue
        boundary_ns = block.get("boundary_ns")
        into_us = 0.0 if boundary_ns is None else -boundary_ns / 1000 % p["period_us"]
        yield (
            about,
            bandwidth.replay(
                p["quota_us"],
                p["period_us"],
                np.sort(own.arrival_ns.to_numpy(float)) / 1000 + into_us,
                threads=p["threads"],
                cpus=len(p["cpus"]),
                burst_us=p["quota_us"] if about["limit"] == "quota + burst" else 0,
                slice_us=p["slice_us"] or 5000,
                tick_us=p.get("tick_us") or 0,
                tick_at_us=(block.get("tick_ns") or 0) / 1000 + into_us,
                duration_s=max(p["duration_s"], block["elapsed_ns"] / 1e9) + into_us / 1e6,
                work_us=work_us,
            ),
        )


# ---- one run of the server ----


@dataclass(frozen=True)
class Server:
    """What all runs of one experiment share; loops is the work of one request."""

    cpus: list[int]
    threads: int
    batch: int
    work_us: int
    loops: int
    quota_us: int
    period_us: int
    arrivals: str
    duration_s: float
    limited: bool


def calibrate(work_us: int) -> int:
    """How many turns of the server's loop take so long on the quiet CPU when nobody disturbs it."""
    with workloads.start("service", ["--calibrate-us", str(work_us)]) as service:
        placement.pin(service.tids, [placement.quiet_cpu()])
        return service.run()[0]["loops"]


def check(work_us: int, threads: int, batch: int) -> None:
    """Raises ParameterError for a server that cannot be."""
    checks.whole("work_us", work_us, 1, 1_000_000)
    checks.whole("threads", threads, 1, MOST_THREADS)
    checks.whole("batch", batch, 1, 10_000)


def check_time(trials: int, duration_s: float) -> None:
    """Raises ParameterError for no trials, and for runs too short or too long."""
    if trials < 1 or not 0.05 <= duration_s <= 600:
        raise ParameterError(
            "trials start at 1, and duration_s lies between 0.05 and 600 s.",
            "Leave them out to use the profile's.",
        )


def _about_run(trials: int) -> dict[str, Any]:
    tick_ns = machine.survey().tick_ns
    return {"trials": trials, "slice_us": cgroups.slice_us(), "tick_us": tick_ns / 1000 if tick_ns else None}


def may_limit(run: Run) -> bool:
    """Whether a group can be made here, with a note where it cannot."""
    try:
        with cgroups.group("look") as group:
            group.counted()
        return True
    except PlacementError as error:
        run.note(
            "missing",
            f"No CPU limit was set, because no control group can be made here: {error.what} {error.remedy}",
        )
        return False


def serve(
    run: Run, server: Server, condition: Condition, trial: int, around: Around | None = None
) -> list[workloads.Record]:
    """Run the server once: its requests become rows, its counts a block.  `around` watches it meanwhile."""
    rate = server.quota_us / server.period_us * condition.demand_percent / 100 * 1e6 / server.work_us
    words: dict[str, Any] = {
        "threads": server.threads, "duration-ms": round(1000 * server.duration_s), "loops": server.loops,
        "rate-per-s": max(1, round(rate)), "batch": server.batch, "arrivals": server.arrivals,
        "seed": trial + 1,
        # Closed loop: each client thinks so long that all of them together ask for the same, undisturbed.
        "think-us": max(0, round(1e6 * server.threads / rate) - server.work_us),
    }  # fmt: skip
    deadline_s = 30 + 20 * server.duration_s
    with contextlib.ExitStack() as stack:
        group = stack.enter_context(_group(server, condition)) if server.limited else None
        service = stack.enter_context(
            workloads.start(
                "service",
                [word for name, value in words.items() for word in (f"--{name}", str(value))],
                deadline_s=deadline_s,
            )
        )
        placement.pin(service.tids, server.cpus)
        if group:
            group.add(service.pid)
        if condition.hogs:
            _neighbour(stack, server, condition, group)
        boundary = tick = None
        if group and condition.limit.startswith("quota") and condition.neighbour == "idle":
            boundary, tick = _boundary_ns(group, server), _tick_ns()
        if around:
            stack.enter_context(around(service, group))
        counted = group.counted() if group else None
        (pressure, whose), began = _pressure_us(group), time.monotonic_ns()
        records = service.run()
        (after, _), ended = _pressure_us(group), time.monotonic_ns()
        if group and counted:
            counted = group.counted().since(counted)
    _keep(run, records, condition, trial)
    total = next(record for record in records if record.kind == "service")
    run.tables["blocks"][-1] |= {
        "boundary_ns": None if boundary is None else boundary - total["began_ns"],
        "tick_ns": None if tick is None else tick - total["began_ns"],
        "periods": counted.periods if counted else 0,
        "throttled_periods": counted.throttled_periods if counted else 0,
        "throttled_ns": counted.throttled_ns if counted else 0,
        "bursts": counted.bursts if counted else None,
        "pressure_us": None if after is None or pressure is None else after - pressure,
        "pressure_window_ns": ended - began,
        "pressure_of": whose,
    }
    return records


def _boundary_ns(group: cgroups.Group, server: Server) -> int | None:
    """When one of the group's periods began, by the monotonic clock; None where it could not be seen.

    The kernel adds to nr_periods then, for a group that has run a moment before.  Its timer keeps to the same
    steps for as long as the group is there (start_cfs_bandwidth in kernel/sched/fair.c).
    """
    with workloads.start("burn", ["--workers", "1", "--duration-ms", "1"]) as kick:
        placement.pin(kick.tids, server.cpus)
        group.add(kick.pid)
        kick.run()
    last, count = time.monotonic_ns(), group.counted().periods
    end = last + 2_000 * server.period_us
    while last < end:
        time.sleep(0.0001)
        periods, now = group.counted().periods, time.monotonic_ns()
        if periods > count and now - last <= EDGE_NS:
            return (last + now) // 2
        last, count = now, periods
    return None


def _tick_ns() -> int | None:
    """When there was a tick of the timer, by the monotonic clock; None where none was seen.

    The coarse clock stands still from one tick to the next (clock_getres(2)), and all CPUs have theirs at the
    same moments, but where the kernel was booted with skew_tick=1.
    """
    seen: list[tuple[int, int]] = []
    until = time.monotonic_ns() + 100_000_000
    last, before = time.clock_gettime_ns(MONOTONIC_COARSE), time.monotonic_ns()
    while len(seen) < TICKS and before < until:
        coarse, now = time.clock_gettime_ns(MONOTONIC_COARSE), time.monotonic_ns()
        if coarse != last:
            seen.append((now - before, now))
        last, before = coarse, now
    return min(seen)[1] if seen else None


def _group(server: Server, condition: Condition) -> contextlib.AbstractContextManager[cgroups.Group]:
    quota = server.quota_us if condition.limit.startswith("quota") else None
    return cgroups.group(
        "service",
        quota_us=quota,
        period_us=server.period_us if quota else cgroups.PERIOD_US,
        burst_us=server.quota_us if condition.limit == "quota + burst" else 0,
        weight=WEIGHT if condition.limit == "weight" else None,
    )


def _neighbour(
    stack: contextlib.ExitStack, server: Server, condition: Condition, group: cgroups.Group | None
) -> None:
    """Threads that never sleep on the service's CPUs: in a group of their own, or, as hogs, in its group."""
    apart = group and condition.neighbour == "busy"
    own = stack.enter_context(cgroups.group("neighbour")) if apart else group
    milliseconds = round(1000 * server.duration_s * 4 + 10_000)  # they are ended when the service has ended
    words = ["--workers", str(condition.hogs), "--duration-ms", str(milliseconds), "--most-gaps", "1"]
    hogs = stack.enter_context(workloads.start("burn", words, deadline_s=milliseconds / 1000 + 10))
    placement.pin(hogs.tids, server.cpus)
    if own:
        own.add(hogs.pid)
    hogs.go()


def _pressure_us(group: cgroups.Group | None) -> tuple[int | None, str]:
    own = group.pressure_us() if group else None
    if own:
        return own.get("some"), "group"
    text = files.read(PRESSURE)
    return (cgroups.parse_pressure(text).get("some") if text else None), "machine"


def _keep(run: Run, records: Sequence[workloads.Record], condition: Condition, trial: int) -> None:
    """The requests as rows, the counts as a block.  Flags a run in which a request went missing."""
    about = asdict(condition) | {"trial": trial}
    total = next(record for record in records if record.kind == "service")
    elapsed = total["elapsed_ns"]
    rows = pd.DataFrame(list(_requests(records)), columns=["arrival_ns", "start_ns", "end_ns"])
    done = rows.end_ns >= 0
    rows["latency_ns"] = (rows.end_ns - rows.arrival_ns).where(done)
    rows["queued_ns"] = (rows.start_ns - rows.arrival_ns).where(done)
    rows["waited_ns"] = (elapsed - rows.arrival_ns).where(~done, 0)
    run.add(rows.drop(columns=["start_ns", "end_ns"]).assign(**about))
    if total["arrived"] != total["completed"] + total["waiting"] or len(rows) != total["arrived"]:
        run.note(
            "flag",
            f"Requests went missing: {total['arrived']} arrived, {total['completed']} were completed, "
            f"{total['waiting']} waited at the end, {len(rows)} were recorded.",
        )
    workers = [record for record in records if record.kind == "worker"]
    run.tables["blocks"].append(
        about
        | {name: total[name] for name in ("arrived", "completed", "waiting", "elapsed_ns")}
        | {name: sum(record[name] for record in workers) for name in ("cpu_ns", "voluntary", "involuntary")}
        | {"run_delay_ns": sum(record["wait_ns"] for record in workers)}
    )


def _requests(records: Sequence[workloads.Record]) -> Iterator[tuple[int, int, int]]:
    for record in records:
        if record.kind == "request":
            yield record["arrival_ns"], record["start_ns"], record["end_ns"]
