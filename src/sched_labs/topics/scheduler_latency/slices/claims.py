"""What people say about slices, judged on a run."""

from __future__ import annotations

import math

import pandas as pd

from sched_labs.claims.base import FAILS, HOLDS, CannotTell, Claim, Verdict, ns
from sched_labs.claims.base import LATENCY_COURSE as COURSE
from sched_labs.claims.helpers import between, had_the_cpus, holds_or_fails, one_row, ratio, some, within

BOUND = 1.5  # so many times the turns of the others: a turn ends at a tick, and may be one too long


def _own(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of hogs with the kernel's own slice."""
    alone = table["wished_slice_ns"].isna() & table["moved_slice_ns"].isna()
    found = table[alone].sort_values("hogs")
    if len(found) < 2:
        raise CannotTell("This run did not measure two numbers of hogs.")
    for _, cell in found.iterrows():
        had_the_cpus(cell)
    return found


def _among(table: pd.DataFrame, hogs: int) -> pd.Series:
    return one_row(_own(table), f"{hogs} hogs", hogs=hogs)


def _slices_shrink(table: pd.DataFrame) -> Verdict:
    """Statistic: median length of a stint, few hogs against many.  Control: used time says that the hogs
    had the CPU.  Design: equal weights, one CPU.  Opponent: where a tick is longer than slices, no
    slice can shrink.
    """
    own = _own(table)
    few, many = own.iloc[0], own.iloc[-1]
    reason = (
        f"a stint lasts {ns(few.stint_p50_ns)} among {int(few.hogs)} hogs, {ns(many.stint_p50_ns)} among "
        f"{int(many.hogs)}. Below 0.8 times is taken for shorter."
    )
    least, most = ratio(many, few, "stint", "ns")
    unclear = f"The interval spans 0.8 times, {least:.2f} to {most:.2f}:"
    return holds_or_fails(most < 0.8, least > 0.8, reason, unclear)


def _a_turn_is_a_slice(table: pd.DataFrame) -> Verdict:
    """Statistic: median length of a stint, at most a ninth above the slice: from there on the page says
    that a tick ends the turn.  Control: the slice and the tick as told.  Design: two hogs, whose slices are
    the longest.  Opponent: the tick ends turns where HRTICK is off.
    """
    few = _own(table).iloc[0]
    if math.isnan(few.slice_ns):
        raise CannotTell("This kernel does not tell its slice.")
    reason = (
        f"the kernel's slice is {ns(few.slice_ns)}, a turn among {int(few.hogs)} hogs takes "
        f"{ns(few.stint_p50_ns)}."
    )
    limits = 0.8 * few.slice_ns, few.slice_ns / 0.9
    return within(few.stint_lo_ns, few.stint_hi_ns, *limits, reason, ns)


def _queue_times_slice(table: pd.DataFrame) -> Verdict:
    """Statistic: the longest wait of all, for the sentence speaks of a bound.  Control: who had the CPUs.
    Design: hogs of equal weight that never sleep, the best case for a bound.
    Opponent: a longest wait may be another program's turn, so nine of ten must break the bound to refute it.
    """
    own = _own(table)
    turns = (own["hogs"] - 1) * own["stint_p50_ns"]
    most, longest = (own["gap_p90_ns"] / turns).max(), (own["gap_max_ns"] / turns).max()
    reason = (
        f"for every N nine of ten waits ended within {most:.2f} × (N - 1) stints, all within "
        f"{longest:.2f} × (N - 1). A stint is taken for the slice, and up to {BOUND} × for bounded."
    )
    if longest <= BOUND:
        return Verdict(HOLDS, reason)
    if most > BOUND:
        return Verdict(FAILS, reason)
    raise CannotTell(f"Single waits were longer, and may have been other programs' turns: {reason}")


def _waits_one_slice(table: pd.DataFrame) -> Verdict:
    """Statistic: the longest wait for holds, the median for fails.  Control: used time.  Design: as many
    hogs as were measured.  Opponent: a stint stands for the slice, which ticks lengthen.
    """
    many = _own(table).iloc[-1]
    reason = f"among {int(many.hogs)} hogs the median wait is {many.gaps_per_stint:.1f} stints long."
    if not math.isfinite(many.gap_hi_ns):
        raise CannotTell(f"One trial says nothing about how trials vary: {reason}")
    if many.gap_lo_ns / many.stint_hi_ns > 1.25:
        return Verdict(FAILS, reason)
    longest = many.gap_max_ns / many.stint_p50_ns
    reason += f" The longest took {longest:.1f}."
    if longest <= 1.25:
        return Verdict(HOLDS, reason)
    least = many.gap_lo_ns / many.stint_hi_ns
    raise CannotTell(f"At most is said of all waits, and half may have taken {least:.1f} only: {reason}")


def _six_wait_800_ms(table: pd.DataFrame) -> Verdict:
    """Statistic: the longest of all waits for fails, the median for holds.  Control: used time.  Design:
    six hogs of equal weight on one CPU.  Opponent: weights and groups would lengthen it; half of 800 ms
    is enough.
    """
    cell = _among(table, 6)
    reason = (
        f"among 6 hogs half of the waits took {ns(cell.gap_p50_ns)} or less, "
        f"all at most {ns(cell.gap_max_ns)}."
    )
    return holds_or_fails(
        cell.gap_lo_ns >= 400e6, cell.gap_max_ns < 400e6, reason, "Single waits took half as long, or longer:"
    )


def _four_wait_4_5_ms(table: pd.DataFrame) -> Verdict:
    """Statistic: median wait, within a fifth.  Control: used time.  Design: four hogs of equal weight on
    one CPU.  Opponent: it was true of CFS on one CPU count.
    """
    cell = _among(table, 4)
    reason = f"among 4 hogs the median wait is {ns(cell.gap_p50_ns)}."
    return within(cell.gap_lo_ns, cell.gap_hi_ns, 3.6e6, 5.4e6, reason, ns)


def _knobs_change_little(table: pd.DataFrame) -> Verdict:
    """Statistic: median wait with the slice moved, over that before.  Control: the same hogs before.
    Design: the slice is set to 25 ms, a large step.  Opponent: a step below the tick changes nothing.
    """
    moved = some(table.dropna(subset=["moved_slice_ns"]), "The kernel's slice could not be moved here.")
    longer = moved.iloc[-1]
    plain = _among(table, int(longer.hogs))
    had_the_cpus(longer)
    reason = (
        f"with the kernel's slice set to {ns(longer.moved_slice_ns)}, {int(longer.hogs)} hogs waited "
        f"{ns(longer.gap_p50_ns)} for a turn, {ns(plain.gap_p50_ns)} before."
    )
    if not (math.isfinite(longer.gap_hi_ns) and math.isfinite(plain.gap_hi_ns)):
        raise CannotTell(f"One trial says nothing about how trials vary: {reason}")
    ends = longer.gap_lo_ns / plain.gap_hi_ns, longer.gap_hi_ns / plain.gap_lo_ns
    return within(*ends, 0.6, 1.4, reason, lambda times: f"{times:.2f} times")


def _own_slice(table: pd.DataFrame) -> Verdict:
    """Statistic: median stint of hogs that asked, against those that did not.  Control: the same hogs
    without.  Design: the longest wish that was granted, of all that share the CPU: one that wishes among
    others may be left alone no longer.  Opponent: a wish below a turn without asking cannot lengthen it.
    """
    wished = table.dropna(subset=["wished_slice_ns"]).sort_values("wished_slice_ns")
    if wished.empty:
        raise CannotTell("This kernel grants no slices of one's own.")
    longest = wished.iloc[-1]
    plain = _among(table, int(longest.hogs))
    had_the_cpus(longest)
    reason = (
        f"{int(longest.hogs)} hogs that asked for {ns(longest.wished_slice_ns)} ran "
        f"{ns(longest.stint_p50_ns)} at a time, {ns(plain.stint_p50_ns)} without asking."
    )
    if longest.wished_slice_ns <= 1.1 * plain.stint_p50_ns:
        raise CannotTell(f"No slice that was asked for is longer than a turn without asking: {reason}")
    if longest.stint_lo_ns > plain.stint_hi_ns:
        return Verdict(HOLDS, reason)
    if longest.stint_hi_ns <= 1.1 * plain.stint_p50_ns:
        return Verdict(FAILS, reason)
    raise CannotTell(
        f"The intervals overlap, {between(longest, 'stint', 'ns')} and "
        f"{between(plain, 'stint', 'ns')}: {reason}"
    )


CLAIMS = [
    Claim("L11", "The more threads share a CPU, the shorter each one's turn becomes.",
          "descriptions of CFS with a target latency", "slices.sweep", _slices_shrink),
    Claim("002-006", "On a full CPU a wait is bounded by the length of the queue times the slice.", COURSE,
          "slices.sweep", _queue_times_slice),
    Claim("002-016", "A runnable thread waits for one slice at most.", COURSE, "slices.sweep",
          _waits_one_slice),
    Claim("002-030", "Four threads on one CPU wait 4.5 ms for their turn.", COURSE, "slices.sweep",
          _four_wait_4_5_ms),
    Claim("002-057", "With six threads for each CPU, a thread waits 800 ms.", COURSE, "slices.sweep",
          _six_wait_800_ms),
    Claim("base-slice", "A turn lasts as long as the slice that the kernel is set to.",
          "what the name base_slice_ns suggests", "slices.sweep", _a_turn_is_a_slice),
    Claim("002-126", "Threads that all ask for a longer slice are left alone for longer.",
          "read out of sched(7) and the EEVDF documentation", "slices.sweep", _own_slice),
    Claim("002-052", "The scheduler's knobs change waits by 20 to 40 % at most.", COURSE, "slices.sweep",
          _knobs_change_little),
]  # fmt: skip
