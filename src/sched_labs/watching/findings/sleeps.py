"""What is no wait for a CPU: locks, disks, page faults, migrations."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ..seen import Seen
from .base import PAGES, Finding

LOCKED_PER_S = 20.0  # sleeps of a thread, most of them for a lock
FAULTS_PER_S = 5000.0
MIGRATIONS_PER_S = 500.0


def locks(seen: Seen) -> Iterator[Finding]:
    rows = seen.threads
    rows = rows[(rows["asleep_for"] == "lock") & (rows["voluntary_per_s"] >= LOCKED_PER_S)]
    asleep = float(rows["asleep_ms_per_s"].sum())
    if len(rows) < 2 or asleep < 200 * len(rows):
        return
    yield Finding(
        "locks",
        f"{len(rows)} of its threads wait for each other at a lock.",
        asleep,
        math.nan,
        f"They slept for a lock (futex) {asleep:,.0f} ms of every second together, and woke "
        f"{rows['voluntary_per_s'].sum():,.0f} times a second; all threads ran {seen.running:,.0f} ms.",
        "Threads that wait for work wait at a condition, and not at a lock.",
        "Hold the lock for less, or divide what it protects.",
        PAGES["threads"],
        False,
    )


def disk(seen: Seen) -> Iterator[Finding]:
    asleep, major = seen.asleep.get("disk", 0.0), float(seen.threads["major_faults_per_s"].sum())
    if asleep < 100:
        return
    faults = f"; {major:,.0f} page faults a second had to read from it" if major >= 1 else ""
    yield Finding(
        "disk",
        "It waits for a disk.",
        asleep,
        math.nan,
        f"Its threads slept {asleep:,.0f} ms of every second for a device{faults} (sampled).",
        "A network file system looks the same from here; `/proc/PID/io` and `iostat -x 1` tell.",
        "Look at what it reads and writes: no setting of the scheduler helps.",
        PAGES["cost"],
        False,
    )


def faults(seen: Seen) -> Iterator[Finding]:
    rate = float(seen.threads["minor_faults_per_s"].sum())
    system = float(seen.threads["system_ms_per_s"].sum())
    if rate < FAULTS_PER_S or system < 0.2 * seen.running:
        return
    yield Finding(
        "page_faults",
        f"It touches new memory all the time: {rate:,.0f} page faults a second.",
        system,
        math.nan,
        f"Of the {seen.running:,.0f} ms of every second that it ran, {system:,.0f} ms were inside the "
        "kernel, page faults among them.",
        "System calls cost time in the kernel as well; `perf trace -s` or `strace -c` count them.",
        "Keep memory instead of giving it back: a larger arena, or M_TRIM_THRESHOLD of glibc.",
        PAGES["cost"],
        False,
    )


def migrations(seen: Seen) -> Iterator[Finding]:
    rate = float(seen.threads["migrations_per_s"].fillna(0).sum())
    if rate < MIGRATIONS_PER_S:
        return
    yield Finding(
        "migrations",
        f"Its threads change their CPU {rate:,.0f} times a second.",
        math.nan,
        math.nan,
        "nr_migrations in /proc/PID/task/*/sched.",
        "Threads that are woken often are placed anew each time, and an idle CPU may be worth the move.",
        "Compare with the threads bound to a CPU each (taskset), before and after.",
        PAGES["mask"],
        False,
    )
