"""Claims about CPU limits: hogs under a quota, threads that share one, and a service's requests."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from .base import FAILS, HOLDS, WEB_COURSE, CannotTell, Claim, Verdict, ns, yes

COURSE = "a web course on scheduler latency (002), no reference given"
BELIEF = "a common belief"
HOG, THREADS, LATENCY, CONTENTION = "quota.hog", "quota.threads", "service.latency", "service.contention"
NESTED, TIMELINE = "nested.groups", "throttle.timeline"
ENOUGH_PERIODS = 10


def _limited(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of a hog under a limit that stood still at all."""
    found = table[(table.share_percent < 100) & table.stall_ns.notna() & (table.throttled_periods > 0)]
    if found.empty:
        raise CannotTell("No thread was held back by a limit in this run.")
    return found


def _like_a_switch(table: pd.DataFrame) -> Verdict:
    stalls = _limited(table)
    low, high = stalls.stall_lo_ns.min(), stalls.stall_hi_ns.max()
    if not math.isfinite(low) or not math.isfinite(high):
        raise CannotTell("A limit held the thread back in one trial only: that gives no interval.")
    least, most = stalls.stall_ns.min(), stalls.stall_ns.max()
    reason = f"stalls from {ns(least)} to {ns(most)}."
    if low > 200_000:
        return Verdict(FAILS, reason)
    if high <= 200_000:
        return Verdict(HOLDS, reason)
    raise CannotTell(f"The intervals reach from {ns(low)} to {ns(high)}.")


def _default_period(table: pd.DataFrame) -> Verdict:
    period = table.default_period_ns.iloc[0]
    if period is None or not math.isfinite(period):
        raise CannotTell("No group was made, so its default was not seen.")
    return yes(period == 100e6, f"a new group here has a period of {ns(period)}.")


def _half_a_cpu(table: pd.DataFrame) -> Verdict:
    half = table[(table.share_percent == 50) & (table.period_ns == 100e6)]
    if half.empty:
        raise CannotTell("This run did not measure 50 ms in 100 ms.")
    row = half.iloc[0]
    if row.throttled_percent < 50:
        raise CannotTell(f"Only {row.throttled_percent:.0f} % of the periods were throttled.")
    # Not all periods of a block are whole ones: its first may have a quota for a part of it.
    tolerance = 100 * (row.tolerance_ns + row.quota_ns) / (row.periods * row.period_ns / row.trials)
    reason = f"under 50,000 µs in 100,000 µs a busy thread had {row.cpu_percent:.0f} % of a CPU."
    return yes(abs(row.cpu_percent - 50) <= tolerance, reason)


def _throttled_time_ns(table: pd.DataFrame) -> Verdict:
    field = table.throttled_field.iloc[0]
    if not isinstance(field, str):
        raise CannotTell("No group was made, so its cpu.stat was not seen.")
    return yes(field == "throttled_time_ns", f"here cpu.stat calls it {field}.")


def _many(table: pd.DataFrame) -> pd.Series:
    """The row with the most threads, where more than one of them could run at once and all stood still."""
    row = table.sort_values("threads").iloc[-1]
    if min(row.threads, row.cpus) < 2:
        raise CannotTell("This run had no two threads on two CPUs.")
    _held_back(row)
    return row


def _held_back(row: Any) -> None:
    """That it was the limit which made the threads stand still, and not other programs."""
    if not math.isfinite(row.ran_ns) or row.throttled_periods == 0:
        raise CannotTell("The threads were not held back in this run.")
    if row.throttled_percent < 50:
        raise CannotTell(
            f"Only {row.throttled_percent:.0f} % of the periods were throttled: other programs had the CPUs."
        )


def _as_pinned(table: pd.DataFrame) -> Verdict:
    row = _many(table)
    reason = (
        f"{row.threads:g} threads on {row.cpus:g} CPUs used {ns(row.quota_ns)} up in {ns(row.ran_ns)} "
        f"(interval {ns(row.ran_lo_ns)} to {ns(row.ran_hi_ns)})."
    )
    if row.ran_hi_ns < row.quota_ns:
        return Verdict(FAILS, reason)
    if row.ran_lo_ns >= 0.95 * row.quota_ns:
        return Verdict(HOLDS, reason)
    raise CannotTell(f"The interval spans the quota: {reason}")


def _at_most_the_rest(table: pd.DataFrame) -> Verdict:
    row = _many(table)
    rest = row.period_ns - row.quota_ns
    reason = (
        f"{row.threads:g} threads stood still for {ns(row.stall_ns)} (interval {ns(row.stall_lo_ns)} to "
        f"{ns(row.stall_hi_ns)}); period - quota is {ns(rest)}."
    )
    if row.stall_lo_ns > rest:
        return Verdict(FAILS, reason)
    if row.stall_hi_ns <= rest:
        return Verdict(HOLDS, reason)
    raise CannotTell(f"The interval spans it: {reason}")


def _divided_by_threads(table: pd.DataFrame) -> Verdict:
    more = table[table.threads > table.cpus]
    if more.empty:
        raise CannotTell("This run had no more threads than CPUs.")
    row = more.sort_values("threads").iloc[-1]
    _held_back(row)
    claimed = row.quota_ns / row.threads
    reason = (
        f"{row.threads:g} threads on {row.cpus:g} CPUs: {ns(row.ran_ns)} (interval {ns(row.ran_lo_ns)} to "
        f"{ns(row.ran_hi_ns)}); quota / threads is {ns(claimed)}, quota / CPUs {ns(row.formula_ran_ns)}."
    )
    between = (claimed + row.formula_ran_ns) / 2
    if row.ran_lo_ns > between:
        return Verdict(FAILS, reason)
    if row.ran_hi_ns < between:
        return Verdict(HOLDS, reason)
    raise CannotTell(f"The interval spans both: {reason}")


# ---- a service ----


def _row(table: pd.DataFrame, limit: str, neighbour: str = "idle") -> Any:
    """The condition with the highest demand."""
    found = table[(table.limit == limit) & (table.neighbour == neighbour)]
    if found.empty:
        words = {"none": "no limit", "quota": "a quota"}.get(limit, limit)
        raise CannotTell(f"This run did not measure {words} with {neighbour} neighbours.")
    return found.sort_values("demand_percent").iloc[-1]


def _p99(row: Any) -> str:
    return f"{ns(row.p99_ns)} (interval {ns(row.p99_lo_ns)} to {ns(row.p99_hi_ns)})"


def _every_period(table: pd.DataFrame) -> Verdict:
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
        return Verdict(HOLDS, reason)
    none = table[(table.limit == "none") & (table.neighbour == "idle")]
    if none.waiting.sum() > 0.05 * none.arrived.sum():
        raise CannotTell(f"The machine was not idle: even without a limit requests were left over. {reason}")
    if (quota.throttled_percent < 50).any():
        return Verdict(FAILS, reason)
    raise CannotTell(f"Neither nearly all nor few: {reason}")


def _second_mode(table: pd.DataFrame) -> Verdict:
    row = _row(table, "quota")
    if row.throttled_percent < 5:
        raise CannotTell(f"Only {row.throttled_percent:.0f} % of the periods were throttled.")
    if math.isfinite(row.second_mode_ns):
        reason = f"{row.beyond_percent:.0f} % of the requests, densest near {ns(row.second_mode_ns)}."
        return Verdict(HOLDS, reason)
    if row.beyond_percent <= 1:
        return Verdict(FAILS, f"{row.beyond_percent:.1f} % of the requests were later than without a limit.")
    raise CannotTell(f"{row.beyond_percent:.1f} % of the requests were later than without a limit: too few.")


def _no_bursts(table: pd.DataFrame) -> Verdict:
    quota, burst = _row(table, "quota"), _row(table, "quota + burst")
    if quota.throttled_percent < 5:
        raise CannotTell(
            f"Only {quota.throttled_percent:.0f} % of the periods were throttled without a burst."
        )
    reason = (
        f"p99 {_p99(quota)} without a burst, {_p99(burst)} with one; throttled periods "
        f"{quota.throttled_percent:.0f} % and {burst.throttled_percent:.0f} %."
    )
    if burst.p99_hi_ns < quota.p99_lo_ns:
        return Verdict(FAILS, reason)
    if burst.p99_lo_ns >= quota.p99_lo_ns and burst.throttled_percent >= quota.throttled_percent:
        return Verdict(HOLDS, reason)
    raise CannotTell(f"The intervals overlap: {reason}")


def _30_to_60(table: pd.DataFrame) -> Verdict:
    quota, none = _row(table, "quota"), _row(table, "none")
    least, most = 1 - none.p99_hi_ns / quota.p99_lo_ns, 1 - none.p99_lo_ns / quota.p99_hi_ns
    reason = (
        f"p99 {ns(quota.p99_ns)} with the quota and {ns(none.p99_ns)} without: "
        f"{1 - none.p99_ns / quota.p99_ns:.0%} better (interval {least:.0%} to {most:.0%})."
    )
    if least >= 0.3 and most <= 0.6:
        return Verdict(HOLDS, reason)
    if least > 0.6 or most < 0.3:
        return Verdict(FAILS, reason)
    raise CannotTell(f"The interval spans a limit: {reason}")


def _weight_better(table: pd.DataFrame) -> Verdict:
    quota, weight = _row(table, "quota", "busy"), _row(table, "weight", "busy")
    reason = f"beside a busy neighbour p99 is {_p99(weight)} with a weight and {_p99(quota)} with the quota."
    if weight.p99_hi_ns < quota.p99_lo_ns:
        return Verdict(HOLDS, reason)
    if quota.p99_hi_ns < weight.p99_lo_ns:
        return Verdict(FAILS, reason)
    raise CannotTell(f"The intervals overlap: {reason}")


def _low_share(table: pd.DataFrame) -> Verdict:
    weight, none = _row(table, "weight", "busy"), _row(table, "none", "busy")
    reason = (
        f"beside the same neighbour p99 is {_p99(weight)} where that has a tenth of the service's weight, "
        f"and {_p99(none)} where it has as much."
    )
    if weight.p99_hi_ns < none.p99_lo_ns:
        return Verdict(HOLDS, reason)
    if weight.p99_lo_ns >= none.p99_hi_ns:
        return Verdict(FAILS, reason)
    raise CannotTell(f"The intervals overlap: {reason}")


def _idle_means_no_wait(table: pd.DataFrame) -> Verdict:
    quota, none = _row(table, "quota"), _row(table, "none")
    if quota.throttled_percent < 5:
        raise CannotTell(f"Only {quota.throttled_percent:.0f} % of the periods were throttled.")
    reason = (
        f"with {quota.cpu_percent:.0f} % of a CPU in use p99 is {_p99(quota)} under the quota, "
        f"{_p99(none)} without."
    )
    if quota.p99_lo_ns > none.p99_hi_ns:
        return Verdict(FAILS, reason)
    if quota.p99_hi_ns <= none.p99_hi_ns:
        return Verdict(HOLDS, reason)
    raise CannotTell(f"The intervals overlap: {reason}")


def _looks_like_a_wait(table: pd.DataFrame) -> Verdict:
    quota, none = _row(table, "quota"), _row(table, "none")
    if not math.isfinite(quota.run_delay_ns) or not math.isfinite(none.run_delay_ns):
        raise CannotTell("This kernel keeps no run delay.")
    if quota.throttled_percent < 5:
        raise CannotTell(f"Only {quota.throttled_percent:.0f} % of the periods were throttled.")
    reason = (
        f"run-queue wait a request: {ns(none.run_delay_ns)} without a limit, {ns(quota.run_delay_ns)} under "
        f"the quota (interval {ns(quota.run_delay_lo_ns)} to {ns(quota.run_delay_hi_ns)})."
    )
    if quota.run_delay_lo_ns > none.run_delay_hi_ns:
        return Verdict(HOLDS, reason)
    if quota.run_delay_hi_ns < none.run_delay_hi_ns:
        return Verdict(FAILS, reason)
    raise CannotTell(f"The intervals overlap: {reason}")


def _kept_off(table: pd.DataFrame) -> Verdict:
    by = table.set_index("condition")
    if not {"alone", "outside_pinned"} <= set(by.index):
        raise CannotTell("This run had no cpuset with an intruder from outside.")
    alone, intruded = by.loc["alone"], by.loc["outside_pinned"]
    reason = (
        f"in a cpuset of its own the thread had {intruded.cpu_percent:.0f} % of its CPU (interval "
        f"{intruded.cpu_lo_percent:.0f} to {intruded.cpu_hi_percent:.0f}) beside an intruder from outside, "
        f"{alone.cpu_percent:.0f} % alone."
    )
    if alone.cpu_percent < 90:
        raise CannotTell(f"Even alone the thread had only {alone.cpu_percent:.0f} % of its CPU.")
    if intruded.cpu_hi_percent < 0.9 * alone.cpu_lo_percent:
        return Verdict(FAILS, reason)
    if intruded.cpu_lo_percent >= 0.9 * alone.cpu_hi_percent:
        return Verdict(HOLDS, reason)
    raise CannotTell(f"The intervals are too wide: {reason}")


def _range(percent: pd.Series[float]) -> str:
    low, high = f"{percent.min():.0f}", f"{percent.max():.0f}"
    return f"{low} %" if low == high else f"{low} to {high} %"


def _like_a_slower_cpu(table: pd.DataFrame) -> Verdict:
    seen = table[table.held_percent.notna()]
    if seen.empty:
        raise CannotTell("The throttled intervals were not watched from inside the kernel (BPF).")
    if seen.throttled_periods.sum() == 0:
        raise CannotTell("No period was throttled.")
    held = _range(seen.held_percent)
    if (seen.held_percent >= 95).all():
        return Verdict(HOLDS, f"{held} of the requests met a throttled group.")
    reason = (
        f"{held} of the requests met a throttled group, and half of them took longer than "
        f"{ns(seen.held_p50_ns.min())}; 99 of 100 of the others took less than {ns(seen.other_p99_ns.max())}."
    )
    if (seen.other_p99_ns < seen.held_p50_ns).all():
        return Verdict(FAILS, reason)
    raise CannotTell(f"The two are not far enough apart: {reason}")


def _in_its_own_counters(table: pd.DataFrame) -> Verdict:
    inside = table[table.condition.isin(["sibling", "no_own_limit"])]
    inside = inside[inside.outer_throttled_percent >= 50]
    if inside.empty:
        raise CannotTell("The group around was not held back in half of its periods beside a busy sibling.")
    own = inside.own_throttled_percent.fillna(0)
    reason = (
        f"the group around was throttled in {_range(inside.outer_throttled_percent)} of its periods; the one "
        f"inside counted {_range(own)}."
    )
    if (own >= 50).all():
        return Verdict(HOLDS, reason)
    if (own < 10).any():
        return Verdict(FAILS, reason)
    raise CannotTell(f"Neither nearly all nor few: {reason}")


def _its_own_limit(table: pd.DataFrame) -> Verdict:
    by = table.set_index("condition")
    if not {"alone", "sibling"} <= set(by.index):
        raise CannotTell("This run did not measure a group alone and beside a busy sibling.")
    alone, sibling = by.loc["alone"], by.loc["sibling"]
    limit = alone.own_limit_percent
    reason = (
        f"under its own limit of {limit:.0f} % the group had {alone.cpu_percent:.0f} % of a CPU alone, and "
        f"{sibling.cpu_percent:.0f} % (interval {sibling.cpu_lo_percent:.0f} to "
        f"{sibling.cpu_hi_percent:.0f}) beside its sibling."
    )
    if not alone.cpu_percent >= 0.9 * limit:
        raise CannotTell(f"Others had the CPU: {reason}")
    if sibling.cpu_hi_percent < 0.9 * limit:
        return Verdict(FAILS, reason)
    if sibling.cpu_lo_percent >= 0.9 * limit:
        return Verdict(HOLDS, reason)
    raise CannotTell(f"The interval is too wide: {reason}")


CLAIMS = [
    Claim("000-101", "Being throttled costs what a context switch and its warm-up cost: 50 to 200 µs.",
          WEB_COURSE, HOG, _like_a_switch),
    Claim("000-140", "The default period is 100 ms.", WEB_COURSE, HOG, _default_period),
    Claim("002-090", "A limit of 500m, half a CPU, is a quota of 50,000 µs in every 100,000 µs.", COURSE,
          HOG, _half_a_cpu),
    Claim("002-094", "cpu.stat reports the throttled time as throttled_time_ns.", COURSE, HOG,
          _throttled_time_ns),
    Claim("002-039", "A small CPU limit is the same as being pinned to one CPU for that part of the time.",
          COURSE, THREADS, _as_pinned),
    Claim("002-092", "A throttled thread waits for period minus quota at most.", COURSE, THREADS,
          _at_most_the_rest),
    Claim("002-095", "Threads use a quota up in quota / threads, however many CPUs there are.", COURSE,
          THREADS, _divided_by_threads),
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
          "said to be false, for another reason, by a web course on scheduler latency (002)", LATENCY,
          _idle_means_no_wait),
    Claim("002-070", "On exclusive CPUs, given by a cpuset, nobody else can run.", COURSE, "isolation.cpuset",
          _kept_off),
    Claim("slower-cpu", "A CPU limit slows every request down, as a slower CPU would.", BELIEF, TIMELINE,
          _like_a_slower_cpu),
    Claim("own-counters", "A container that is throttled counts it in its own cpu.stat.", BELIEF, NESTED,
          _in_its_own_counters),
    Claim("own-limit", "A group may use all of its own limit, whoever else is in its pod.", BELIEF, NESTED,
          _its_own_limit),
    Claim("002-115", "Waiting for quota looks like waiting in a run queue.", COURSE, CONTENTION,
          _looks_like_a_wait),
]  # fmt: skip
