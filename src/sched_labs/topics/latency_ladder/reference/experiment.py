"""What else costs as long as a switch?  Reference costs, all from one machine: the latency ladder (lab L07).

Each rung is one operation, done over and over in batches whose size is found at run time; an empty loop takes
its turn among them and is subtracted.  The method is that of lmbench (McVoy and Staelin, "lmbench: portable
tools for performance analysis", USENIX 1996), with an interval for every rung.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from sched_labs import machine, workloads
from sched_labs.core import stats
from sched_labs.core.errors import ParameterError
from sched_labs.core.result import Result
from sched_labs.run import checks, starts
from sched_labs.run.base import Instrument, Run, experiment
from sched_labs.steer import placement

KIB, MIB = 1 << 10, 1 << 20
# Those of one group share a process; see the workload for why the last two do not.
LOOPS = ("call", "atomic", "clock", "stack_switch", "system_call", "memcpy_warm", "memcpy_cold")
STARTS = ("process", "thread")
# Ping-pong through pipes between two threads, its block alone subtracted, divided by the switches counted.
SWITCHES = ("switch", "hand_over")
RUNGS = (*LOOPS, *SWITCHES, *STARTS)
TURNS = 2  # of every rung in one start, there and back, when the batches have been tried out
PING_PONG_TURNS = 3  # these find the start cold, and the median leaves the first out
LARGEST_POOL = 768 * MIB  # there are guests that see a last-level cache of 260


def summarise(result: Result) -> pd.DataFrame:
    """One row per rung, the cheapest first.

    rung                       see `costs`
    cost_ns, cost_lo_ns, cost_hi_ns   one operation without the empty loop: median over trials, 95 % interval;
                               what that covers is said in `starts`
    calls_ns                   of switch and hand_over: the same system calls alone, per switch; else missing
    floor_ns                   what one turn of a trial differs from the other by: less is not seen
    switches_per_operation     as the kernel counted them for the measuring thread (of switches: for both)
    interrupted_batches        batches in which the thread was taken off its CPU although nothing asked for it
    trials
    """
    rows = []
    data = starts.with_turns(result.data).assign(
        per=lambda d: d.elapsed_ns / d.operations,
        switches=lambda d: (d.voluntary_switches + d.involuntary_switches) / d.operations,
    )
    for rung, part in data.groupby("rung", sort=False):
        by_trial = starts.by_trial(part, "per")
        if by_trial.empty or "operation" not in by_trial:
            continue
        operation, baseline = by_trial["operation"], by_trial["baseline"]
        turns = part.pivot(index=["trial", "turn"], columns="condition", values="per")
        cost = stats.paired_difference(operation, baseline)
        measured = part[part.condition == "operation"]
        loops = rung not in SWITCHES
        rows.append(
            {
                "rung": rung,
                **stats.in_columns("cost", "ns", cost),
                "calls_ns": float("nan") if loops else float(baseline.median()),
                "floor_ns": starts.noise_floor(turns["operation"] - turns["baseline"]),
                "switches_per_operation": float(measured.switches.median()),
                "interrupted_batches": int((measured.involuntary_switches > 0).sum()) if loops else 0,
                "trials": len(by_trial),
            }
        )
    return pd.DataFrame(rows).sort_values("cost_ns", ignore_index=True)


def instrument(survey: machine.Machine) -> Instrument:
    """The clock is enough; where the kernel has to be asked for it, that is a rung as well."""
    source = survey.fact("clock.source").value
    return Instrument(f"clock over batches (time source {source})" if source else "clock over batches")


@experiment(
    "reference.costs", summarise=summarise, instrument=instrument, workloads=("reference", "pingpong")
)
def costs(
    run: Run, *, rungs: Sequence[str] = RUNGS, trials: int | None = None, batch_us: int | None = None
) -> None:
    """Measure the rungs of the latency ladder, all on one CPU.

    rungs     call          a call of a function that does nothing
              atomic        atomic addition to a word that nobody else uses
              clock         clock_gettime(CLOCK_MONOTONIC)
              stack_switch  from one stack to another inside the program, as coroutines do
              system_call   getppid, the raw system call
              memcpy_warm   copying 64 KiB, the same again and again
              memcpy_cold   copying 64 KiB from and to memory that was last used long ago
              switch        one context switch: threads, pipe, same CPU, its system calls subtracted
              hand_over     one hand-over to a thread on another CPU, likewise
              process       fork, exit of the child, wait
              thread        create and join
    trials    how often each is measured, each time in a new process, a few times there and back
    batch_us  how long one batch lasts at least

    Data: one row per rung, trial, turn and condition (operation; baseline: the empty loop, a turn of which is
    two operations of stack_switch, and for switch and hand_over the same system calls alone): operations,
    elapsed_ns, and the kernel's counts voluntary_switches and involuntary_switches.  The notes say what this
    kernel does against processor bugs.
    """
    trials = run.choose(tiny=3, quick=6, full=25) if trials is None else trials
    batch_us = run.choose(tiny=100, quick=2000, full=10_000) if batch_us is None else batch_us
    _check(rungs, trials, batch_us)
    survey = machine.survey()
    home = placement.quiet_cpu()
    pool = _pool_bytes(run, survey) if "memcpy_cold" in rungs else 4 * MIB
    run.begin()
    run.parameters |= {"trials": trials, "batch_us": batch_us, "cpu": home, "pool_bytes": pool}
    _say_mitigations(run, survey)
    if len(survey.cpus_allowed) < 2 and "hand_over" in rungs:
        run.note("missing", "This process may use one CPU only: no hand-over to another CPU was measured.")
        rungs = [rung for rung in rungs if rung != "hand_over"]

    loops = [rung for rung in LOOPS if rung in rungs]
    groups = [loops] * bool(loops) + [[rung] for rung in (*SWITCHES, *STARTS) if rung in rungs]
    for trial, group in starts.each(
        run, groups, trials, label=lambda group: ", ".join(group).replace("_", " ")
    ):
        if group[0] in SWITCHES:
            _switches(run, group[0], home, trial, batch_us)
        else:
            _batches(run, group, home, trial, batch_us, pool)


def _batches(run: Run, group: Sequence[str], home: int, trial: int, batch_us: int, pool: int) -> None:
    arguments = [word for rung in group for word in ("--rung", rung)]
    arguments += ["--trials", str(TURNS), "--batch-us", str(batch_us), "--pool", str(pool)]
    with workloads.start("reference", arguments, deadline_s=120) as reference:
        placement.pin(reference.tids, [home])
        batches = reference.run()
    empty = {batch["trial"]: batch for batch in batches if batch.text("rung") == "empty"}
    for batch in batches:
        rung = batch.text("rung")
        if rung != "empty":
            alone = empty[batch["trial"]]
            baseline = _row(rung, trial, "baseline", alone)
            if rung == "stack_switch":  # there and back in one turn of its loop
                baseline["operations"] = 2 * alone["operations"]
            run.add([baseline, _row(rung, trial, "operation", batch)])


def _row(rung: str, trial: int, condition: str, batch: workloads.Record) -> dict[str, object]:
    return {
        "rung": rung,
        "trial": trial,
        "turn": batch["trial"],
        "condition": condition,
        "operations": batch["operations"],
        "elapsed_ns": batch["elapsed_ns"],
        "voluntary_switches": batch["voluntary"],
        "involuntary_switches": batch["involuntary"],
    }


def _switches(run: Run, rung: str, home: int, trial: int, batch_us: int) -> None:
    """One trial of ping-pong; one operation is a switch that the kernel counted."""
    trips = max(50, batch_us // 8)
    arguments = ["--by", "pipe", "--trials", str(PING_PONG_TURNS), "--round-trips", str(trips)]
    with workloads.start("pingpong", arguments, deadline_s=120) as pingpong:
        there = home if rung == "switch" else placement.other_cpu(home)
        for tid, cpu in zip(pingpong.tids, (home, there), strict=True):
            placement.pin([tid], [cpu])
        blocks = pingpong.run()
    counted = {
        block["trial"]: block["voluntary"] + block["involuntary"]
        for block in blocks
        if block.text("condition") == "exchange"
    }
    if min(counted.values()) < trips:
        run.note("flag", f"{rung}: a trial with fewer than one counted switch in a round trip was left out.")
        return
    run.add(
        [
            {
                "rung": rung,
                "trial": trial,
                "turn": block["trial"],
                "condition": "baseline" if block.text("condition") == "alone" else "operation",
                "operations": counted[block["trial"]],
                "elapsed_ns": block["elapsed_ns"],
                "voluntary_switches": block["voluntary"],
                "involuntary_switches": block["involuntary"],
            }
            for block in blocks
        ]
    )


def _pool_bytes(run: Run, survey: machine.Machine) -> int:
    """What the cold copy goes through: four last-level caches, at most an eighth of the available memory."""
    caches = [
        cache.size_bytes for cache in survey.caches(placement.quiet_cpu()) if cache.kind != "instruction"
    ]
    last = max(caches, default=32 * MIB)
    known = [survey.fact(key).value for key in ("memory.available_bytes", "cgroup.memory_limit_bytes")]
    available = min((value for value in known if isinstance(value, int)), default=512 * MIB)
    pool = min(4 * last, available // 8, LARGEST_POOL)
    if pool < 2 * last:
        run.note(
            "flag",
            f"The cold copy goes through {pool // MIB} MiB, less than two last-level caches "
            f"({last // MIB} MiB each): part of it may still have been warm.",
        )
    return max(pool, MIB)


def _say_mitigations(run: Run, survey: machine.Machine) -> None:
    active, left = survey.fact("cpu.mitigations").value, survey.fact("cpu.vulnerable").value
    if active is None:
        run.note("missing", "This kernel does not tell what it does against processor bugs.")
        return
    assert isinstance(active, list)
    text = "Against processor bugs: " + (
        "; ".join(active) if active else "nothing; this processor needs or gets no defence"
    )
    run.note(
        "info",
        text + (f". Left open: {', '.join(map(str, left))}." if isinstance(left, list) and left else "."),
    )


def _check(rungs: Sequence[str], trials: int, batch_us: int) -> None:
    checks.words("rungs", rungs, RUNGS)
    if trials < 1:
        raise ParameterError(f"{trials} trials measure nothing.", "Give at least 3; intervals need them.")
    if not 1 <= batch_us <= 100_000:
        raise ParameterError(
            f"A batch of {batch_us} µs is no use.", "Give 1 to 100,000; 3,000 is a good start."
        )
