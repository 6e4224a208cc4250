"""What does sched_yield do?  Switches per call, and how the kernel counts them (lab L04).

sched_yield(2) says that the caller moves to the end of the queue of its priority, and that under the normal
policies its effect is unspecified.  So nothing is assumed here: the switches of each thread are counted, by
getrusage and by /proc, for a thread that yields alone and for two that yield at the same time.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import pandas as pd

from sched_labs import machine, workloads
from sched_labs.core import stats
from sched_labs.core.errors import ParameterError
from sched_labs.core.result import Result
from sched_labs.run import checks, starts
from sched_labs.run.base import Instrument, Run, experiment
from sched_labs.steer import placement

POLICIES = ("other", "batch", "fifo")
PLACEMENTS = ("same_cpu", "other_cpu", "unpinned")
TURNS = 2  # of yielding alone and together, in one start
MOST_YIELDS = 1_000_000  # the workload's own limit
# What reading a status file, and waiting for the others before and after, may add to a thread's switches: it
# happens outside what getrusage brackets.
SLACK_SWITCHES = 4
SLACK_RATIO = 0.01


def summarise(result: Result) -> pd.DataFrame:
    """One row per policy, placement and condition (alone or together).

    switches_per_yield, switches_lo_per_yield, switches_hi_per_yield   counted by getrusage, all yielders:
                        median over trials, 95 % interval
    voluntary_per_yield, involuntary_per_yield   the two kinds of them, medians over trials
    voluntary_share     the part of them that the kernel calls voluntary; missing without a switch
    yield_ns            one call of one thread, with whatever the other does meanwhile
    migrations_per_1000 how often a thread found itself on another CPU, per 1,000 calls
    counts_agree        getrusage and the status files counted the same, but for reading the files
    trials
    """
    rows = []
    for (policy, place, condition), cell in result.data.groupby(
        ["policy", "placement", "condition"], sort=False
    ):
        by_trial = cell.groupby("trial")[
            ["yields", "voluntary_switches", "involuntary_switches", "elapsed_ns", "migrations"]
        ].sum()
        voluntary = by_trial.voluntary_switches / by_trial.yields
        involuntary = by_trial.involuntary_switches / by_trial.yields
        total = cell.voluntary_switches.sum() + cell.involuntary_switches.sum()
        rows.append(
            {
                "policy": policy,
                "placement": place,
                "condition": condition,
                **stats.spread("switches", "per_yield", voluntary + involuntary),
                "voluntary_per_yield": float(voluntary.median()),
                "involuntary_per_yield": float(involuntary.median()),
                "voluntary_share": cell.voluntary_switches.sum() / total if total else np.nan,
                "yield_ns": float((by_trial.elapsed_ns / by_trial.yields).median()),
                "migrations_per_1000": 1000 * cell.migrations.sum() / cell.yields.sum(),
                "counts_agree": bool(_agree(cell).all()),
                "trials": len(by_trial),
            }
        )
    return pd.DataFrame(rows)


def _agree(cell: pd.DataFrame) -> pd.Series:
    """Whether a thread's two counts are the same, but for what reading its status file may have added."""
    agree = pd.Series(True, index=cell.index)
    for kind in ("voluntary", "involuntary"):
        counted, told = cell[f"{kind}_switches"], cell[f"status_{kind}_switches"]
        more = told - counted
        agree &= (more >= 0) & (more <= SLACK_SWITCHES + SLACK_RATIO * counted)
    return agree


def instrument(survey: machine.Machine) -> Instrument:
    """The kernel's own counts, from two places."""
    if not survey.fact("policy.fifo").value:
        return Instrument(
            "switches counted by getrusage and /proc", "permission for SCHED_FIFO adds the real-time policy"
        )
    return Instrument("switches counted by getrusage and /proc")


@experiment("yielding.semantics", summarise=summarise, instrument=instrument, workloads=("yielder",))
def semantics(
    run: Run,
    *,
    policies: Sequence[str] = POLICIES,
    placements: Sequence[str] = PLACEMENTS,
    trials: int | None = None,
    yields: int | None = None,
) -> None:
    """Let one thread yield alone, then two at once, by policy and placement, and count their switches.

    policies    of other, batch, fifo; fifo (two threads of one priority, a bounded number of calls) is left
                out, with a note, where it may not be set or would take the only CPU
    placements  of same_cpu, other_cpu, unpinned; other_cpu is left out, with a note, where there is one CPU
    trials      how often each is measured, each time with new threads, in two turns alone and together
    yields      calls per thread and turn, at most a million

    Data: one row per thread, trial and turn, `condition` alone or together: yields, elapsed_ns, the switches
    as getrusage counts them (voluntary_switches, involuntary_switches) and as /proc/<pid>/task/<tid>/status
    does (status_voluntary_switches, status_involuntary_switches), and migrations.
    """
    for what, chosen, known in (("policies", policies, POLICIES), ("placements", placements, PLACEMENTS)):
        checks.words(what, chosen, known)
    trials = run.choose(tiny=3, quick=9, full=25) if trials is None else trials
    yields = run.choose(tiny=100, quick=1000, full=10_000) if yields is None else yields
    if trials < 1 or not 1 <= yields <= MOST_YIELDS:
        raise ParameterError(
            f"trials start at 1, and yields lie between 1 and {MOST_YIELDS:,}.",
            "Leave them out to use the profile's.",
        )
    home = placement.quiet_cpu()
    cpus = machine.survey().cpus_allowed
    run.begin()
    run.parameters |= {"trials": trials, "yields": yields, "cpu": home}
    places = _places(run, placements, cpus)
    allowed = _policies(run, policies, cpus)

    for trial, (policy, place) in starts.each(
        run, product(allowed, places), trials, label=lambda cell: " ".join(cell).replace("_", " ")
    ):
        arguments = ["--policy", policy, "--yields", str(yields), "--trials", str(TURNS)]
        with workloads.start("yielder", arguments, deadline_s=30) as yielder:
            first, second = yielder.tids
            if place == "unpinned":
                placement.pin(yielder.tids, cpus)
            else:
                placement.pin([first], [home])
                placement.pin([second], [home if place == "same_cpu" else placement.other_cpu(home)])
            records = yielder.run()
        rows = pd.DataFrame(
            [
                {
                    "policy": policy,
                    "placement": place,
                    "trial": trial,
                    "turn": record["trial"],
                    "condition": record.text("condition"),
                    "thread": record["thread"],
                    "yields": record["yields"],
                    "elapsed_ns": record["elapsed_ns"],
                    "voluntary_switches": record["voluntary"],
                    "involuntary_switches": record["involuntary"],
                    "status_voluntary_switches": record["status_voluntary"],
                    "status_involuntary_switches": record["status_involuntary"],
                    "migrations": record["migrations"],
                }
                for record in records
            ]
        )
        run.add(rows)
        if not _agree(rows).all():
            run.note(
                "flag",
                f"{policy}, {place.replace('_', ' ')}: getrusage and /proc counted different numbers "
                "of switches.",
            )


def _places(run: Run, placements: Sequence[str], cpus: Sequence[int]) -> list[str]:
    if len(cpus) >= 2:
        return list(placements)
    left = [place for place in placements if place == "same_cpu"]
    run.note("missing", "This process may use one CPU only: yielding on two CPUs was not measured.")
    if not left:
        placement.other_cpu(cpus[0])  # raises, and says what to do
    return left


def _policies(run: Run, policies: Sequence[str], cpus: Sequence[int]) -> list[str]:
    survey, left = machine.survey(), []
    for policy in policies:
        fact = survey.fact(f"policy.{policy}") if policy != "other" else None
        if fact is not None and not fact.value:
            run.note("missing", f"SCHED_{policy.upper()} was left out: {fact.why}.")
        elif policy == "fifo" and len(cpus) < 2:
            run.note("missing", "SCHED_FIFO was left out: real-time threads never take the only CPU here.")
        else:
            left.append(policy)
    if not left:
        raise ParameterError(
            f"None of the policies {', '.join(policies)} can be used here.", "Add other, which always can."
        )
    return left
