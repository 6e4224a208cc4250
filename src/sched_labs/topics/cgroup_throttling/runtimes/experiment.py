"""A runtime starts as many threads as it counts CPUs: whose, and what does that cost under a quota?"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from sched_labs import machine, workloads
from sched_labs.core import stats
from sched_labs.core.errors import PlacementError, WorkloadError
from sched_labs.core.result import Result
from sched_labs.limits import cgroups
from sched_labs.run import checks, languages, starts
from sched_labs.run.base import Instrument, Run, experiment

RUNTIMES = ("Go", "Java", "Python")
SETTINGS = ("host", "quota")
_HERE = Path(__file__).parent
# A runtime looks at its group when it starts, so it has to be in it by then.
_ENTER = ("sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"')
_COMPILERS = {"Go": ("go",), "Java": ("java", "javac"), "Python": ()}
UNIT_US = 100  # of the three programs
# How each is asked for its own count of CPUs: unaware means told to ignore the group.
ASKED: dict[str, dict[str, Sequence[str]]] = {
    "Go": {
        "itself": ("env", "GODEBUG=containermaxprocs=1"),
        "unaware": ("env", "GODEBUG=containermaxprocs=0"),
    },
    "Java": {"itself": (), "unaware": ("-XX:-UseContainerSupport",)},
    "Python": {"itself": ()},
}


def summarise(result: Result) -> pd.DataFrame:
    """One row per runtime and setting; 95 % intervals over trials.

    runtime      Go, Java, Python
    setting      host (a background thread for each CPU of the machine that the program may use), quota (one
                 for each CPU that the quota is worth, rounded up)
    threads      how many those are
    own_threads  how many the runtime takes by its own rule in the group
    p50_ns, p99_ns, p99_lo_ns, p99_hi_ns   latency of requests from when they were due, all trials together
    background_percent, background_lo_percent, background_hi_percent   work that was done in the background,
                 of what one CPU does undisturbed
    throttled_percent, throttled_lo_percent, throttled_hi_percent   throttled periods, of those that cpu.stat
                 counted in each start
    throttled_ns_per_s   throttled time, summed over CPUs, in each second: median over trials, as above
    requests, trials
    """
    blocks, counts = result.tables["blocks"], result.tables["counts"]
    own = dict(counts.loc[counts.asked == "itself", ["runtime", "cpus"]].to_numpy())
    rows = []
    for (runtime, setting), cell in result.data.groupby(["runtime", "setting"], sort=False):
        some = blocks[(blocks.runtime == runtime) & (blocks.setting == setting)]
        rows.append(
            {
                "runtime": runtime,
                "setting": setting,
                "threads": int(some.threads.iloc[0]),
                "own_threads": int(own[runtime]),
                "p50_ns": float(cell.latency_ns.quantile(0.5)),
                **stats.in_columns("p99", "ns", stats.pooled_quantile(cell.latency_ns, cell.trial, 0.99)),
                **stats.spread("background", "percent", 100 * some.background_ns / some.elapsed_ns),
                **stats.spread("throttled", "percent", 100 * some.throttled_periods / some.periods.clip(1)),
                "throttled_ns_per_s": float((1e9 * some.throttled_ns / some.elapsed_ns).median()),
                "requests": len(cell),
                "trials": len(some),
            }
        )
    return pd.DataFrame(rows)


def instrument(survey: machine.Machine) -> Instrument:
    """The programs' clocks and cpu.stat; what is installed of Go and Java."""
    able, why = cgroups.possible()
    if not able:
        return Instrument("none: no group can be made", why.replace("\n", " "))
    absent = [name for name in RUNTIMES if languages.missing(*_COMPILERS[name])]
    name = f"the programs' clocks and cpu.stat ({survey.fact('cgroup.version').value})"
    return Instrument(name, f"{' and '.join(absent)} would be measured too" if absent else "")


@experiment("runtimes.quota", summarise=summarise, instrument=instrument, needs=("cgroup", "second CPU"))
def quota(
    run: Run,
    *,
    runtimes: Sequence[str] = RUNTIMES,
    quota_us: int = 100_000,
    period_us: int = 100_000,
    gap_us: int = 5_000,
    request_us: int = 250,
    trials: int | None = None,
    duration_ms: int | None = None,
) -> None:
    """Run a program under a quota, with as many threads as the machine has CPUs and as the quota is worth.

    runtimes     of Go, Java, Python; one that is not installed is left out with a note
    quota_us, period_us   the limit: one CPU by default
    gap_us       from one request to the next, whether or not the earlier is done
    request_us   CPU time of one request, undisturbed: a fixed count of turns of a loop
    trials, duration_ms   how often each program is started with each number of threads, and for how long

    One thread answers requests; the others work in the background as much as they can.  Python has processes
    in the place of threads.  The programs may use all CPUs that this process may.  Each starts when a period
    begins, so that duration_ms of whole periods has as many quotas.

    Data: one row per request: runtime, setting, trial, due_ns, latency_ns (from when it was due).  The table
    blocks has one row per start: runtime, setting, trial, threads, elapsed_ns, background_ns (work done, in
    time that it takes undisturbed), periods, throttled_periods, throttled_ns.  The table counts says how many
    CPUs a runtime finds in the group: runtime, asked (itself; unaware: where it is told to ignore the group),
    cpus, version.

    Raises PlacementError where no group can be made, or the quota is worth as many CPUs as there are.
    """
    checks.words("runtimes", runtimes, RUNTIMES)
    cgroups.check_limit(quota_us, period_us, 0)
    checks.whole("gap_us", gap_us, 100, 1_000_000)
    checks.whole("request_us", request_us, 1, gap_us)
    trials = run.choose(tiny=1, quick=3, full=9) if trials is None else trials
    duration_ms = run.choose(tiny=200, quick=700, full=1000) if duration_ms is None else duration_ms
    checks.whole("trials", trials, 1, 1000)
    checks.whole("duration_ms", duration_ms, 50, 60_000)
    threads = {"host": len(machine.survey().cpus_allowed), "quota": math.ceil(quota_us / period_us)}
    if threads["quota"] >= threads["host"]:
        raise PlacementError(
            f"A quota of {quota_us / period_us:g} CPUs is no limit here: this process may use "
            f"{threads['host']}.",
            "Choose a smaller quota_us, or a machine with more CPUs.",
            lacking=True,
        )
    run.begin()
    run.parameters |= {"trials": trials, "duration_ms": duration_ms}
    with cgroups.group("look") as group:
        group.counted()

    def start(runtime: str, words: Sequence[str], turns: int, cpus: int) -> list[workloads.Record]:
        with cgroups.group("runtime", quota_us=quota_us, period_us=period_us) as group:
            numbers = [turns, duration_ms, gap_us, request_us, *([cpus] if runtime == "Python" else [])]
            command = [*_ENTER, group.path, *words, f"{group.path}/cpu.stat", *map(str, numbers)]
            return languages.run(command, deadline_s=60 + duration_ms / 100)

    turns = _count(run, [name for name in RUNTIMES if name in runtimes], start)
    cells = [(runtime, setting) for runtime in turns for setting in SETTINGS]
    for trial, (runtime, setting) in starts.each(run, cells, trials, label=", ".join):
        cpus = threads[setting]
        records = start(runtime, _command(runtime, _told(runtime, cpus)), turns[runtime], cpus)
        _keep(run, records, {"runtime": runtime, "setting": setting, "trial": trial})


def _told(runtime: str, cpus: int) -> Sequence[str]:
    """How one tells a runtime how many CPUs to count; Python's program takes the number itself."""
    if runtime == "Go":
        return ("env", f"GOMAXPROCS={cpus}")
    return (f"-XX:ActiveProcessorCount={cpus}",) if runtime == "Java" else ()


def _command(runtime: str, words: Sequence[str]) -> list[str]:
    if runtime == "Go":
        return [*words, *languages.go(_HERE / "runtimes.go")]
    if runtime == "Java":
        virtual_machine, *rest = languages.java(_HERE / "Runtimes.java")
        return [virtual_machine, *words, *rest]
    return [sys.executable, str(_HERE / "python_runtimes.py")]


def _count(
    run: Run, runtimes: Sequence[str], start: Callable[[str, Sequence[str], int, int], list[workloads.Record]]
) -> dict[str, int]:
    """What each runtime counts in the group; {runtime: turns of its loop, as its program counts them}."""
    turns = {}
    for runtime in runtimes:
        absent = languages.missing(*_COMPILERS[runtime])
        try:
            if absent:
                raise WorkloadError(f"{absent} is not installed.")
            for asked, words in ASKED[runtime].items():
                seen, work = start(runtime, _command(runtime, words), 0, 0)
                about: dict[str, Any] = {"runtime": runtime, "asked": asked, "cpus": seen["cpus"]}
                run.tables["counts"].append(about | {"version": seen.text("version")})
                turns[runtime] = work["turns"]
        except WorkloadError as error:
            run.note("missing", f"{runtime} was not measured: {error.what}")
    return turns


def _keep(run: Run, records: Sequence[workloads.Record], about: dict[str, Any]) -> None:
    seen, *requests = (record for record in records if record.kind in ("seen", "request"))
    before, after = (
        cgroups.parse_counted("\n".join(f"{name} {number}" for name, number in record.values.items()))
        for record in records
        if record.kind == "stat"
    )
    counted, background = after.since(before), records[-1]
    run.add([about | {"due_ns": one["due_ns"], "latency_ns": one["latency_ns"]} for one in requests])
    run.tables["blocks"].append(
        about
        | {
            "threads": seen["cpus"],
            "elapsed_ns": background["elapsed_ns"],
            "background_ns": 1000 * UNIT_US * background["units"],
            "periods": counted.periods,
            "throttled_periods": counted.throttled_periods,
            "throttled_ns": counted.throttled_ns,
        }
    )
