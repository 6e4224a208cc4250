"""What people say about yielding, judged on a run."""

from __future__ import annotations

import pandas as pd

from sched_labs.claims.base import FAILS, HOLDS, WEB_COURSE, CannotTell, Claim, Verdict
from sched_labs.claims.helpers import some


def _yields(table: pd.DataFrame, condition: str, policy: str = "other") -> pd.Series:
    """One policy's yielders on one CPU, their two counts in agreement."""
    found = some(
        table[(table.policy == policy) & (table.placement == "same_cpu") & (table.condition == condition)],
        f"This run did not let threads of SCHED_{policy.upper()} yield {condition} on one CPU.",
    )
    row = found.iloc[0]
    if not row.counts_agree:
        raise CannotTell("getrusage and /proc counted different numbers of switches.")
    return row


def _one_switch_per_yield(table: pd.DataFrame) -> Verdict:
    """Statistic: switches a call, by interval, within 5 %.  Control: counts from two places that agree.
    Design: two threads of one policy on one CPU.  Opponent: EEVDF may let the caller go on.
    """
    row = _yields(table, "together")
    reason = (
        f"{row.switches_per_yield:.2f} switches per call "
        f"(interval {row.switches_lo_per_yield:.2f} to {row.switches_hi_per_yield:.2f})."
    )
    if row.switches_lo_per_yield >= 0.95 and row.switches_hi_per_yield <= 1.05:
        return Verdict(HOLDS, reason)
    if row.switches_hi_per_yield < 0.95 or row.switches_lo_per_yield > 1.05:
        return Verdict(FAILS, reason)
    raise CannotTell(f"The interval spans a limit: {reason}")


def _yield_always_switches(table: pd.DataFrame) -> Verdict:
    """Statistic: switches a call of one thread, by interval.  Control: two threads on the same CPU.
    Design: alone, so that there is nobody to switch to.  Opponent: a kernel thread may be there now and
    then.
    """
    row = _yields(table, "alone")
    reason = (
        f"alone on its CPU a thread makes {row.switches_per_yield:.2f} switches per call "
        f"(interval {row.switches_lo_per_yield:.2f} to {row.switches_hi_per_yield:.2f})."
    )
    if row.switches_lo_per_yield >= 0.95:
        return Verdict(HOLDS, reason)
    if row.switches_hi_per_yield < 0.95:
        return Verdict(FAILS, reason)
    raise CannotTell(f"The interval spans a limit: {reason}")


def _involuntary_is_preempted(table: pd.DataFrame) -> Verdict:
    """Statistic: counts of both kinds for each call.  Control: the kernel counts them, twice.  Design:
    both give way by themselves and are never preempted for long.  Opponent: a tick may preempt one now
    and then.
    """
    row = _yields(table, "together")
    if not row.switches_lo_per_yield > 0.1:
        raise CannotTell(
            "The two yielders may have hardly switched: "
            f"{row.switches_lo_per_yield:.3f} to {row.switches_hi_per_yield:.3f} switches per call."
        )
    reason = (
        "two threads that give way by themselves on one CPU show "
        f"{row.involuntary_per_yield:.3f} involuntary and {row.voluntary_per_yield:.3f} voluntary switches "
        "per call."
    )
    if row.involuntary_per_yield < 50 * row.voluntary_per_yield:
        raise CannotTell(f"That is not fifty times as many: {reason}")
    return Verdict(FAILS, reason)


def _fifo_until_it_blocks(table: pd.DataFrame) -> Verdict:
    """Statistic: switches a call under FIFO, by interval.  Control: the default policy.  Design: two
    threads of one priority that never block.  Opponent: it yields, which the sentence forgets.
    """
    row = _yields(table, "together", "fifo")
    reason = (
        "two threads of one priority that never block make "
        f"{row.switches_per_yield:.2f} switches per call on one CPU "
        f"(interval {row.switches_lo_per_yield:.2f} to {row.switches_hi_per_yield:.2f})."
    )
    if row.switches_lo_per_yield > 0.5:
        return Verdict(FAILS, reason)
    if row.switches_hi_per_yield < 0.1:
        return Verdict(HOLDS, reason)
    raise CannotTell(f"Neither clearly many nor clearly none: {reason}")


CLAIMS = [
    Claim("000-055", "Two threads that yield on one CPU make one switch with every call.", WEB_COURSE,
          "yielding.semantics", _one_switch_per_yield),
    Claim("yield-alone", "sched_yield forces a switch.", "what benchmarks that count calls assume",
          "yielding.semantics", _yield_always_switches),
    Claim("000-115", "Fifty times more involuntary than voluntary switches prove that threads are preempted.",
          WEB_COURSE, "yielding.semantics", _involuntary_is_preempted),
    Claim("fifo-yield", "A SCHED_FIFO thread keeps its CPU until it blocks or a higher priority arrives.",
          "a web course on scheduler latency", "yielding.semantics",
          _fifo_until_it_blocks),
]  # fmt: skip
