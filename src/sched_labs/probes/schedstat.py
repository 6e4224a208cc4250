"""The unprivileged probe: how long threads ran and waited in sum, and how often they were switched in.

The kernel keeps three numbers for every thread in /proc/<pid>/task/<tid>/schedstat: time on a CPU, time
runnable without one (run delay), and the times it was switched in (time slices). They need no privilege and
cost the workload nothing. They have no histogram, and they miss most of a short wake-up wait: the clock of
a run queue starts late.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple

from ..core.errors import ParameterError, ProbeError
from ..machine import files
from .channel import Availability

if TYPE_CHECKING:
    import pandas as pd


class Tally(NamedTuple):
    """What the kernel has counted for one thread since it began."""

    run_ns: int
    wait_ns: int
    timeslices: int


@dataclass(frozen=True)
class Delays:
    """What the threads did in the window. `data`: one row per thread: pid, tid, run_ns, wait_ns, timeslices.

    `ended` counts threads that were there at the start and not at the end: what they did in the window is
    not in `data`, because the kernel forgets it.
    """

    data: pd.DataFrame
    window_ns: int
    ended: int


def available() -> Availability:
    """Whether this kernel keeps the numbers (CONFIG_SCHED_INFO)."""
    text = files.read("/proc/self/schedstat")
    if text is None or not any(int(word) for word in text.split()):
        return Availability(False, "This kernel keeps no run delay (CONFIG_SCHED_INFO).", "")
    return Availability(True)


def look(pids: Sequence[int]) -> dict[tuple[int, int], Tally]:
    """{(pid, tid): Tally} of all threads that these processes have now; those that are gone are not in it."""
    tallies = {}
    for pid in pids:
        for tid in files.names(f"/proc/{pid}/task"):
            words = (files.read(f"/proc/{pid}/task/{tid}/schedstat") or "").split()
            if len(words) == 3:
                tallies[pid, int(tid)] = Tally(*map(int, words))
    return tallies


def watch(pids: Sequence[int]) -> Watch:
    """Look at processes before and after; used like `runqlat.watch`.

    ParameterError without pids, ProbeError for a process that is not there or a kernel that keeps no run
    delay.
    """
    return Watch(list(dict.fromkeys(pids)))


class Watch:
    """Two looks. Threads that begin inside the window count from their beginning."""

    def __init__(self, pids: list[int]) -> None:
        self._pids = pids
        if not self._pids:
            raise ParameterError("pids must be one or more process ids.")
        gone = [pid for pid in self._pids if not files.exists(f"/proc/{pid}/task")]
        if gone:
            raise ProbeError(f"There is no process {gone[0]}.", "Start the probe while the processes run.")
        able = available()
        if not able.ok:
            raise ProbeError(able.why, able.remedy)
        self._before: dict[tuple[int, int], Tally] | None = None
        self._begin_ns = 0

    def __enter__(self) -> Watch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def start(self) -> None:
        """Look for the first time."""
        self._before = look(self._pids)
        self._begin_ns = time.monotonic_ns()

    def stop(self) -> Delays:
        """Look again, and return what happened in between (so far, when called more than once)."""
        if self._before is None:
            raise ProbeError("The measurement has not been started.", "Call start() first.")
        after = look(self._pids)
        window_ns = time.monotonic_ns() - self._begin_ns
        import pandas as pd  # takes longer to load than many windows last: only after the second look

        nothing = Tally(0, 0, 0)
        rows = [
            (*who, *(now - then for now, then in zip(tally, self._before.get(who, nothing), strict=True)))
            for who, tally in after.items()
        ]
        data = pd.DataFrame(rows, columns=["pid", "tid", "run_ns", "wait_ns", "timeslices"])
        return Delays(data.astype("int64"), window_ns, ended=len(self._before.keys() - after.keys()))
