"""What people say about recovery, judged on a run."""

from __future__ import annotations

import pandas as pd

from sched_labs.claims.base import FAILS, HOLDS, WEB_COURSE, CannotTell, Claim, Verdict, ns, size
from sched_labs.claims.helpers import within

AS_SLOW = 0.9  # of the extra time of the first accesses, a block's mean


def _first_10k_slow(table: pd.DataFrame) -> Verdict:
    """Statistic: what is left of the first block's extra time around the 10,000th, of sets of 10,000 lines.
    Control: the same walk after no switch, of which `seen` stands clear.
    Design: a set of fewer lines has seen each of them again long before, and says nothing of first accesses.
    Opponent: with a tenth of the extra time gone an access still counts as slow as the first, and the first
    block's mean is a little below the very first access.
    """
    found = table[table.seen & table.left_at_10k_ratio.notna() & (table.lines >= 10_000)]
    if found.empty:
        raise CannotTell(
            "No set of 10,000 lines or more that was slowed down was timed in blocks short enough to tell "
            "its 10,000th access from its first."
        )
    soonest = found.sort_values("left_at_10k_hi_ratio").iloc[0]
    refuted = soonest.left_at_10k_hi_ratio < AS_SLOW
    # The set that decides: one that refutes the sentence, else the one that is nearest to refuting it.
    row = soonest if refuted else found.sort_values("left_at_10k_lo_ratio").iloc[0]
    reason = (
        f"{size(row.working_set_bytes)}: around the 10,000th access {row.left_at_10k_ratio:.0%} of the extra "
        f"time of the first block is left "
        f"(interval {row.left_at_10k_lo_ratio:.0%} to {row.left_at_10k_hi_ratio:.0%})."
    )
    if (found.left_at_10k_lo_ratio >= AS_SLOW).all():
        return Verdict(HOLDS, reason)
    if refuted:
        return Verdict(FAILS, reason)
    raise CannotTell(f"The interval spans {AS_SLOW:.0%}: {reason}")


def _warm_in_50_to_500_us(table: pd.DataFrame) -> Verdict:
    """Statistic: time until a block of a set is within 5 %, by interval.  Control: the same blocks without a
    switch.  Design: every size, for the sentence names none: one set on the other side of a limit refutes it,
    one that had not recovered by then, too.
    Opponent: another limit than 5 % gives another time, and so would accesses without their draws; a set that
    was not seen to recover, too slow for the run or hidden by its noise, leaves it open.
    """
    least, most = 50_000, 500_000
    slow = table[table.seen & ~table.recovered & (table.recovered_lo_ns > most)]
    if len(slow):
        row = slow.sort_values("working_set_bytes").iloc[-1]
        return Verdict(
            FAILS, f"{size(row.working_set_bytes)} had not recovered after {ns(row.recovered_lo_ns)}."
        )
    found = table[table.seen & table.recovered].sort_values("working_set_bytes")
    if found.empty:
        raise CannotTell("No set of this run that was slowed down was seen to recover.")
    outside = found[(found.recovered_hi_ns < least) | (found.recovered_lo_ns > most)]
    spanning = found[(found.recovered_lo_ns < least) | (found.recovered_hi_ns > most)]
    # The set that decides: one outside the limits, else one that spans a limit, else the largest.
    row = next(rows for rows in (outside, spanning, found) if len(rows)).iloc[-1]
    reason = (
        f"{size(row.working_set_bytes)} after {ns(row.recovered_ns)} ({ns(row.recovered_lo_ns)} to "
        f"{ns(row.recovered_hi_ns)})."
    )
    if len(outside):
        return Verdict(FAILS, reason)
    hidden = table[table.seen & ~table.recovered].working_set_bytes
    if len(hidden):
        raise CannotTell(f"{size(hidden.max())} was slowed down, and not seen to recover; {reason}")
    return within(
        found.recovered_lo_ns.min(skipna=False), found.recovered_hi_ns.max(skipna=False), least, most, reason
    )


CLAIMS = [
    Claim("000-025", "The first 10,000 accesses after a switch are all as slow as the first.", WEB_COURSE,
          "recovery.curve", _first_10k_slow),
    Claim("000-040", "Warming up after a switch takes 50 to 500 µs.", WEB_COURSE, "recovery.curve",
          _warm_in_50_to_500_us),
]  # fmt: skip
