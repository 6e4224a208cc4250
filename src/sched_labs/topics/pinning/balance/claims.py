"""What people say about load balancing, judged on a run."""

from __future__ import annotations

import pandas as pd

from sched_labs.claims.base import CannotTell, Claim, Verdict, ns
from sched_labs.claims.helpers import above, between, holds_or_fails, one_row, ratio

from .experiment import LONG, NAMES, ODD, SHORT

AT_ONCE_NS = 1e6  # several times the way out of idle, in a virtual machine, too; and less than a tick
_SPANS = "The interval spans 1 ms:"
TAKEN_PERCENT = 15  # of the other CPUs, by other programs; /proc/stat counts in ticks
MOSTLY_PERCENT = 50  # of the lead that a hog with a CPU for itself would have


def _row(table: pd.DataFrame, situation: str) -> pd.Series:
    row = one_row(table, f"the row {NAMES[situation]!r}", situation=situation)
    if row.trials < 2:
        raise CannotTell("One trial says nothing about how trials vary.")
    if row.others_percent > TAKEN_PERCENT:
        raise CannotTell(f"Others than hogs had the other CPUs for {row.others_percent:.0f} % of the time.")
    return row


def _first(row: pd.Series) -> str:
    """When the first hog left, in words."""
    never = f", in {row.stayed_percent:.0f} % of the starts not while they were watched"
    return (
        f"{ns(row.first_ns)} (interval {between(row, 'first', 'ns')})"
        + (never if row.stayed_percent else "")
    )  # fmt: skip


def _pulls_at_once(table: pd.DataFrame) -> Verdict:
    """Statistic: the time until the first hog computes on another CPU, by interval.  Control: how much of the
    other CPUs other programs had.  Design: hogs held for a moment, and nothing else happens when they are let
    go.  Opponent: other programs there, which make it earlier when they end and later while they run; hence
    no more than 15 % of these CPUs.
    """
    row = _row(table, SHORT)
    reason = f"the first of {row.hogs:.0f} hogs computed on another CPU after {_first(row)}."
    return holds_or_fails(row.first_hi_ns < AT_ONCE_NS, row.first_lo_ns > AT_ONCE_NS, reason, _SPANS)


def _looks_before_idling(table: pd.DataFrame) -> Verdict:
    """Statistic: the time until the first hog computes on another CPU, by interval.  Control: the same with
    nobody who goes to sleep there.  Design: that thread lets the hogs go, and then sleeps.  Opponent: the CPU
    has to switch to the hog, too, and a millisecond is long for that.
    """
    row = _row(table, "goes idle")
    reason = f"a CPU went idle, and the first hog computed on another than its own after {_first(row)}."
    return holds_or_fails(row.first_hi_ns < AT_ONCE_NS, row.first_lo_ns > AT_ONCE_NS, reason, _SPANS)


def _forgets(table: pd.DataFrame) -> Verdict:
    """Statistic: the time until the first hog computes on another CPU, by interval.  Control: held for a
    moment only.  Design: nothing differs but for how long they were held, so that a difference in either
    direction is remembered.  Opponent: a run that ends before the first hog leaves has a lower bound for a
    time, which says nothing of being sooner or alike.
    """
    long, short = _row(table, LONG), _row(table, SHORT)
    reason = f"the first left after {_first(long)} where they were held for long, {_first(short)} otherwise."
    least, most = ratio(long, short, "first", "ns")
    all_left = long.stayed_percent == short.stayed_percent == 0
    return holds_or_fails(
        all_left and 0.5 < least <= 1 <= most < 2,
        least > 1 or (all_left and most < 1),
        reason,
        "The intervals allow either:",
    )


def _naps_spread(table: pd.DataFrame) -> Verdict:
    """Statistic: the time until no CPU has two hogs more than another, by interval.  Control: the same hogs
    and CPUs without a nap.  Design: every hog sleeps once; 10 ms are ten of these naps.  Opponent: a hog that
    waits in its new queue is seen there late, by a turn of each that is before it.
    """
    row = _row(table, "naps")
    if row.hogs > row.cpus:
        raise CannotTell(
            f"There were {row.hogs:.0f} hogs on {row.cpus:.0f} CPUs: only {row.cpus - 1:.0f} of them can "
            "find another that is idle."
        )
    crowded = f"; in {row.crowded_percent:.0f} % of the starts not in time" if row.crowded_percent else ""
    reason = (
        f"the hogs were spread {ns(row.spread_ns)} after they were let go and slept (interval "
        f"{between(row, 'spread', 'ns')}){crowded}."
    )
    return holds_or_fails(row.spread_hi_ns < 1e7, row.spread_lo_ns > 1e7, reason, "The interval spans 10 ms:")


def _equal_soon(table: pd.DataFrame) -> Verdict:
    """Statistic: the lead of the hog with most CPU time in 100 ms, by interval.  Control: the same over the
    whole time.  Design: one hog more than CPUs, all alike.  Opponent: two hogs that share a CPU differ by a
    turn in 100 ms; hence a tenth of the lead that a hog with a CPU for itself has.
    """
    row = _row(table, ODD)
    reason = (
        f"in 100 ms the first had {row.short_lead_percent:.0f} % of the lead that a CPU for itself gives "
        f"(interval {row.short_lead_lo_percent:.0f} to {row.short_lead_hi_percent:.0f})."
    )
    return holds_or_fails(
        row.short_lead_hi_percent < 10, row.short_lead_lo_percent > 10, reason, "The interval spans 10 %:"
    )


def _one_wins(table: pd.DataFrame) -> Verdict:
    """Statistic: the lead of the hog with most CPU time over the whole time, by interval.  Control: the same
    in 100 ms.  Design: one hog more than CPUs, all alike.  Opponent: with so few moves chance gives a lead,
    too; hence half of what a CPU for itself gives.
    """
    row = _row(table, ODD)
    reason = (
        f"{row.hogs:.0f} hogs on {row.cpus:.0f} CPUs: over the whole time the first had "
        f"{row.lead_percent:.0f} % of the lead that a CPU for itself gives "
        f"(interval {row.lead_lo_percent:.0f} to {row.lead_hi_percent:.0f})."
    )
    return above(row.lead_lo_percent, row.lead_hi_percent, MOSTLY_PERCENT, reason)


def _isolated_stay(table: pd.DataFrame) -> Verdict:
    """Statistic: the shares of starts in which no hog left, and in which they were not spread.  Control: the
    same hogs outside the partition left in the same time.  Design: the partition has CPUs without work, and
    every hog may use them.  Opponent: a watch that is too short shows it of any CPU; then the control shows
    it, too.
    """
    row, plain = _row(table, "isolated"), _row(table, SHORT)
    if plain.stayed_percent:
        raise CannotTell("Outside the partition, too, they were not watched until one left.")
    reason = (
        f"in {row.stayed_percent:.0f} % of {row.trials:.0f} starts no hog left, in "
        f"{row.crowded_percent:.0f} % they were not spread; outside the partition the first left after "
        f"{_first(plain)}."
    )
    return holds_or_fails(
        row.crowded_percent == 0, row.stayed_percent == 100, reason, "Some left, and not all were spread:"
    )


SPREAD = "balance.spread"
CLAIMS = [
    Claim("balance-at-once", "A CPU that has nothing to do takes over a waiting thread within a millisecond.",
          "a common belief", SPREAD, _pulls_at_once),
    Claim("balance-going-idle", "A CPU that goes idle takes over a waiting thread within a millisecond.",
          "read out of sched_balance_newidle()", SPREAD, _looks_before_idling),
    Claim("balance-forgets", "How long threads were pinned is forgotten as soon as they are let go.",
          "a common belief", SPREAD, _forgets),
    Claim("balance-naps", "Crowded threads that sleep once are spread by their wake-ups, within 10 ms.",
          "a common belief", SPREAD, _naps_spread),
    Claim("balance-equal", "Of equal threads each has the same CPU time in 100 ms, on several CPUs, too.",
          "read out of sched(7)", SPREAD, _equal_soon),
    Claim("balance-winner", "Of one thread more than there are CPUs, the luckiest keeps a CPU for itself.",
          "a common belief", SPREAD, _one_wins),
    Claim("balance-isolated", "Threads that may use all CPUs of an isolated partition are spread over them.",
          "a common belief", SPREAD, _isolated_stay),
]  # fmt: skip
