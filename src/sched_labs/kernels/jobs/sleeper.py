"""Jobs around the sleeper workload: how late does a thread get the CPU?"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from sched_labs.errors import ParameterError
from sched_labs.workloads.launch import Workload, start

_CGROUPS = Path("/sys/fs/cgroup")


def _start(deadline_s: float, **options: int | str) -> Workload:
    """The workload at its barrier, all its threads on one CPU, the last."""
    words = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    running = start("sleeper", words, deadline_s=deadline_s)
    for tid in running.tids:
        os.sched_setaffinity(tid, {max(os.sched_getaffinity(0))})
    return running


def _run(running: Workload) -> dict[str, Any]:
    """late_ns for each wake-up in order; CPU time and involuntary switches of the sleeper and of each hog."""
    records = running.run()
    sleeper = next(record for record in records if record.kind == "sleeper")
    hogs = [record for record in records if record.kind == "hog"]
    return {
        "late_ns": [record["late_ns"] for record in records if record.kind == "wake"],
        "sleeper_cpu_ns": sleeper["cpu_ns"],
        "sleeper_involuntary_switches": sleeper["involuntary"],
        "hog_cpu_ns": [hog["cpu_ns"] for hog in hogs],
        "hog_involuntary_switches": [hog["involuntary"] for hog in hogs],
    }


def sleeper_among_hogs(
    hogs: int = 3, period_us: int = 2017, wakes: int = 500, work_us: int = 300
) -> dict[str, Any]:
    """A thread that wakes every `period_us` among `hogs` that compute, all on one CPU, fair scheduler.

    After each wake-up it works for `work_us`: by default 15 % of the CPU, well below its fair quarter.
    The period is no whole part of the scheduler's tick (1, 2.5, 4 or 10 ms): otherwise every wake-up would
    meet the same moments of it.
    """
    seconds = period_us * wakes / 1e6
    with _start(30 + 5 * seconds, hogs=hogs, period_us=period_us, wakes=wakes, work_us=work_us) as running:
        return _run(running)


def long_system_call(
    hogs: int = 1, period_us: int = 1009, wakes: int = 500, map_mib: int = 16
) -> dict[str, Any]:
    """A SCHED_FIFO thread that wakes every `period_us` while hogs spend their time in long system calls.

    How late it gets the CPU is how long the kernel takes to let itself be preempted.
    """
    seconds = period_us * wakes / 1e6
    with _start(
        30 + 5 * seconds, hogs=hogs, hog="mmap", map_mib=map_mib, period_us=period_us, wakes=wakes
    ) as running:
        os.sched_setscheduler(running.tids[0], os.SCHED_FIFO, os.sched_param(50))
        return _run(running)


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
    (_CGROUPS / "cgroup.subtree_control").write_text("+cpu")
    group = _CGROUPS / "lab"
    group.mkdir(exist_ok=True)
    (group / "cpu.max").write_text(f"{period_us * quota_percent // 100} {period_us}")
    with _start(30 + 5 * seconds, hogs=1, period_us=10_000, wakes=round(seconds * 100)) as running:
        (group / "cgroup.procs").write_text(str(running.pid))
        measured = _run(running)
    counted = dict(line.split() for line in (group / "cpu.stat").read_text().splitlines())
    return measured | {
        "quota": (group / "cpu.max").read_text().strip(),
        "cpu_stat": {name: int(value) for name, value in counted.items()},
    }
