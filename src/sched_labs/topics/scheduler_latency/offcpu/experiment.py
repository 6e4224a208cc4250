"""Why are threads off the CPU?  Time off it by state, and by the place in the kernel where they left it.

A thread that waits for a CPU, one that waits for its time, for another thread or for a device all use no CPU.
Their states tell them apart, and the kernel functions that they left the CPU in tell what they wait for.
"""

from __future__ import annotations

import contextlib
import math
from pathlib import Path

import pandas as pd

from sched_labs import machine, workloads
from sched_labs.core.errors import ParameterError
from sched_labs.core.result import Result
from sched_labs.core.store import at_home, write_text
from sched_labs.probes import switches
from sched_labs.run import checks, optional
from sched_labs.run.base import Instrument, Run, experiment
from sched_labs.steer import placement

ROLES = ("hog", "rival", "sleeper", "reader", "parent")
LONGEST_S = 60.0
COUNT_TOLERANCE = 0.05


def summarise(result: Result) -> pd.DataFrame:
    """One row per thread and state.

    role            hog, rival, sleeper, reader, parent
    state           what the thread was: runnable (it lost its CPU and waited for one), interruptible or
                    uninterruptible (asleep, until it was woken), woken (from then on it waited for a CPU),
                    other
    times           how often it was that
    off_cpu_ns      how long, in all
    share_percent   that by all time that the thread was off the CPU
    """
    table = result.data.groupby(["role", "state"], sort=False)[["times", "off_cpu_ns"]].sum().reset_index()
    whole = table.groupby("role")["off_cpu_ns"].transform("sum")
    table["share_percent"] = 100 * table["off_cpu_ns"] / whole.where(whole > 0)
    order = {role: at for at, role in enumerate(ROLES)}
    table["place"] = table["role"].map(order)
    table = table.sort_values(["place", "off_cpu_ns"], ascending=[True, False], ignore_index=True)
    return table.drop(columns="place")


def instrument(survey: machine.Machine) -> Instrument:
    """The BPF probe with the kernel's stacks."""
    able = switches.available()
    return Instrument(
        "BPF probe of every switch, with kernel stacks",
        "" if able.ok else f"{able.why} {able.remedy}".strip(),
    )


@experiment(
    "offcpu.stacks", summarise=summarise, instrument=instrument, workloads=("waiters",), needs=("bpf",)
)
def stacks(run: Run, *, cpu: int | None = None, duration_s: float | None = None) -> None:
    """Let five threads be off the CPU for different reasons, and note where in the kernel each leaves it.

    cpu         the CPU that they share; default: a quiet one
    duration_s  how long the window is; default: by profile

    Data: one row per thread, state and stack: role, state (as in the summary), stack (kernel functions from
    the outermost in, joined by semicolons; of a woken thread those that it had slept in), times, off_cpu_ns.
    Facts: window_ns, lost_stacks and voluntary, how often the kernel counted that each thread went to sleep,
    over the life of the program.
    Method: off-CPU analysis (Gregg, Systems Performance, 2nd edition, chapter 5), divided at the wake-up.

    Needs the BPF probe: raises ProbeError where this machine cannot have it.
    """
    duration_s = run.choose(tiny=0.3, quick=1.0, full=10.0) if duration_s is None else duration_s
    cpu = placement.quiet_cpu() if cpu is None else cpu
    checks.seconds("duration_s", duration_s, 0.05, LONGEST_S)
    checks.cpu(cpu)
    optional.needed(switches.available())
    run.begin()
    run.parameters |= {"cpu": cpu, "duration_s": duration_s}
    with contextlib.ExitStack() as stack:
        arguments = ["--duration-ms", str(math.ceil(1000 * duration_s))]
        program = stack.enter_context(workloads.start("waiters", arguments, deadline_s=2 * duration_s + 30))
        placement.pin(program.tids, [cpu])
        roles = dict(zip(program.tids, ROLES, strict=True))
        probe = stack.enter_context(switches.watch([program.pid], duration_s + 20, stacks=True))
        probe.start()
        for _ in run.each([duration_s], label=lambda s: f"{s:.1f} s"):
            records = program.run()
        seen = probe.stop()
    found = divided(seen.stacks[seen.stacks["tid"].isin(list(roles))])
    run.add(found.assign(role=found["tid"].map(roles))[["role", "state", "stack", "times", "off_cpu_ns"]])
    voluntary = {record.text("role"): record["voluntary"] for record in records}
    run.facts |= {"window_ns": seen.window_ns, "lost_stacks": seen.lost_stacks, "voluntary": voluntary}
    if (found["stack"] == "kernel").any():
        run.note("missing", "The names of the kernel's functions are hidden here (kernel.kptr_restrict).")
    if seen.lost_stacks:
        run.note("flag", f"{seen.lost_stacks} departures found no room in the table of stacks.")
    _check_counts(run, voluntary)


def divided(stacks: pd.DataFrame) -> pd.DataFrame:
    """The stacks of the probe with sleep and the wait after it in rows of their own, the latter as
    `woken`.
    """
    slept = stacks[stacks["state"] != "runnable"]
    asleep = slept.assign(off_cpu_ns=slept["off_cpu_ns"] - slept["waited_ns"])
    woken = slept[slept["waited_ns"] > 0].assign(state="woken", off_cpu_ns=lambda d: d["waited_ns"])
    return pd.concat([stacks[stacks["state"] == "runnable"], asleep, woken], ignore_index=True)


def _check_counts(run: Run, voluntary: dict[str, int]) -> None:
    """Whether each thread went to sleep as often as the kernel counted."""
    data = run.rows[-1]
    slept = data[data["state"].isin(["interruptible", "uninterruptible"])].groupby("role")["times"].sum()
    for role, counted in voluntary.items():
        times = int(slept.get(role, 0))
        if abs(times - counted) > COUNT_TOLERANCE * counted + 10:
            run.note("flag", f"The {role} went to sleep {times} times, and the kernel counted {counted}.")


def folded(result: Result) -> str:
    """The stacks as lines that every flame graph program reads: role;state;function;... microseconds."""
    if result.kind != "offcpu.stacks":
        raise ParameterError(f"A {result.kind} has no stacks.", "Give it a result of offcpu.stacks.")
    lines = []
    for role, state, stack, ns in zip(
        *(result.data[name] for name in ("role", "state", "stack", "off_cpu_ns")), strict=True
    ):
        if ns >= 1000:
            lines.append(f"{role};{state};{stack} {ns // 1000}")
    return "\n".join(sorted(lines)) + "\n" if lines else ""


def save_folded(result: Result, path: str | Path) -> Path:
    """Write `folded(result)`; returns the path.  ResultError for a place that cannot be written."""
    target = at_home(path)
    write_text(target, folded(result))
    return target
