"""Who takes the CPU after whom, and where in the kernel threads leave it.

    with switches.watch(pids=[...], duration_s=2.0, stacks=True) as probe:
        probe.start()
        seen = probe.stop()
    seen.edges      # one row per pair of threads
    seen.stacks     # one row per place in the kernel where a thread left its CPU

The counting is done in the kernel (helper/switches.bpf.c), by the same privileged helper that counts waits.
Whoever counts waits as well asks that probe for the edges (`runqlat.watch(..., edges=True)`): it costs less.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..core.errors import ParameterError
from .channel import Window, available

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["STATES", "Switches", "Watch", "available", "watch"]

_NAMED_S = 60.0  # the kernel's functions are some 200,000 names: an emulated machine takes its time over them
# What a thread was about to do when it left its CPU.
STATES = {
    "runnable": "it could have gone on: it was preempted, or it yielded",
    "interruptible": "it went to sleep",
    "uninterruptible": "it went to sleep and no ordinary signal wakes it: mostly for a device",
    "other": "it ended, or it was stopped",
}
_EDGES = ["cpu", "prev_tid", "prev_name", "next_tid", "next_name", "state", "switches"]
_WAKERS = [*("tid", "name", "stack", "waker_tid", "waker_name", "by", "waker_stack"), *("times", "slept_ns")]
# Where the kernel enters an interrupt, or goes through softirqs at its end: x86-64, arm64.
_INTERRUPT = re.compile(
    r"(asm_)?(sysvec_|common_interrupt)|el[01]\w*_irq|gic_handle_irq|__?irq_exit|irq_exit_rcu"
)
_STACKS = ["tid", "name", "state", "times", "off_cpu_ns", "waited_ns", "stack"]


@dataclass(frozen=True)
class Switches:
    """The switches from or to the watched threads inside one window.

    `lost_edges` counts switches that found no room in the table, `lost_stacks` departures of the same kind.
    """

    rows: Sequence[Sequence[Any]]
    stack_rows: Sequence[Sequence[Any]]
    window_ns: int
    lost_edges: int
    lost_stacks: int
    ended_by: str
    waker_rows: Sequence[Sequence[Any]] = ()

    @cached_property
    def edges(self) -> pd.DataFrame:
        """cpu, prev_tid, prev_name, next_tid, next_name, state, switches: one row per CPU, pair and state.

        Thread 0 is the idle thread of its CPU, thread -1 ("another user's") all threads of other users, of
        which only root is told more.  `state` is one of STATES and tells of prev.
        """
        import pandas as pd

        rows = [(cpu, a, name_a, b, name_b, state, n) for cpu, a, b, state, n, name_a, name_b in self.rows]
        frame = pd.DataFrame(rows, columns=_EDGES)
        numbers = dict.fromkeys(("cpu", "prev_tid", "next_tid", "switches"), "int64")
        return frame.astype(numbers).sort_values("switches", ascending=False, ignore_index=True)

    @cached_property
    def stacks(self) -> pd.DataFrame:
        """tid, name, state, times, off_cpu_ns, waited_ns, stack: a row per thread, state and place in the
        kernel.

        `stack` are the kernel's functions from the outermost in, joined by semicolons; off_cpu_ns is the time
        until the thread had a CPU again, and leaves out a departure that had not ended with the window.
        waited_ns is the part of it during which the thread could run and had no CPU: all of it for a thread
        that left runnable, and for one that slept the time since it was woken (sched_wakeup).
        """
        import pandas as pd

        rows = [
            (tid, name, state, times, ns, waited_ns, ";".join(functions))
            for tid, name, state, times, ns, waited_ns, functions in self.stack_rows
        ]
        frame = pd.DataFrame(rows, columns=_STACKS).astype(
            dict.fromkeys(("tid", "times", "off_cpu_ns", "waited_ns"), "int64")
        )
        # Two CPUs may both have seen a thread leave at the same place.
        by = ["tid", "name", "state", "stack"]
        whole = frame.groupby(by, as_index=False)[["times", "off_cpu_ns", "waited_ns"]].sum()
        return whole[_STACKS].sort_values("off_cpu_ns", ascending=False, ignore_index=True)

    @cached_property
    def wakers(self) -> pd.DataFrame:
        """tid, name, stack, waker_tid, waker_name, by, waker_stack, times, slept_ns: who ended which sleeps.

        One row for each place in the kernel where a thread slept and each one where it was woken.  `by` is
        "thread" or "interrupt": then the waker is the thread that it came upon, which may be none of those
        concerned.  slept_ns is the time until the waking, and leaves out the wait for a CPU after it.  Of
        another user's thread (-1) there is no stack, and an interrupt cannot be told from it: "not known".
        """
        import pandas as pd

        rows = [
            (tid, name, ";".join(at), waker, by, _how(waker, woke), ";".join(woke), times, ns)
            for tid, name, at, waker, by, woke, times, ns in self.waker_rows
        ]
        frame = pd.DataFrame(rows, columns=_WAKERS).astype(
            dict.fromkeys(("tid", "waker_tid", "times", "slept_ns"), "int64")
        )
        whole = frame.groupby(_WAKERS[:-2], as_index=False)[["times", "slept_ns"]].sum()
        return whole.sort_values("slept_ns", ascending=False, ignore_index=True)


def _how(waker: int, functions: Sequence[str]) -> str:
    if waker == -1:
        return "not known"
    return "interrupt" if any(_INTERRUPT.match(one) for one in functions) else "thread"


def read_switches(record: Mapping[str, Any]) -> Switches:
    """A helper's last record."""
    return Switches(
        rows=record["edges"],
        stack_rows=record.get("stacks", []),
        window_ns=record["window_ns"],
        lost_edges=record["lost_edges"],
        lost_stacks=record.get("lost_stacks", 0),
        ended_by=record["why"],
        waker_rows=record.get("wakers", []),
    )


def watch(pids: Sequence[int], duration_s: float, *, scope: str = "processes", stacks: bool = False) -> Watch:
    """Load the probe on processes of this user, or (scope="machine", root, no pids) on everything.

    With scope="family" also on what the processes fork from now on, until stop().

    `duration_s` (0.001 to 3600) closes the window at the latest.  `stacks` also notes in which kernel
    functions threads leave their CPU, and for how long.  Raises ParameterError for values that no probe
    could use, and ProbeError where this machine, or this user, cannot have the probe, or where a process is
    not there or not the user's.
    """
    wanted = list(dict.fromkeys(pids))
    if scope not in ("processes", "family", "machine"):
        raise ParameterError(f"scope does not take {scope!r}.", "Choose processes, family or machine.")
    if not all(isinstance(pid, int) and pid > 0 for pid in wanted) or bool(wanted) != (scope != "machine"):
        raise ParameterError(f"pids must be process ids, or nothing for a machine, not {list(pids)!r}.")
    if not (math.isfinite(duration_s) and 0.001 <= duration_s <= 3600):
        raise ParameterError(f"duration_s must lie between 0.001 and 3600 seconds, not at {duration_s}.")
    return Watch(wanted, float(duration_s), scope, stacks)


class Watch(Window):
    """The loaded probe.  Leaving the context takes it out of the kernel, whatever happened."""

    def __init__(self, pids: list[int], duration_s: float, scope: str, stacks: bool) -> None:
        self._duration_s, self._stacks = duration_s, stacks
        self._final: Switches | None = None
        super().__init__(
            {
                "probe": "switches",
                "scope": scope,
                "pids": pids,
                "stacks": bool(stacks),
                "duration_s": duration_s,
                "interval_s": 60,
            }
        )

    def wait(self) -> Switches:
        """Wait until the window closes by itself, and return what it counted."""
        return self._end(self._duration_s + (_NAMED_S if self._stacks else 15))

    def stop(self) -> Switches:
        """Close the window, if it is still open, and return what it counted.  May be called again."""
        if self._started and self._final is None:
            self._channel.send("stop")
        return self._end(_NAMED_S if self._stacks else 15.0)

    def _end(self, timeout_s: float) -> Switches:
        self._must_be_started()
        while self._final is None:
            record = self._channel.receive("counts", "end", timeout_s=timeout_s)
            if record["record"] == "end":
                self._final = read_switches(record)
        return self._final
