"""What people say about warmup, judged on a run."""

from __future__ import annotations

from typing import Any

import pandas as pd

from sched_labs.claims.base import FAILS, HOLDS, WEB_COURSE, CannotTell, Claim, Verdict, ns, size
from sched_labs.claims.helpers import at_most, between, each_at_most, ends, holds_or_fails, some, within


def _times(ratio: float) -> str:
    """A factor in plain digits: 0.092, 7.6, 550."""
    return f"{ratio:,.0f}" if abs(ratio) >= 10 else f"{ratio:.2g}"


def _span(low: float, high: float) -> str:
    """Both ends in plain digits, or one where they print alike."""
    least, most = _times(low), _times(high)
    return f"{least} times" if least == most else f"from {least} to {most} times"


def _thorough(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of the partner that touches most: the curve, without the rest of the grid."""
    return table[table.partner_bytes == table.partner_bytes.max()]


def _seen(table: pd.DataFrame, access: str = "random") -> pd.DataFrame:
    found = table[(table.access == access) & table.seen & (table.extra_ns > 0)]
    if found.empty:
        partners = table.partner_bytes.unique()
        after = f" after a partner of {size(partners[0])}" if len(partners) == 1 else ""
        raise CannotTell(f"No warm-up stands clear of the noise floor with {access} access{after}.")
    return found


def _peak(table: pd.DataFrame) -> pd.Series:
    """The row with the largest warm-up."""
    return table.sort_values("extra_ns").iloc[-1]


def _constant(table: pd.DataFrame) -> Verdict:
    """Statistic: the smallest and the largest warm-up; what is unseen may be the floor.  Control: one and the
    same partner.  Design: random order, each line once.  Opponent: within a factor of two counts as the
    same, which says nothing of sets that differ by hardly more.
    """
    # After one and the same partner: what another partner leaves is no matter of the working set.
    walks = _thorough(table[table.access == "random"])
    found = _seen(walks)
    if len(found) < 2:
        raise CannotTell("Two working sets with a warm-up that can be seen are needed.")
    least, most = walks.iloc[int(each_at_most(walks).argmin())], _peak(found)
    hidden = "" if least.seen else " (not clear of the noise)"
    reason = (
        f"at random after a partner of {size(most.partner_bytes)}: {ns(least.extra_ns)}{hidden} at "
        f"{size(least.working_set_bytes)}, {ns(most.extra_ns)} at {size(most.working_set_bytes)}."
    )
    # "The same" is taken as within a factor of two.
    if least.seen and most.extra_hi_ns <= 2 * least.extra_lo_ns:
        if found.working_set_bytes.max() < 8 * found.working_set_bytes.min():
            raise CannotTell(f"Two sets are needed, one eight times as large as the other: {reason}")
        return Verdict(HOLDS, reason)
    if most.extra_lo_ns > 2 * at_most(least, "extra", "ns"):
        return Verdict(FAILS, reason)
    raise CannotTell(f"The intervals, {ends(least)} and {ends(most)}, span a factor of two: {reason}")


def _ten_to_hundred(table: pd.DataFrame) -> Verdict:
    """Statistic: ratio to the direct cost, at every size and partner.  Control: the walk alone, and the
    noise floor.  Design: what is not seen counts as below ten only where ten would be seen.  Opponent:
    a choice of size makes any ratio.
    """
    random = table[table.access == "random"]
    whole = random[random.direct_lo_ns > 0]
    if whole.empty:
        raise CannotTell("This run has no random walk with a direct cost beside it.")
    ratio = (whole.extra_ns / whole.direct_ns)[whole.seen & (whole.extra_ns > 0)]
    inside = ratio.between(10, 100).reindex(whole.index, fill_value=False)
    # What stayed unseen is below 10 times only where 10 times would have been seen.
    most = each_at_most(whole) / whole.direct_ns
    hidden = ~whole.seen & (most >= 10)
    told = _span(ratio.min(), ratio.max()) if len(ratio) else "nothing seen"
    if 0 < len(ratio) < len(whole):
        told += " where it stands clear of the noise"
    reason = (
        f"at random {told}; seen between 10 and 100 at {inside.sum()} of {len(whole)} combinations of "
        "working set and partner whose direct cost stands above zero."
    )
    low, high = whole.extra_lo_ns / whole.direct_ns, whole.extra_hi_ns / whole.direct_ns
    if len(whole) == len(random) and inside.all() and (low >= 10).all() and (high <= 100).all():
        return Verdict(HOLDS, reason)
    outside = ~hidden & (~whole.seen | (high < 10) | (low > 100))
    if outside.any():
        return Verdict(FAILS, reason)
    spanned = _span(low.min(), high.where(whole.seen, most).max())
    raise CannotTell(f"The noise hides what would decide, with intervals {spanned}: {reason}")


def _sequential_shows_it(table: pd.DataFrame) -> Verdict:
    """Statistic: warm-up in order against that at random, half of it.  Control: the same set in both
    orders.  Design: the size with the largest warm-up.  Opponent: a prefetcher differs by processor.
    """
    both = _seen(_thorough(table)).merge(
        table[table.access == "sequential"],
        on=["working_set_bytes", "partner_bytes"],
        suffixes=("", "_sequential"),
    )
    if both.empty:
        raise CannotTell("This run did not walk the same working sets in both orders.")
    peak = _peak(both)
    reason = (
        f"at {size(peak.working_set_bytes)}: {ns(peak.extra_ns)} in random order, "
        f"{ns(peak.extra_ns_sequential)} in sequential order"
        + ("." if peak.seen_sequential else ", not clear of the noise.")
    )
    if peak.seen_sequential and peak.extra_lo_ns_sequential >= 0.5 * peak.extra_hi_ns:
        return Verdict(HOLDS, reason)
    if at_most(peak, "extra", "ns", "_sequential") < 0.5 * peak.extra_lo_ns:
        return Verdict(FAILS, reason)
    ordered = ends(peak, suffix="_sequential")
    raise CannotTell(f"The intervals, {ends(peak)} and {ordered}, or the noise span one half: {reason}")


def _grows_for_ever(table: pd.DataFrame) -> Verdict:
    """Statistic: warm-up of a set larger than the peak's against the peak, by interval; what is unseen may be
    the floor.  Control: the walk alone.  Design: one larger set that clearly costs less refutes the sentence,
    whatever noise hides of the others.  Opponent: in a guest the last cache may be smaller than told.
    """
    found = _thorough(table[table.access == "random"]).sort_values("working_set_bytes")
    if len(found) < 3:
        raise CannotTell("Three working sets are needed to see a bend.")
    peak = _peak(_seen(found))
    larger = found[found.working_set_bytes > peak.working_set_bytes]
    if larger.empty:
        raise CannotTell(
            f"The largest set measured, {size(peak.working_set_bytes)}, still has the largest warm-up: "
            "a larger one could only refute it."
        )
    least = larger.loc[each_at_most(larger).idxmin()]
    most = at_most(least, "extra", "ns")
    reason = (
        f"at random {ns(peak.extra_ns)} at {size(peak.working_set_bytes)} (at least {ns(peak.extra_lo_ns)}), "
        f"{ns(least.extra_ns)} at {size(least.working_set_bytes)} (at most {ns(most)}"
        + (")." if least.seen else ", with the noise).")
    )
    if most < peak.extra_lo_ns:
        return Verdict(FAILS, reason)
    raise CannotTell(f"{'The intervals overlap' if least.seen else 'The noise may hide as much'}: {reason}")


NEAR_BYTES = 32 << 10  # a first-level data cache of today has 32 KiB or more


def _kernel_evicts(table: pd.DataFrame) -> Verdict:
    """Statistic: the warm-up after a switch to a partner that touches nothing, of sets that fit a near cache;
    what is unseen may be the floor.
    Control: the warm-up after a partner that fills the cache.
    Design: of larger sets nothing would be in the near cache without a switch either.
    Opponent: half of the busy partner's warm-up is a generous limit for "nothing is left".
    """
    found = _seen(_thorough(table))
    found = some(
        found[found.working_set_bytes <= NEAR_BYTES],
        "No set that fits a near cache shows a warm-up that stands clear of the noise floor.",
    )
    peak = _peak(found)
    if pd.isna(peak.kernel_extra_ns):
        raise CannotTell("This run has no switches to a partner that touches nothing.")
    noise = f" (the noise is {ns(peak.floor_ns)})" if peak.kernel_extra_ns < peak.floor_ns else ""
    reason = (
        f"at {size(peak.working_set_bytes)}, walked at random, a switch to an idle partner adds "
        f"{ns(peak.kernel_extra_ns)}{noise}, one to a busy partner {ns(peak.extra_ns)}."
    )
    if peak.kernel_extra_ns >= max(0.5 * peak.extra_hi_ns, peak.floor_ns):
        return Verdict(HOLDS, reason)
    if max(peak.kernel_extra_ns, peak.floor_ns) < 0.5 * peak.extra_lo_ns:
        return Verdict(FAILS, reason)
    raise CannotTell(
        f"The interval, {ends(peak)}, or the noise, {ns(peak.floor_ns)}, spans one half: {reason}"
    )


def _256_kib_in_240_us(table: pd.DataFrame) -> Verdict:
    """Statistic: warm-up of 256 KiB, within a factor of two.  Control: the walk alone.  Design: random order
    after the partner that touches most.  Opponent: the sentence names no partner: one that leaves the set in
    the cache costs nothing, and one that touches less may displace more of it.
    """
    found = table[(table.access == "random") & (table.working_set_bytes == 256 << 10)]
    if found.empty:
        raise CannotTell("This run did not walk 256 KiB at random.")
    row = _thorough(found).iloc[0]
    reason = (
        f"{ns(row.extra_ns)} ({between(row, 'extra', 'ns')}) at random after a partner of "
        f"{size(row.partner_bytes)}; 120 to 480 µs count as 240 µs."
    )
    if not row.seen:
        raise CannotTell(f"The warm-up does not stand clear of the noise floor, {ns(row.floor_ns)}: {reason}")
    least, most = 120_000, 480_000
    reached = found[found.seen & (found.extra_hi_ns >= least) & (found.extra_lo_ns <= most)]
    if len(reached) and (row.extra_hi_ns < least or row.extra_lo_ns > most):
        other = _peak(reached)
        raise CannotTell(
            f"It depends on the partner: {ns(other.extra_ns)} ({between(other, 'extra', 'ns')}) after one of "
            f"{size(other.partner_bytes)}, {reason}"
        )
    return within(row.extra_lo_ns, row.extra_hi_ns, least, most, reason)


def _per_line(row: Any) -> str:
    """The ends of the walk's interval, for each line."""
    lines = row.alone_ns / row.alone_ns_per_line
    return " to ".join(f"{row[f'alone_{end}_ns'] / lines:.3g}" for end in ("lo", "hi")) + " ns"


def _2_mib_in_first_level(table: pd.DataFrame) -> Verdict:
    """Statistic: time a line, 2 MiB against 16 KiB.  Control: 16 KiB, which fits.  Design: no switch is in
    it.  Opponent: half as long again would still be the first level.
    """
    found = table[(table.access == "random") & table.working_set_bytes.isin([16 << 10, 2 << 20])]
    found = found.drop_duplicates("working_set_bytes").set_index("working_set_bytes")
    if len(found) < 2:
        raise CannotTell("This run did not walk both 16 KiB and 2 MiB at random.")
    near, far = found.loc[16 << 10], found.loc[2 << 20]
    reason = (
        f"at random a line takes {near.alone_ns_per_line:.3g} ns in 16 KiB and "
        f"{far.alone_ns_per_line:.3g} ns in 2 MiB."
    )
    # Of two medians: the floor, which is for differences within a trial, may be larger than a whole walk.
    longer = (2 << 20) / (16 << 10)
    if far.alone_lo_ns > 2 * longer * near.alone_hi_ns:
        return Verdict(FAILS, reason)
    if far.alone_hi_ns < 1.5 * longer * near.alone_lo_ns:
        return Verdict(HOLDS, reason)
    raise CannotTell(
        f"The intervals, {_per_line(near)} and {_per_line(far)}, do not decide: less than 1.5 times as long "
        f"counts as the first level, more than twice as a farther one; {reason}"
    )


def _past_the_last_level(table: pd.DataFrame) -> Verdict:
    """Statistic: warm-up as a share of the walk.  Control: smaller sets.  Design: needs a set past the
    last cache that is told.  Opponent: in a guest that cache is shared.
    """
    found = _thorough(table[table.access == "random"])
    past, before = found[found.past_last_level], found[~found.past_last_level]
    if past.empty or before.empty:
        raise CannotTell("This run has no set past the last-level cache, or does not know that cache.")
    last = past.sort_values("working_set_bytes").iloc[-1]
    peak = before.assign(share=before.extra_ns / before.alone_ns).sort_values("share").iloc[-1]
    if not peak.seen:
        raise CannotTell("No smaller set shows a warm-up that stands clear of the noise floor.")
    reason = (
        f"at random a walk takes {last.extra_ns / last.alone_ns:+z.0%} after a switch at "
        f"{size(last.working_set_bytes)}, "
        f"{peak.share:+z.0%} at {size(peak.working_set_bytes)}."
    )
    low, high = last.extra_lo_ns / last.alone_ns, at_most(last, "extra", "ns") / last.alone_ns
    least, most = peak.extra_lo_ns / peak.alone_ns, peak.extra_hi_ns / peak.alone_ns
    if last.seen and low > most:
        return Verdict(HOLDS, reason)
    if high < least:
        return Verdict(FAILS, reason)
    raise CannotTell(
        f"The intervals, {low:+z.0%} to {high:+z.0%} and {least:+z.0%} to {most:+z.0%}, overlap or lie in "
        f"the noise: {reason}"
    )


def _seven_times_direct(table: pd.DataFrame) -> Verdict:
    """Statistic: the largest ratio to the direct cost.  Control: the walk alone, and the floor.  Design:
    what noise hides counts for the sentence.  Opponent: 30 % against 4 % is 7.5 times; another service
    has other shares.
    """
    found = table[(table.access == "random") & (table.direct_lo_ns > 0)]
    if found.empty:
        raise CannotTell("This run has no random walk with a direct cost beside it.")
    seen = _seen(found)
    least = (seen.extra_lo_ns / seen.direct_hi_ns).max()
    most = (each_at_most(found) / found.direct_lo_ns).max()
    # What is not seen can only keep the sentence from failing.
    top = seen.assign(ratio=lambda rows: rows.extra_ns / rows.direct_ns).nlargest(1, "ratio").iloc[0]
    reason = (
        f"the largest seen is {_times(top.ratio)} times the direct cost, at random with "
        f"{size(top.working_set_bytes)} and a partner of {size(top.partner_bytes)}; 30 % against 4 % takes "
        "7.5 times."
    )
    unclear = f"The intervals and the noise, {_span(least, most)}, span 7.5 times:"
    return holds_or_fails(least > 7.5, most < 7.5, reason, unclear)


CLAIMS = [
    Claim("000-005", "Every switch costs the same in cold caches, whatever the working set.", WEB_COURSE,
          "warmup.sweep", _constant),
    Claim("000-008", "The indirect cost is 10 to 100 times the direct cost.", WEB_COURSE, "warmup.sweep",
          _ten_to_hundred),
    Claim("lat_ctx", "Summing an array in order shows what a switch does to the cache (at least half of it).",
          "the method of lmbench's lat_ctx", "warmup.sweep", _sequential_shows_it),
    Claim("larger", "The larger the working set, the more a switch costs.",
          "what the left half of the curve suggests", "warmup.sweep",
          _grows_for_ever),
    Claim("000-028", "After a switch nothing of the thread's data is left in its near cache.", WEB_COURSE,
          "warmup.sweep", _kernel_evicts),
    Claim("000-037", "Warming a working set of 256 KiB up again takes 240 µs.", WEB_COURSE, "warmup.sweep",
          _256_kib_in_240_us),
    Claim("000-054", "Without switches, a walk over 2 MiB hits the first-level cache.", WEB_COURSE,
          "warmup.sweep", _2_mib_in_first_level),
    Claim("000-057", "A set past the last-level cache loses the largest part of its speed to a switch.",
          WEB_COURSE, "warmup.sweep", _past_the_last_level),
    Claim("000-009", "A service that spends 4 % of its time on switches can lose 30 % to warm-up.",
          WEB_COURSE, "warmup.sweep", _seven_times_direct),
]  # fmt: skip
