"""The parts of a wake-up: from the decision to wake a thread until it has a CPU.

    with wakeups.watch([program.pid], 2.0) as probe:
        probe.start()
        program.run()
        seen = probe.stop()
    seen.data      # one row per wake-up

The kernel passes three stations (helper/wakeups.bpf.c): sched_waking on the CPU of whoever wakes,
sched_wakeup when the thread stands in a queue, and sched_switch when it has the CPU.  Most tools measure from
the second one, and miss the message to an idle CPU, which comes before it.  Where it is told by an interrupt,
the probe tells when that arrived.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from .channel import Window, available, of_processes

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Wakeups", "Watch", "available", "watch"]

_COLUMNS = ["tid", "waker_cpu", "cpu", "waking_ns", "interrupt_ns", "wakeup_ns", "switch_ns"]


@dataclass(frozen=True)
class Wakeups:
    """The wake-ups of the watched threads inside one window; `lost` found no room (at least 1,024 on each
    CPU, and 262,144 on few).
    """

    rows: Sequence[Sequence[int]]
    lost: int
    ended_by: str

    @cached_property
    def data(self) -> pd.DataFrame:
        """tid, waker_cpu, cpu (on which it ran), and points of the monotonic clock: waking_ns, wakeup_ns,
        switch_ns, and interrupt_ns (when another CPU last interrupted `cpu` between the first and the last
        of these; 0 where none did).  In the order of waking_ns.
        """
        import pandas as pd

        table = pd.DataFrame(self.rows, columns=_COLUMNS).astype("int64")
        return table.sort_values("waking_ns", kind="stable", ignore_index=True)


def watch(pids: Sequence[int], duration_s: float) -> Watch:
    """Load the probe on processes of this user.

    `duration_s` (0.001 to 3600) closes the window at the latest.  Raises ParameterError for values that no
    probe could use, and ProbeError where this machine, or this user, cannot have the probe.
    """
    return Watch(of_processes("wakeups", pids, duration_s))


class Watch(Window):
    """The loaded probe.  Leaving the context takes it out of the kernel, whatever happened."""

    def stop(self) -> Wakeups:
        """Close the window, if it is still open, and return what it saw.  May be called again."""
        end = self._last()
        return Wakeups(end["wakes"], end["lost_wakes"], end["why"])
