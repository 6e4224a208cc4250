"""Two hogs on one CPU: what does a nice value count for, and among whom?  (lab L10)

The fair scheduler divides a CPU among task groups first, by the groups' weights, and then within each.  A
session is such a group where autogroup is on, and a control group with the cpu controller always is one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from sched_labs import machine, workloads
from sched_labs.core import stats
from sched_labs.core.errors import PlacementError
from sched_labs.core.result import Result
from sched_labs.limits import cgroups, weights
from sched_labs.run import checks, starts
from sched_labs.run.base import Instrument, Run, experiment
from sched_labs.steer import placement

NICE = 10  # what nice(1) gives where it is not told otherwise
DEFAULT_WEIGHT, WEIGHT = 100, 25  # of a new control group, and of the second one, in the scale of v2


@dataclass(frozen=True)
class Arrangement:
    """Where the two hogs stand, and what the second one was given."""

    stands: str  # in one session, in two sessions, or in two control groups
    nice: int = 0
    autogroup: int = 0
    weight: int = DEFAULT_WEIGHT
    spread: bool = False


ARRANGEMENTS = {
    "alike": Arrangement("one session"),
    "one session": Arrangement("one session", nice=NICE),
    "two sessions": Arrangement("two sessions", nice=NICE),
    "two sessions, autogroup": Arrangement("two sessions", autogroup=NICE),
    "two sessions, spread": Arrangement("two sessions", spread=True),
    "two groups": Arrangement("two groups", nice=NICE),
    "two groups, weight": Arrangement("two groups", weight=WEIGHT),
}


def summarise(result: Result) -> pd.DataFrame:
    """One row per arrangement; the percentages are of what the two hogs had of their CPU together.

    arrangement
    task_groups             in how many they stood: 1 where the kernel makes none of a session
    task_group              where this program's own nice value counted, as the fact says
    second_percent, second_lo_percent, second_hi_percent   what the second hog had: median over trials, 95 %
                            interval
    by_nice_percent         what it would have if its nice value alone counted
    by_groups_percent       what it should have by its weight where it stood: its nice value within one task
                            group, else its group's weight, divided among the CPUs it runs on, as Linux up to
                            7.2 does
    pair_percent            what both had of the CPU: the rest was other programs'
    trials
    """
    rows = []
    for name, cell in result.data.groupby("arrangement", sort=False):
        given = ARRANGEMENTS[str(name)]
        both = cell.first_cpu_ns + cell.second_cpu_ns
        apart = int(cell.task_groups.iloc[0])
        rows.append(
            {
                "arrangement": name,
                "task_groups": apart,
                "task_group": result.facts.get("task_group"),
                **stats.spread("second", "percent", 100 * cell.second_cpu_ns / both.clip(lower=1)),
                "by_nice_percent": 100 * weights.share(weights.of_nice(given.nice)),
                "by_groups_percent": 100 * weights.share(_weight(given, apart)),
                "pair_percent": float((100 * both / cell.elapsed_ns).median()),
                "trials": len(cell),
            }
        )
    return pd.DataFrame(rows)


def _weight(given: Arrangement, task_groups: int) -> float:
    """What the second hog weighs against the first, of nice 0 or in a group of the default weight."""
    if task_groups == 1:
        return weights.of_nice(given.nice)
    if given.stands == "two groups":
        return weights.from_cgroup(given.weight)
    return weights.of_nice(given.autogroup) / (2 if given.spread else 1)


def instrument(survey: machine.Machine) -> Instrument:
    """The hogs' CPU clocks; control groups where they may be made."""
    able, why = cgroups.possible()
    if able:
        return Instrument("the hogs' CPU clocks, in sessions and control groups")
    return Instrument("the hogs' CPU clocks, in sessions", why.replace("\n", " "))


@experiment(
    "weights.pairs", summarise=summarise, instrument=instrument, workloads=("weights",), needs=("cgroup",)
)
def pairs(
    run: Run,
    *,
    arrangements: Sequence[str] = tuple(ARRANGEMENTS),
    trials: int | None = None,
    duration_s: float | None = None,
) -> None:
    """Let two hogs share a CPU, in one session, in two, and in two control groups, and give the second less.

    arrangements  of alike (one session, nice 0 both), one session (the second has nice 10), two sessions (the
                  same), two sessions, autogroup (the second's session has nice 10), two sessions, spread
                  (nice 0; the second runs on another CPU, too), two groups (control groups; the second hog
                  has nice 10), two groups, weight (the second group has a weight of 25, the first 100)
    trials        how often each is measured, each time with new processes; they take turns
    duration_s    of each trial: a thread of nice 10 has a turn every 40 ms or so

    Data: one row per trial and arrangement: arrangement, trial, task_groups (1 or 2: whether the kernel keeps
    the two apart), first_cpu_ns, second_cpu_ns, elapsed_ns.
    The fact task_group is where this process's own nice value counts.
    Method: setsid(2), setpriority(2), /proc/self/autogroup, cpu.weight or cpu.shares; all hogs pinned before.
    """
    checks.words("arrangements", arrangements, ARRANGEMENTS)
    trials = run.choose(tiny=1, quick=6, full=12) if trials is None else trials
    duration_s = run.choose(tiny=0.1, quick=0.12, full=2.0) if duration_s is None else duration_s
    checks.whole("trials", trials, 1, 1000)
    checks.seconds("duration_s", duration_s, 0.05, 30)
    cpu = placement.quiet_cpu()
    survey = machine.survey()
    run.begin()
    run.parameters |= {"trials": trials, "duration_s": duration_s, "cpu": cpu}
    run.facts["task_group"] = survey.fact("cgroup.task_group").value
    chosen = [name for name in ARRANGEMENTS if name in arrangements]
    able, why = cgroups.possible()
    if not able:
        chosen = [name for name in chosen if ARRANGEMENTS[name].stands != "two groups"]
        run.note("missing", f"No control groups could be made: {why}")
    if len(survey.cpus_allowed) < 2:
        chosen = [name for name in chosen if not ARRANGEMENTS[name].spread]
        run.note("missing", "This process may use one CPU only: no group can run on two.")
    refused: set[str] = set()
    for trial, name in starts.each(run, chosen, trials, label=str):
        if name in refused:
            continue
        try:
            cpu_ns, granted = _block(ARRANGEMENTS[name], cpu, duration_s)
        except PlacementError as error:
            refused.add(name)
            run.note("missing", f"{name}: {error}")
            continue
        if not granted:
            refused.add(name)
            run.note("missing", f"{name}: the kernel refused a nice value.")
            continue
        run.add(
            [
                {
                    "arrangement": name,
                    "trial": trial,
                    "task_groups": _task_groups(ARRANGEMENTS[name], run.facts["task_group"]),
                    "first_cpu_ns": cpu_ns[0],
                    "second_cpu_ns": cpu_ns[1],
                    "elapsed_ns": round(1e9 * duration_s),
                }
            ]
        )
    if not run.measured:
        raise PlacementError(
            "The kernel refused the hogs' nice values: this process has one, and may not go below it.",
            "Start Python, or Jupyter, without nice.",
            lacking=True,
        )


def _task_groups(given: Arrangement, ours: str | None) -> int:
    sessions = given.stands == "two sessions" and ours == "its session (autogroup)"
    return 2 if sessions or given.stands == "two groups" else 1


def _block(given: Arrangement, cpu: int, duration_s: float) -> tuple[list[int], bool]:
    words = ["--sessions", int(given.stands == "two sessions"), "--nice", given.nice]
    words += ["--autogroup", given.autogroup, "--cpu", cpu, "--duration-ms", round(1000 * duration_s)]
    words += ["--other-cpu", placement.other_cpu(cpu)] if given.spread else []
    with contextlib.ExitStack() as stack:
        groups = []
        if given.stands == "two groups":
            for name, weight in (("first", DEFAULT_WEIGHT), ("second", given.weight)):
                groups.append(stack.enter_context(cgroups.group(name, weight=weight)))
        hogs = stack.enter_context(
            workloads.start("weights", [str(word) for word in words], deadline_s=30 + 20 * duration_s)
        )
        for group, pid in zip(groups, hogs.tids, strict=False):
            group.add(pid)
        records = hogs.run()
    return [record["cpu_ns"] for record in records], all(record["granted"] for record in records)
