"""Are address translations lost at a switch?  One load per page, after switches of several kinds (lab L40).

A processor keeps recent address translations in its TLB.  x86 Linux gives each CPU six tags for address
spaces (PCID, since 4.14; arch/x86/mm/tlb.c), so that a switch to one of the last six flushes nothing.
A ring of eight processes is one that must flush; a ring of eight threads has as many switches and one space.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from sched_labs import machine, workloads
from sched_labs.core import stats
from sched_labs.core.errors import ParameterError, WorkloadError
from sched_labs.core.result import Result
from sched_labs.machine import files
from sched_labs.run import counted, starts
from sched_labs.run.base import Instrument, Run, experiment
from sched_labs.steer import placement

CONDITIONS = ("nothing", "thread", "process", "threads_8", "processes_8")
# What a walk after a switch to processes is compared with: as many switches between threads.
SAME_SWITCHES = {"process": "thread", "processes_8": "threads_8"}
MIB = 1 << 20
TURNS = 2  # of every condition in one start, there and back


def summarise(result: Result) -> pd.DataFrame:
    """One row per number of pages and condition; medians over trials of medians over a trial's walks.

    pages                        that one walk loads from
    condition                    nothing, thread, process, threads_8 or processes_8
    walk_ns                      one walk
    per_page_ns                  the same for each page
    extra_ns, extra_lo_ns, extra_hi_ns   more than after nothing, paired by trial, 95 % interval; else missing
    space_ns, space_lo_ns, space_hi_ns   more than after as many switches between threads: what the change of
                                 address space adds; missing where nothing changed it
    floor_ns                     what nothing against nothing differs by, at least one look at the clock
    space_seen                   all of space's interval stands clear of the floor
    trials
    """
    data = starts.with_turns(result.data)
    by_trial = data.groupby(["pages", "condition", "trial"], sort=False).walk_ns.median().unstack("trial")
    rows = []
    for pages in data.pages.unique():
        walks = by_trial.loc[pages].dropna(axis=1)
        nothing = data[(data.pages == pages) & (data.condition == "nothing")]
        floor = starts.noise_floor(nothing.groupby(["trial", "turn"]).walk_ns.median())
        floor = max(floor, float(result.machine.get("clock_read_ns") or 0))
        for condition in (name for name in CONDITIONS if name in walks.index):
            walk = walks.loc[condition]
            extra = space = None
            if condition != "nothing":
                extra = stats.paired_difference(walk, walks.loc["nothing"])
            if condition in SAME_SWITCHES:
                space = stats.paired_difference(walk, walks.loc[SAME_SWITCHES[condition]])
            rows.append(
                {
                    "pages": int(pages),
                    "condition": condition,
                    "walk_ns": float(walk.median()),
                    "per_page_ns": float(walk.median()) / int(pages),
                    **_three("extra", extra),
                    **_three("space", space),
                    "floor_ns": floor,
                    "space_seen": space is not None and stats.seen(space, floor),
                    "trials": len(walk),
                }
            )
    return pd.DataFrame(rows)


def _three(name: str, interval: stats.Interval | None) -> dict[str, float]:
    values = interval or (np.nan, np.nan, np.nan)
    return dict(zip((f"{name}_ns", f"{name}_lo_ns", f"{name}_hi_ns"), map(float, values), strict=True))


def instrument(survey: machine.Machine) -> Instrument:
    """Time per walk everywhere; counted translation misses where there is a PMU."""
    counting = survey.fact("pmu.events").value
    if isinstance(counting, list) and "dTLB-load-misses" in counting:
        return Instrument("time per walk, and counted misses around the walk")
    return Instrument("time per walk", "a PMU would count the missing translations themselves")


@experiment("tlb.switches", summarise=summarise, instrument=instrument, workloads=("tlb",))
def switches(
    run: Run,
    *,
    pages: Sequence[int] | None = None,
    trials: int | None = None,
    passes: int | None = None,
    events: Sequence[str] | None = None,
) -> None:
    """Load one word from each of many pages, after switches of several kinds, all on one CPU.

    pages    how many, a list; each of 4 KiB on most machines, never huge ones
    trials   how often each condition is measured, each time with new processes and new pages; in a trial
             the conditions take two turns, there and back
    passes   walks in one turn
    events   counted around the walk and nowhere else, in the victim's thread alone; default: translation and
             cache misses, cycles and instructions as far as the processor offers them

    Data: one row per walk: pages, condition, trial, turn, walk_ns; voluntary_switches and
    involuntary_switches of the victim in all walks of that turn; and for each event a column, such as
    dTLB-load-misses, with its count per walk (mean over the turn's walks).  Columns of events that were not
    counted are absent.
    The fact `tags` is what this processor marks address spaces with: PCID, ASID or none;
    None where it is not known.
    """
    survey = machine.survey()
    page_counts = list(
        pages or run.choose(tiny=[64, 512], quick=[64, 256, 512, 1024, 2048, 4096],
                            full=[16, 64, 128, 256, 512, 1024, 1536, 2048, 3072, 4096, 8192])
    )  # fmt: skip
    trials = run.choose(tiny=3, quick=9, full=35) if trials is None else trials
    passes = run.choose(tiny=4, quick=12, full=24) if passes is None else passes
    _check(page_counts, trials, passes, survey)
    asked = counted.ask_for(run, events)
    home = placement.quiet_cpu()
    tags = address_space_tags(survey)
    run.begin()
    run.parameters |= {"pages": page_counts, "trials": trials, "passes": passes, "cpu": home}
    run.facts |= {"tags": tags}

    for trial, count in starts.each(run, page_counts, trials, label=lambda count: f"{count} pages"):
        arguments = ["--pages", str(count), "--trials", str(TURNS), "--passes", str(passes), *asked]
        with workloads.start("tlb", arguments, deadline_s=120) as tlb:
            placement.pin(tlb.tids, [home])
            records = tlb.run()
        run.add(_walks(run, records, count, trial))


def _walks(run: Run, records: Sequence[workloads.Record], pages: int, trial: int) -> pd.DataFrame:
    rows: list[dict[str, object]] = []
    block: dict[str, object] | None = None
    passes, lost = 1, False
    for record in records:
        if record.kind == "block":
            passes = record["passes"]
            switched = record["voluntary"] + record["involuntary"]
            lost |= record.text("condition") != "nothing" and switched < passes
            block = {
                "pages": pages,
                "condition": record.text("condition"),
                "trial": trial,
                "turn": record["trial"],
                "voluntary_switches": record["voluntary"],
                "involuntary_switches": record["involuntary"],
            }
        elif block is None:
            raise WorkloadError(f"The workload tlb sent {record.kind!r} before its first block.")
        elif record.kind == "events":
            block |= counted.columns(run, record, passes)
        else:
            rows.append(block | {"walk_ns": record["ns"]})
    if lost:
        run.note("flag", f"{pages} pages: in some turns the kernel counted fewer switches than hand-overs.")
    return pd.DataFrame(rows)


def address_space_tags(survey: machine.Machine) -> str | None:
    """PCID or ASID where this processor marks translations with their address space, none where not."""
    arch = survey.fact("cpu.arch").value
    if arch == "aarch64":
        return "ASID"  # part of the architecture
    flags = [line for line in (files.read("/proc/cpuinfo") or "").splitlines() if line.startswith("flags")]
    if arch != "x86_64" or not flags:
        return None
    return "PCID" if "pcid" in flags[0].split() else "none"


def _check(pages: Sequence[int], trials: int, passes: int, survey: machine.Machine) -> None:
    if not pages or min(pages) < 1:
        raise ParameterError(f"pages does not take {pages!r}.", "Give numbers of pages, from 1.")
    if trials < 1 or not 1 <= passes <= 10_000:
        raise ParameterError(
            f"{trials} trials of {passes} passes measure nothing.", "Leave them out for the profile's."
        )
    known = [survey.fact(key).value for key in ("memory.available_bytes", "cgroup.memory_limit_bytes")]
    available = min((value for value in known if isinstance(value, int)), default=512 * MIB)
    page = survey.fact("memory.page_bytes").value
    if max(pages) > min(1 << 20, available // 8 // (page if isinstance(page, int) else 4096)):
        raise ParameterError(
            f"{max(pages)} pages need more than an eighth of the memory that is available.", "Choose fewer."
        )
