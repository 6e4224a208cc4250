"""What people say about interpreter, judged on a run."""

from __future__ import annotations

import pandas as pd

from sched_labs.claims.base import FAILS, HOLDS, WEB_COURSE, CannotTell, Claim, Verdict, size
from sched_labs.claims.helpers import at_most, holds_or_fails, some


def _script(table: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    """The pinned runs of the script: with the smallest buffer, and with the larger one that pays most.

    Not the largest: a round may be too short to walk it even once, and what is read once was never warm.
    """
    found = table[table.placement == "pinned"].sort_values("buffer_bytes")
    if len(found) < 2:
        raise CannotTell("The script was not run pinned with two sizes of buffer.")
    return found.iloc[0], found.iloc[1:].sort_values("tax_ns", na_position="first").iloc[-1]


NEAR_BYTES = 16 << 10  # the sentences' own small buffer, which fits a first-level data cache of today


def _near(table: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    """The same, where the smallest buffer is one that fits the nearest cache."""
    small, large = _script(table)
    if small.buffer_bytes > NEAR_BYTES:
        raise CannotTell(f"The smallest buffer of this run has {size(small.buffer_bytes)}, not 16 KiB.")
    return small, large


def _noise(small: pd.Series, large: pd.Series) -> str:
    return f"The noise hides {small.floor_ns:.1f} and {large.floor_ns:.1f} ns."


def _script_needs_the_cache(table: pd.DataFrame) -> Verdict:
    """Statistic: tax a step, by interval and floor, small buffer against the larger one with the highest tax.
    Control: a run without the calls.  Design: sequential access, which the prefetcher hides.
    Opponent: less than half is what dramatically is taken to mean.
    """
    small, large = _near(table)
    reason = (
        f"a step's tax is {small.tax_ns:.1f} ns with {size(small.buffer_bytes)} "
        f"(interval {small.tax_lo_ns:.1f} to {small.tax_hi_ns:.1f}) and {large.tax_ns:.1f} ns with "
        f"{size(large.buffer_bytes)} ({large.tax_lo_ns:.1f} to {large.tax_hi_ns:.1f})."
    )
    # "Dramatically" is taken as to less than half.
    if large.tax_lo_ns > max(2 * at_most(small, "tax", "ns"), large.floor_ns):
        return Verdict(HOLDS, reason)
    if small.tax_lo_ns > max(0.5 * at_most(large, "tax", "ns"), small.floor_ns):
        return Verdict(FAILS, reason)
    raise CannotTell(f"The intervals or the noise span one half: {reason} {_noise(small, large)}")


def _script_is_pure_warm_up(table: pd.DataFrame) -> Verdict:
    """Statistic: tax a step of the buffer that fits the near cache, by interval and floor.
    Control: the larger buffer with the highest tax.  Design: what is there without anything to lose is no
    warm-up.  Opponent: a tenth is left for traces of it; on a first level of 32 KiB the two threads' buffers
    displace each other in part.
    """
    small, large = _near(table)
    reason = (
        f"the tax of a step is {small.tax_ns:.1f} ns with {size(small.buffer_bytes)}, which fit the "
        f"nearest cache (interval {small.tax_lo_ns:.1f} to {small.tax_hi_ns:.1f}), and {large.tax_ns:.1f} ns "
        f"with {size(large.buffer_bytes)} ({large.tax_lo_ns:.1f} to {large.tax_hi_ns:.1f})."
    )
    # What a set in the nearest cache pays as well is no warm-up; a tenth of it would be a trace.
    if small.tax_lo_ns > max(0.1 * at_most(large, "tax", "ns"), small.floor_ns):
        return Verdict(FAILS, reason)
    if large.tax_lo_ns > max(10 * at_most(small, "tax", "ns"), large.floor_ns):
        return Verdict(HOLDS, reason)
    raise CannotTell(f"The intervals or the noise span a tenth: {reason} {_noise(small, large)}")


def _script_three_times(table: pd.DataFrame) -> Verdict:
    """Statistic: ratio of times, by interval, within a tenth of three.  Control: one thread without calls.
    Design: two threads do twice the work, which is in the ratio.  Opponent: another interpreter has another
    lock.
    """
    _, row = _script(table)
    reason = (
        f"on one CPU with {size(row.buffer_bytes)} two threads that yield take {row.ratio:.2f} times as long "
        f"as one that does not (interval {row.ratio_lo:.2f} to {row.ratio_hi:.2f}), for twice the work."
    )
    return holds_or_fails(
        row.ratio_lo >= 2.7 and row.ratio_hi <= 3.3,
        row.ratio_hi < 2.7 or row.ratio_lo > 3.3,
        reason,
        "The interval spans 2.7 or 3.3:",
    )


def _script_runs_in_parallel(table: pd.DataFrame) -> Verdict:
    """Statistic: steps in the same time, two threads over one.  Control: one thread.  Design: unpinned, so
    that a second CPU is there.  Opponent: an interpreter without a global lock.
    """
    found = some(table[table.placement == "unpinned"], "The script was not run without its pin.")
    row = found.iloc[0]
    reason = (
        f"without the pin and the calls two threads with {size(row.buffer_bytes)} make {row.speedup:.2f} "
        f"times the steps of one in the same time (interval {row.speedup_lo:.2f} to {row.speedup_hi:.2f})."
    )
    return holds_or_fails(row.speedup_lo > 1.5, row.speedup_hi < 1.5, reason, "The interval spans 1.5:")


CLAIMS = [
    Claim("000-056", "With a working set of 16 KiB the script's switching overhead drops dramatically.",
          WEB_COURSE, "interpreter.script", _script_needs_the_cache),
    Claim("000-051", "What the Python script's switching run takes longer is pure cache warm-up.", WEB_COURSE,
          "interpreter.script", _script_is_pure_warm_up),
    Claim("000-049", "Switching makes the script's two threads take three times as long as one, not twice.",
          WEB_COURSE, "interpreter.script", _script_three_times),
    Claim("000-058", "Without a pin the script's two Python threads run in parallel.", WEB_COURSE,
          "interpreter.script", _script_runs_in_parallel),
]  # fmt: skip
