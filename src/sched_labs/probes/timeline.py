"""Who had which CPU when, and since when each watched thread could have had it.

    with timeline.watch([program.pid], 10.0) as probe:
        probe.start()
        seen = probe.stop()
    seen.turns      # one row per switch that was kept
    seen.worst      # the longest waits

The kernel keeps the last turns of each CPU, and the surroundings of the longest waits that ended there
(helper/timeline.bpf.c): memory stays the same however long the window is, and `lost` says what is gone.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.errors import ParameterError, ProbeError
from .channel import Window, available, of_processes
from .helper.counts import STATES, TURN_BYTES

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["NOT_TOLD", "Timeline", "Watch", "available", "watch"]

NOT_TOLD = -1  # stands for all threads of other users
MOST_WORST = 10
MOST_BYTES = 1 << 26  # that the kernel's pages of one CPU can have
_TURN = np.dtype(
    [
        *((name, "<u8") for name in ("at_ns", "ready_ns", "waking_ns")),
        *((name, "<u4") for name in ("tid", "prev_tid", "state", "waker_tid")),
        ("name", "S16"),
    ]
)
assert _TURN.itemsize == TURN_BYTES
_COLUMNS = [
    *("cpu", "at_ns", "tid", "name", "prev_tid", "prev_state", "ready_ns", "waking_ns", "waker_tid"),
    "follows",
]


@dataclass(frozen=True)
class Timeline:
    """What was kept of one window: the last record of the helper.  Raises ProbeError where that is none."""

    rows: Sequence[Sequence[Any]]
    open_ns: int
    close_ns: int
    ended_by: str

    @cached_property
    def turns(self) -> pd.DataFrame:
        """cpu, at_ns, tid, name, prev_tid, prev_state, ready_ns, waking_ns, waker_tid, follows.

        From at_ns on, in ns since the window opened, the thread had the CPU, until the CPU's next row.
        prev_* tell of the thread that left it (STATES of probes.switches).  ready_ns: since when a watched
        thread could run, and waking_ns: when it was being woken, by waker_tid or by an interrupt that came
        while that one ran; NA where not seen.  Thread 0 is the idle thread of its CPU, NOT_TOLD any of
        another user.  `follows` is False where something between this row and the one before was not kept.
        """
        import pandas as pd

        parts = []
        for cpu, (_, ring, *waits) in enumerate(self.rows):
            packed = [unpacked(ring), *(unpacked(kept) for _, kept in waits)]
            whole = np.concatenate(packed)
            # Of two switches of a CPU no two are at the same nanosecond.
            _, once = np.unique(whole["at_ns"], return_index=True)
            rows = whole[once]
            parts.append(self._frame(cpu, rows, packed))
        table = pd.concat(parts) if parts else pd.DataFrame(columns=_COLUMNS)
        return table.sort_values(["at_ns", "cpu"], kind="stable", ignore_index=True)

    def _frame(self, cpu: int, rows: np.ndarray[Any, Any], packed: list[Any]) -> pd.DataFrame:
        import pandas as pd

        def told(values: Any) -> Any:
            return values.astype("int32").astype("int64")  # OTHERS is -1

        def when(values: Any) -> Any:
            since = pd.Series(values.astype("int64") - self.open_ns, dtype="Int64")
            return since.mask(values == 0)

        table = pd.DataFrame(
            {
                "cpu": np.full(len(rows), cpu),
                "at_ns": rows["at_ns"].astype("int64") - self.open_ns,
                "tid": told(rows["tid"]),
                "name": [name.decode("utf-8", "replace") for name in rows["name"]],
                "prev_tid": told(rows["prev_tid"]),
                "prev_state": [STATES[state & 3] for state in rows["state"]],
                "ready_ns": when(rows["ready_ns"]),
                "waking_ns": when(rows["waking_ns"]),
                "waker_tid": told(rows["waker_tid"]),
            },
            columns=_COLUMNS[:-1],
        )
        table["name"] = (
            table["name"].where(table["tid"] != NOT_TOLD, "another user's").mask(table["tid"] == 0, "idle")
        )
        # A piece begins where the ring was cut; a switch between two threads of other users is not kept.
        begins = np.isin(rows["at_ns"], [part["at_ns"][0] for part in packed if len(part)])
        inner = np.isin(rows["at_ns"], np.concatenate([part["at_ns"][1:] for part in packed]))
        known = table["prev_tid"].eq(table["tid"].shift()).to_numpy()
        table["follows"] = known & (inner | ~begins)
        return table

    @cached_property
    def worst(self) -> pd.DataFrame:
        """tid, name, cpu, ready_ns, at_ns, waited_ns: the longest waits for a CPU, the longest first.

        From ready_ns until at_ns (ns since the window opened) the thread could run, and had no CPU; `cpu` is
        the one that it then had.
        """
        table = self.turns[self.turns["ready_ns"].notna()]
        table = table.assign(waited_ns=(table["at_ns"] - table["ready_ns"]).astype("int64"))
        table = table[table["waited_ns"] > 0].nlargest(MOST_WORST, "waited_ns")
        return table[["tid", "name", "cpu", "ready_ns", "at_ns", "waited_ns"]].reset_index(drop=True)

    @cached_property
    def lost(self) -> int:
        """How many turns were seen and are no longer there."""
        return max(0, sum(row[0] for row in self.rows) - len(self.turns))


def unpacked(text: str) -> np.ndarray[Any, Any]:
    """The turns of a packed page.  Raises ProbeError for what the helper does not write."""
    try:
        inflate = zlib.decompressobj()
        data = inflate.decompress(base64.b64decode(text, validate=True), MOST_BYTES)
        if not inflate.eof:
            raise ValueError("it is cut, or too long")
        return np.frombuffer(data, _TURN)
    except (binascii.Error, zlib.error, ValueError, TypeError) as error:
        raise ProbeError(f"The privileged helper wrote turns that cannot be read: {error}.") from None


def watch(pids: Sequence[int], duration_s: float, *, scope: str = "processes") -> Watch:
    """Load the probe on processes of this user; with scope="family" also on what they fork from now on.

    `duration_s` (0.001 to 3600) closes the window at the latest.  Raises ParameterError for values that no
    probe could use, and ProbeError where this machine, or this user, cannot have the probe.
    """
    if scope not in ("processes", "family"):
        raise ParameterError(f"scope does not take {scope!r}.", "Choose processes or family.")
    return Watch(of_processes("timeline", pids, duration_s) | {"scope": scope})


class Watch(Window):
    """The loaded probe.  Leaving the context takes it out of the kernel, whatever happened."""

    def stop(self) -> Timeline:
        """Close the window, if it is still open, and return what was kept.  May be called again."""
        end = self._last()
        return Timeline(end["cpus"], end["open_ns"], end["close_ns"], end["why"])
