"""Jobs that run in a guest, useful by themselves.

A job is a function of plain parameters that returns what JSON can hold.
It runs as root on a kernel of its own, with nothing else on the machine, so it may write tunables without
putting anything back.

The guest gets the job's module and what that may import, no more: a recorded deterministic result stays
comparable as long as they stay the same.
"""

from __future__ import annotations

from typing import NamedTuple


class Job(NamedTuple):
    call: str  # module:function
    workloads: tuple[str, ...]  # that it starts; compiled on the host
    about: str


_HERE = "sched_labs.kernels.jobs"
JOBS = {
    "hello": Job(f"{_HERE}.basic:hello", (), "which kernel answers; the smallest job"),
    "survey": Job(f"{_HERE}.basic:survey", (), "the machine survey, as this kernel sees itself"),
    "long_system_call": Job(
        f"{_HERE}.sleeper:long_system_call",
        ("sleeper",),
        "how late a real-time thread wakes during long system calls",
    ),
    "yielding": Job(
        f"{_HERE}.yielding:yielding", ("yielder",), "how often the CPU changes hands when threads yield"
    ),
    "run_queue": Job(
        f"{_HERE}.probe:run_queue", ("sleeper",), "the run-queue probe (BPF) on a sleeper among hogs"
    ),
    "throttle": Job(
        f"{_HERE}.sleeper:throttle", ("sleeper",), "a CPU quota (cgroup v2): periods, throttling, lateness"
    ),
}
