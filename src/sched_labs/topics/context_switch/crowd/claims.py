"""What people say about crowd, judged on a run."""

from __future__ import annotations

import pandas as pd

from sched_labs.claims.base import FAILS, HOLDS, WEB_COURSE, CannotTell, Claim, Verdict, ns


def _crowds(table: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    """The smallest crowd and the largest."""
    found = table.sort_values("threads")
    if len(found) < 2 or found.iloc[-1].threads < 8 * found.iloc[0].threads:
        raise CannotTell("Two crowds are needed, one eight times as large as the other.")
    return found.iloc[0], found.iloc[-1]


def _crowd_reason(few: pd.Series, many: pd.Series) -> str:
    return (
        f"{ns(few.switch_ns)} with {few.threads:.0f} ready threads (interval {ns(few.switch_lo_ns)} to "
        f"{ns(few.switch_hi_ns)}), {ns(many.switch_ns)} with {many.threads:.0f} ({ns(many.switch_lo_ns)} to "
        f"{ns(many.switch_hi_ns)})."
    )


def _dearer_in_a_crowd(table: pd.DataFrame) -> Verdict:
    """Statistic: time a switch, by interval and floor.  Control: two threads.  Design: all of them yield,
    none sleeps; a crowd that is clearly cheaper than a smaller one refutes it.  Opponent: what grows is the
    caches' part as much as the search, and small crowds may cost alike: the reason says from which on they
    do not.
    """
    few, many = _crowds(table)
    ordered = table.sort_values("threads", ignore_index=True)
    dearest = ordered.switch_lo_ns.cummax().shift()
    cheaper = ordered[ordered.switch_hi_ns + few.floor_ns < dearest]
    if len(cheaper):
        row = cheaper.iloc[-1]
        before = ordered[ordered.threads < row.threads]
        return Verdict(FAILS, _crowd_reason(before.loc[before.switch_lo_ns.idxmax()], row))
    clear = table[table.switch_lo_ns > few.switch_hi_ns + few.floor_ns]
    reason = _crowd_reason(few, many)
    if not clear.empty:
        reason += (
            f" The smallest crowd that stands clear of the first and the noise, {ns(few.floor_ns)}, has "
            f"{clear.threads.min():.0f}."
        )
    if many.switch_lo_ns > few.switch_hi_ns + few.floor_ns:
        return Verdict(HOLDS, reason)
    raise CannotTell(
        f"The intervals do not stand clear of each other and of the noise, {ns(few.floor_ns)}: {reason}"
    )


def _dearer_in_proportion(table: pd.DataFrame) -> Verdict:
    """Statistic: ratio of times against the ratio of threads, half of it.  Control: two threads.  Design:
    all of them yield, none sleeps.  Opponent: half of the proportion already counts as proportion.
    """
    few, many = _crowds(table)
    reason = _crowd_reason(few, many)
    # "In proportion" is taken as at least half of it.
    half = 0.5 * many.threads / few.threads
    if many.switch_lo_ns >= half * few.switch_hi_ns:
        return Verdict(HOLDS, reason)
    if many.switch_hi_ns < half * few.switch_lo_ns:
        return Verdict(FAILS, reason)
    raise CannotTell(f"The intervals span half the proportion: {reason}")


CLAIMS = [
    Claim("000-015", "A switch takes longer the more threads are ready to run.", WEB_COURSE, "crowd.switch",
          _dearer_in_a_crowd),
    Claim("crowd", "With a hundred times as many ready threads a switch takes a hundred times as long.",
          "true of schedulers that walk a list of all threads", "crowd.switch", _dearer_in_proportion),
]  # fmt: skip
