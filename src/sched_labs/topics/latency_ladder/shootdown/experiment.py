"""Memory is given back: what does the call cost, and which other CPUs are interrupted for it, for how long?

A CPU may still hold translations of pages that another CPU takes away.  The kernel has it drop them before
the call returns: a TLB shootdown.  x86 asks by an interrupt (arch/x86/mm/tlb.c, flush_tlb_mm_range); 64-bit
Arm has an instruction for all CPUs, and interrupts none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from sched_labs import machine, workloads
from sched_labs.core import stats
from sched_labs.core.result import Result
from sched_labs.run import checks, starts
from sched_labs.run.base import Instrument, Run, experiment
from sched_labs.steer import placement
from sched_labs.topics.pinning.reserved.experiment import interrupts

CALLS = ("munmap", "madvise", "mprotect")
MOST_BYSTANDERS, MOST_CALLS, MOST_PAGES = 64, 10_000, 256  # of shootdown.c
MOST_TOUCHED = 1 << 15  # pages in one start: 128 MiB


@dataclass(frozen=True)
class Condition:
    """What the other CPUs do (as shootdown.c names it), and whether the pages were ever written to."""

    others: str
    touched: bool = True


CONDITIONS = {
    "alone": Condition("none"),
    "asleep": Condition("asleep"),
    "process": Condition("processes"),
    "threads": Condition("threads"),
    "untouched": Condition("threads", touched=False),
}


def summarise(result: Result) -> pd.DataFrame:
    """One row per condition; 95 % intervals over trials.

    condition    alone; asleep (other threads of the process, asleep on the other CPUs); process (a thread of
                 another process runs on each); threads (one of the same process does); untouched (the same,
                 and the pages were never written to)
    call_ns, call_lo_ns, call_hi_ns   half of the calls take so long or less, all trials together
    extra_ns, extra_lo_ns, extra_hi_ns   a trial's median call, more than in the trial alone; missing there
    floor_ns     what that is where there is no difference: trials alone among themselves
    seen         extra stands clear of the floor
    interrupts_per_call, interrupts_lo_per_call, interrupts_hi_per_call   of each bystander's CPU, as the
                 kernel counts TLB shootdowns; missing where it does not
    stopped_share, stopped_lo_share, stopped_hi_share   the part of the calls during which a running bystander
                 was stopped; missing where none runs or none had room to note it
    lost_ns, lost_lo_ns, lost_hi_ns   for how long, where it was: half of the times; missing where it never
                 was
    look_ns      the shortest time between two looks of a bystander at its clock; a stop has ten of them
    calls        behind the quantiles
    trials
    """
    medians = result.data.pivot_table(index="trial", columns="condition", values="call_ns", aggfunc="median")
    floor = stats.noise_floor(medians["alone"].dropna()) if "alone" in medians else np.nan
    counted = result.tables.get("interrupts")
    looks = result.tables.get("looks")
    rows = []
    for condition, part in result.data.groupby("condition", sort=False):
        extra = None
        if condition != "alone" and "alone" in medians:
            both = medians[["alone", condition]].dropna()
            extra = stats.paired_difference(both[condition], both["alone"])
        stopped = part.groupby("trial").stopped_bystanders.mean() / result.parameters["bystanders"]
        when = part[part.stopped_bystanders > 0]
        lost = None
        if len(when):
            lost = stats.pooled_quantile(when.lost_ns / when.stopped_bystanders, when.trial, 0.5)
        rows.append(
            {
                "condition": condition,
                **stats.in_columns("call", "ns", stats.pooled_quantile(part.call_ns, part.trial, 0.5)),
                **stats.in_columns("extra", "ns", extra),
                "floor_ns": floor,
                "seen": extra is not None and stats.seen(extra, floor),
                **_per_call(counted, str(condition)),
                **stats.in_columns("stopped", "share", _of_known(stopped)),
                **stats.in_columns("lost", "ns", lost),
                "look_ns": np.nan if looks is None else float(looks.look_ns.median()),
                "calls": len(part),
                "trials": part.trial.nunique(),
            }
        )
    return pd.DataFrame(rows)


def _of_known(values: pd.Series) -> stats.Interval | None:
    return stats.median_interval(values.dropna()) if values.notna().any() else None


def _per_call(counted: pd.DataFrame | None, condition: str) -> dict[str, float]:
    """Interrupts of one CPU for one call, trial by trial."""
    if counted is None:
        return stats.in_columns("interrupts", "per_call", None)
    part = counted[counted.condition == condition]
    each = part.groupby("trial").interrupts.mean() / part.groupby("trial").calls.first()
    return stats.in_columns("interrupts", "per_call", _of_known(each))


def instrument(survey: machine.Machine) -> Instrument:
    """The caller's clock, the bystanders' clocks, and the kernel's count of shootdowns where it keeps one."""
    if len(survey.cpus_allowed) < 2:
        return Instrument("nothing: there is no other CPU", "a second CPU could be interrupted")
    if shootdowns(survey.cpus_allowed[0]) is None:
        return Instrument("clocks of the caller and of those beside it; this kernel counts no shootdowns")
    return Instrument("clocks of the caller and of those beside it, and counted shootdowns")


@experiment(
    "shootdown.calls",
    summarise=summarise,
    instrument=instrument,
    workloads=("shootdown",),
    needs=("second CPU",),
)
def calls(
    run: Run,
    *,
    call: str = "munmap",
    pages: int = 1,
    bystanders: int | None = None,
    calls: int | None = None,
    trials: int | None = None,
) -> None:
    """Give pages back again and again, while threads on other CPUs run, sleep, or are of another process.

    call        munmap, madvise (MADV_DONTNEED) or mprotect (to read only)
    pages       that each call gives back; they were written to just before, but in the condition untouched
    bystanders  how many, each on a CPU of its own; default: one for each other CPU, at most eight
    calls       how many in each trial, 50 µs apart
    trials      how often each condition is measured, each time with a new start; they take turns

    Data: one row per call: condition, trial, call_ns, lost_ns (for how long bystanders were stopped, all of
    them together, each with the look that was under way), stopped_bystanders (how many were); the last two
    missing where none runs, or one had no room left for what stopped it.
    The table interrupts has what each bystander's CPU was sent of TLB shootdowns during a trial (condition,
    trial, cpu, interrupts, calls), the table looks how often a bystander can look at its clock (condition,
    trial, bystander, look_ns).
    Method: the row TLB of /proc/interrupts; gaps between looks at a clock, as of the kernel's hwlat tracer.
    """
    home = placement.quiet_cpu()
    placement.other_cpu(home)  # or says what is needed
    others = [cpu for cpu in machine.survey().cpus_allowed if cpu != home][-MOST_BYSTANDERS:]
    count = run.choose(tiny=20, quick=200, full=500) if calls is None else calls
    trials = run.choose(tiny=2, quick=12, full=40) if trials is None else trials
    bystanders = min(len(others), 8) if bystanders is None else bystanders
    checks.words("call", [call], CALLS)
    checks.whole("pages", pages, 1, MOST_PAGES)
    checks.whole("bystanders", bystanders, 1, len(others))
    checks.whole("calls", count, 1, min(MOST_CALLS, MOST_TOUCHED // pages))
    checks.whole("trials", trials, 1, 1000)
    others = others[-bystanders:]
    run.begin()
    run.parameters |= {
        "bystanders": bystanders,
        "calls": count,
        "trials": trials,
        "cpu": home,
        "cpus": others,
    }
    if shootdowns(others[0]) is None:
        run.note(
            "missing",
            "This kernel counts no TLB shootdowns.  On 64-bit Arm they interrupt no CPU.",
        )
    for trial, name in starts.each(run, CONDITIONS, trials, label=str):
        _trial(run, name, trial, call, pages)


def _trial(run: Run, name: str, trial: int, call: str, pages: int) -> None:
    given, cpus, count = CONDITIONS[name], run.parameters["cpus"], run.parameters["calls"]
    words = ["--call", call, "--pages", str(pages), "--calls", str(count), "--others", given.others]
    words += ["--bystanders", str(len(cpus)), *([] if given.touched else ["--untouched"])]
    with workloads.start("shootdown", words, deadline_s=60) as threads:
        placement.pin(threads.tids[:1], [run.parameters["cpu"]])
        for tid, cpu in zip(threads.tids[1:], cpus, strict=False):
            placement.pin([tid], [cpu])
        before = {cpu: shootdowns(cpu) for cpu in cpus}
        records = threads.run()
        after = {cpu: shootdowns(cpu) for cpu in cpus}
    row = {"condition": name, "trial": trial}
    for cpu in cpus:
        sent, then = before[cpu], after[cpu]
        if sent is not None and then is not None:
            run.tables["interrupts"].append(row | {"cpu": cpu, "interrupts": then - sent, "calls": count})
    running = given.others in ("threads", "processes")
    if running:
        run.tables["looks"] += [
            row | {"bystander": one["bystander"], "look_ns": one["look_ns"]}
            for one in records
            if one.kind == "looks"
        ]
    run.add(
        [
            row
            | {
                "call_ns": one["ns"],
                "lost_ns": one["lost_ns"] if running and one["lost_ns"] >= 0 else np.nan,
                "stopped_bystanders": one["interrupted"] if running and one["lost_ns"] >= 0 else np.nan,
            }
            for one in records
            if one.kind == "call"
        ]
    )


def shootdowns(cpu: int) -> int | None:
    """How many TLB shootdowns this CPU has been sent so far; None where the kernel does not count them."""
    found = [n for (_, name), n in (interrupts(cpu) or {}).items() if name.split()[0] == "TLB"]
    return found[0] if found else None
