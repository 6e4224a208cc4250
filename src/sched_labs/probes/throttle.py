"""When a CPU limit held a group back: the kernel's counters period by period, and every interval itself.

    with throttle.watch([server.pid], 2.0) as probe, throttle.sampled(group, period_us=100_000) as samples:
        probe.start()
        server.run()
    seen = probe.stop()
    seen.spans        # one row per CPU and interval
    samples.data      # one row per look at cpu.stat

The counters need no privilege beyond the group.  The intervals are seen in the kernel by a program that reads
`cfs_rq.throttle_count` at every switch (helper/throttle.bpf.c), which the privileged helper loads.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from .channel import Window, available, of_processes

if TYPE_CHECKING:
    import pandas as pd

    from ..limits.cgroups import Group

__all__ = ["Samples", "Throttled", "Watch", "available", "sampled", "watch"]

LOOKS = 2  # at cpu.stat in each period


@dataclass(frozen=True)
class Throttled:
    """The intervals inside one window, by the monotonic clock.

    `lost` counts intervals that found no room in the table (4,096 for each CPU), `unfinished` CPUs on which
    the group was held back when the window closed.
    """

    flat: Sequence[int]
    window_ns: int
    lost: int
    unfinished: int
    ended_by: str

    @cached_property
    def spans(self) -> pd.DataFrame:
        """cpu, begin_ns, end_ns: one row per interval in which the group's run queue of a CPU was throttled.

        A queue is throttled on each CPU by itself, when it asks for more of the quota and gets none.
        """
        import pandas as pd

        rows = list(zip(self.flat[::3], self.flat[1::3], self.flat[2::3], strict=True))
        names = ["cpu", "begin_ns", "end_ns"]
        table = pd.DataFrame(rows, columns=names).astype(dict.fromkeys(names, "int64"))
        return table.sort_values(["begin_ns", "cpu"], ignore_index=True)


def watch(pids: Sequence[int], duration_s: float) -> Watch:
    """Load the probe on processes of this user that are in one group.

    `duration_s` (0.001 to 3600) closes the window at the latest.  Raises ParameterError for values that no
    probe could use, and ProbeError where this machine, or this user, cannot have the probe.
    """
    return Watch(of_processes("throttle", pids, duration_s))


class Watch(Window):
    """The loaded probe.  Leaving the context takes it out of the kernel, whatever happened."""

    def stop(self) -> Throttled:
        """Close the window, if it is still open, and return what it saw.  May be called again."""
        end = self._last()
        return Throttled(end["spans"], end["window_ns"], end["lost_spans"], end["unfinished"], end["why"])


@dataclass
class Samples:
    """Looks at a group's cpu.stat: (monotonic ns, and since the first: periods, throttled ones, their ns)."""

    rows: list[tuple[int, int, int, int]] = field(default_factory=list)

    @property
    def data(self) -> pd.DataFrame:
        """at_ns (monotonic), periods, throttled_periods, throttled_ns: one row per look."""
        import pandas as pd

        names = ["at_ns", "periods", "throttled_periods", "throttled_ns"]
        return pd.DataFrame(self.rows, columns=names).astype("int64")


@contextlib.contextmanager
def sampled(group: Group, *, period_us: int) -> Iterator[Samples]:
    """Look at the group's cpu.stat twice in each period, until the `with` ends; the last look is then.

    The looks keep to absolute times.  One costs a few microseconds of a CPU that is not the group's.
    """
    samples, over = Samples(), threading.Event()
    first, began, step = group.counted(), time.monotonic_ns(), period_us * 1000 // LOOKS

    def look() -> None:
        now, seen = time.monotonic_ns(), group.counted().since(first)
        samples.rows.append((now, seen.periods, seen.throttled_periods, seen.throttled_ns))

    def keep_looking() -> None:
        number = 0
        while True:
            look()
            number = max(number + 1, (time.monotonic_ns() - began) // step)
            if over.wait(max(0.0, (began + number * step - time.monotonic_ns()) / 1e9)):
                return

    thread = threading.Thread(target=keep_looking, daemon=True)
    thread.start()
    try:
        yield samples
    finally:
        over.set()
        thread.join()
        look()
