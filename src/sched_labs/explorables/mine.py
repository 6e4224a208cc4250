"""What an explorable shows, measured on this machine: the same data, from the reader's own run."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pandas as pd

from .. import machine, workloads
from ..core import lock, store
from ..core.errors import WorkloadError
from ..limits import cgroups
from ..steer import placement
from ..topics.scheduler_latency.omission import experiment as clients

_MS = 1e6


def round_robin() -> tuple[Any, str]:
    """2, 4 and 8 threads that never sleep on one CPU, as they see their own turns (burn.c), unprivileged."""
    cpu = placement.quiet_cpu()
    found = {}
    with lock.machine("the round robin"):
        for count in (2, 4, 8):
            words = ["--workers", str(count), "--duration-ms", "150"]
            with workloads.start("burn", words, deadline_s=20) as burn:
                placement.pin(burn.tids, [cpu])
                records = burn.run()
            gaps = [r for r in records if r.kind == "gap" and r["switches"] > 0]
            found[str(count)] = turns(
                [(r["worker"], r["at_ns"], r["ns"]) for r in gaps], begin_ms=40, length_ms=84
            )
    return {"threads": found}, _provenance()


def turns(gaps: list[tuple[int, int, int]], begin_ms: float, length_ms: float) -> list[list[float]]:
    """From each thread's gaps (thread, at, length in ns) to what ran: [[thread, from, to], ...] in ms."""
    table = pd.DataFrame(gaps, columns=["who", "at", "ns"]).sort_values(["who", "at"])
    table["from"] = (table["at"] + table["ns"]) / _MS - begin_ms
    table["to"] = table.groupby("who")["at"].shift(-1) / _MS - begin_ms
    ran = table.dropna().query("`to` > 0 and `from` < @length_ms").sort_values("from")
    ran = ran.assign(**{"from": ran["from"].clip(lower=0), "to": ran["to"].clip(upper=length_ms)})
    place = {who: n for n, who in enumerate(ran["who"].drop_duplicates())}
    return [
        [place[who], begin, end] for who, begin, end in ran[["who", "from", "to"]].itertuples(index=False)
    ]


def omission() -> tuple[Any, str]:
    """Two clients of a server that stalls once, measured (`omission.compared`)."""
    data, about = of_clients(clients.compared(trials=1, progress=False))
    return data | {"values": {"show": "run"}}, about


def of_clients(result: Any, before_ms: float = 40, length_ms: float = 150) -> tuple[Any, str]:
    """A run of `omission.compared` for the explorable: {"run": {client: [[sent_ms, took_ms], ...], ...}}."""
    first = result.data[result.data["trial"] == result.data["trial"].min()]
    stall = result.parameters["blocks"][0]["stall_ns"] / _MS
    run: dict[str, Any] = {"stall": stall, "period": result.parameters["period_us"] / 1e3}
    for name, rows in first.groupby("client"):
        slowest = rows.loc[rows["took_ns"].idxmax()]
        sent = rows["sent_ns"] / _MS - slowest["sent_ns"] / _MS + before_ms
        near = (sent >= 0) & (sent < length_ms)
        run[str(name)] = [[s, t] for s, t in zip(sent[near], rows["took_ns"][near] / _MS, strict=True)]
    return {"run": run}, result.provenance_line()


def quota(quota_ms: int = 50, period_ms: int = 100, length_ms: int = 400) -> tuple[Any, str]:
    """A group of threads that never sleep, one on each of two CPUs, under a quota: their own turns.

    Raises PlacementError where no control group may be made.
    """
    cpus = sorted(os.sched_getaffinity(0))[-2:]
    words = ["--workers", len(cpus), "--duration-ms", length_ms + 4 * period_ms, "--threshold-us", 500]
    with (
        lock.machine("a quota"),
        cgroups.group("explorable", quota_us=1000 * quota_ms, period_us=1000 * period_ms) as group,
        workloads.start("burn", [str(word) for word in words], deadline_s=30) as burn,
    ):
        for tid, cpu in zip(burn.tids, cpus, strict=True):
            placement.pin([tid], [cpu])
        group.add(burn.pid)
        records = burn.run()
    gaps = [(r["worker"], r["at_ns"], r["ns"]) for r in records if r.kind == "gap"]
    return of_gaps(gaps, quota_ms, period_ms, length_ms, len(cpus)), _provenance()


def of_gaps(
    gaps: list[tuple[int, int, int]], quota_ms: int, period_ms: int, length_ms: int, cpus: int
) -> dict[str, Any]:
    """A group's run for the explorable, from each thread's gaps (thread, at, length in ns).

    It begins where the first thread is let go that had stood: for at least half of what a thread alone would
    have to; a shorter gap is somebody else's turn.  Raises WorkloadError where none stood.
    """
    stood = [(who, at, at + ns) for who, at, ns in gaps if ns >= (period_ms - quota_ms) * _MS / 2]
    if not stood:
        raise WorkloadError("Nobody stood: the threads never used their quota up.", "Measure again.")
    begin_ms = min(end for *_, end in stood) / _MS
    spans = [
        (who, max(0, at / _MS - begin_ms), min(length_ms, end / _MS - begin_ms)) for who, at, end in stood
    ]
    ran: list[list[float]] = []
    for who in range(cpus):
        own = turns([gap for gap in gaps if gap[0] == who], begin_ms, length_ms)
        ran += [[who, begin, end] for _, begin, end in own]
    run = {
        "quota": quota_ms, "period": period_ms, "cpus": cpus, "to": length_ms,
        "ran": ran, "stands": [list(span) for span in spans if span[1] < span[2]],
    }  # fmt: skip
    return {"run": run, "values": {"measured": True}}


def wakeup() -> tuple[Any, str]:
    """The way of a wake-up on this machine.  Needs root and BCC: raises ProbeError without."""
    from .record import hardware

    with lock.machine("the way of a wake-up"):
        found, _ = hardware.wake_ups()
    return found, _provenance()


def _provenance() -> str:
    facts = machine.survey().provenance()
    when = store.now().replace("T", " ")[:16]
    return f"Measured here: {facts['cpu_model']}, Linux {facts['kernel']}, {when} UTC."


MEASURED: dict[str, Callable[[], tuple[Any, str]]] = {
    "quota": quota,
    "roundrobin": round_robin,
    "omission": omission,
    "wakeup": wakeup,
}

# Why the others have no run of this machine.
NOT_HERE = {
    "cache": "No processor tells which lines stand in a set of its cache.",
    "condvar": "It counts instructions between two switches, which takes an emulated CPU.",
    "picking": "It reads the kernel's own numbers at every choice, which the book's helper may not.",
    "switch": "It follows every instruction of the kernel, which takes an emulated CPU.",
}
