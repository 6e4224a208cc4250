"""What the window means: one finding for each reason, with its size, its evidence, and what to try.

Waits for a CPU come first, the largest on top; then what is no fault of the scheduler's.  The same part of
the waiting time is never told twice: a mask that crowds its threads is not also a fault of these threads.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

from ..core.result import Result
from ..machine.files import cpu_ranges
from ..probes.status import SHORT_STINT_NS
from .causes import SHORT_NS, Causes
from .seen import Seen

LEAST_MS = 5.0  # of every second: less is not worth a finding
LEAST_SHARE = 0.05  # of what the program wanted
IDLE_ELSEWHERE = 0.3  # of the time of CPUs that it may not use: from here on a mask makes it wait for a rival
YIELDS_PER_S = 1000.0
LOCKED_PER_S = 20.0  # sleeps of a thread, most of them for a lock
FAULTS_PER_S = 5000.0
MIGRATIONS_PER_S = 500.0
ONLY_FOR_LOCKS = 0.3  # of what it wanted: with less waiting for a CPU, locks are told of first
SWITCHES_SHARE = 0.1  # of its CPU time

PAGES = {
    "wait": "notebooks/03-scheduler-latency",
    "quota": "notebooks/04-cgroup-throttling",
    "mask": "notebooks/05-pinning",
    "threads": "notebooks/06-switching-less",
    "switch": "notebooks/01-context-switch",
    "cost": "notebooks/02-latency-ladder",
}


@dataclass(frozen=True)
class Finding:
    """One reason.

    name             a word that stays the same: quota, rival, own_threads, mask, realtime, ...
    title            what is the matter, in one sentence
    size_ms_per_s    how much of every second it took, summed over threads; NaN where only a rate is known
    share            that as a part of what the threads wanted (ran or could have run); NaN for no wait
    evidence         the numbers that say so
    instead          what else could look like this, and how to tell
    attempt          the one thing to try
    page             of the book, that explains it
    scheduling       whether it is a wait for a CPU
    """

    name: str
    title: str
    size_ms_per_s: float
    share: float
    evidence: str
    instead: str
    attempt: str
    page: str
    scheduling: bool = True


def findings(seen: Seen, causes: Causes, switch: Result | None) -> list[Finding]:
    """All that were found, the first to look at on top.  `switch`: this machine's costs of a switch."""
    waits = [
        one
        for find in (_yields, _quota, _realtime, _mask, _own_threads, _rival, _kernel, _interrupts, _steal)
        for one in find(seen, causes)
        if _matters(one)
    ]
    waits.sort(key=lambda one: -one.size_ms_per_s)
    locks = list(_locks(seen))
    others = [one for find in (_disk, _faults, _migrations) for one in find(seen)]
    others.sort(key=lambda one: -one.size_ms_per_s if one.size_ms_per_s == one.size_ms_per_s else 0.0)
    others += _price(seen, switch)
    found = [*locks, *waits, *others] if _locks_first(locks, waits) else [*waits, *locks, *others]
    if not waits:
        found.append(_nothing(seen, causes))
    return found


def _locks_first(locks: list[Finding], waits: list[Finding]) -> bool:
    """Whether the locks are to be looked at before the waits for a CPU.

    Whoever holds a lock and is kept from its CPU lets the others wait for the lock: then the CPU comes first.
    But threads that are woken at a lock also wait for a CPU, for each other.
    """
    if not locks or not waits or waits[0].share <= ONLY_FOR_LOCKS:
        return True
    return waits[0].name == "own_threads" and locks[0].size_ms_per_s > waits[0].size_ms_per_s


def table(found: list[Finding]) -> pd.DataFrame:
    """One row per finding, its fields as columns."""
    return pd.DataFrame([asdict(one) for one in found])


def _matters(one: Finding) -> bool:
    return one.size_ms_per_s >= LEAST_MS and one.share >= LEAST_SHARE


def _share(ms: float, seen: Seen, causes: Causes) -> float:
    """A part of what its threads wanted; the waits of those that lived too shortly to be seen count."""
    counted = causes.long_sum + sum(causes.short.values()) if causes.exact else 0.0
    wanted = seen.running + max(seen.waiting, counted)
    return ms / wanted if wanted else math.nan


def _how(causes: Causes) -> str:
    return "counted wait by wait" if causes.exact else "estimated from who used the CPUs"


# ---- waits for a CPU ---------------------------------------------------------------------------------------


def _yields(seen: Seen, causes: Causes) -> Iterator[Finding]:
    rows = _yielding(seen)
    rate = float(rows["involuntary_per_s"].sum())
    if not _yields_often(seen):
        return
    waited = float(rows["waiting_ms_per_s"].sum())
    stint_us = float(rows["running_ms_per_s"].sum()) * 1e3 / rate
    yield Finding(
        "yields",
        f"{_names(rows)} gives its CPU away {rate:,.0f} times a second: sched_yield in a loop.",
        waited,
        _share(waited, seen, causes),
        f"{rate:,.0f} involuntary switches a second, after {stint_us:,.1f} µs on the CPU each; no slice "
        "ends so soon, and the kernel counts a yield as involuntary.",
        "A thread that is preempted by each one that it wakes: that one sleeps soon; one that yields stays "
        "runnable. Only the helper tells them apart.",
        "Let it block instead of yielding: a futex, a condition, or a lock that sleeps.",
        PAGES["switch"],
    )


def _yielding(seen: Seen) -> pd.DataFrame:
    rows = seen.threads
    involuntary, voluntary = rows["involuntary_per_s"], rows["voluntary_per_s"]
    stint_ns = rows["running_ms_per_s"] * 1e6 / (involuntary + voluntary).clip(lower=1e-9)
    often = (involuntary > 10 * voluntary) & (involuntary > YIELDS_PER_S / 4)
    rows = rows[often & (stint_ns < SHORT_STINT_NS)]
    # A thread may also be preempted each time by the one that it has just woken, which then sleeps.
    running = seen.handed_over_running(set(rows["tid"]))
    return rows if running is None or running > 0.5 else rows.iloc[:0]


def _yields_often(seen: Seen) -> bool:
    return float(_yielding(seen)["involuntary_per_s"].sum()) >= YIELDS_PER_S


def _names(rows: pd.DataFrame) -> str:
    """The names of these threads, at most three of them."""
    names = list(dict.fromkeys(rows["name"]))
    return ", ".join(names[:3]) + (" and others" if len(names) > 3 else "")


def _quota(seen: Seen, causes: Causes) -> Iterator[Finding]:
    lost = causes.long.get("throttled", 0.0)
    limited = seen.groups[seen.groups["throttled_periods"] > 0]
    if limited.empty:
        return
    row = limited.sort_values("throttled_ms_per_s").iloc[-1]
    own = seen.groups["path"].iloc[0] == row["path"] if len(seen.groups) else True
    whose = "its own control group" if own else "a control group around its own"
    cpus = f"{row['limit_cpus']:g} CPUs" if row["limit_cpus"] == row["limit_cpus"] else "a limit further up"
    yield Finding(
        "quota",
        f"A CPU limit held it back: {whose}, {container(str(row['path']))}, may use {cpus}.",
        lost,
        _share(lost, seen, causes),
        f"{row['throttled_periods']:.0f} of {row['periods']:.0f} periods of {row['period_us'] / 1000:g} ms "
        f"ran out of quota; throttled {row['throttled_ms_per_s']:,.0f} ms of every second, summed over CPUs "
        f"(cpu.stat). The part of the waits is {_how(causes)}.",
        "A CPU that is full looks the same from inside; there nr_throttled stands still.",
        f"Raise the limit above the {seen.wanted / 1000:.1f} CPUs that its threads asked for, or run fewer "
        "threads than the limit has CPUs.",
        PAGES["quota"],
    )


def container(path: str) -> str:
    """A group's path with the names that systemd, Docker, containerd or Kubernetes have put into it."""
    words = []
    if pod := re.search(r"pod([0-9a-f]{8}[-_][0-9a-f_-]{27})", path):
        words.append(f"Kubernetes pod {pod[1].replace('_', '-')}")
    runtimes = "docker|cri-containerd|crio|libpod|containerd"
    box = re.search(rf"(?:{runtimes})[-/]([0-9a-f]{{12}})[0-9a-f]{{52}}", path)
    box = box or (re.search(r"/([0-9a-f]{12})[0-9a-f]{52}$", path) if "kubepods" in path else None)
    if box:
        words.append(f"container {box[1]}")
    if not words and (unit := re.findall(r"([^/]+\.(?:service|scope))", path)):
        words.append(f"systemd unit {unit[-1]}")
    return f"{', '.join(words)} ({path})" if words else path


def _realtime(seen: Seen, causes: Causes) -> Iterator[Finding]:
    lost = causes.long.get("realtime", 0.0)
    rows = seen.rivals[seen.rivals["policy"] != "OTHER"]
    own = seen.threads[seen.threads["policy"] != "OTHER"]
    if rows.empty and own.empty:
        who, evidence = "A real-time thread", "its name is not known"
    elif rows.empty:
        who = f"Its own real-time thread {own['name'].iloc[0]}"
        evidence = (
            f"policy {own['policy'].iloc[0]}, {own['running_ms_per_s'].iloc[0]:,.0f} ms of every second"
        )
    else:
        top = rows.iloc[0]
        who = f"{top['name']} (process {top['pid']}), which has the real-time policy {top['policy']},"
        evidence = f"{top['name']} ran {top['cpu_ms_per_s']:,.0f} ms of every second under {top['policy']}"
    yield Finding(
        "realtime",
        f"{who} goes before it whenever it wants to.",
        lost,
        _share(lost, seen, causes),
        f"{evidence}; the waits are {_how(causes)}.",
        "A rival without a real-time policy would share the CPU with it: `chrt -p PID` tells the policy.",
        "Give the real-time thread a CPU of its own, or an ordinary policy.",
        PAGES["wait"],
    )


def _outside(seen: Seen) -> pd.DataFrame:
    """The CPUs that it may not use."""
    return seen.cpus[~seen.cpus["allowed"].astype(bool)] if len(seen.cpus) else seen.cpus


def _idle_outside(seen: Seen) -> bool:
    """Whether CPUs stood idle that it may not use: then it would not have had to wait for a rival either."""
    outside = _outside(seen)
    return not outside.empty and bool(outside["idle_ms_per_s"].mean() >= 1000 * IDLE_ELSEWHERE)


def _mask(seen: Seen, causes: Causes) -> Iterator[Finding]:
    outside = _outside(seen)
    if outside.empty or _yields_often(seen):
        return
    lost = causes.long.get("same_program", 0.0)
    if _idle_outside(seen):
        lost += causes.long.get("other_task", 0.0)
    mine, idle = len(seen.allowed), outside["idle_ms_per_s"].mean()
    yield Finding(
        "mask",
        f"It may use CPU {cpu_ranges(sorted(seen.allowed))} only, {mine} of {len(seen.cpus)}.",
        lost,
        _share(lost, seen, causes),
        f"Cpus_allowed_list. Its threads wanted {seen.wanted / 1000:.1f} CPUs. CPU "
        f"{cpu_ranges([int(cpu) for cpu in outside['cpu']])}, which it may not use, stood idle for "
        f"{idle:,.0f} ms of every second. The waits are {_how(causes)}.",
        "Its own affinity (taskset, a thread library) and a cpuset of its group look alike: compare "
        "Cpus_allowed_list of the process with cpuset.cpus.effective of its group.",
        "Widen the mask or the cpuset, or run as many busy threads as it has CPUs.",
        PAGES["mask"],
    )


def _own_threads(seen: Seen, causes: Causes) -> Iterator[Finding]:
    if len(_outside(seen)) or _yields_often(seen):
        return  # told of already
    lost = causes.long.get("same_program", 0.0)
    rows = seen.threads
    want = rows["running_ms_per_s"] + rows["waiting_ms_per_s"]
    busy, most = int((want > 100).sum()), len(seen.allowed)
    title = f"{busy} busy threads share {most} CPUs"
    attempt = f"Run at most {max(1, most)} busy threads; a larger pool only queues inside the kernel."
    if busy <= most:
        title = "they want the CPUs at the same moments"
        attempt = "Let them not all be woken at once: spread their timers, or hand the work to fewer threads."
    room = ""
    if causes.room is not None and causes.room > 0.5 * lost:
        room = " During most of it another CPU that they may use was idle: they were on one CPU too long."
    yield Finding(
        "own_threads",
        f"Its own threads wait for each other: {title}.",
        lost,
        _share(lost, seen, causes),
        f"Its threads wanted {seen.wanted / 1000:.1f} CPUs and got {seen.running / 1000:.1f}; the waits are "
        f"{_how(causes)}.{room}",
        "A rival takes the CPU as well; then its own threads alone would fit.",
        attempt,
        PAGES["threads"],
    )


def _rival(seen: Seen, causes: Causes) -> Iterator[Finding]:
    if _idle_outside(seen):
        return  # told of already
    lost = causes.long.get("other_task", 0.0)
    rows = seen.rivals[~seen.rivals["kernel"] & (seen.rivals["policy"] == "OTHER")]
    if rows.empty:
        yield Finding(
            "rival",
            "Other programs have the CPUs that it waits for; none of them ran long enough to be named.",
            lost,
            _share(lost, seen, causes),
            f"The waits are {_how(causes)}.",
            "Many short processes, such as a build.",
            "`pidstat 1`, or the whole machine in `top`.",
            PAGES["wait"],
        )
        return
    top, own = rows.iloc[0], seen.threads.iloc[0]
    taken = top["took_it"]
    evidence = f"{top['name']} used {top['cpu_ms_per_s']:,.0f} ms of every second"
    if taken:
        evidence += f", and had the CPU {int(taken):,} times after a thread of it that could have gone on"
    weight, why = _heavier(top, own, seen)
    others = f" and {len(rows) - 1} more" if len(rows) > 1 else ""
    yield Finding(
        "weight" if weight else "rival",
        f"{top['name']} (process {top['pid']}{others}) has the CPUs that it waits for{weight}.",
        lost,
        _share(lost, seen, causes),
        f"{evidence}{why}; the waits are {_how(causes)}.",
        "Its own threads may be too many as well: then they wait for each other when the rival has gone.",
        "Give the two different CPUs, or this one more weight: cpu.weight of its control group; a nice value "
        "counts only against threads of the same group or session.",
        PAGES["wait"],
    )


def _heavier(top: Any, own: Any, seen: Seen) -> tuple[str, str]:
    """Why the rival gets more than its half of a CPU, as (in the title, in the evidence), "" where not.

    Weights are held against each other within one task group: a control group, else a session's autogroup.
    """
    group = seen.groups.iloc[0] if len(seen.groups) else None
    if group is not None and top["group"] != group["path"]:
        other = container(str(top["group"]))
        said = f"; it is in another control group, {other}, and between groups their weights count"
        ours, its = group["weight"], top["group_weight"]
        if ours == ours and its == its and ours and its and its > ours:
            return f", and its group has the weight {its:g} against {ours:g}", said
        return "", said
    if top["session"] != seen.session:
        return "", "; it is in another session (autogroup), against which a nice value does not count"
    if int(top["nice"]) < int(own["nice"]):
        numbers = f"nice {int(top['nice'])} against {int(own['nice'])}"
        return f", and goes before it ({numbers})", f"; {numbers}"
    return "", ""


def _kernel(seen: Seen, causes: Causes) -> Iterator[Finding]:
    lost = causes.long.get("kernel_thread", 0.0)
    rows = seen.rivals[seen.rivals["kernel"]]
    name = str(rows["name"].iloc[0]) if len(rows) else "a thread of the kernel"
    ran = f"{name} ran {rows['cpu_ms_per_s'].iloc[0]:,.0f} ms of every second; " if len(rows) else ""
    yield Finding(
        "kernel_threads",
        f"Threads of the kernel have its CPU: {name}.",
        lost,
        _share(lost, seen, causes),
        f"{ran}the waits are {_how(causes)}.",
        "ksoftirqd runs when interrupts bring more packets than can be handled at once; kworkers run what "
        "drivers and file systems put off.",
        "Keep the interrupts and the program on different CPUs (/proc/irq/*/smp_affinity).",
        PAGES["threads"],
    )


def _interrupts(seen: Seen, causes: Causes) -> Iterator[Finding]:
    lost = causes.long.get("interrupt", 0.0)
    used = seen.cpus[seen.cpus["used"]] if len(seen.cpus) else seen.cpus
    soft = float((used["irq_ms_per_s"] + used["softirq_ms_per_s"]).sum()) if len(used) else 0.0
    yield Finding(
        "interrupts",
        "Interrupts and softirqs take its CPU while it waits.",
        lost,
        _share(lost, seen, causes),
        f"Its CPUs spent {soft:,.0f} ms of every second there (/proc/stat); the waits are {_how(causes)}.",
        "A kernel that does not time interrupts (IRQ_TIME_ACCOUNTING) counts them as the program's own.",
        "`/proc/interrupts` and `/proc/softirqs` say which; move them to another CPU.",
        PAGES["wait"],
    )


def _steal(seen: Seen, causes: Causes) -> Iterator[Finding]:
    used = seen.cpus[seen.cpus["used"]] if len(seen.cpus) else seen.cpus
    if used.empty:
        return
    stolen = float(used["steal_ms_per_s"].sum())
    busy = float((used["user_ms_per_s"] + used["system_ms_per_s"]).sum())
    part = stolen * min(1.0, seen.running / busy) if busy else 0.0
    yield Finding(
        "steal",
        "The hypervisor ran somebody else on its CPUs (steal).",
        part,
        _share(part, seen, causes),
        f"{stolen:,.0f} ms of every second were stolen from its CPUs (/proc/stat, in steps of 10 ms).",
        "Not every hypervisor tells; where it does not, gaps without an interrupt in them are its work.",
        "A larger or a dedicated instance; nothing inside this machine helps.",
        PAGES["wait"],
    )


# ---- no waits for a CPU ------------------------------------------------------------------------------------


def _locks(seen: Seen) -> Iterator[Finding]:
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


def _disk(seen: Seen) -> Iterator[Finding]:
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


def _faults(seen: Seen) -> Iterator[Finding]:
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


def _migrations(seen: Seen) -> Iterator[Finding]:
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


def _price(seen: Seen, switch: Result | None) -> list[Finding]:
    rate = float((seen.threads["voluntary_per_s"] + seen.threads["involuntary_per_s"]).sum())
    if switch is None or not seen.running:
        return []
    rows = switch.summary()
    row = rows[(rows["mechanism"] == "pipe") & (rows["placement"] == "same_cpu")].iloc[0]
    low, middle, high = (
        rate * float(row[name]) / 1e6 for name in ("net_lo_ns", "net_per_switch_ns", "net_hi_ns")
    )
    if middle < LEAST_MS or not middle >= SWITCHES_SHARE * seen.running:
        return []
    return [
        Finding(
            "switches",
            f"Switching itself costs it {middle / seen.running:.0%} of its CPU time.",
            middle,
            math.nan,
            f"{rate:,.0f} switches a second at {float(row['net_per_switch_ns']):,.0f} ns each, measured on "
            f"this machine on {switch.recorded_at[:10]}: {low:,.0f} to {high:,.0f} ms of every second, cold "
            "caches not counted.",
            "A switch for each piece of work is right where the pieces are long.",
            "More work for each wake-up: batches, larger buffers, fewer threads.",
            PAGES["switch"],
            False,
        )
    ]


def _nothing(seen: Seen, causes: Causes) -> Finding:
    share = f", {seen.waiting / seen.wanted:.1%} of what it wanted" if seen.waiting >= LEAST_MS else ""
    doing = [f"ran {seen.running:,.0f} ms"]
    doing += [f"slept {ms:,.0f} ms for {kind}" for kind, ms in list(seen.asleep.items())[:2] if ms >= 1]
    short = ""
    if causes.exact:
        ms = sum(causes.short.values())
        short = f" Of this {ms:,.1f} ms are waits below {SHORT_NS // 1000} µs, the price of waking up."
    return Finding(
        "nothing",
        "Nothing is wrong with scheduling here.",
        causes.long_sum,
        math.nan,
        f"It waited for a CPU {seen.waiting:,.1f} ms of every second{share}. Its threads together "
        f"{', '.join(doing)}.{short}",
        "A slow moment may have come before or after: watch longer.",
        "Look at what it sleeps for, or at the code that it runs: `perf top -p PID`.",
        PAGES["wait"],
        True,
    )
