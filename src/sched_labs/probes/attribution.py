"""What kept the CPU while threads waited for it: every nanosecond of every wait, by who had it.

The probe keeps an account of each CPU and compares it at the beginning and at the end of a wait; see the head
of helper/runqlat.bpf.c.  The parts of a wait add up to it exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from .waits import CAUSES, bin_edges_ns

if TYPE_CHECKING:
    import pandas as pd

# In the helper's order, with what each means.
OCCUPANTS = {
    "idle": "the CPU was idle: the wake-up was under way, or the CPU was leaving its sleep",
    "same_program": "another thread that is watched too",
    "other_task": "a thread of another program",
    "kernel_thread": "a thread of the kernel",
    "realtime": "a thread with a real-time policy (FIFO, RR, DEADLINE), whoever owns it",
    "interrupt": "interrupts and softirqs, as far as this kernel can show them",
    "throttled": "the thread's group had used up its CPU quota",
    "migrated": "the wait changed CPU unseen",
    "unattributed": "not known: the account of the CPU had not begun, or was being written to",
}


@dataclass(frozen=True)
class Share:
    """The waits that began in one way ("wakeup" or "preempted").

    parts_ns   {(bin, occupant): ns}; the bins hold 2**fold of the histogram's
    could      {bin: waits} that began while another CPU that the thread may use was idle, and its own was not
    later      {bin: waits} that did not, and during which one was idle all the same; a wait is in `could` or
               here, not in both.  A wait that begins with a used-up quota is in neither
    sum_ns     all waits together, added up apart from the parts
    could_ns   those of `could` together
    later_ns   those of `later` together
    moved      waits that changed CPU
    held       waits that began because a CPU quota was used up
    """

    parts_ns: Mapping[tuple[int, str], int]
    could: Mapping[int, int]
    later: Mapping[int, int]
    sum_ns: int
    could_ns: int
    later_ns: int
    moved: int
    held: int


@dataclass(frozen=True)
class Attribution:
    """The waits of a window by what occupied the CPU; `stolen_ns` bounds what the hypervisor took.

    Stolen time lies inside the parts of whoever had the CPU: it is a bound over all CPUs and the whole
    window, in steps of 10 ms, and no part.
    """

    shares: Mapping[str, Share]
    bin_bits: int
    fold: int
    stolen_ns: int

    @property
    def sum_ns(self) -> int:
        """The length of all waits together."""
        return sum(share.sum_ns for share in self.shares.values())

    def total_ns(self, cause: str | None = None) -> dict[str, int]:
        """{occupant: ns} over all waits, or those of one cause; every occupant is in it."""
        sums = dict.fromkeys(OCCUPANTS, 0)
        for name, share in self.shares.items():
            if cause in (None, name):
                for (_, occupant), ns in share.parts_ns.items():
                    sums[occupant] += ns
        return sums

    @cached_property
    def data(self) -> pd.DataFrame:
        """One row per part that is not zero: cause, bin_low_ns, bin_high_ns (excluded), occupied_by, part_ns.

        The bin is the one that the whole wait fell into.
        """
        import pandas as pd

        rows = [
            (cause, *bin_edges_ns(number, self.bin_bits, self.fold), occupant, ns)
            for cause in CAUSES
            for (number, occupant), ns in sorted(self.shares[cause].parts_ns.items())
        ]
        names = ["cause", "bin_low_ns", "bin_high_ns", "occupied_by", "part_ns"]
        return pd.DataFrame(rows, columns=names).astype(
            {"bin_low_ns": "int64", "bin_high_ns": "int64", "part_ns": "int64"}
        )


def attribution(record: Mapping[str, Any], bin_bits: int, fold: int) -> Attribution:
    """A helper's record.  Parts come as bin, number of the occupant, ns, bin, ..."""
    names = list(OCCUPANTS)
    shares = {}
    for cause in CAUSES:
        said = record["attribution"][cause]
        flat = said["parts_ns"]
        shares[cause] = Share(
            parts_ns={
                (number, names[occupant]): ns
                for number, occupant, ns in zip(flat[::3], flat[1::3], flat[2::3], strict=True)
            },
            could=dict(zip(said["could"][::2], said["could"][1::2], strict=True)),
            later=dict(zip(said["later"][::2], said["later"][1::2], strict=True)),
            sum_ns=said["sum_ns"],
            could_ns=said["could_ns"],
            later_ns=said["later_ns"],
            moved=said["moved"],
            held=said["held"],
        )
    return Attribution(shares, bin_bits, fold, record["stolen_ns"])
