"""A batch job beside a service, limited, made to give way, or kept to other CPUs: what does it cost whom?"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace

import pandas as pd

from sched_labs import machine, workloads
from sched_labs.core import stats
from sched_labs.core.errors import PlacementError
from sched_labs.core.result import Result
from sched_labs.limits import cgroups
from sched_labs.run import checks, starts
from sched_labs.run.base import Instrument, Run, experiment
from sched_labs.steer import placement, policies
from sched_labs.topics.cgroup_throttling.service.experiment import (
    Condition,
    Server,
    calibrate,
    check,
    check_time,
    serve,
)

PERIOD_US = 100_000  # of every quota here: the kernel's own
LEAST_WEIGHT = 1  # of cpu.weight; 10 of cpu.shares


@dataclass(frozen=True)
class Way:
    """What is done to the batch job, which else has a group of its own with the service's weight and CPUs.

    quota, weight, idle   of its group; policy: of its threads; inside: they are in the service's own group
    apart                 the service has the first CPU, the batch job the others
    service_quota         the service, too, may use one CPU and no more
    """

    quota: bool = False
    weight: int | None = None
    idle: bool = False
    policy: policies.Policy = policies.OTHER
    inside: bool = False
    apart: bool = False
    service_quota: bool = False


WAYS: dict[str, Way | None] = {
    "alone": None,
    "beside": Way(),
    "quota": Way(quota=True),
    "weight": Way(weight=LEAST_WEIGHT),
    "SCHED_BATCH": Way(policy=policies.BATCH),
    "SCHED_IDLE": Way(policy=policies.IDLE),
    "SCHED_IDLE inside": Way(policy=policies.IDLE, inside=True),
    "cpu.idle": Way(idle=True),
    "apart": Way(apart=True),
    "apart, quota": Way(apart=True, service_quota=True),
}


def summarise(result: Result) -> pd.DataFrame:
    """One row per way; 95 % intervals over trials.

    way    alone (no batch job), beside (nothing is done), quota (half of the CPUs for the batch job), weight
           (the least that there is), SCHED_BATCH, SCHED_IDLE, SCHED_IDLE inside (in the service's own group),
           cpu.idle (of the batch job's group), apart (a CPU for the service, the others for the batch job),
           apart, quota (the same, and the service may use one CPU in each period)
    p50_ns, p99_ns, p99_lo_ns, p99_hi_ns   the service's latency from when requests were due, of all trials
    batch_percent, batch_lo_percent, batch_hi_percent   CPU time that the batch job had, of one CPU
    service_throttled_percent, batch_throttled_percent  throttled periods of their groups; missing without a
           limit
    requests, trials

    A request that nobody had taken at the end counts with the time that it had waited until then.
    """
    blocks, batches = result.tables["blocks"], result.tables["batches"]
    data = result.data.assign(latency_ns=lambda d: d.latency_ns.fillna(d.waited_ns))
    rows = []
    for way, cell in data.groupby("neighbour", sort=False):
        served, batch = blocks[blocks.neighbour == way], batches[batches.neighbour == way]
        rows.append(
            {
                "way": way,
                "p50_ns": float(cell.latency_ns.quantile(0.5)),
                **stats.in_columns("p99", "ns", stats.pooled_quantile(cell.latency_ns, cell.trial, 0.99)),
                **stats.spread("batch", "percent", 100 * batch.cpu_ns / batch.elapsed_ns),
                "service_throttled_percent": _throttled(served),
                "batch_throttled_percent": _throttled(batch),
                "requests": len(cell),
                "trials": len(served),
            }
        )
    return pd.DataFrame(rows)


def _throttled(blocks: pd.DataFrame) -> float:
    """Throttled periods in percent; without a limit no periods are counted."""
    periods = blocks.periods.sum()
    return 100 * blocks.throttled_periods.sum() / periods if periods else float("nan")


def instrument(survey: machine.Machine) -> Instrument:
    """The service's clock, the batch job's CPU clock and cpu.stat."""
    able, why = cgroups.possible()
    if able:
        return Instrument(f"the service's clock, the batch job's CPU clock and cpu.stat "
                          f"({survey.fact('cgroup.version').value})")  # fmt: skip
    return Instrument("none: no group can be made", why.replace("\n", " "))


@experiment(
    "colocation.batch",
    summarise=summarise,
    instrument=instrument,
    workloads=("service", "burn"),
    needs=("cgroup",),
)
def batch(
    run: Run,
    *,
    ways: Sequence[str] = tuple(WAYS),
    demand_percent: int = 40,
    work_us: int = 1_000,
    threads: int = 4,
    crowd: int = 4,
    trials: int | None = None,
    duration_s: float | None = None,
) -> None:
    """Serve the same requests beside a batch job that never sleeps, with one thing or another done to it.

    ways            of alone, beside, quota, weight, SCHED_BATCH, SCHED_IDLE, SCHED_IDLE inside, cpu.idle,
                    apart, and "apart, quota"
    demand_percent  what the requests need on average, of one CPU
    work_us         CPU time of one request, undisturbed
    threads         of the service
    crowd           requests that arrive together
    trials, duration_s   how often each way is run, and for how long

    The batch job has a thread for each CPU that it may use.  Service and batch job are in two groups of equal
    weight, but for what is done.

    Data: one row per request, with the columns of service.latency; `neighbour` is the way.  The table blocks
    has one row per run of the service, as there; batches has one per run of the batch job: neighbour, trial,
    cpu_ns and elapsed_ns (while the service ran), periods, throttled_periods.  A way that this kernel or user
    cannot have is left out with a note.  Raises PlacementError where no group can be made.
    """
    checks.words("ways", ways, WAYS)
    checks.whole("demand_percent", demand_percent, 1, 100)
    check(work_us, threads, crowd)
    trials = run.choose(tiny=1, quick=3, full=9) if trials is None else trials
    duration_s = run.choose(tiny=0.2, quick=0.65, full=1.2) if duration_s is None else duration_s
    check_time(trials, duration_s)
    run.begin()
    with cgroups.group("look") as group:
        group.counted()
    cpus = machine.survey().cpus_allowed[-2:]
    server = Server(
        cpus, threads, crowd, work_us, calibrate(work_us), PERIOD_US, PERIOD_US, "poisson", duration_s, True
    )
    run.parameters |= asdict(server) | {"trials": trials}
    chosen = [name for name in WAYS if name in ways]
    if len(cpus) < 2 and any(name.startswith("apart") for name in chosen):
        chosen = [name for name in chosen if not name.startswith("apart")]
        run.note("missing", "This process may use one CPU only: none can be kept for the service.")
    dropped = set[str]()
    for trial, name in starts.each(run, chosen, trials, label=str):
        if name in dropped:
            continue
        try:
            _together(run, server, name, demand_percent, trial)
        except PlacementError as error:
            dropped.add(name)
            run.note("missing", f"{name} was left out: {error.what}")


def _together(run: Run, server: Server, name: str, demand_percent: int, trial: int) -> None:
    """The service's run becomes rows and a block, the batch job's a row of its table."""
    way = WAYS[name]
    batch_cpus = server.cpus
    if way and way.apart:
        server, batch_cpus = replace(server, cpus=server.cpus[:1]), server.cpus[1:]

    @contextlib.contextmanager
    def beside(_: workloads.Workload, service_group: cgroups.Group | None) -> Iterator[None]:
        seen = {"neighbour": name, "trial": trial, "cpu_ns": 0, "periods": 0, "throttled_periods": 0}
        with contextlib.ExitStack() as stack:
            started = _started(way, batch_cpus, server.duration_s, service_group) if way else None
            job, group = stack.enter_context(started) if started else (None, None)
            began = time.monotonic_ns()
            used, counted = (_cpu_ns(job.pid), group.counted()) if job and group else (0, None)
            yield
            if job and group and counted:
                counted = group.counted().since(counted)
                seen["cpu_ns"] = _cpu_ns(job.pid) - used
                seen["periods"], seen["throttled_periods"] = counted.periods, counted.throttled_periods
            run.tables["batches"].append(seen | {"elapsed_ns": time.monotonic_ns() - began})

    limit = "quota" if way and way.service_quota else "none"
    serve(run, server, Condition(limit, demand_percent, name), trial, beside)


@contextlib.contextmanager
def _started(
    way: Way, cpus: list[int], duration_s: float, service_group: cgroups.Group | None
) -> Iterator[tuple[workloads.Workload, cgroups.Group]]:
    """The batch job, running, and its group; both end with the service."""
    words = ["--workers", len(cpus), "--duration-ms", round(4000 * duration_s) + 10_000, "--most-gaps", 1]
    quota_us = PERIOD_US * len(cpus) // 2 if way.quota else None
    with (
        cgroups.group("batch", quota_us=quota_us, weight=way.weight) as group,
        workloads.start("burn", [str(word) for word in words], deadline_s=30 + 5 * duration_s) as job,
    ):
        if way.idle:
            group.give_way()
        placement.pin(job.tids, cpus)
        (service_group if way.inside and service_group else group).add(job.pid)
        for tid in job.tids:
            policies.apply(tid, way.policy)
        job.go()
        yield job, group


def _cpu_ns(pid: int) -> int:
    """CPU time of another process with all its threads: the clock that clock_getcpuclockid(3) names."""
    return time.clock_gettime_ns(~pid << 3 | 2)
