"""What an explorable shows, measured on this machine: the same data, from the reader's own run."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd

from .. import machine, workloads
from ..core import lock, store
from ..core.errors import WorkloadError
from ..limits import cgroups
from ..steer import placement
from ..topics.scheduler_latency.omission import experiment as clients

_MS = 1e6
_ASLEEP = 1  # TASK_INTERRUPTIBLE, whatever stands beside it


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


def condvar() -> tuple[Any, str]:
    """A round trip by pipe and one by condition variable, on one CPU.

    Needs root and BCC: raises ProbeError without.
    """
    from .record import trace

    cpu, round_trips, found = placement.quiet_cpu(), 200, {}
    with lock.machine("round trips by pipe and by condition variable"):
        for mechanism in ("pipe", "condvar"):
            words = f"--by {mechanism} --between threads --round-trips {round_trips} --trials 1".split()
            with workloads.start("pingpong", words, deadline_s=20) as pair:
                placement.pin(pair.tids, [cpu])
                place = {tid: n for n, tid in enumerate(pair.tids)}
                with trace.record([pair.pid], calls=False) as seen:
                    pair.run()
            switches = [
                (at, place.get(prev, -1), place.get(come, -1), bool(state & _ASLEEP))
                for at, _, kind, prev, come, state in seen.events
                if kind == "switch"
            ]
            wakes = [
                (at, place[waker], place[woken])
                for at, _, kind, woken, waker, _ in seen.events
                if kind == "waking" and waker in place and woken in place
            ]
            found[mechanism] = of_round_trips(switches, wakes, round_trips)
    return {**found, "unit": "ns"}, f"{_provenance()} The probe's own time is in every stretch."


def of_round_trips(
    switches: Sequence[tuple[int, int, int, bool]], wakes: Sequence[tuple[int, int, int]], round_trips: int
) -> dict[str, Any]:
    """The most usual round trip, from the moment at which one side goes to sleep for its turn.

    switches      (at, the side before, the side after, whether the one before slept); a side is 0, 1, or -1
                  for anybody else
    wakes         (at, the side that wakes, the one that is woken)

    {"length", "ran": [[side, from, to], ...], "switches": [[at, from, to, slept], ...], "wakes": [[at, waker,
    woken], ...], "alike": [how many went like it, of how many]}, times since its beginning.  A side that went
    to sleep for the mutex has done less than one that had its turn: it ran for a shorter time.  Side 0 is the
    one that runs first.

    Raises WorkloadError where none was seen whole.
    """
    between = [n for n, (_, prev, come, _) in enumerate(switches) if prev >= 0 and come >= 0]
    count = round(len(between) / round_trips)
    kinds: dict[tuple[Any, ...], list[int]] = {}
    for first in between:
        window = switches[first : first + count + 1]
        asleep = [b[0] - a[0] for a, b in itertools.pairwise(window) if b[3]]
        if len(window) > count > 0 and window[0][3] and window[-1][3] and asleep[-1] == max(asleep):
            kinds.setdefault(tuple(s[1:] for s in window), []).append(first)
    if not kinds:
        raise WorkloadError("No round trip was seen whole.", "Measure again, on a quieter machine.")
    places = max(kinds.values(), key=len)
    first = places[len(places) // 2]
    last = first + count
    begin, end, a = switches[first][0], switches[last][0], switches[first][2]
    inside = switches[first + 1 : last + 1]
    return {
        "length": end - begin,
        "ran": [
            [one[2] ^ a, one[0] - begin, other[0] - begin]
            for one, other in zip(switches[first:last], inside, strict=True)
        ],
        "switches": [[at - begin, prev ^ a, come ^ a, slept] for at, prev, come, slept in inside],
        "wakes": [[at - begin, waker ^ a, woken ^ a] for at, waker, woken in wakes if begin < at < end],
        "alike": [len(places), round_trips],
    }


def _provenance() -> str:
    facts = machine.survey().provenance()
    when = store.now().replace("T", " ")[:16]
    return f"Measured here: {facts['cpu_model']}, Linux {facts['kernel']}, {when} UTC."


MEASURED: dict[str, Callable[[], tuple[Any, str]]] = {
    "quota": quota,
    "roundrobin": round_robin,
    "omission": omission,
    "wakeup": wakeup,
    "condvar": condvar,
}

# Why the others have no run of this machine.
NOT_HERE = {
    "cache": "No processor tells which lines stand in a set of its cache.",
    "picking": "It reads the kernel's own numbers at every choice, which the book's helper may not.",
    "switch": "It follows every instruction of the kernel, which takes an emulated CPU.",
}
