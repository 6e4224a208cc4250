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

CAUSES = ("wakeup", "preempted")


def bin_edges_ns(number: int, bin_bits: int) -> tuple[int, int]:
    """The range [low, high) in ns of one bin: 2**bin_bits bins of equal width in each power of two."""
    per_octave = 1 << bin_bits
    if number < per_octave:
        return number, number + 1
    shift = (number >> bin_bits) - 1
    low = (per_octave + (number & (per_octave - 1))) << shift
    return low, low + (1 << shift)


@dataclass(frozen=True)
class Waits:
    """The waits that began and ended inside one window.

    `counts` has the number of waits in each bin that is not empty, for each cause ("wakeup": the thread was
    woken; "preempted": it lost its CPU while it could go on).  `window_ns` is how long the window was open so
    far.  `losses` counts what could not be counted, by reason; `unseen` the first times that a thread was
    switched in whose wait began before the window; `unfinished` (known at the end) the threads that were
    waiting when the window closed.
    """

    counts: Mapping[str, Mapping[int, int]]
    bin_bits: int
    window_ns: int
    losses: Mapping[str, int] = field(default_factory=dict)
    unseen: int = 0
    unfinished: int | None = None
    ended_by: str = ""

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
        import pandas as pd

        rows = [
            (*bin_edges_ns(number, self.bin_bits), cause, waits)
            for cause in CAUSES
            for number, waits in sorted(self.counts.get(cause, {}).items())
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
