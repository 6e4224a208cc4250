"""Run-queue latency: how long threads wait between runnable and running, every single wait counted.

    with runqlat.watch(pids=[...], duration_s=2.0, interval_s=0.25) as probe:
        probe.start()
        for so_far in probe:      # cumulative, several times a second, until the window closes
            ...
        waits = probe.stop()      # exactly the window

The counting is done in the kernel by a BPF program (helper/runqlat.bpf.c) that the privileged helper loads.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any

from ..errors import ParameterError, ProbeError
from .channel import Availability, Channel, available
from .waits import CAUSES, Waits, quantile_ns

__all__ = ["Availability", "Waits", "Watch", "available", "quantile_ns", "watch"]

_VERSION = 1  # of the conversation with the helper


def watch(pids: Sequence[int], duration_s: float, interval_s: float = 0.25) -> Watch:
    """Load the probe on processes (not threads) of this user; nothing counts until `start()`.

    `duration_s` (0.001 to 3600) closes the window at the latest, `interval_s` (0.01 to 60) is the time
    between two snapshots. Raises ParameterError for values that no probe could use, and ProbeError where
    this machine, or this user, cannot have the probe, or where a process is not there or not the user's.
    """
    wanted = list(dict.fromkeys(pids))
    if not wanted or not all(isinstance(pid, int) and pid > 0 for pid in wanted):
        raise ParameterError(f"pids must be one or more process ids, not {list(pids)!r}.")
    for name, value, least, most in (
        ("duration_s", duration_s, 0.001, 3600),
        ("interval_s", interval_s, 0.01, 60),
    ):
        if not (math.isfinite(value) and least <= value <= most):
            raise ParameterError(f"{name} must lie between {least} and {most} seconds, not at {value}.")
    return Watch(wanted, float(duration_s), float(interval_s))


class Watch:
    """The loaded probe. Leaving the context takes it out of the kernel, whatever happened."""

    def __init__(self, pids: list[int], duration_s: float, interval_s: float) -> None:
        self._interval_s = interval_s
        self._started = False
        self._final: Waits | None = None
        self._channel = Channel(
            {
                "probe": "runqlat",
                "version": _VERSION,
                "pids": pids,
                "duration_s": duration_s,
                "interval_s": interval_s,
            }
        )

    def __enter__(self) -> Watch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._channel.close()

    @property
    def load_s(self) -> float:
        """How long the helper took to find the kernel's types and to compile and attach the program."""
        return float(self._channel.ready["load_s"])

    def start(self) -> None:
        """Open the window; it is open when this returns. Waits that began before it do not count."""
        if self._started:
            raise ProbeError("The measurement has been started already.", "Watch again for another one.")
        self._channel.send("start")
        self._channel.receive("started")
        self._started = True

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

    def _must_be_started(self) -> None:
        if not self._started:
            raise ProbeError("The measurement has not been started.", "Call start() first.")

    def _next(self) -> Waits:
        record = self._channel.receive("counts", "end", timeout_s=self._interval_s + 15)
        waits = _waits(record, int(self._channel.ready["bin_bits"]))
        if record["record"] == "end":
            self._final = waits
        return waits


def _waits(record: dict[str, Any], bin_bits: int) -> Waits:
    """A record of the helper as Waits. Counts come as bin, waits, bin, waits, ..."""
    losses = dict(record["losses"])
    unseen = losses.pop("unseen")
    return Waits(
        counts={
            cause: dict(zip(record["waits"][cause][::2], record["waits"][cause][1::2], strict=True))
            for cause in CAUSES
        },
        bin_bits=bin_bits,
        window_ns=record["window_ns"],
        losses=losses,
        unseen=unseen,
        unfinished=record.get("unfinished"),
        ended_by=record.get("why", ""),
    )
