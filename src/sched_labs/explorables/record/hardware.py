"""The way of a wake-up, near and far, on the machine that records: this is about its own microseconds."""

from __future__ import annotations

import os
from typing import Any

from ... import machine, workloads
from ...core.errors import ProbeError
from ...steer import placement
from . import trace

_STEPS = ("call", "waking", "wakeup", "switch", "back")
_WRITE = (1, 64)  # the number of write() on x86-64 and on arm64
_ROUND_TRIPS, _TRIALS, _TRIES, _ENOUGH = 200, 4, 20, 300


def wake_ups() -> tuple[dict[str, Any], str]:
    """A message through a pipe to a sleeping thread: on the CPU of the sender, and on another that is idle.

    {"near": {...}, "far": {...}}, each with `steps`, the ns after the sender's system call began at which:
    waking, the kernel begins to wake the thread; wakeup, it stands in the queue of its CPU; switch, the CPU
    takes it; back, its own system call ends.  The steps are those of one wake-up, the one whose whole
    length is the median; `p10`, `p90` are whole lengths, and `wakes` is how many were seen.
    """
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        raise ProbeError("A wake-up to another CPU needs two of them.")
    found = {}
    for name, places in (("near", (cpus[-1], cpus[-1])), ("far", (cpus[0], cpus[-1]))):
        seen: list[list[int]] = []
        for _ in range(_TRIES):
            seen += _seen(places, idle=name == "far")
            if len(seen) >= _ENOUGH:
                break
        else:
            raise ProbeError(f"Only {len(seen)} wake-ups were seen.", "Record on a quieter machine.")
        found[name] = _usual(seen)
    facts = machine.survey().provenance()
    return found, f"{facts['cpu_model']}, Linux {facts['kernel']}, {facts['hypervisor'] or 'no hypervisor'}"


def _usual(seen: list[list[int]]) -> dict[str, Any]:
    seen = sorted(seen, key=lambda steps: steps[-1])
    return {
        "steps": dict(zip(_STEPS[1:], seen[len(seen) // 2], strict=True)),
        "p10": seen[len(seen) // 10][-1],
        "p90": seen[9 * len(seen) // 10][-1],
        "wakes": len(seen),
    }


def _seen(places: tuple[int, int], idle: bool) -> list[list[int]]:
    """Every complete wake-up of the partner; idle: only those of a CPU that had nothing else to do."""
    words = [
        "--by",
        "pipe",
        "--between",
        "threads",
        "--round-trips",
        str(_ROUND_TRIPS),
        "--trials",
        str(_TRIALS),
    ]
    with workloads.start("pingpong", words, deadline_s=60) as pair:
        for tid, cpu in zip(pair.tids, places, strict=True):
            placement.pin([tid], [cpu])
        with trace.record([pair.pid]) as seen:
            pair.run()
    sender, partner = pair.tids
    found, now = [], dict.fromkeys(_STEPS, 0)
    for at, _, kind, tid, other, _ in seen.events:
        if kind == "enter" and tid == sender and other in _WRITE:
            now = dict.fromkeys(_STEPS, 0) | {"call": at}
        elif kind == "waking" and tid == partner and other == sender and now["call"]:
            now["waking"] = at
        elif kind == "wakeup" and tid == partner and now["waking"]:
            now["wakeup"] = at
        elif kind == "switch" and other == partner and now["wakeup"]:
            usual = tid == (0 if idle else sender)
            now = now | {"switch": at} if usual else dict.fromkeys(_STEPS, 0)
        elif kind == "leave" and tid == partner and now["switch"]:
            found.append(
                [at - now["call"] if step == "back" else now[step] - now["call"] for step in _STEPS[1:]]
            )
            now = dict.fromkeys(_STEPS, 0)
    return found
