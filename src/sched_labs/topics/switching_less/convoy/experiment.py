"""What does a lock make of many producers?  One queue, and only the lock differs (lab L14)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from sched_labs import machine, workloads
from sched_labs.core import stats
from sched_labs.core.errors import ParameterError, WorkloadError
from sched_labs.core.result import Result
from sched_labs.run import languages
from sched_labs.run.base import Instrument, Run, experiment, what_few_cover

LOCKS = ("fifo", "try", "mutex", "adaptive", "spin")
JAVA = ("java_fair", "java_fair_try", "java_unfair", "java_unfair_try")
ALONE = "alone"
NAMES = {
    "alone": "one producer",
    "fifo": "first come, first served",
    "try": "the same, but try first",
    "mutex": "default mutex",
    "adaptive": "adaptive mutex",
    "spin": "spinlock",
    "java_fair": "Java, fair",
    "java_fair_try": "Java, fair, tryLock first",
    "java_unfair": "Java, unfair",
    "java_unfair_try": "Java, unfair, tryLock first",
}
MOST_PRODUCERS = 64
JAVA_MOST_MS = 5000


def summarise(result: Result) -> pd.DataFrame:
    """One row per lock; `alone` is one producer with the default mutex.

    producers
    ns_per_item, ns_lo_per_item, ns_hi_per_item   wall time for each item: median over trials, 95 % interval
    floor_ns                 what two trials of one lock differ by without a cause
    switches_per_item, switches_lo_per_item, switches_hi_per_item   as the kernel counted them
    voluntary_share          the part of them that the kernel calls voluntary; missing without any
    system_share             kernel time, of all CPU time of the producers, as the kernel samples it at its
                             ticks: coarse for a lock that is soon done; missing where it is not measured
    jain_share               Jain's index of the producers' items when the first was done: 1 is equal,
                             1/producers is one who got everything
    items_per_turn, items_lo_per_turn, items_hi_per_turn   items that a producer puts before another does
    cpu_ns_per_item, cpu_lo_ns_per_item, cpu_hi_ns_per_item   CPU time for each item; missing where it is
                             not measured
    p50_ns, p99_ns, max_ns   from one item of a producer to its next; median over trials; missing for Java
    finished_share           the trials in which every item was put before the time ran out
    trials
    """
    data = result.data.assign(
        per_item=lambda d: d.elapsed_ns / d["items"],
        switches=lambda d: (d.voluntary_switches + d.involuntary_switches) / d["items"],
    )
    rows = []
    for lock, part in data.groupby("lock", sort=False):
        time, switches = stats.median_interval(part.per_item), stats.median_interval(part.switches)
        used = stats.median_interval(part.cpu_ns / part["items"]) if part.cpu_ns.notna().all() else None
        counted = part.voluntary_switches.sum() + part.involuntary_switches.sum()
        sampled = part.user_ns.sum() + part.system_ns.sum()
        rows.append(
            {
                "lock": lock,
                "producers": int(part.producers.iloc[0]),
                **stats.in_columns("ns", "per_item", time),
                "floor_ns": stats.noise_floor(part.per_item),
                **stats.in_columns("switches", "per_item", switches),
                "voluntary_share": part.voluntary_switches.sum() / counted if counted else np.nan,
                "system_share": part.system_ns.sum() / sampled if sampled else np.nan,
                "jain_share": float(part.jain_share.median()),
                **stats.spread("items", "per_turn", part["items"] / part.turns),
                **stats.in_columns("cpu", "ns_per_item", used),
                "p50_ns": float(part.p50_ns.median()),
                "p99_ns": float(part.p99_ns.median()),
                # The upper edge of the last bin may lie beyond the end of the run.
                "max_ns": float(part.max_ns.clip(upper=part.elapsed_ns).median()),
                "finished_share": float(part.finished.mean()),
                "trials": len(part),
            }
        )
    return pd.DataFrame(rows)


def instrument(survey: machine.Machine) -> Instrument:
    """Wall clock and the kernel's counts; Java's lock beside it where Java is installed."""
    absent = languages.missing("java", "javac")
    if absent:
        return Instrument("clock and counted switches", f"{absent} would add Java's ReentrantLock")
    return Instrument("clock and counted switches, Java's ReentrantLock too")


@experiment("convoy.locks", summarise=summarise, instrument=instrument, workloads=("convoy",))
def locks(
    run: Run,
    *,
    locks: Sequence[str] = LOCKS,
    producers: int = 16,
    items: int | None = None,
    tries: int = 10,
    trials: int | None = None,
    budget_ms: int | None = None,
    java: bool = True,
) -> None:
    """Let producers put items into one queue under one lock after the other.

    With each item, after the lock is released, its producer reads the clock: that is a part of every time and
    CPU time for an item, under each lock and with one producer.

    locks      of fifo (tickets: strictly in order of arrival), try (the same lock, but first some attempts
               to take it past the queue), mutex (the C library's default: no order, no spin), adaptive (the
               same with a short spin), spin (never sleeps)
    producers  how many threads, 1 to 64; they run wherever the scheduler puts them
    items      in all, shared out evenly; default 600,000 in quick, a million in full
    tries      of the lock `try`, and of Java's tryLock
    trials     how often each lock is measured; the order of the locks turns round from trial to trial
    budget_ms  after so long a lock is stopped, finished or not; what it had put by then counts
    java       ReentrantLock, fair and unfair, with and without tryLock, where java and javac are installed

    The lock is held while the producers arrive, so that every lock begins with all of them waiting.  Time,
    CPU time and switches of all producers count from when it is released; Java's switches from before that.
    Data: one row per trial and lock: producers, items, elapsed_ns, cpu_ns, user_ns and system_ns (from each
    producer's first item on; the kernel samples them at ticks on most machines, and they lag by up to one),
    voluntary_switches, involuntary_switches, turns, jain_share, p50_ns, p99_ns, max_ns (upper edges of bins 4
    to 6 % wide), finished.
    Method: Jain's index from Jain, Chiu and Hawe, DEC-TR-301, 1984.
    """
    items = run.choose(tiny=20_000, quick=600_000, full=1_000_000) if items is None else items
    trials = run.choose(tiny=2, quick=5, full=11) if trials is None else trials
    budget_ms = run.choose(tiny=40, quick=110, full=15_000) if budget_ms is None else budget_ms
    _check(locks, producers, items, tries, trials, budget_ms)
    run.begin()
    run.parameters |= {"items": items, "trials": trials, "budget_ms": budget_ms}

    for trial in run.each(range(trials), label=lambda n: f"trial {n + 1}, {producers} producers"):
        order = list(locks) if trial % 2 else list(reversed(locks))
        common = ["--items", str(items), "--tries", str(tries), "--budget-ms", str(budget_ms)]
        deadline_s = 2 * len(order) * budget_ms / 1000 + 30
        for names, threads, alone in ((order, producers, False), (["mutex"], 1, True)):
            arguments = ["--locks", ",".join(names), "--producers", str(threads), *common]
            with workloads.start("convoy", arguments, deadline_s=deadline_s) as convoy:
                run.add(_rows(convoy.run(), trial, threads, alone))
    if java:
        _java(run, producers, items, tries, budget_ms)
    late = dict.fromkeys(row for frame in run.rows for row in frame.loc[~frame.finished, "lock"])
    stopped: dict[int, list[str]] = {}
    for lock in late:
        limit_ms = min(budget_ms, JAVA_MOST_MS) if lock in JAVA else budget_ms
        stopped.setdefault(limit_ms, []).append(NAMES[lock])
    for limit_ms, names in stopped.items():
        run.note(
            "info",
            f"Stopped after {limit_ms} ms with items left, in one trial or more: {'; '.join(names)}. "
            "Times are per item put.",
        )


def _rows(records: Sequence[workloads.Record], trial: int, producers: int, alone: bool) -> pd.DataFrame:
    """The runs of one workload; each with the quantiles of the bins that follow it."""
    rows = []
    for record in records:
        if record.kind != "run":
            continue
        name = record.text("lock")
        bins = [r for r in records if r.kind == "wait" and r.text("lock") == name]
        row = {
            "lock": ALONE if alone else name,
            "trial": trial,
            "producers": producers,
            "items": record["items"],
            "elapsed_ns": record["elapsed_ns"],
            "cpu_ns": float(record.values.get("cpu_ns", np.nan)),
            "user_ns": float(record.values.get("user_ns", np.nan)),
            "system_ns": float(record.values.get("system_ns", np.nan)),
            "voluntary_switches": record["voluntary"],
            "involuntary_switches": record["involuntary"],
            "turns": record["turns"],
            "jain_share": record["jain_ppm"] / 1e6,
            "finished": record["finished"] == 1,
        }
        for column, share in (("p50_ns", 0.5), ("p99_ns", 0.99), ("max_ns", 1.0)):
            row[column] = _quantile(bins, share) if bins else np.nan
        rows.append(row)
    return pd.DataFrame(rows)


def _quantile(bins: Sequence[workloads.Record], share: float) -> float:
    counts = np.cumsum([r["items"] for r in bins])
    return float(bins[int(np.searchsorted(counts, share * counts[-1]))]["high_ns"])


def _java(run: Run, producers: int, items: int, tries: int, budget_ms: int) -> None:
    if absent := languages.missing("java", "javac"):
        run.note("missing", f"Java's ReentrantLock was not measured: {absent} is not installed.")
        return
    trials = run.choose(tiny=1, quick=3, full=7)
    budget_ms = min(budget_ms, JAVA_MOST_MS)
    variants = [name.removeprefix("java_") for name in JAVA]
    for trial in run.each(range(trials), label=lambda n: f"Java, trial {n + 1}"):
        order = variants if trial % 2 else variants[::-1]
        words = [str(producers), str(items), str(tries), str(budget_ms), ",".join(order)]
        try:
            command = languages.java(Path(__file__).with_name("Convoy.java"))
            records = languages.run([*command, *words], deadline_s=30 + 10 * budget_ms / 1000)
        except WorkloadError as error:
            run.note("missing", f"Java's ReentrantLock was not measured: {error.what}")
            return
        run.add(_rows(records, trial, producers, alone=False))
    run.note("info", f"Trials of each of Java's locks: {trials}. {what_few_cover(trials)}".rstrip())


def _check(locks: Sequence[str], producers: int, items: int, tries: int, trials: int, budget_ms: int) -> None:
    if isinstance(locks, str) or not locks or set(locks) - set(LOCKS) or len(set(locks)) != len(locks):
        raise ParameterError(f"locks does not take {locks!r}.", f"Give a list of: {', '.join(LOCKS)}.")
    for what, value, most in (
        ("producers", producers, MOST_PRODUCERS),
        ("items", items, 100_000_000),
        ("tries", tries, 100_000),
        ("trials", trials, 1000),
        ("budget_ms", budget_ms, 60_000),
    ):
        if not isinstance(value, int) or not 1 <= value <= most:
            raise ParameterError(f"{what} must be a number from 1 to {most:,}, not {value!r}.")
    if items < producers:
        raise ParameterError(f"{items} items do not go round {producers} producers.", "Give more items.")
