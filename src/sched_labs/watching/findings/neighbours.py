"""Whoever else had its CPU: other programs, real-time threads, the kernel, interrupts, the hypervisor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from ..causes import Causes
from ..seen import Seen
from .base import PAGES, Finding, how, share_of
from .limits import container
from .queues import only, spared

# Of every second of one of its CPUs.  A server and its load generator that fill two CPUs of one machine spend
# 250 to 270 ms of each on the packets that they send to each other.
INTERRUPTED_MS = 400.0
AS_WELL = 0.1  # of what the first rival had of the CPU that it waited for
MOST_ASKING = 4.0  # times what the program runs: a client that runs for longer does something else as well


def realtime(seen: Seen, causes: Causes) -> Iterator[Finding]:
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
        share_of(lost, seen, causes),
        f"{evidence}; the waits are {how(causes)}.",
        "A rival without a real-time policy would share the CPU with it: `chrt -p PID` tells the policy.",
        "Give the real-time thread a CPU of its own, or an ordinary policy.",
        PAGES["wait"],
    )


def rival(seen: Seen, causes: Causes) -> Iterator[Finding]:
    lost = _behind_others(seen, causes) - _behind_clients(seen, causes)
    rows, narrow = _ordinary(seen), only(seen)
    rows = rows[~_asking(rows, seen)]
    if rows.empty:
        yield Finding(
            "rival",
            "Other programs have the CPUs that it waits for; none of them ran long enough to be named.",
            lost,
            share_of(lost, seen, causes),
            f"The waits are {how(causes)}.",
            "Many short processes, such as a build.",
            "`pidstat 1`, or the whole machine in `top`.",
            PAGES["wait"],
        )
        return
    top, own = rows.iloc[0], seen.threads.iloc[0]
    taken = top["took_it"]
    evidence = f"{top['name']} used {top['cpu_ms_per_s']:,.0f} ms of every second"
    if taken:
        evidence += f", and {int(taken):,} times took a CPU from a thread of the program that could go on"
    if top["had_ms_per_s"]:
        known = (
            "as the timeline shows"
            if seen.turns is not None
            else "by an estimate from its switches with the program"
        )
        evidence += (
            f"; {known}, {top['name']} had the CPU during {top['had_ms_per_s']:,.0f} ms of these waits "
            "in every second"
        )
    if top["client"]:
        evidence += f"; it is a client of the program, and works for more than {MOST_ASKING:g} times as long"
    weight, why = _heavier(top, own, seen)
    others = f" and {more} more" if (more := _as_well(rows)) else ""
    confined = f"; the program {narrow}" if narrow else ""
    widen = "Widen the mask or the cpuset, give" if narrow else "Give"
    yield Finding(
        "weight" if weight else "rival",
        f"{top['name']} (process {top['pid']}{others}) has the CPUs that it waits for{weight}{confined}.",
        lost,
        share_of(lost, seen, causes),
        f"{evidence}{why}; the waits for all other programs are {how(causes)}.",
        "Its own threads may be too many as well: then they wait for each other when the rival has gone. A "
        "client of the program looks like a rival where no socket tells of it: where it is in another "
        "network namespace, or sends datagrams and the privileged helper is not installed.",
        f"{widen} the two different CPUs, or this one more weight: cpu.weight (version 1: cpu.shares) of its "
        "control group; a nice value counts only against threads of the same group or session.",
        PAGES["wait"],
    )


def _as_well(rows: pd.DataFrame) -> int:
    """How many others than the first had the CPU as well; those that never stood beside it do not count."""
    had = rows["had_ms_per_s"].astype(float)
    return len(rows) - 1 if had.isna().any() else int((had.iloc[1:] >= AS_WELL * had.iloc[0]).sum())


def own_client(seen: Seen, causes: Causes) -> Iterator[Finding]:
    """No fault: whoever asks a server on the server's machine is to know that both use the same CPUs."""
    lost, rows = _behind_clients(seen, causes), _ordinary(seen)
    rows = rows[_asking(rows, seen)]
    if rows.empty:
        return
    top, used = rows.iloc[0], float(rows["cpu_ms_per_s"].sum())
    others, who = (f" and {len(rows) - 1} more", "They") if len(rows) > 1 else ("", "It")
    yield Finding(
        "own_client",
        f"It shares its CPUs with its own client, {top['name']} (process {top['pid']}{others}).",
        lost,
        share_of(lost, seen, causes),
        f"{_came(top)} {who} used {used:,.0f} ms of "
        f"every second, {used / 10 / max(1, len(seen.allowed)):,.0f}% of the CPUs that the program may use, "
        f"and made it wait {lost:,.0f} ms, {how(causes)}.",
        "A client that belongs on this machine, such as a proxy, is a neighbour like any other: then the "
        "program waits in earnest.",
        f"Measure from another machine, or give {top['name']} CPUs of its own (`taskset`), and compare.",
        PAGES["wait"],
        False,
    )


def _came(client: Any) -> str:
    """How it is known that it is a client, as a sentence."""
    woke = client["woke_share"]
    if woke is None or woke != woke:
        return f"{client['name']} came to a port or socket at which the program listens."
    return (
        f"{client['name']} can send datagrams to the program, which takes them of everybody, and it ran at "
        f"{woke:.0%} of the moments at which the program was woken."
    )


def _ordinary(seen: Seen) -> pd.DataFrame:
    """The others that share a CPU as it does: no threads of the kernel, none under a real-time policy."""
    return seen.rivals[~seen.rivals["kernel"] & (seen.rivals["policy"] == "OTHER")]


def _asking(rows: pd.DataFrame, seen: Seen) -> pd.Series[bool]:
    """Which of them are clients that do little else than ask it."""
    return rows["client"].astype(bool) & (rows["cpu_ms_per_s"] <= MOST_ASKING * seen.running)


def _behind_others(seen: Seen, causes: Causes) -> float:
    """ms of every second that it waited for other programs; of those that a mask costs it that one tells."""
    return causes.long.get("other_task", 0.0) - spared(seen, causes)


def _behind_clients(seen: Seen, causes: Causes) -> float:
    """ms of every second that it waited for clients of its own, of what it waited for other programs.

    The part that they had of the CPU that it waited for; and no more than they used at all, for each of its
    threads that stood in the queue: the rest went to programs too short-lived to be among the rivals.
    """
    rows = _ordinary(seen)
    asking, had = _asking(rows, seen), rows["had_ms_per_s"].astype(float).fillna(0.0)
    if not had.any():
        had = rows["cpu_ms_per_s"]
    if not asking.any():
        return 0.0
    part = _behind_others(seen, causes) * float(had[asking].sum() / had.sum())
    return min(part, max(1.0, seen.crowding) * float(rows["cpu_ms_per_s"][asking].sum()))


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


def kernel(seen: Seen, causes: Causes) -> Iterator[Finding]:
    lost = causes.long.get("kernel_thread", 0.0)
    rows = seen.rivals[seen.rivals["kernel"]]
    name = str(rows["name"].iloc[0]) if len(rows) else "a thread of the kernel"
    ran = f"{name} ran {rows['cpu_ms_per_s'].iloc[0]:,.0f} ms of every second; " if len(rows) else ""
    yield Finding(
        "kernel_threads",
        f"Threads of the kernel have its CPU: {name}.",
        lost,
        share_of(lost, seen, causes),
        f"{ran}the waits are {how(causes)}.",
        "ksoftirqd runs when interrupts bring more packets than can be handled at once; kworkers run what "
        "drivers and file systems put off.",
        "Keep the interrupts and the program on different CPUs (/proc/irq/*/smp_affinity).",
        PAGES["threads"],
    )


def interrupts(seen: Seen, causes: Causes) -> Iterator[Finding]:
    lost = causes.long.get("interrupt", 0.0)
    used = seen.cpus[seen.cpus["used"]] if len(seen.cpus) else seen.cpus
    each = used["irq_ms_per_s"] + used["softirq_ms_per_s"] if len(used) else pd.Series([0.0])
    if max(each.max(), lost) < INTERRUPTED_MS:
        return  # the price of the packets that it asks for: a thread that sends one handles softirqs, too
    yield Finding(
        "interrupts",
        "Interrupts and softirqs take its CPU while it waits.",
        lost,
        share_of(lost, seen, causes),
        f"Its CPUs spent {each.sum():,.0f} ms of every second there (/proc/stat); the waits are "
        f"{how(causes)}.",
        "A kernel that does not time interrupts (IRQ_TIME_ACCOUNTING) counts them as the program's own.",
        "`/proc/interrupts` and `/proc/softirqs` say which; move them to another CPU.",
        PAGES["wait"],
    )


def steal(seen: Seen, causes: Causes) -> Iterator[Finding]:
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
        share_of(part, seen, causes),
        f"{stolen:,.0f} ms of every second were stolen from its CPUs (/proc/stat, in steps of 10 ms).",
        "Not every hypervisor tells; where it does not, gaps without an interrupt in them are its work.",
        "A larger or a dedicated instance; nothing inside this machine helps.",
        PAGES["wait"],
    )
