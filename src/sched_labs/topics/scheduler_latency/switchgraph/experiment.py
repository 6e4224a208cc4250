"""Who preempts whom?  Every switch of a window is an edge from the thread that left to the one that came.

Two threads that pass a token through pipes share a CPU with threads that never sleep.  The two leave the CPU
because they wait for each other, the others because they are taken off it.
"""

from __future__ import annotations

import contextlib
import math
import time

import pandas as pd

from sched_labs import machine, workloads
from sched_labs.core.errors import ParameterError
from sched_labs.core.result import Result
from sched_labs.machine import files
from sched_labs.probes import switches
from sched_labs.run import checks, optional
from sched_labs.run.base import Instrument, Run, experiment
from sched_labs.steer import placement

MOST_HOGS = 8
LONGEST_S = 60.0
COUNT_TOLERANCE = 0.02


def summarise(result: Result) -> pd.DataFrame:
    """One row per thread of the graph.

    thread       ping, pong, hog 1, ..., idle, other programs, kernel threads
    left         how often it left a CPU to, or for, a thread of the experiment
    preempted    how often of these it could have gone on
    slept        how often it went to sleep, whether or not a signal can wake it
    came         how often it took a CPU over
    """
    data = result.data
    rows = []
    for thread in dict.fromkeys([*data["prev"], *data["next"]]):
        left = data[data["prev"] == thread]
        rows.append(
            {
                "thread": thread,
                "left": int(left["switches"].sum()),
                "preempted": int(left.loc[left["state"] == "runnable", "switches"].sum()),
                "slept": int(left.loc[left["state"].str.endswith("interruptible"), "switches"].sum()),
                "came": int(data.loc[data["next"] == thread, "switches"].sum()),
            }
        )
    return pd.DataFrame(rows, columns=["thread", "left", "preempted", "slept", "came"])


def instrument(survey: machine.Machine) -> Instrument:
    """The BPF probe; nothing else counts switches by pair."""
    able = switches.available()
    return Instrument("BPF probe of every switch", "" if able.ok else f"{able.why} {able.remedy}".strip())


@experiment(
    "switchgraph.window",
    summarise=summarise,
    instrument=instrument,
    workloads=("pingpong", "burn"),
    needs=("bpf",),
)
def window(
    run: Run, *, hogs: int | None = None, cpu: int | None = None, duration_s: float | None = None
) -> None:
    """Let a ping-pong and threads that never sleep share a CPU, and count every switch by its pair.

    hogs        how many threads never sleep; default 2
    cpu         the CPU that they share; default: a quiet one
    duration_s  how long the window is; default: by profile

    Data: one row per pair of threads and state: prev, next (ping, pong, hog 1, ..., idle, other programs,
    kernel threads), state (what prev was about to do: runnable, interruptible, uninterruptible, other),
    switches.  Facts: window_ns, lost_edges, and voluntary and involuntary, what
    the kernel counted for ping and pong over a time that begins before the window and ends after it.

    Needs the BPF probe: raises ProbeError where this machine cannot have it.
    """
    hogs = 2 if hogs is None else hogs
    duration_s = run.choose(tiny=0.2, quick=1.0, full=10.0) if duration_s is None else duration_s
    cpu = placement.quiet_cpu() if cpu is None else cpu
    if not isinstance(hogs, int) or not 0 <= hogs <= MOST_HOGS:
        raise ParameterError(f"hogs must be a number from 0 to {MOST_HOGS}, not {hogs!r}.")
    checks.seconds("duration_s", duration_s, 0.05, LONGEST_S)
    checks.cpu(cpu)
    optional.needed(switches.available())
    run.begin()
    run.parameters |= {"hogs": hogs, "cpu": cpu, "duration_s": duration_s}
    deadline_s = duration_s + 60
    with contextlib.ExitStack() as stack:
        # Each trial begins with one side alone; many short trials keep the two at it for the whole window.
        long = ["--round-trips", "2000", "--trials", "100000", "--by", "pipe", "--between", "threads"]
        pair = stack.enter_context(workloads.start("pingpong", long, deadline_s=deadline_s))
        roles = dict(zip(pair.tids, ("ping", "pong"), strict=True))
        pids = [pair.pid]
        running = [pair]
        if hogs:
            arguments = ["--workers", str(hogs), "--duration-ms", str(math.ceil(1000 * deadline_s))]
            burn = stack.enter_context(workloads.start("burn", arguments, deadline_s=deadline_s))
            roles |= {tid: f"hog {n}" for n, tid in enumerate(burn.tids, 1)}
            pids.append(burn.pid)
            running.append(burn)
        for workload in running:
            placement.pin(workload.tids, [cpu])
        probe = stack.enter_context(switches.watch(pids, duration_s))
        for workload in running:
            workload.go()
        time.sleep(_SETTLE_S)
        before = [_counted(tid) for tid in pair.tids]
        probe.start()
        for _ in run.each([duration_s], label=lambda s: f"{s:.1f} s"):
            seen = probe.wait()
        after = [_counted(tid) for tid in pair.tids]
        kernel = {tid for tid in _strangers(seen.edges, roles) if _is_kernel_thread(tid)}
    if seen.edges.empty:
        run.note("flag", "No switch of these threads was seen.")
    run.add(_named(seen.edges, roles, kernel))
    voluntary, involuntary = (sum(b[n] - a[n] for a, b in zip(before, after, strict=True)) for n in (0, 1))
    run.facts |= {
        "window_ns": seen.window_ns,
        "lost_edges": seen.lost_edges,
        "voluntary": voluntary,
        "involuntary": involuntary,
    }
    _check_counts(run, seen.edges, set(pair.tids), voluntary)


_SETTLE_S = 0.1  # all threads have started


def _counted(tid: int) -> tuple[int, int]:
    """Voluntary and involuntary switches of a thread so far, as the kernel counts them."""
    text = files.read(f"/proc/{tid}/status") or ""
    values = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    return int(values.get("voluntary_ctxt_switches", 0)), int(values.get("nonvoluntary_ctxt_switches", 0))


def _strangers(edges: pd.DataFrame, roles: dict[int, str]) -> set[int]:
    return {tid for tid in [*edges["prev_tid"], *edges["next_tid"]] if tid and tid not in roles}


def _is_kernel_thread(tid: int) -> bool:
    """Kernel threads have no memory of their own; a thread that is gone counts as another program's."""
    text = files.read(f"/proc/{tid}/status")
    return text is not None and "\nVmSize:" not in text


def _named(edges: pd.DataFrame, roles: dict[int, str], kernel: set[int]) -> pd.DataFrame:
    def role(tid: int) -> str:
        if tid == 0:
            return "idle"
        return roles.get(tid) or ("kernel threads" if tid in kernel else "other programs")

    named = pd.DataFrame(
        {
            "prev": [role(tid) for tid in edges["prev_tid"]],
            "next": [role(tid) for tid in edges["next_tid"]],
            "state": edges["state"],
            "switches": edges["switches"],
        }
    )
    whole = named.groupby(["prev", "next", "state"])["switches"].sum().reset_index()
    return whole.sort_values("switches", ascending=False, ignore_index=True)


def _check_counts(run: Run, edges: pd.DataFrame, tids: set[int], voluntary: int) -> None:
    """Whether the probe saw the pair go to sleep as often as the kernel counted voluntary switches."""
    slept = edges[edges["prev_tid"].isin(tids) & (edges["state"] != "runnable")]["switches"].sum()
    # The kernel's count begins a little earlier and ends a little later than the window.
    if slept > voluntary or slept < voluntary * (1 - 10 * COUNT_TOLERANCE) - 100:
        run.note("flag", f"The pair went to sleep {slept} times, and the kernel counted {voluntary}.")
