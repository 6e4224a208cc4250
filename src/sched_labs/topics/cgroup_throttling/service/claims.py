"""What people say about service, judged on a run."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from sched_labs.claims.base import FAILS, HOLDS, WEB_COURSE, CannotTell, Claim, Verdict, ns
from sched_labs.claims.base import LATENCY_COURSE as COURSE
from sched_labs.claims.helpers import between, tail_ratio

HOG = "quota.hog"
THREADS = "quota.threads"
LATENCY = "service.latency"
CONTENTION = "service.contention"
ENOUGH_PERIODS = 10


def _row(table: pd.DataFrame, limit: str, neighbour: str = "idle") -> Any:
    """The condition with the highest demand."""
    found = table[(table.limit == limit) & (table.neighbour == neighbour)]
    if found.empty:
        words = {"none": "no limit", "quota": "a quota"}.get(limit, limit)
        raise CannotTell(f"This run did not measure {words} with {neighbour} neighbours.")
    return found.sort_values("demand_percent").iloc[-1]


def _p99(row: Any) -> str:
    return f"{ns(row.p99_ns)} (interval {between(row, 'p99', 'ns')})"


def _every_period(table: pd.DataFrame) -> Verdict:
    """Statistic: share of throttled periods at each demand.  Control: without a limit nothing is left
    over.  Design: demand below the quota.  Opponent: a service that needs all of it is throttled in
    most, so that no run shows that it is true.
    """
    quota = table[(table.limit == "quota") & (table.neighbour == "idle")]
    if quota.empty:
        raise CannotTell("This run did not measure a quota with idle neighbours.")
    if quota.periods.min() < ENOUGH_PERIODS:
        raise CannotTell(f"Only {quota.periods.min()} periods were counted.")
    parts = [
        f"{row.throttled_percent:.0f} % at {row.demand_percent:g} % demand" for row in quota.itertuples()
    ]
    reason = f"throttled periods: {', '.join(parts)}."
    if (quota.throttled_percent >= 90).all():
        raise CannotTell(f"The service may have needed all of its quota: {reason}")
    none = table[(table.limit == "none") & (table.neighbour == "idle")]
    if none.waiting.sum() > 0.05 * none.arrived.sum():
        raise CannotTell(f"The machine may have been busy: without a limit requests were left, too. {reason}")
    if (quota.throttled_percent < 50).any():
        return Verdict(FAILS, reason)
    raise CannotTell(f"Neither nearly all nor few: {reason}")


HILL = 1.4  # of the usual p99: a hill whose top lies nearer is the end of the first one


def _second_mode(table: pd.DataFrame) -> Verdict:
    """Statistic: how many requests take longer than 99 % do without a limit, and where those are densest.
    Control: the same requests without a limit.  Design: demand below the quota, in crowds.
    Opponent: a longer tail is no hill of its own: where it is densest has to lie clear of the usual p99, and
    of all that this may be.  And other programs may have made the usual p99 late, so that few beyond it
    refute nothing.
    """
    row, none = _row(table, "quota"), _row(table, "none")
    if row.throttled_percent < 5:
        raise CannotTell(f"Only {row.throttled_percent:.0f} % of the periods were throttled.")
    if math.isfinite(row.second_mode_ns):
        reason = (
            f"{row.beyond_percent:.0f} % of the requests, densest near {ns(row.second_mode_ns, 2)}; without "
            f"a limit p99 is {_p99(none)}."
        )
        if row.second_mode_ns < HILL * none.p99_hi_ns:
            raise CannotTell(f"They may be the end of the first hill: {reason}")
        return Verdict(HOLDS, reason)
    raise CannotTell(
        f"{row.beyond_percent:.1f} % of the requests took longer than 99 % do without a limit: too few."
    )


def _no_bursts(table: pd.DataFrame) -> Verdict:
    """Statistic: p99 and throttled periods, by interval.  Control: the same requests without a burst.
    Design: demand below the quota.  Opponent: on a slow machine the service may need all of it and have
    nothing to save, so that no run shows that it is true.
    """
    quota, burst = _row(table, "quota"), _row(table, "quota + burst")
    if quota.throttled_percent < 5:
        raise CannotTell(
            f"Only {quota.throttled_percent:.0f} % of the periods were throttled without a burst."
        )
    reason = f"p99 {_p99(quota)} without a burst, {_p99(burst)} with one."
    if tail_ratio(burst, quota)[1] < 1:
        return Verdict(FAILS, reason)
    less_often = burst.throttled_percent < quota.throttled_percent
    unclear = "Not faster for sure" if less_often else "There may have been no quota to save"
    raise CannotTell(
        f"{unclear}: {reason} Throttled periods: {quota.throttled_percent:.0f} % and "
        f"{burst.throttled_percent:.0f} %."
    )


def _30_to_60(table: pd.DataFrame) -> Verdict:
    """Statistic: 1 - ratio of p99, by interval.  Control: the same requests without a limit, and throttled
    periods with it.  Design: one demand, the highest.  Opponent: other programs may have made the requests
    slow without a limit, too, so that only a larger difference refutes it, and no run shows that it is true.
    """
    quota, none = _row(table, "quota"), _row(table, "none")
    if quota.throttled_percent < 5:
        raise CannotTell(f"Only {quota.throttled_percent:.0f} % of the periods were throttled.")
    most, least = (1 - end for end in tail_ratio(none, quota))
    reason = (
        f"p99 {ns(quota.p99_ns)} with the quota and {ns(none.p99_ns)} without: "
        f"{1 - none.p99_ns / quota.p99_ns:.1%} better (interval {least:.1%} to {most:.1%})."
    )
    if least > 0.6:
        return Verdict(FAILS, reason)
    raise CannotTell(f"Not more than 60 % for sure: {reason}")


def _weight_better(table: pd.DataFrame) -> Verdict:
    """Statistic: p99 beside a busy neighbour, over trials.  Control: throttled periods with the quota, and
    neither limit nor weight, so that the step to no limit and the step to a weight are seen apart.
    Design: the neighbour is busy throughout, which is when a weight counts at all; a burst counts too, where
    there is one.
    Opponent: who pays for the CPU may want the limit all the same; the sentence is about the service.  A
    weight takes no CPU time from it: where it is slower, other programs may have had the CPU.
    """
    quota, weight, none = (_row(table, limit, "busy") for limit in ("quota", "weight", "none"))
    if quota.throttled_percent < 5:
        raise CannotTell(f"Only {quota.throttled_percent:.0f} % of the periods were throttled.")
    burst = table[(table.limit == "quota + burst") & (table.neighbour == "busy")]
    saved = "".join(f"{_p99(row)} with a burst, " for _, row in burst.iterrows())
    reason = (
        f"beside a busy neighbour p99 is {_p99(quota)} with the quota, {saved}{_p99(none)} with neither, and "
        f"{_p99(weight)} with a weight and no limit."
    )
    if not (none.p99_hi_ns < quota.p99_lo_ns and weight.p99_hi_ns < none.p99_lo_ns):
        raise CannotTell(f"Not both steps (no limit, then a weight) are an improvement for sure: {reason}")
    if (burst.p99_lo_ns <= weight.p99_hi_ns).any():
        raise CannotTell(f"A burst may do as well: {reason}")
    return Verdict(HOLDS, reason)


def _low_share(table: pd.DataFrame) -> Verdict:
    """Statistic: p99 beside the same neighbour, by interval.  Control: equal weights.  Design: the
    neighbour is always busy.  Opponent: on idle CPUs a weight does nothing, and it takes no CPU time from the
    service: where that is slower, other programs may have had the CPU.
    """
    weight, none = _row(table, "weight", "busy"), _row(table, "none", "busy")
    reason = (
        f"beside the same neighbour p99 is {_p99(weight)} where that has a tenth of the service's weight, "
        f"and {_p99(none)} where it has as much."
    )
    if weight.p99_hi_ns < none.p99_lo_ns:
        return Verdict(HOLDS, reason)
    raise CannotTell(f"Not faster for sure: {reason}")


def _idle_means_no_wait(table: pd.DataFrame) -> Verdict:
    """Statistic: ratio of p99 under a quota and without, by interval.  Control: the same idle CPUs, no limit.
    Design: CPUs have room, the group has none.  Opponent: where periods were throttled some request waited,
    so that a p99 that is alike does not show that it is true.
    """
    quota, none = _row(table, "quota"), _row(table, "none")
    if quota.throttled_percent < 5:
        raise CannotTell(f"Only {quota.throttled_percent:.0f} % of the periods were throttled.")
    reason = (
        f"with {quota.cpu_percent:.0f} % of a CPU in use p99 is {_p99(quota)} under the quota, "
        f"{_p99(none)} without."
    )
    if tail_ratio(quota, none)[0] > 1:
        return Verdict(FAILS, reason)
    raise CannotTell(f"Not slower for sure: {reason}")


def _delay(row: Any) -> str:
    return f"{ns(row.run_delay_ns)} (interval {between(row, 'run_delay', 'ns')})"


def _looks_like_a_wait(table: pd.DataFrame) -> Verdict:
    """Statistic: run delay a request, by interval.  Control: the service without a limit, and how much longer
    other threads had the CPU under the quota: its requests come together when a stall ends, and then wait for
    each other.  Only where the kernel may be watched is that seen.  Design: one CPU, a quota of which it
    needs 85 %.  Opponent: without a limit other programs may have had the CPU more, so that a wait that is
    no longer refutes nothing.
    """
    quota, none = _row(table, "quota"), _row(table, "none")
    if not math.isfinite(quota.run_delay_ns) or not math.isfinite(none.run_delay_ns):
        raise CannotTell("This kernel keeps no run delay.")
    if quota.throttled_percent < 5:
        raise CannotTell(f"Only {quota.throttled_percent:.0f} % of the periods were throttled.")
    reason = f"run-queue wait a request: {_delay(none)} without a limit, {_delay(quota)} under the quota."
    if not quota.run_delay_lo_ns > none.run_delay_hi_ns:
        raise CannotTell(f"Not longer for sure: {reason}")
    if not math.isfinite(crowd := quota.rivals_ns - none.rivals_ns):
        raise CannotTell(f"How long other threads had the CPU was not watched: {reason}")
    reason += f" Waits for other threads differ by {ns(abs(crowd))}."
    if not quota.run_delay_lo_ns - crowd > none.run_delay_hi_ns:
        raise CannotTell(f"Other threads may have had the CPU for that long: {reason}")
    return Verdict(HOLDS, reason)


CLAIMS = [
    Claim("000-102", "A service limited to half a CPU on an idle machine is throttled in every period.",
          WEB_COURSE, LATENCY, _every_period),
    Claim("002-093", "A quota shows as a second mode in the latency histogram.", COURSE, LATENCY,
          _second_mode),
    Claim("002-096", "A quota cannot absorb bursts at all.", COURSE, LATENCY, _no_bursts),
    Claim("000-103", "Taking the limit away makes p99 30 to 60 % better.", WEB_COURSE, LATENCY, _30_to_60),
    Claim("002-097", "It is best to give services a weight (a request) and no limit.", COURSE, LATENCY,
          _weight_better),
    Claim("000-130", "Batch work belongs in a group with a low share: the service beside it is then faster.",
          WEB_COURSE, LATENCY, _low_share),
    Claim("002-123", "With CPUs to spare nobody waits for one.",
          "said to be false, for another reason, by a web course on scheduler latency", LATENCY,
          _idle_means_no_wait),
    Claim("002-115", "Waiting for quota looks like waiting in a run queue.", COURSE, CONTENTION,
          _looks_like_a_wait),
]  # fmt: skip
