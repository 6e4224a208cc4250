"""Claims about the indirect cost of a switch, judged on the warm-up sweep and on what follows a resume."""

from __future__ import annotations

import pandas as pd

from .base import FAILS, HOLDS, WEB_COURSE, CannotTell, Claim, Verdict, ns, size


def _times(ratio: float) -> str:
    """A factor in plain digits: 0.092, 7.6, 550."""
    return f"{ratio:,.0f}" if abs(ratio) >= 10 else f"{ratio:.2g}"


def _thorough(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of the partner that touches most: the curve, without the rest of the grid."""
    return table[table.partner_bytes == table.partner_bytes.max()]


def _seen(table: pd.DataFrame, access: str = "random") -> pd.DataFrame:
    found = table[(table.access == access) & table.seen & (table.extra_ns > 0)]
    if found.empty:
        raise CannotTell(f"No warm-up stands clear of the noise floor with {access} access.")
    return found


def _peak(table: pd.DataFrame) -> pd.Series:
    """The row with the largest warm-up."""
    return table.sort_values("extra_ns").iloc[-1]


def _constant(table: pd.DataFrame) -> Verdict:
    # After one and the same partner: what another partner leaves is no matter of the working set.
    found = _seen(_thorough(table))
    if len(found) < 2:
        raise CannotTell("Two working sets with a warm-up that can be seen are needed.")
    least, most = found.sort_values("extra_ns").iloc[0], _peak(found)
    reason = (
        f"after a partner of {size(most.partner_bytes)}: {ns(least.extra_ns)} at "
        f"{size(least.working_set_bytes)}, {ns(most.extra_ns)} at {size(most.working_set_bytes)}."
    )
    # "The same" is taken as within a factor of two.
    if most.extra_hi_ns <= 2 * least.extra_lo_ns:
        return Verdict(HOLDS, reason)
    if most.extra_lo_ns > 2 * least.extra_hi_ns:
        return Verdict(FAILS, reason)
    raise CannotTell(f"The intervals span a factor of two: {reason}")


def _ten_to_hundred(table: pd.DataFrame) -> Verdict:
    whole = table[table.access == "random"]
    if whole.empty or not (whole.direct_ns > 0).all():
        raise CannotTell("This run has no random walk with a direct cost beside it.")
    ratio = (whole.extra_ns.clip(lower=0) / whole.direct_ns).where(whole.seen, 0.0)
    inside = ratio.between(10, 100)
    # What stayed unseen is below 10 times only where 10 times would have been seen.
    hidden = ~whole.seen & (whole[["extra_hi_ns", "floor_ns"]].max(axis=1) >= 10 * whole.direct_ns)
    reason = (
        f"from {_times(ratio.min())} to {_times(ratio.max())} times; between 10 and 100 at {inside.sum()} of "
        f"{len(whole)} combinations of working set and partner."
    )
    low, high = whole.extra_lo_ns / whole.direct_ns, whole.extra_hi_ns / whole.direct_ns
    if inside.all() and (low >= 10).all() and (high <= 100).all():
        return Verdict(HOLDS, reason)
    outside = ~hidden & (~whole.seen | (high < 10) | (low > 100))
    if outside.any():
        return Verdict(FAILS, reason)
    raise CannotTell(f"The noise hides what would decide: {reason}")


def _sequential_shows_it(table: pd.DataFrame) -> Verdict:
    both = _seen(table).merge(
        table[table.access == "sequential"],
        on=["working_set_bytes", "partner_bytes"],
        suffixes=("", "_sequential"),
    )
    if both.empty:
        raise CannotTell("This run did not walk the same working sets in both orders.")
    peak = _peak(both)
    reason = (
        f"at {size(peak.working_set_bytes)}: {ns(peak.extra_ns)} in random order, "
        f"{ns(peak.extra_ns_sequential)} in sequential order."
    )
    if peak.extra_lo_ns_sequential >= 0.5 * peak.extra_hi_ns:
        return Verdict(HOLDS, reason)
    if peak.extra_hi_ns_sequential < 0.5 * peak.extra_lo_ns:
        return Verdict(FAILS, reason)
    raise CannotTell(f"The intervals span one half: {reason}")


def _grows_for_ever(table: pd.DataFrame) -> Verdict:
    found = _thorough(table[table.access == "random"]).sort_values("working_set_bytes")
    if len(found) < 3:
        raise CannotTell("Three working sets are needed to see a bend.")
    peak, last = _peak(found), found.iloc[-1]
    if peak.working_set_bytes == last.working_set_bytes:
        raise CannotTell(
            f"The largest set measured, {size(last.working_set_bytes)}, still has the largest warm-up."
        )
    reason = (
        f"{ns(peak.extra_ns)} at {size(peak.working_set_bytes)}, {ns(last.extra_ns)} at "
        f"{size(last.working_set_bytes)}" + ("." if last.seen else ", inside the noise floor.")
    )
    if last.extra_hi_ns < peak.extra_lo_ns:
        return Verdict(FAILS, reason)
    raise CannotTell(f"The intervals overlap: {reason}")


def _kernel_evicts(table: pd.DataFrame) -> Verdict:
    found = _seen(_thorough(table))
    peak = _peak(found)
    if pd.isna(peak.kernel_extra_ns):
        raise CannotTell("This run has no switches to a partner that touches nothing.")
    reason = (
        f"at {size(peak.working_set_bytes)} a switch to an idle partner adds {ns(peak.kernel_extra_ns)}, "
        f"one to a busy partner {ns(peak.extra_ns)}."
    )
    if peak.kernel_extra_ns >= 0.5 * peak.extra_hi_ns:
        return Verdict(HOLDS, reason)
    if peak.kernel_extra_ns < 0.5 * peak.extra_lo_ns:
        return Verdict(FAILS, reason)
    raise CannotTell(f"The interval does not tell them apart: {reason}")


def _256_kib_in_240_us(table: pd.DataFrame) -> Verdict:
    found = table[(table.access == "random") & (table.working_set_bytes == 256 << 10)]
    if found.empty:
        raise CannotTell("This run did not walk 256 KiB at random.")
    found = found.sort_values("partner_bytes")
    reason = (
        "; ".join(
            f"{ns(row.extra_ns)} after a partner of {size(row.partner_bytes)}" for _, row in found.iterrows()
        )
        + "."
    )
    # "240 µs" is taken as within a factor of two.
    if ((found.extra_lo_ns >= 120_000) & (found.extra_hi_ns <= 480_000)).all():
        return Verdict(HOLDS, reason)
    if ((found.extra_hi_ns < 120_000) | (found.extra_lo_ns > 480_000)).any():
        return Verdict(FAILS, reason)
    raise CannotTell(f"An interval spans a limit: {reason}")


def _2_mib_in_first_level(table: pd.DataFrame) -> Verdict:
    found = table[(table.access == "random") & table.working_set_bytes.isin([16 << 10, 2 << 20])]
    found = found.drop_duplicates("working_set_bytes").set_index("working_set_bytes")
    if len(found) < 2:
        raise CannotTell("This run did not walk both 16 KiB and 2 MiB at random.")
    near, far = found.loc[16 << 10], found.loc[2 << 20]
    reason = (
        f"a line takes {near.alone_ns_per_line:.3g} ns in 16 KiB and {far.alone_ns_per_line:.3g} ns in 2 MiB."
    )
    # Of two medians: the floor, which is for differences within a trial, may be larger than a whole walk.
    longer = (2 << 20) / (16 << 10)
    if far.alone_lo_ns > 2 * longer * near.alone_hi_ns:
        return Verdict(FAILS, reason)
    if far.alone_hi_ns < 1.5 * longer * near.alone_lo_ns:
        return Verdict(HOLDS, reason)
    raise CannotTell(f"The intervals do not tell them apart: {reason}")


def _past_the_last_level(table: pd.DataFrame) -> Verdict:
    found = _thorough(table[table.access == "random"])
    past, before = found[found.past_last_level], found[~found.past_last_level]
    if past.empty or before.empty:
        raise CannotTell("This run has no set past the last-level cache, or does not know that cache.")
    last = past.sort_values("working_set_bytes").iloc[-1]
    peak = before.assign(share=before.extra_ns / before.alone_ns).sort_values("share").iloc[-1]
    if not peak.seen:
        raise CannotTell("No smaller set shows a warm-up that stands clear of the noise floor.")
    reason = (
        f"a walk takes {last.extra_ns / last.alone_ns:+.0%} after a switch at "
        f"{size(last.working_set_bytes)}, "
        f"{peak.share:+.0%} at {size(peak.working_set_bytes)}."
    )
    if last.extra_lo_ns / last.alone_ns > peak.extra_hi_ns / peak.alone_ns:
        return Verdict(HOLDS, reason)
    if last.extra_hi_ns / last.alone_ns < peak.extra_lo_ns / peak.alone_ns:
        return Verdict(FAILS, reason)
    raise CannotTell(f"The intervals overlap: {reason}")


def _seven_times_direct(table: pd.DataFrame) -> Verdict:
    found = table[(table.access == "random") & (table.direct_lo_ns > 0)]
    if found.empty:
        raise CannotTell("This run has no random walk with a direct cost beside it.")
    least = (found.extra_lo_ns / found.direct_hi_ns).max()
    most = (found[["extra_hi_ns", "floor_ns"]].max(axis=1) / found.direct_lo_ns).max()
    top = found.assign(ratio=found.extra_ns / found.direct_ns).sort_values("ratio").iloc[-1]
    reason = (
        f"at most {_times(top.ratio)} times the direct cost, at {size(top.working_set_bytes)} with a "
        f"partner of {size(top.partner_bytes)}; 30 % against 4 % takes 7.5 times."
    )
    if least > 7.5:
        return Verdict(HOLDS, reason)
    if most < 7.5:
        return Verdict(FAILS, reason)
    raise CannotTell(f"The intervals span 7.5 times: {reason}")


def _first_10k_miss(table: pd.DataFrame) -> Verdict:
    found = table[table.seen & table.left_at_10k_ratio.notna()]
    if found.empty:
        raise CannotTell("No set of this run was slowed down and then followed for 10,000 accesses.")
    row = found.sort_values("left_at_10k_ratio").iloc[0]
    reason = (
        f"{size(row.working_set_bytes)}: around the 10,000th access {row.left_at_10k_ratio:.0%} of the extra "
        f"time of the first is left "
        f"(interval {row.left_at_10k_lo_ratio:.0%} to {row.left_at_10k_hi_ratio:.0%})."
    )
    if (found.left_at_10k_lo_ratio >= 0.5).all():
        return Verdict(HOLDS, reason)
    if (found.left_at_10k_hi_ratio < 0.5).any():
        return Verdict(FAILS, reason)
    raise CannotTell(f"The interval spans one half: {reason}")


def _warm_in_50_to_500_us(table: pd.DataFrame) -> Verdict:
    found = table[table.seen & table.recovered]
    if found.empty:
        raise CannotTell("No set of this run was seen to slow down and to recover.")
    reason = (
        "; ".join(
            f"{size(row.working_set_bytes)} after {ns(row.recovered_ns)}" for _, row in found.iterrows()
        )
        + "."
    )
    if ((found.recovered_lo_ns >= 50_000) & (found.recovered_hi_ns <= 500_000)).all():
        return Verdict(HOLDS, reason)
    if ((found.recovered_hi_ns < 50_000) | (found.recovered_lo_ns > 500_000)).any():
        return Verdict(FAILS, reason)
    raise CannotTell(f"An interval spans a limit: {reason}")


def _of_a_round(table: pd.DataFrame) -> pd.DataFrame:
    """The patterns that walk the set once for each hand-over: they differ in their bursts only."""
    found = table[(table.rounds - 1).abs() < 0.01].sort_values("burst")
    if len(found) < 2 or found.iloc[0].burst != 1:
        raise CannotTell("This run has no bursts beside evenly spaced switches.")
    if not found.iloc[0].seen:
        raise CannotTell("The warm-up of evenly spaced switches does not stand clear of the noise floor.")
    return found


def _bursts_are_cheaper(table: pd.DataFrame) -> Verdict:
    found = _of_a_round(table)
    single, burst = found.iloc[0], found.iloc[-1]
    reason = (
        f"{ns(single.extra_ns)} a switch evenly spaced, {ns(burst.extra_ns)} in bursts of {burst.burst:.0f}."
    )
    if burst.extra_hi_ns < single.extra_lo_ns:
        return Verdict(HOLDS, reason)
    if burst.extra_lo_ns > 0.9 * single.extra_hi_ns:
        return Verdict(FAILS, reason)
    raise CannotTell(f"The intervals overlap: {reason}")


def _spaced(table: pd.DataFrame) -> pd.DataFrame:
    """Evenly spaced switches whose warm-up can be seen, the closest first."""
    found = table[(table.burst == 1) & table.seen & (table.extra_ns > 0)].sort_values("spacing_ns")
    if len(found) < 2:
        raise CannotTell("Two spacings with a warm-up that can be seen are needed.")
    return found


def _even_costs_the_same_after_any_work(table: pd.DataFrame) -> Verdict:
    # spacing_ns is the thread's own work; the partner's comes between, so that it tells no rate.
    found = _spaced(table)
    near, peak = found.iloc[0], _peak(found)
    reason = (
        f"after {ns(near.spacing_ns)} of its own work a switch costs the thread {ns(near.extra_ns)}, after "
        f"{ns(peak.spacing_ns)} {ns(peak.extra_ns)}."
    )
    # "As much" is taken as within a factor of two.
    if near.extra_lo_ns >= 0.5 * peak.extra_hi_ns:
        return Verdict(HOLDS, reason)
    if near.extra_hi_ns < 0.5 * peak.extra_lo_ns:
        return Verdict(FAILS, reason)
    raise CannotTell(f"The intervals span a factor of two: {reason}")


def _spacing_without_end(table: pd.DataFrame) -> Verdict:
    found = _spaced(table)
    last, before = found.iloc[-1], found[found.rounds <= 1]
    if before.empty or last.rounds <= 1:
        raise CannotTell("Spacings below and above one round of the set are needed.")
    refilled = before.iloc[-1]
    reason = (
        f"{ns(refilled.extra_ns)} after {refilled.rounds:.3g} rounds of the set, {ns(last.extra_ns)} after "
        f"{last.rounds:.3g}."
    )
    longer = last.rounds / refilled.rounds
    # Without end: at least the square root of how much longer the thread ran.
    if last.extra_lo_ns > longer**0.5 * refilled.extra_hi_ns:
        return Verdict(HOLDS, reason)
    if last.extra_hi_ns < longer**0.5 * refilled.extra_lo_ns:
        return Verdict(FAILS, reason)
    raise CannotTell(f"The intervals do not decide: {reason}")


def _script(table: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    """The pinned runs of the Python script with the smallest and with the largest buffer."""
    found = table[table.placement == "pinned"].sort_values("buffer_bytes")
    if len(found) < 2:
        raise CannotTell("The script was not run pinned with two sizes of buffer.")
    return found.iloc[0], found.iloc[-1]


def _script_needs_the_cache(table: pd.DataFrame) -> Verdict:
    small, large = _script(table)
    reason = (
        f"a step's tax is {small.tax_ns:.1f} ns with {size(small.buffer_bytes)} "
        f"(interval {small.tax_lo_ns:.1f} to {small.tax_hi_ns:.1f}) and {large.tax_ns:.1f} ns with "
        f"{size(large.buffer_bytes)} ({large.tax_lo_ns:.1f} to {large.tax_hi_ns:.1f})."
    )
    # "Dramatically" is taken as to less than half.
    if small.tax_hi_ns < 0.5 * large.tax_lo_ns:
        return Verdict(HOLDS, reason)
    if small.tax_lo_ns > 0.5 * large.tax_hi_ns:
        return Verdict(FAILS, reason)
    raise CannotTell(f"The intervals span one half: {reason}")


def _script_is_pure_warm_up(table: pd.DataFrame) -> Verdict:
    small, large = _script(table)
    reason = (
        f"{small.tax_ns:.1f} of {large.tax_ns:.1f} ns a step are there with {size(small.buffer_bytes)} too, "
        "which lies in the nearest cache."
    )
    # What a set in the nearest cache pays as well is no warm-up; a tenth of it would be a trace.
    if small.tax_lo_ns > 0.1 * large.tax_hi_ns:
        return Verdict(FAILS, reason)
    if small.tax_hi_ns < 0.1 * large.tax_lo_ns:
        return Verdict(HOLDS, reason)
    raise CannotTell(f"The intervals span a tenth: {reason}")


def _script_three_times(table: pd.DataFrame) -> Verdict:
    _, row = _script(table)
    reason = (
        f"two threads that yield take {row.ratio:.2f} times as long as one that does not "
        f"(interval {row.ratio_lo:.2f} to {row.ratio_hi:.2f}), for twice the work."
    )
    if row.ratio_lo >= 2.7:
        return Verdict(HOLDS, reason)
    if row.ratio_hi < 2.7:
        return Verdict(FAILS, reason)
    raise CannotTell(f"The interval spans 2.7: {reason}")


def _script_runs_in_parallel(table: pd.DataFrame) -> Verdict:
    found = table[table.placement == "unpinned"]
    if found.empty:
        raise CannotTell("The script was not run without its pin.")
    row = found.iloc[0]
    reason = (
        f"without the pin two threads make {row.speedup:.2f} times the steps of one in the same time "
        f"(interval {row.speedup_lo:.2f} to {row.speedup_hi:.2f})."
    )
    if row.speedup_lo > 1.5:
        return Verdict(HOLDS, reason)
    if row.speedup_hi < 1.5:
        return Verdict(FAILS, reason)
    raise CannotTell(f"The interval spans 1.5: {reason}")


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
    Claim("000-025", "The first 10,000 accesses after a switch all miss the near cache.", WEB_COURSE,
          "recovery.curve", _first_10k_miss),
    Claim("000-040", "Warming up after a switch takes 50 to 500 µs.", WEB_COURSE, "recovery.curve",
          _warm_in_50_to_500_us),
    Claim("000-060", "Switches that follow each other at once cost less each than evenly spaced ones.",
          WEB_COURSE, "bursts.spacing", _bursts_are_cheaper),
    Claim("000-061", "Evenly spaced switches cost the same each, however long the thread runs in between.",
          WEB_COURSE, "bursts.spacing", _even_costs_the_same_after_any_work),
    Claim("spacing", "The longer a thread runs between two switches, the more each of them costs.",
          "what the first half of the curve suggests", "bursts.spacing", _spacing_without_end),
    Claim("000-056", "With a working set of 16 KiB the script's switching overhead drops dramatically.",
          WEB_COURSE, "interpreter.script", _script_needs_the_cache),
    Claim("000-051", "What the Python script's switching run takes longer is pure cache warm-up.", WEB_COURSE,
          "interpreter.script", _script_is_pure_warm_up),
    Claim("000-049", "Switching makes the script's two threads take three times as long as one, not twice.",
          WEB_COURSE, "interpreter.script", _script_three_times),
    Claim("000-058", "Without a pin the script's two Python threads run in parallel.", WEB_COURSE,
          "interpreter.script", _script_runs_in_parallel),
]  # fmt: skip
