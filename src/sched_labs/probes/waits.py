"""Counted waits: how many of each length and cause, their quantiles, and what kept the CPU meanwhile.

What kept the CPU comes from an account that the probe keeps of each CPU and compares at the beginning and at
the end of a wait; see the head of helper/runqlat.bpf.c.  The parts of a wait add up to it exactly.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..core.errors import ParameterError

if TYPE_CHECKING:
    import pandas as pd

CAUSES = ("wakeup", "preempted")

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


def bin_edges_ns(number: int, bin_bits: int, fold: int = 0) -> tuple[int, int]:
    """The range [low, high) in ns of one bin: 2**bin_bits bins of equal width in each power of two.

    With `fold` the number is that of a bin that holds 2**fold of these.
    """
    if fold:
        first, last = number << fold, ((number + 1) << fold) - 1
        return bin_edges_ns(first, bin_bits)[0], bin_edges_ns(last, bin_bits)[1]
    per_octave = 1 << bin_bits
    if number < per_octave:
        return number, number + 1
    shift = (number >> bin_bits) - 1
    low = (per_octave + (number & (per_octave - 1))) << shift
    return low, low + (1 << shift)


def bin_of(ns: int, bin_bits: int) -> int:
    """The number of the bin that a time is in; the inverse of `bin_edges_ns`."""
    shift = max(0, ns.bit_length() - 1 - bin_bits)
    return (shift << bin_bits) + (ns >> shift)


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


def read_attribution(record: Mapping[str, Any], bin_bits: int, fold: int) -> Attribution:
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


@dataclass(frozen=True)
class Waits:
    """The waits that began and ended inside one window.

    `counts` has the number of waits in each bin that is not empty, for each cause ("wakeup": the thread was
    woken; "preempted": it lost its CPU while it could go on).  `window_ns` is how long the window was open so
    far.  `losses` counts what could not be counted, by reason; `unseen` the first times that a thread was
    switched in whose wait began before the window; `unfinished` (known at the end) the threads that were
    waiting when the window closed.

    `fold` is 0 for fine bins (1.6 % wide) and `bin_bits` for one bin per power of two.  `keys` has the waits
    of each key where the watch was told one (`by`), those of other users' threads in a group under -1;
    `unkeyed` of all waits are under no key, because there were more than 1,024.  `attribution` says what kept
    the CPU, where the watch was asked for it.
    """

    counts: Mapping[str, Mapping[int, int]]
    bin_bits: int
    window_ns: int
    losses: Mapping[str, int] = field(default_factory=dict)
    unseen: int = 0
    unfinished: int | None = None
    ended_by: str = ""
    fold: int = 0
    by: str = "machine"
    keys: Mapping[int, Mapping[str, Mapping[int, int]]] = field(default_factory=dict)
    unkeyed: int = 0
    attribution: Attribution | None = None

    @property
    def total(self) -> int:
        """All waits, of every length and cause."""
        return sum(sum(bins.values()) for bins in self.counts.values())

    @property
    def lost(self) -> int:
        """Waits that happened in the window and are not in `counts`."""
        return sum(self.losses.values())

    @cached_property
    def data(self) -> pd.DataFrame:
        """One row per bin that is not empty: bin_low_ns, bin_high_ns (excluded), cause, waits."""
        return self._frame(self.counts)

    def of(self, key: int) -> pd.DataFrame:
        """The waits of one key (a thread's, process's or group's number, or a CPU's), as `data` has them all.

        Raises ParameterError for a key that no wait was counted under.
        """
        if key not in self.keys:
            known = ", ".join(map(str, sorted(self.keys)[:10])) or "none"
            raise ParameterError(f"No wait was counted under {self.by} {key!r}.", f"There are: {known}.")
        return self._frame(self.keys[key])

    @cached_property
    def by_key(self) -> pd.DataFrame:
        """Like `data`, with each row's key in a column named after `by`: thread, process, cgroup or cpu."""
        import pandas as pd

        parts = [self.of(key).assign(**{self.by: key}) for key in sorted(self.keys)]
        return pd.concat(parts, ignore_index=True) if parts else self.data.iloc[:0].assign(**{self.by: []})

    def _frame(self, counts: Mapping[str, Mapping[int, int]]) -> pd.DataFrame:
        import pandas as pd

        rows = [
            (*bin_edges_ns(number, self.bin_bits, self.fold), cause, waits)
            for cause in CAUSES
            for number, waits in sorted(counts.get(cause, {}).items())
        ]
        frame = pd.DataFrame(rows, columns=["bin_low_ns", "bin_high_ns", "cause", "waits"])
        return frame.astype(
            {"bin_low_ns": "int64", "bin_high_ns": "int64", "cause": "object", "waits": "int64"}
        )

    def quantile_ns(self, q: float, cause: str | None = None) -> float:
        """The wait that a fraction `q` of the waits (of one cause, or of both) did not exceed, in ns."""
        return quantile_ns(self.data, q, cause)


def quantile_ns(histogram: pd.DataFrame, q: float, cause: str | None = None) -> float:
    """A quantile in ns from rows bin_low_ns, bin_high_ns, cause, waits; NaN when they hold no wait.

    The waits of a bin are taken as spread evenly over it: the error is less than the width of one bin.
    """
    if not 0 <= q <= 1:
        raise ParameterError(f"A quantile lies between 0 and 1, not at {q}.")
    if cause is not None:
        if cause not in CAUSES:
            raise ParameterError(f"There is no cause {cause!r}.", f"Choose one of {', '.join(CAUSES)}.")
        histogram = histogram[histogram["cause"] == cause]
    bins = histogram[histogram["waits"] > 0].sort_values("bin_low_ns")
    rank = q * float(bins["waits"].sum())
    before = 0.0
    for low, high, waits in zip(bins["bin_low_ns"], bins["bin_high_ns"], bins["waits"], strict=True):
        if before + waits >= rank:
            return float(low + (high - low) * (rank - before) / waits)
        before += waits
    return math.nan
