"""What makes it late without a queue: late timers, CPUs that have to be fetched from idle, a late client."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ..causes import Causes
from ..seen import Seen
from .base import LEAST_MS, PAGES, Finding, names, share_of

SLACK_SHARE = 0.1  # of the time that a thread sleeps for its timers
IDLE_SHARE = 0.1  # of what it wanted
IDLE_PER_S = 1000.0  # wake-ups
CLIENT_MS = 50.0  # of every second that a client waits
CLIENT_SHARE = 0.2  # of what the client wanted


def slack(seen: Seen) -> Iterator[Finding]:
    rows = seen.threads[seen.threads["asleep_for"] == "timer"]
    given = [seen.slack_ns.get((pid, tid), 0) for pid, tid in zip(rows["pid"], rows["tid"], strict=True)]
    rows = rows.assign(slack_ns=given)
    late = (rows["voluntary_per_s"] * rows["slack_ns"] / 1e6).clip(upper=rows["asleep_ms_per_s"])
    rows = rows[late >= SLACK_SHARE * rows["asleep_ms_per_s"].clip(lower=1.0)]
    size = float(late[rows.index].sum())
    if rows.empty or size < LEAST_MS:
        return
    most = float(rows["slack_ns"].max())
    each_us = 1e3 * float(rows["asleep_ms_per_s"].sum()) / float(rows["voluntary_per_s"].sum())
    yield Finding(
        "timer_slack",
        f"Its timers may go off up to {most / 1e3:,.0f} µs late: {names(rows)} has that timer slack.",
        size,
        math.nan,
        f"/proc/TID/timerslack_ns; it sleeps {rows['voluntary_per_s'].sum():,.0f} times a second, "
        f"{each_us:,.0f} µs each, and at most {size:,.0f} ms of every second of that is slack.",
        "A timer that goes off in time, and a thread that then waits for a CPU: that is waiting, and no "
        "sleep. Real-time threads have no slack.",
        "prctl(PR_SET_TIMERSLACK, 1) in the thread, or as root: echo 1 > /proc/TID/timerslack_ns.",
        PAGES["wait"],
        False,
    )


def idle(seen: Seen, causes: Causes) -> Iterator[Finding]:
    """Only where the waits were counted: nobody else knows what an idle CPU did."""
    lost = causes.long.get("idle", 0.0) + causes.short.get("idle", 0.0)
    share = share_of(lost, seen, causes)
    rate = float(seen.threads["voluntary_per_s"].sum())
    if not causes.exact or lost < 2 * LEAST_MS or share < IDLE_SHARE or rate < IDLE_PER_S:
        return
    yield Finding(
        "idle_wakeups",
        f"It wakes up {rate:,.0f} times a second, and has to wait for idle CPUs to come back.",
        lost,
        share,
        f"Counted wait by wait: an idle CPU had been chosen, and took {1e3 * lost / rate:,.0f} µs for each "
        "time that a thread of it slept, on the average.",
        "A deep idle state, an interrupt to another CPU, or a hypervisor that has to run the virtual CPU "
        "first: on a machine without hypervisor `cpupower idle-info` tells the first.",
        "Fewer wake-ups: larger batches, longer timers. Or keep the CPU awake: poll for a moment before "
        "sleeping, or put those that wake each other on one CPU.",
        PAGES["wait"],
        False,
    )


def client(seen: Seen) -> Iterator[Finding]:
    late = [
        one
        for one in seen.clients
        if one.waiting_ms_per_s >= CLIENT_MS
        and one.waiting_ms_per_s >= CLIENT_SHARE * (one.waiting_ms_per_s + one.running_ms_per_s)
    ]
    if not late:
        return
    one = max(late, key=lambda other: other.waiting_ms_per_s)
    yield Finding(
        "client",
        f"{one.name} (process {one.pid}), at the other end of its connections, waits for a CPU itself.",
        one.waiting_ms_per_s,
        math.nan,
        f"{one.name} ran {one.running_ms_per_s:,.0f} ms of every second and waited "
        f"{one.waiting_ms_per_s:,.0f} ms for a CPU (schedstat); this program waited {seen.waiting:,.0f} ms. "
        "What a load generator measures contains both.",
        f"Where {one.name} is no client but a service that it asks, that wait makes its own answers late.",
        "Give the load generator CPUs of its own, or another machine, and measure again.",
        PAGES["wait"],
        False,
    )
