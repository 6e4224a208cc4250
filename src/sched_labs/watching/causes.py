"""What the waits for a CPU went to: counted by the helper, or estimated from who used the CPUs meanwhile."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ..probes.waits import CAUSES, OCCUPANTS, Attribution, bin_edges_ns
from .seen import Seen

SHORT_NS = 50_000  # a shorter wait is the price of a switch or a wake-up: no slice is that short


@dataclass(frozen=True)
class Causes:
    """ms of every second that its threads waited, all together, by what had the CPU (waits.OCCUPANTS).

    long     of waits of SHORT_NS and more
    short    of shorter ones, which are the price of switching
    exact    whether every wait was counted; else it is estimated from the CPU time of all on its CPUs
    room     of all waits, those in which a CPU that the thread may use was idle at some moment; None where
             not counted
    """

    long: dict[str, float]
    short: dict[str, float]
    exact: bool
    room: float | None = None

    @property
    def long_sum(self) -> float:
        return sum(self.long.values())

    def table(self) -> pd.DataFrame:
        """occupied_by, long_ms_per_s, short_ms_per_s, counted: one row per occupant, the largest first."""
        rows: list[dict[str, Any]] = [
            {
                "occupied_by": name,
                "long_ms_per_s": self.long.get(name, 0.0),
                "short_ms_per_s": self.short.get(name, 0.0),
                "counted": self.exact,
            }
            for name in OCCUPANTS
        ]
        return pd.DataFrame(rows).sort_values("long_ms_per_s", ascending=False, ignore_index=True)


def causes(seen: Seen) -> Causes:
    """What the waits of the window went to."""
    if seen.waits is not None and seen.waits.attribution is not None:
        return _counted(seen.waits.attribution, seen.waits.window_ns / 1e9)
    return _estimated(seen)


def _counted(found: Attribution, window_s: float) -> Causes:
    sums: dict[bool, defaultdict[str, float]] = {True: defaultdict(float), False: defaultdict(float)}
    room = 0.0
    for cause in CAUSES:
        share = found.shares[cause]
        for (number, occupant), ns in share.parts_ns.items():
            low, _ = bin_edges_ns(number, found.bin_bits, found.fold)
            sums[low >= SHORT_NS * 0.75][occupant] += ns / 1e6 / window_s
        room += (share.could_ns + share.later_ns) / 1e6 / window_s
    return Causes(dict(sums[True]), dict(sums[False]), True, room)


def _estimated(seen: Seen) -> Causes:
    """The waiting time, shared out by who used the CPUs that the program may use.

    Throttled time comes first: a group's throttled time is summed over its CPUs, and on each of them all
    threads wait that are on this CPU's queue.  Its own threads compete with each other as far as they could
    have used more CPUs than one.
    """
    threads = seen.threads
    slices = float((threads["voluntary_per_s"] + threads["involuntary_per_s"]).sum())
    mean_ns = seen.waiting * 1e6 / slices if slices else 0.0
    if mean_ns < SHORT_NS and seen.waiting:
        return Causes({}, {"unattributed": seen.waiting}, False)
    held = float(seen.groups["throttled_ms_per_s"].max() or 0.0) if len(seen.groups) else 0.0
    throttled = min(seen.waiting, held * seen.crowding)
    rest, rivals, cpus = seen.waiting - throttled, seen.rivals, seen.cpus
    want = threads["running_ms_per_s"] + threads["waiting_ms_per_s"]
    busiest = float(want.max()) if len(want) else 0.0
    used = cpus[cpus["allowed"]] if len(cpus) else cpus
    realtime = rivals["policy"] != "OTHER"
    kernel = rivals["kernel"] & ~realtime
    weights = {
        "same_program": seen.running * (1 - busiest / seen.wanted) if seen.wanted else 0.0,
        "other_task": float(rivals[~realtime & ~kernel]["cpu_ms_per_s"].sum()),
        "kernel_thread": float(rivals[kernel]["cpu_ms_per_s"].sum()),
        "realtime": float(rivals[realtime]["cpu_ms_per_s"].sum()),
        "interrupt": float((used["irq_ms_per_s"] + used["softirq_ms_per_s"]).sum()) if len(used) else 0.0,
    }
    total = sum(weights.values())
    parts = (
        {name: rest * weight / total for name, weight in weights.items()} if total else {"unattributed": rest}
    )
    return Causes({**parts, "throttled": throttled}, {}, False)
