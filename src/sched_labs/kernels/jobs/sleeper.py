"""Jobs around the sleeper workload that its experiment does not have."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ... import workloads
from ...core.errors import ParameterError
from ...limits import cgroups
from ...steer import placement
from ...topics.other_kernels.sleeper.experiment import told


def _start(seconds: float, **options: int | str) -> workloads.Workload:
    """The workload at its barrier, all its threads on one CPU."""
    words = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    running = workloads.start("sleeper", words, deadline_s=30 + 5 * seconds)
    placement.pin(running.tids, [max(os.sched_getaffinity(0))])
    return running


def long_system_call(
    hogs: int = 1, period_us: int = 1009, wakes: int = 500, map_mib: int = 16
) -> dict[str, Any]:
    """A SCHED_FIFO thread that wakes every `period_us` while hogs spend their time in long system calls.

    How late it gets the CPU is how long the kernel takes to let itself be preempted.
    """
    options = {"hogs": hogs, "period_us": period_us, "wakes": wakes, "map_mib": map_mib}
    with _start(period_us * wakes / 1e6, hog="mmap", **options) as running:
        os.sched_setscheduler(running.tids[0], os.SCHED_FIFO, os.sched_param(50))
        return told(running.run())


def throttle(quota_percent: int = 20, period_us: int = 100_000, seconds: float = 2.0) -> dict[str, Any]:
    """A hog and a sleeper in a cgroup that may use `quota_percent` of a CPU per `period_us` (cgroup v2
    cpu.max).

    Also returns what the kernel counted in cpu.stat: periods, throttled periods, throttled time.
    """
    if not 1 <= quota_percent <= 100 or not 1000 <= period_us <= 1_000_000:
        raise ParameterError(
            f"A quota of {quota_percent} % of {period_us} µs cannot be set.",
            "Choose 1 to 100 % and a period of 1000 to 1000000 µs.",
        )
    quota_us = period_us * quota_percent // 100
    with (
        cgroups.group("lab", quota_us=quota_us, period_us=period_us) as group,
        _start(seconds, hogs=1, period_us=10_000, wakes=round(seconds * 100)) as running,
    ):
        group.add(running.pid)
        measured = told(running.run())
        folder = Path(group.path)
        counted = dict(line.split() for line in (folder / "cpu.stat").read_text().splitlines())
        return measured | {
            "quota": (folder / "cpu.max").read_text().strip(),
            "cpu_stat": {name: int(value) for name, value in counted.items()},
        }
