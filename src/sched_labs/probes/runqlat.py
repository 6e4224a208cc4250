"""Run-queue latency: how long threads wait between runnable and running, every single wait counted.

    with runqlat.watch(pids=[...], duration_s=2.0, interval_s=0.25) as probe:
        probe.start()
        for so_far in probe:      # cumulative, several times a second, until the window closes
            ...
        waits = probe.stop()      # exactly the window

The counting is done in the kernel by a BPF program (helper/runqlat.bpf.c) that the privileged helper loads.
`watch(..., attribution=True)` also says what kept the CPU meanwhile, and `by=` counts the waits of each
thread, process, control group or CPU apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..core.errors import ParameterError
from .channel import Availability, Window, available
from .switches import Switches, read_switches
from .waits import CAUSES, Attribution, Waits, quantile_ns, read_attribution

__all__ = ["Attribution", "Availability", "Waits", "Watch", "available", "quantile_ns", "watch"]

SCOPES = ("processes", "family", "cgroup", "machine")
KEYS = ("machine", "cpu", "thread", "process", "cgroup")
BINS = ("fine", "log2")


def watch(
    pids: Sequence[int],
    duration_s: float,
    interval_s: float = 0.25,
    *,
    scope: str = "processes",
    by: str = "machine",
    bins: str = "fine",
    attribution: bool = False,
    edges: bool = False,
) -> Watch:
    """Load the probe on processes (not threads) of this user; nothing counts until `start()`.

    `duration_s` (0.001 to 3600) closes the window at the latest, `interval_s` (0.01 to 60) is the time
    between two snapshots.

    scope        whose waits count: of the `processes` in pids; of these and what they fork from now on, until
                 stop() (`family`); of every thread in the control group that the
                 one process in pids is in (not in groups below it); of the whole `machine` (pids empty; root)
    by           one histogram for all ("machine"), or besides it one for each "cpu", "thread", "process" or
                 "cgroup"; of the last three at most 1,024, and what does not fit is counted (`unkeyed`)
    bins         "fine" (at most 1.6 % wide) or "log2" (powers of two)
    attribution  also account for every nanosecond of the waits by what occupied the CPU; dearer
    edges        also count who takes the CPU after whom (`Watch.switches`, after stop()): a probe of its own
                 would cost more; not of a control group

    Raises ParameterError for values that no probe could use, and ProbeError where this machine, or this
    user, cannot have the probe, or where a process is not there or not the user's.
    """
    wanted = list(dict.fromkeys(pids))
    for name, word, choices in (("scope", scope, SCOPES), ("by", by, KEYS), ("bins", bins, BINS)):
        if word not in choices:
            raise ParameterError(f"{name} does not take {word!r}.", f"Choose one of {', '.join(choices)}.")
    if not all(isinstance(pid, int) and pid > 0 for pid in wanted):
        raise ParameterError(f"pids must be process ids, not {list(pids)!r}.")
    if scope == "machine" and wanted:
        raise ParameterError("The whole machine has no pids.", "Leave pids empty, or watch processes.")
    if scope == "machine" and attribution:
        raise ParameterError(
            "On the whole machine no program is the waiting thread's own: waits cannot be attributed.",
            "Watch processes or a control group.",
        )
    if scope == "cgroup" and edges:
        raise ParameterError("Who follows whom is not told of a control group.", "Watch processes.")
    if scope == "cgroup" and len(wanted) != 1:
        raise ParameterError("A control group is named by one process in it.", "Give one process id.")
    if scope in ("processes", "family") and not wanted:
        raise ParameterError(f"pids must be one or more process ids, not {list(pids)!r}.")
    for name, value, least, most in (
        ("duration_s", duration_s, 0.001, 3600),
        ("interval_s", interval_s, 0.01, 60),
    ):
        if not (math.isfinite(value) and least <= value <= most):
            raise ParameterError(f"{name} must lie between {least} and {most} seconds, not at {value}.")
    request: dict[str, Any] = {"scope": scope, "pids": wanted, "by": by, "bins": bins}
    request |= {"attribution": bool(attribution), "edges": bool(edges)}
    return Watch(request, float(duration_s), float(interval_s))


class Watch(Window):
    """The loaded probe. Leaving the context takes it out of the kernel, whatever happened."""

    def __init__(self, request: Mapping[str, Any], duration_s: float, interval_s: float) -> None:
        self._interval_s = interval_s
        self._by = str(request["by"])
        self._final: Waits | None = None
        self.switches: Switches | None = None  # when all is over, and where the edges were asked for
        super().__init__({"probe": "runqlat", **request, "duration_s": duration_s, "interval_s": interval_s})

    @property
    def load_s(self) -> float:
        """How long the helper took to compile the program, unless it has before, and to attach it."""
        return float(self._channel.ready["load_s"])

    @property
    def kept(self) -> bool:
        """Whether an earlier probe had compiled the program, so that this one needed no compiler."""
        return bool(self._channel.ready["kept"])

    @property
    def interrupts(self) -> list[str]:
        """The kinds of interrupts that an attribution can tell apart from whom they interrupt."""
        return list(self._channel.ready["interrupts"])

    def __iter__(self) -> Iterator[Waits]:
        """What was counted so far, every `interval_s`, until the window closes. The last one is final."""
        self._must_be_started()
        while self._final is None:
            yield self._next()

    def stop(self) -> Waits:
        """Close the window, if it is still open, and return what it counted. May be called again."""
        self._must_be_started()
        if self._final is None:
            self._channel.send("stop")
        while self._final is None:
            self._next()
        return self._final

    def _next(self) -> Waits:
        record = self._channel.receive("counts", "end", timeout_s=self._interval_s + 15)
        waits = _waits(record, self._channel.ready, self._by)
        if record["record"] == "end":
            self._final = waits
            self.switches = read_switches(record) if "edges" in record else None
        return waits


def _counts(said: Mapping[str, list[int]]) -> dict[str, dict[int, int]]:
    """Counts come as bin, waits, bin, waits, ..."""
    return {cause: dict(zip(said[cause][::2], said[cause][1::2], strict=True)) for cause in CAUSES}


def _waits(record: dict[str, Any], ready: Mapping[str, Any], by: str) -> Waits:
    """A record of the helper as Waits."""
    losses = dict(record["losses"])
    unseen, unkeyed = losses.pop("unseen"), losses.pop("unkeyed")
    bin_bits = int(ready["bin_bits"])
    return Waits(
        counts=_counts(record["waits"]),
        bin_bits=bin_bits,
        window_ns=record["window_ns"],
        losses=losses,
        unseen=unseen,
        unfinished=record.get("unfinished"),
        ended_by=record.get("why", ""),
        fold=int(ready["fold"]),
        by=by,
        keys={int(key): _counts(said) for key, said in record.get("keys", ())},
        unkeyed=unkeyed,
        attribution=read_attribution(record, bin_bits, int(ready["coarse_fold"]))
        if "attribution" in record
        else None,
    )
