"""The wake-up, taken apart: from the waker's system call until the woken thread runs, near and far.

A thread wakes another on its own CPU, or on another one, which has nothing to do.  What that CPU does
meanwhile is the question: it idles as this machine has it, it polls, or a thread of the policy SCHED_IDLE
keeps it busy, which counts for nothing to the scheduler and for everything to the idle state.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pandas as pd

from sched_labs import machine, workloads
from sched_labs.core import stats
from sched_labs.core.errors import PlacementError
from sched_labs.core.result import Result
from sched_labs.probes import wakeups
from sched_labs.run import checks, optional, starts
from sched_labs.run.base import Instrument, Run, experiment
from sched_labs.steer import idling, placement

MOST_WAKES = 100_000  # of wakepath.c
SITUATIONS = {
    "near": "the sleeper is on the waker's CPU",
    "idle": "it is on another one, which idles as this machine has it",
    "haltpoll": "the same, and idle CPUs poll for a while before they halt",
    "poll": "the same, and idle CPUs poll",
    "spinner": "the same, and a thread of the policy SCHED_IDLE computes there",
}
POLLED_NS = 1_000_000  # in "haltpoll": longer than most gaps between two wake-ups
STATIONS = ("waking_ns", "interrupt_ns", "wakeup_ns", "switch_ns")
IDLED_PERCENT = 50  # a sleeper's CPU idles for at least so much of the time; else other programs had it
MIDDLE = (0.4, 0.6)  # the wake-ups whose parts are told: about as long as the median, and a fifth of all


def summarise(result: Result) -> pd.DataFrame:
    """One row per situation; 95 % intervals over trials.

    situation    near, idle, haltpoll, poll, spinner (SITUATIONS says what they are)
    wakes        wake-ups that were timed
    p50_ns, p50_lo_ns, p50_hi_ns, p99_ns   from the waker's system call until the sleeper ran, all trials
    sooner_ns, sooner_lo_ns, sooner_hi_ns   by how much a trial's median is shorter than that of "idle" beside
                 it: median over the trials; missing without "idle", and for itself
    waker_p50_ns, waker_p50_lo_ns, waker_p50_hi_ns   until the call had returned to the waker
    waking_at_ns, interrupt_at_ns, wakeup_at_ns, switch_at_ns, running_at_ns   when the wake-up passed each
                 station, since the waker's system call: means over the middle fifth of the wake-ups
                 by length, so that parts add up.  Missing without the BPF probe, but for the last;
                 interrupt_at_ns is missing too where most of them needed no interrupt
    queue_percent, queue_lo_percent, queue_hi_percent   of running_at_ns, what a run-queue histogram shows:
                 from sched_wakeup to sched_switch
    interrupted_percent   of the wake-ups that the probe saw, those with an interrupt from another CPU
    polled_percent, halted_percent   of the time, what the sleeper's CPU polled, and spent in other idle
                 states; missing where the kernel does not tell
    trials
    """
    cpus = result.tables["cpus"].groupby("situation")[["polled_percent", "halted_percent"]].mean()
    medians = result.data.groupby(["situation", "trial"]).wait_ns.median().unstack("situation")
    rows = []
    for situation, cell in result.data.groupby("situation", sort=False):
        seen = cell[cell.switch_ns.notna()]
        middle = _middle(cell if seen.empty else seen)[["trial", *STATIONS, "wait_ns"]]
        by_trial = middle.groupby("trial").mean()
        queue = 100 * (by_trial.switch_ns - by_trial.wakeup_ns) / by_trial.wait_ns
        stations = middle.drop(columns="trial").mean().rename({"wait_ns": "running_ns"})
        rows.append(
            {
                "situation": situation,
                "wakes": len(cell),
                **stats.in_columns("p50", "ns", stats.pooled_quantile(cell.wait_ns, cell.trial, 0.5)),
                "p99_ns": float(cell.wait_ns.quantile(0.99)),
                **stats.in_columns("sooner", "ns", _sooner(medians, str(situation))),
                **stats.in_columns("waker_p50", "ns", stats.pooled_quantile(cell.waker_ns, cell.trial, 0.5)),
                **{f"{str(name)[:-3]}_at_ns": ns for name, ns in stations.items()},
                **stats.in_columns("queue", "percent", stats.median_interval(queue) if len(seen) else None),
                "interrupted_percent": float(100 * seen.interrupt_ns.notna().mean()),
                **cpus.loc[situation],
                "trials": cell.trial.nunique(),
            }
        )
    return pd.DataFrame(rows)


def _sooner(medians: pd.DataFrame, situation: str) -> stats.Interval | None:
    """How much shorter the trials' medians are than those of "idle", pair by pair."""
    if situation == "idle" or "idle" not in medians:
        return None
    pairs = medians[["idle", situation]].dropna()
    return stats.paired_difference(pairs.idle, pairs[situation]) if len(pairs) else None


def _middle(wakes: pd.DataFrame) -> pd.DataFrame:
    """The middle fifth by length; all of it with an interrupt or all without, as most are."""
    middle = wakes[wakes.wait_ns.rank(pct=True).between(*MIDDLE)]
    interrupted = middle.interrupt_ns.notna()
    return middle[interrupted == (interrupted.mean() > 0.5)]


def not_idled(row: Any) -> str:
    """What stands against a row's being what its situation says: the CPU had to idle, or poll; else ""."""
    idled = row.polled_percent + row.halted_percent
    if row.situation in ("idle", "poll") and idled < IDLED_PERCENT:  # false where the kernel does not tell
        return f"The sleeper's CPU was idle for {idled:.0f} % of the time only."
    if row.situation == "poll" and row.polled_percent < IDLED_PERCENT:
        return f"The sleeper's CPU polled for {row.polled_percent:.0f} % of the time only."
    return ""


def instrument(survey: machine.Machine) -> Instrument:
    """The two threads' own clocks; the BPF probe tells when a wake-up passed the stations between them."""
    able = wakeups.available()
    if able.ok:
        return Instrument("the threads' own clocks, and a BPF probe of each wake-up's stations")
    return Instrument("the threads' own clocks", f"{able.why} {able.remedy}".strip())


@experiment("wakepath.parts", summarise=summarise, instrument=instrument, workloads=("wakepath",))
def parts(run: Run, *, gap_us: int = 450, wakes: int | None = None, trials: int | None = None) -> None:
    """Wake a thread near and far, and see where the time goes until it runs.

    gap_us      between two wake-ups, in the mean; each is between a half and three halves of it
    wakes       in each trial
    trials      how often each situation is measured, each time with a new start; they take turns

    "haltpoll" is a virtual machine's own setting (guest_halt_poll_ns), "poll" one that cpuidle has
    (/dev/cpu_dma_latency); both act on every CPU, need root, and end with their trial.  Where one of them,
    or a second CPU, is missing, the situation is left out with a note.

    Data: one row per wake-up: situation, trial, wait_ns (from just before the waker's system call until the
    sleeper had looked at its clock), waker_ns (until the call had returned), and, since the same moment,
    waking_ns (sched_waking, on the waker's CPU), interrupt_ns (another CPU's interrupt has reached the
    sleeper's; missing where none has), wakeup_ns (sched_wakeup: the thread is in the queue), switch_ns
    (sched_switch: it has the CPU).  These four are missing where the BPF probe has not seen the wake-up.
    The table cpus has polled_percent and halted_percent of the sleeper's CPU in each situation and trial.
    Facts: idle_driver and idle_governor, as cpuidle names them; empty without it.
    Method: futex wake and wait; before each trial the sleeper's CPU idles for 50 ms in the machine's own way,
    for the haltpoll governor forgets only then that it has polled.
    """
    wakes = run.choose(tiny=20, quick=120, full=500) if wakes is None else wakes
    trials = run.choose(tiny=1, quick=6, full=25) if trials is None else trials
    checks.whole("gap_us", gap_us, 20, 100_000)
    checks.whole("wakes", wakes, 5, MOST_WAKES)
    checks.whole("trials", trials, 1, 1000)
    home = placement.quiet_cpu()
    run.begin()
    run.parameters |= {"wakes": wakes, "trials": trials, "sleeper_cpu": home}
    for name in ("idle_driver", "idle_governor"):
        run.facts[name] = machine.survey().fact(f"cpu.{name}").value or ""
    chosen = list(_possible(run))
    deadline_s = 60 + 4 * wakes * gap_us / 1e6
    for trial, situation in starts.each(run, chosen, trials, label=str):
        words = ["--wakes", str(wakes), "--gap-us", str(gap_us), "--seed", str(trial), "--settle"]
        words += ["--spin"] * (situation == "spinner")
        with contextlib.ExitStack() as stack:
            threads = stack.enter_context(workloads.start("wakepath", words, deadline_s=deadline_s))
            waker, *others = threads.tids
            placement.pin([waker], [home if situation == "near" else placement.other_cpu(home)])
            placement.pin(others, [home])
            watch = optional.probe(
                run,
                stack,
                wakeups.available(),
                lambda pid=threads.pid: wakeups.watch([pid], deadline_s),  # type: ignore[misc]
                "The stations of the wake-ups were not seen",
            )
            threads.go()
            records = threads.records()
            next(records)  # settled
            stack.enter_context(_made(situation))
            if watch:
                watch.start()
            before, began = idling.spent_us(home), time.monotonic()
            threads.go()
            told = list(records)
            after, elapsed_s = idling.spent_us(home), time.monotonic() - began
            seen = watch.stop().data if watch else None
        cell: dict[str, Any] = {"situation": situation, "trial": trial}
        run.add(_rows(told, seen).assign(**cell))
        run.tables["cpus"].append(cell | _shares(before, after, elapsed_s))
    _flag_the_busy(run)


def _made(situation: str) -> AbstractContextManager[None]:
    """The machine as a situation has it."""
    if situation == "haltpoll":
        return idling.polled_first(POLLED_NS)
    return idling.awake() if situation == "poll" else nullcontext()


def _possible(run: Run) -> Iterator[str]:
    """The situations that this machine and user can have, and notes about the others."""
    alone = len(machine.survey().cpus_allowed) < 2
    if alone:
        run.note("missing", "This process may use one CPU only: there is no other to wake a thread on.")
    for situation in SITUATIONS:
        if alone and situation != "near":
            continue
        try:
            with _made(situation):
                pass
        except PlacementError as error:
            run.note("missing", f"{error.what} {error.remedy}".strip())
        else:
            yield situation


def _shares(before: dict[str, int], after: dict[str, int], elapsed_s: float) -> dict[str, float]:
    """What part of the time a CPU polled, and was in other idle states; missing where it does not tell."""
    if not after:
        return {"polled_percent": float("nan"), "halted_percent": float("nan")}
    spent = {name: 1e-4 * (after[name] - before.get(name, 0)) / elapsed_s for name in after}
    polled = spent.pop(idling.POLL, 0.0)
    return {"polled_percent": polled, "halted_percent": sum(spent.values())}


def _flag_the_busy(run: Run) -> None:
    """Say so where the sleeper's CPU idled less than half of the time, because others had it."""
    for situation, cpus in pd.DataFrame(run.tables["cpus"]).groupby("situation", sort=False):
        idled = (cpus.polled_percent + cpus.halted_percent).mean()
        if situation in ("idle", "haltpoll", "poll") and idled < IDLED_PERCENT:
            run.note("flag", f"{situation!s}: the sleeper's CPU was idle for {idled:.0f} % of the time only.")


def _rows(told: Sequence[workloads.Record], seen: pd.DataFrame | None) -> pd.DataFrame:
    """The wake-ups as the threads tell them, each with what the probe saw between its begin and its end."""
    own = [(record["at"], record["called_ns"], record["ns"]) for record in told]
    wakes = pd.DataFrame(own, columns=["at_ns", "waker_ns", "wait_ns"]).astype("int64")
    if seen is None:
        return wakes.assign(**dict.fromkeys(STATIONS, float("nan"))).drop(columns="at_ns")
    seen = seen[list(STATIONS)]
    both = pd.merge_asof(wakes, seen, left_on="at_ns", right_on="waking_ns", direction="forward")
    inside = both.switch_ns <= both.at_ns + both.wait_ns
    stations: dict[str, Any] = {
        name: (both[name] - both.at_ns).where(inside & (both[name] > 0)).astype(float) for name in STATIONS
    }
    return both.assign(**stations).drop(columns="at_ns")
