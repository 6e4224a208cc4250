"""Counted waits: how many waits of each length and cause a window of time had, and their quantiles."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from ..errors import ParameterError

if TYPE_CHECKING:
    import pandas as pd

    from .attribution import Attribution

CAUSES = ("wakeup", "preempted")


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
class Waits:
    """The waits that began and ended inside one window.

    `counts` has the number of waits in each bin that is not empty, for each cause ("wakeup": the thread was
    woken; "preempted": it lost its CPU while it could go on).  `window_ns` is how long the window was open so
    far.  `losses` counts what could not be counted, by reason; `unseen` the first times that a thread was
    switched in whose wait began before the window; `unfinished` (known at the end) the threads that were
    waiting when the window closed.

    `fold` is 0 for fine bins (1.6 % wide) and `bin_bits` for one bin per power of two.  `keys` has the waits
    of each key where the watch was told one (`by`); `unkeyed` of all waits are under no key, because there
    were more than 1,024.  `attribution` says what kept the CPU, where the watch was asked for it.
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
