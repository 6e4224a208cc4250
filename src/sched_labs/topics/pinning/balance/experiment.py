"""Threads that were crowded onto one CPU are let go: how long until the kernel has spread them?

Each of them notes by itself on which CPU it computes, and from when until when, so that nothing has to watch.
Which part of the balancer moved them, the kernel counts where it was built to (/proc/schedstat).
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from sched_labs import machine, workloads
from sched_labs.core import stats
from sched_labs.core.errors import PlacementError
from sched_labs.core.result import Result
from sched_labs.limits import cgroups
from sched_labs.machine import files
from sched_labs.run import checks, starts
from sched_labs.run.base import Instrument, Run, experiment
from sched_labs.steer import placement
from sched_labs.topics.scheduler_latency.wakeplace.experiment import idle_ticks

MOST_HOGS, MOST_CPUS = 64, 8  # of balance.c; a machine with more CPUs lends as many
MOMENT_MS = 50  # in which each of eight hogs has had its turn, so that it runs when it is let go
WINDOW_NS = 100_000_000  # in which shares are compared, too
SHORT, LONG, ODD = "short", "long", "odd"


@dataclass(frozen=True)
class Situation:
    """What differs from the plain case: hogs that were held for a moment only, and all of which may leave.

    long       they were held for long
    goes_idle  who lets them go stands on another CPU and goes to sleep there, as its last
    naps       each sleeps for a millisecond as soon as it has been let go
    half       half of them may not leave
    isolated   in an isolated partition: no CPU of it is balanced
    odd        one hog more than CPUs, watched for long
    """

    long: bool = False
    goes_idle: bool = False
    naps: bool = False
    half: bool = False
    isolated: bool = False
    odd: bool = False


SITUATIONS = {
    SHORT: Situation(),
    LONG: Situation(long=True),
    "goes idle": Situation(goes_idle=True),
    "naps": Situation(naps=True),
    "half": Situation(half=True),
    "isolated": Situation(isolated=True),
    ODD: Situation(odd=True),
}
NAMES = {  # of the rows of the figure
    SHORT: "held for a moment",
    LONG: "held for long",
    "goes idle": "a CPU goes idle",
    "naps": "each naps for 1 ms",
    "half": "half may not leave",
    "isolated": "isolated partition",
    ODD: "one more than CPUs",
}


def summarise(result: Result) -> pd.DataFrame:
    """One row per situation; medians over trials with 95 % intervals.

    situation    short (held for a moment), long (held for long), goes idle (another CPU goes idle just after
                 they were let go), naps (each sleeps a millisecond), half (half of them may not leave),
                 isolated (an isolated partition), odd (one hog more than CPUs, watched for long)
    hogs, cpus   how many there were
    first_ns, first_lo_ns, first_hi_ns   from when the last hog was let go until the first computed on another
                 CPU; where none did, the time for which they were watched stands for it, and for the median,
                 too, where none did in half of the trials or more
    spread_ns, spread_lo_ns, spread_hi_ns   the same until no hog could have gone to a CPU with two fewer
    stayed_percent, crowded_percent   trials in which none left, and in which they were not spread in time
    others_percent  for how much of the time the CPUs on which the hogs were not held were neither idle nor
                 theirs (/proc/stat)
    moves_per_s  how often a hog changed its CPU, in a second after it was let go
    lead_percent, lead_lo_percent, lead_hi_percent   how far the hog with most CPU time was ahead: 0 where all
                 had as much, 100 where one had a CPU for itself and the others shared the rest; missing where
                 there are as many CPUs as hogs
    short_lead_percent, short_lead_lo_percent, short_lead_hi_percent   the same within 100 ms, median over
                 such windows; situation "odd" only
    trials
    """
    trials, hogs = result.tables["trials"], result.tables["hogs"]
    watched = trials.assign(
        first_ns=trials.first_ns.fillna(trials.watch_ns), spread_ns=trials.spread_ns.fillna(trials.watch_ns),
        stayed=100.0 * trials.first_ns.isna(), crowded=100.0 * trials.spread_ns.isna(),
        moves_per_s=1e9 * trials.moves / trials.watch_ns,
    )  # fmt: skip
    rows = []
    for situation, part in watched.groupby("situation", sort=False):
        cpus = int(part.cpus.iloc[0])
        own = hogs[hogs.situation == situation]
        leads = own.groupby("trial").cpu_ns.apply(lead_percent, cpus=cpus)
        row: dict[str, Any] = {"situation": situation, "hogs": int(part.hogs.iloc[0]), "cpus": cpus}
        row |= stats.spread("first", "ns", part.first_ns) | stats.spread("spread", "ns", part.spread_ns)
        row |= {"stayed_percent": part.stayed.mean(), "crowded_percent": part.crowded.mean()}
        for never, median in (("stayed_percent", "first_ns"), ("crowded_percent", "spread_ns")):
            if row[never] >= 50:  # of just half of them it lies between a time and none
                row[median] = float(part.watch_ns.max())
        row["others_percent"] = part.others_percent.median()
        row |= {"moves_per_s": part.moves_per_s.median(), **_interval("lead", leads)}
        short = pd.Series(dtype=float)
        if situation == ODD and "windows" in result.tables:
            windows = result.tables["windows"].groupby(["trial", "window"]).cpu_ns
            by_window = windows.apply(lead_percent, cpus=cpus)
            short = by_window.groupby("trial").median()
        rows.append(row | _interval("short_lead", short) | {"trials": len(part)})
    return pd.DataFrame(rows)


def _interval(stem: str, leads: pd.Series) -> dict[str, float]:
    """The three columns of a lead; all missing where there is none."""
    known = leads.dropna()
    return stats.in_columns(stem, "percent", stats.median_interval(known) if len(known) else None)


def lead_percent(cpu_ns: pd.Series, cpus: int) -> float:
    """How far the first of these hogs is ahead of an equal share; 100 where it had a CPU for itself."""
    if not cpu_ns.sum():  # an emulated CPU that had none of its host's for so long
        return float("nan")
    share, equal = cpu_ns.max() / cpu_ns.sum(), 1 / len(cpu_ns)
    return float(100 * (share - equal) / (1 / cpus - equal)) if len(cpu_ns) > cpus else float("nan")


def instrument(survey: machine.Machine) -> Instrument:
    """The hogs' own clocks and CPU numbers; the kernel's counts of its balancer's moves where it has any."""
    name = "the threads' own clocks and CPU numbers"
    if why := uncounted():
        return Instrument(name, why)
    return Instrument(f"{name}, and the kernel's counts of who moved them")


@experiment(
    "balance.spread",
    summarise=summarise,
    instrument=instrument,
    workloads=("balance",),
    needs=("second CPU",),
)
def spread(
    run: Run,
    *,
    situations: Sequence[str] = tuple(SITUATIONS),
    hogs: int = 8,
    hold_ms: int = 400,
    trials: int | None = None,
    watch_ms: int = 200,
) -> None:
    """Crowd hogs onto one CPU, let them go, and see how long they stay there.

    situations  of short, long, goes idle, naps, half, isolated, odd; see the summary.  What this machine
                or this user cannot have is left out with a note
    hogs        how many threads compute all the time; "odd" has as many as CPUs, and one more
    hold_ms     how long they were held where they were held for long; it is 50 ms everywhere else
    trials      how often each situation is measured, each time with a new start; they take turns
    watch_ms    how long they are watched after they were let go; "odd" six times as long

    The hogs may then use all CPUs of this process, the last eight where there are more; they are crowded onto
    the last.  Who lets them go stands on the same CPU, and in "goes idle" on another.

    Data: one row per stay of a hog on a CPU: situation, trial, hog, cpu, from_ns, to_ns: when it computed
    there first and last, in ns since the last hog was let go; negative before.
    Table trials: situation, trial, hogs, cpus, watch_ns, others_percent (as in the summary), moves,
    first_ns, spread_ns (missing where that did not happen).  Table hogs: situation, trial, hog, cpu_ns: the
    CPU time that it had while watched.  Table windows: trial, window, hog, cpu_ns: the same in windows of
    100 ms, of the situation "odd".  Table
    stretches: situation, trial, hog, cpu, from_ns, to_ns: computing without a gap of 0.2 ms, of the
    situation "short".  Table movers, where the kernel counts:
    situation, trial, by (idle, busy, newly idle, running), threads: how many, of all programs, the balancer
    took to an idle CPU, to a busy one, to one about to idle; and running ones (active balance).
    Method: lb_gained and alb_pushed of Documentation/scheduler/sched-stats.rst.
    Raises PlacementError where this process may use one CPU only.
    """
    trials = run.choose(tiny=1, quick=6, full=12) if trials is None else trials
    checks.words("situations", situations, SITUATIONS)
    checks.whole("hogs", hogs, 2, MOST_HOGS)
    checks.whole("hold_ms", hold_ms, MOMENT_MS, 10_000)
    checks.whole("trials", trials, 1, 1000)
    checks.whole("watch_ms", watch_ms, 20, 10_000)
    home = placement.quiet_cpu()
    elsewhere = placement.other_cpu(home)
    cpus = list(machine.survey().cpus_allowed[-MOST_CPUS:])
    run.begin()
    run.parameters |= {"trials": trials, "cpus": cpus, "home_cpu": home}
    if why := uncounted():
        run.note("info", f"Who moved the threads was not counted: {why}")
    chosen = [name for name in SITUATIONS if name in situations]
    if "isolated" in chosen and len(cpus) < 3:
        chosen.remove("isolated")
        run.note("missing", "No isolated partition: it would have two CPUs, and leave a third to all others.")
    dropped = set[str]()
    for trial, name in starts.each(run, chosen, trials, label=str):
        given = SITUATIONS[name]
        if name in dropped:
            continue
        number = len(cpus) + 1 if given.odd else hogs
        held_ms, watched_ms = (hold_ms if given.long else MOMENT_MS), watch_ms * (6 if given.odd else 1)
        words = ["--hogs", number, "--hold-ms", held_ms, "--watch-ms", watched_ms]
        words += ["--keep", number // 2 * given.half, "--to", ",".join(map(str, cpus))]
        words += ["--naps"] * given.naps
        deadline_s = 30 + (held_ms + watched_ms) / 100
        with contextlib.ExitStack() as stack:
            program = stack.enter_context(
                workloads.start("balance", [str(word) for word in words], deadline_s=deadline_s)
            )
            if given.isolated:
                try:
                    group = stack.enter_context(cgroups.group("crowd", cpus=cpus[1:]))
                    group.add(program.pid)
                    group.isolate()
                except PlacementError as error:
                    dropped.add(name)
                    run.note("missing", f"No isolated partition: {error.what}")
                    continue
                for tid in program.tids:  # this process may no longer use that CPU, but its hogs may
                    os.sched_setaffinity(tid, {home})
            else:
                placement.pin(program.tids[:1], [elsewhere if given.goes_idle else home])
                placement.pin(program.tids[1:], [home])
            away = [cpu for cpu in cpus if cpu != home]
            before, (idle, passed) = counted(), idle_ticks(away)
            records = program.run()
            after, (idle_then, passed_then) = counted(), idle_ticks(away)
        taken = 1 - (idle_then - idle) / max(1, passed_then - passed)
        _keep(run, name, trial, records, cpus[1:] if given.isolated else cpus, 1_000_000 * watched_ms, taken)
        run.tables["movers"] += [
            {"situation": name, "trial": trial, "by": by, "threads": after[by] - before[by]} for by in after
        ]


def _keep(
    run: Run, name: str, trial: int, records: Sequence[Any], cpus: Sequence[int], watch_ns: int, taken: float
) -> None:
    """taken: the part of the time in which the CPUs other than the hogs' first were not idle."""
    key: dict[str, Any] = {"situation": name, "trial": trial}
    fields = ("hog", "cpu", "from_ns", "to_ns")
    stretches = pd.DataFrame(
        [[record[field] for field in fields] for record in records if record.kind == "stretch"],
        columns=fields,
    )
    run.tables["hogs"] += [
        key | {"hog": record["number"], "cpu_ns": record["cpu_ns"]}
        for record in records
        if record.kind == "hog"
    ]
    seen = stays(stretches)
    run.add(seen.assign(**key)[[*key, *fields]])
    home, kept = run.parameters["home_cpu"], SITUATIONS[name].half * (stretches.hog.nunique() // 2)
    gone = stretches[stretches.cpu != home]
    lasted_ns = stretches.to_ns.max() - stretches.from_ns.min()
    own = (gone.to_ns - gone.from_ns).sum() / (lasted_ns * (len(run.parameters["cpus"]) - 1))
    known = {"hogs": stretches.hog.nunique(), "cpus": len(cpus), "watch_ns": watch_ns}
    known["others_percent"] = 100 * max(0.0, taken - own)
    run.tables["trials"].append(key | known | spreading(seen, cpus, home, watch_ns, kept))
    if name == SHORT:
        run.tables["stretches"] += [
            key | {field: record[field] for field in fields} for record in records if record.kind == "stretch"
        ]
    if name == ODD:
        run.tables["windows"] += [{"trial": trial} | row for row in windows(stretches, watch_ns)]


def stays(stretches: pd.DataFrame) -> pd.DataFrame:
    """Consecutive stretches of a hog on the same CPU (hog, cpu, from_ns, to_ns) as one."""
    order = stretches.sort_values(["hog", "from_ns"], ignore_index=True)
    begins = (order.hog != order.hog.shift()) | (order.cpu != order.cpu.shift())
    return order.groupby(begins.cumsum(), as_index=False).agg(
        hog=("hog", "first"), cpu=("cpu", "first"), from_ns=("from_ns", "first"), to_ns=("to_ns", "last")
    )[["hog", "cpu", "from_ns", "to_ns"]]


def spreading(
    seen: pd.DataFrame, cpus: Sequence[int], home: int, watch_ns: int, kept: int = 0
) -> dict[str, float]:
    """What the stays of hogs that were all on `home` say of the time for which they were watched.

    moves       how often a hog came to another CPU
    first_ns    when the first did; nan where none did
    spread_ns   when no hog was left that could have gone to a CPU with two fewer; nan for never
    Each hog is where it was seen last; the first `kept` of them may not leave.
    """
    where = dict.fromkeys(seen.hog, home)
    times: list[float] = []
    spread_ns = float("nan")
    order = seen[seen.from_ns <= watch_ns].sort_values("from_ns")
    for hog, cpu, ns in zip(order.hog, order.cpu, order.from_ns, strict=True):
        if cpu == where[hog]:
            continue
        where[hog] = cpu
        ns = max(1, ns)  # they are let go one after the other: one may leave before the last of them is
        times.append(ns)
        on = list(where.values())
        left = [on.count(at) for who, at in where.items() if who >= kept]
        if np.isnan(spread_ns) and max(left) - min(map(on.count, cpus)) <= 1:
            spread_ns = ns
    return {"moves": len(times), "first_ns": times[0] if times else float("nan"), "spread_ns": spread_ns}


def windows(stretches: pd.DataFrame, watch_ns: int) -> list[dict[str, int]]:
    """The CPU time of each hog in each whole window: window, hog, cpu_ns."""
    rows = []
    for window in range(watch_ns // WINDOW_NS):
        begin = window * WINDOW_NS
        inside = stretches.to_ns.clip(upper=begin + WINDOW_NS) - stretches.from_ns.clip(lower=begin)
        by_hog = inside.clip(lower=0).groupby(stretches.hog).sum()
        rows += [
            {"window": window, "hog": hog, "cpu_ns": int(ns)}
            for hog, ns in zip(by_hog.index, by_hog, strict=True)
        ]
    return rows


def uncounted() -> str:
    """Why the kernel does not count whom its balancer moves; empty where it does."""
    if files.read("/proc/schedstat") is None:
        return "this kernel was built without CONFIG_SCHEDSTATS."
    if (files.read("/proc/sys/kernel/sched_schedstats") or "").strip() == "0":
        return "this kernel was not booted with schedstats=enable."
    return "" if counted() else "this kernel's /proc/schedstat is of a version that is not known here."


# By the version in the first line of /proc/schedstat: how many numbers each kind of balancing has, which of
# them is lb_gained, and the order of the kinds (show_schedstat() of 6.1, 6.12 and 7.2).
_LAYOUTS: Mapping[str, tuple[int, int, tuple[str, ...]]] = {
    "15": (8, 4, ("idle", "busy", "newly idle")),
    "16": (8, 4, ("busy", "idle", "newly idle")),
    "17": (11, 7, ("busy", "idle", "newly idle")),
}


def counted() -> dict[str, int]:
    """How many threads the balancer has moved since the boot: idle, busy, newly idle, running.  Empty where
    the kernel does not count."""
    text = files.read("/proc/schedstat") or ""
    version = re.search(r"version (\d+)", text)
    if not version or version[1] not in _LAYOUTS:
        return {}
    each, gained, kinds = _LAYOUTS[version[1]]
    counts = dict.fromkeys((*kinds, "running"), 0)
    for line in text.splitlines():
        if line.startswith("domain"):
            numbers = [int(word) for word in line.split() if word.isdecimal()][-3 * each - 12 :]
            for place, kind in enumerate(kinds):
                counts[kind] += numbers[place * each + gained]
            counts["running"] += numbers[3 * each + 2]
    return counts
