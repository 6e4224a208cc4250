"""Where and how a workload runs: which CPUs, which policy, which nice value.

Placement acts on threads that stand at their workload's barrier, by thread id, so that nothing runs in the
wrong place first.  It changes only the workload, which ends soon; there is nothing to restore.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from .. import machine
from ..core.errors import PlacementError


def quiet_cpu() -> int:
    """The CPU that experiments on one CPU use: the last one this process may use.

    Device interrupts and housekeeping prefer the first CPUs.
    """
    return machine.survey().cpus_allowed[-1]


def other_cpu(cpu: int) -> int:
    """Another CPU than `cpu`, on another core if possible.  Raises PlacementError where there is none."""
    survey = machine.survey()
    others = [number for number in survey.cpus_allowed if number != cpu]
    if not others:
        raise PlacementError(
            "This experiment needs two CPUs, and this process may use only one.",
            "Give the virtual machine a second CPU, or start the notebook without taskset.",
            lacking=True,
        )
    siblings = set(survey.smt_siblings(cpu))
    return ([number for number in others if number not in siblings] or others)[-1]


def pin(tids: Iterable[int], cpus: Iterable[int]) -> None:
    """Let each of the threads run on these CPUs only.

    Raises PlacementError, naming the CPU, for one that is not there or not allowed to this process.
    """
    wanted = set(cpus)
    allowed = set(os.sched_getaffinity(0))
    if not wanted:
        raise PlacementError("No CPU was named.", "Name at least one.")
    if forbidden := wanted - allowed:
        raise PlacementError(
            f"CPU {min(forbidden)} may not be used by this process.",
            f"It may use {_ranges(allowed)}; a cpuset, a container or taskset decides that.",
        )
    for tid in tids:
        try:
            os.sched_setaffinity(tid, wanted)
        except ProcessLookupError:
            raise PlacementError(f"Thread {tid} has ended before it could be placed.") from None
        except OSError as error:
            raise PlacementError(
                f"Thread {tid} cannot be placed on CPUs {_ranges(wanted)}: {error.strerror}."
            ) from error


def _ranges(cpus: Iterable[int]) -> str:
    """{0, 1, 2, 5} -> "0-2,5", as the kernel writes CPU lists."""
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
