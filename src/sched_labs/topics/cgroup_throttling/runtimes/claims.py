"""What people say about runtimes that count CPUs, judged on a run."""

from __future__ import annotations

import math

import pandas as pd

from sched_labs.claims.base import FAILS, HOLDS, CannotTell, Claim, Verdict, ns
from sched_labs.claims.helpers import between, holds_or_fails, one_row, ratio, tail_ratio
from sched_labs.topics.cgroup_throttling import OTHERS

RARE = 5  # percent of the periods: fewer are throttled now and then by chance
SLOWER = 1.25  # times, of p99: more than one period more or less in a short run
APART = 20  # percentage points of throttled periods: a few periods of a short run
UBER = "the README of uber-go/automaxprocs, about a load balancer with a quota of two CPUs"


def _pair(table: pd.DataFrame, runtime: str) -> tuple[pd.Series, pd.Series]:
    """The rows with the host's count and with the quota's."""
    host = one_row(table, f"{runtime} with the host's CPUs", runtime=runtime, setting="host")
    return host, one_row(table, f"{runtime} with the quota's CPUs", runtime=runtime, setting="quota")


def _p99(row: pd.Series) -> str:
    return f"{ns(row.p99_ns)} (interval {between(row, 'p99', 'ns')})"


def _work(row: pd.Series) -> str:
    ends = between(row, "background", "percent", "{:.1f}".format)
    return f"{row.background_percent:.1f} % of a CPU's work (interval {ends}) with"


def _limited(host: pd.Series) -> None:
    if host.throttled_percent < RARE:
        raise CannotTell(
            f"{OTHERS} even with {host.threads} threads {host.throttled_percent:.0f} % of the periods were "
            "throttled."
        )


def _never_throttled(table: pd.DataFrame) -> Verdict:
    """Statistic: share of throttled periods, by its interval over starts.  Control: the host's count, which
    has to be throttled.  Design: all goroutines together want more than the quota.  Opponent: a runtime's own
    threads, which GOMAXPROCS does not bound, may run beside them; and one thread for each CPU of the quota
    uses it up only where it has that CPU all the time, so that no run shows that it is true.
    """
    host, fitting = _pair(table, "Go")
    _limited(host)
    least, most = fitting.throttled_lo_percent, fitting.throttled_hi_percent
    if not math.isfinite(least):
        raise CannotTell("One start says nothing about how starts vary.")
    reason = (
        f"{fitting.throttled_percent:.0f} % of the periods were throttled with GOMAXPROCS={fitting.threads} "
        f"(interval {least:.0f} to {most:.0f} %), {host.throttled_percent:.0f} % with {host.threads}; for "
        f"{ns(fitting.throttled_ns_per_s)} and {ns(host.throttled_ns_per_s)} of each second, over all CPUs."
    )
    if least > RARE:
        return Verdict(FAILS, reason)
    unclear = OTHERS if most < RARE else "The starts differ too much:"
    raise CannotTell(f"{unclear} {reason}")


def _tail(table: pd.DataFrame) -> Verdict:
    """Statistic: ratio of p99, by interval.  Control: the same program with the quota's count.  Design:
    requests that are due whether or not the last is done.  Opponent: with fewer processors requests wait in
    Go's own queue, which no counter of the kernel shows.
    """
    host, fitting = _pair(table, "Go")
    _limited(host)
    least, most = tail_ratio(host, fitting)
    reason = f"p99 {_p99(host)} with GOMAXPROCS={host.threads}, {_p99(fitting)} with {fitting.threads}."
    if least > 1 and most < SLOWER:
        raise CannotTell(f"Slower, but by less than a quarter: {reason}")
    return holds_or_fails(
        least > SLOWER, most < SLOWER, reason, "The intervals allow either, a quarter or less:"
    )


def _less_work(table: pd.DataFrame) -> Verdict:
    """Statistic: ratio of the work done, by interval.  Control: the quota's count.  Design: the work is never
    short.  Opponent: what others take of a CPU is lost to the quota's count, and more threads make up for it,
    so that no run refutes it.
    """
    host, fitting = _pair(table, "Go")
    _limited(host)
    least, most = ratio(host, fitting, "background", "percent")
    reason = f"{_work(host)} GOMAXPROCS={host.threads}, {_work(fitting)} {fitting.threads}."
    if least > 0.95 and most < 1:
        raise CannotTell(f"Less, but by less than a twentieth: {reason}")
    if least > 0.95:
        raise CannotTell(f"Not a twentieth less. {OTHERS} {reason}")
    if most < 0.95:
        return Verdict(HOLDS, reason)
    raise CannotTell(f"The intervals allow either, a twentieth or less: {reason}")


def _counts_the_quota(table: pd.DataFrame) -> Verdict:
    """Statistic: how many CPUs Go and Java count by their own rules.  Control: the quota in CPUs,
    rounded up.  Design: each is started inside its group.  Opponent: the version; the table of counts has it.
    """
    found = table[table.runtime.isin(["Go", "Java"]) & (table.setting == "quota")]
    if found.empty:
        raise CannotTell("Neither Go nor Java is installed here.")
    said = ", ".join(f"{row.own_threads} in {row.runtime}" for row in found.itertuples())
    reason = f"CPUs counted where the quota is worth {found.threads.iloc[0]}: {said}."
    if (found.own_threads > found.threads).any():
        return Verdict(FAILS, reason)
    if len(found) < 2:
        raise CannotTell(f"Only one of the two is installed here: {reason}")
    return Verdict(HOLDS, reason)


def _percent_tells(table: pd.DataFrame) -> Verdict:
    """Statistic: throttled periods and p99, the latter by interval.  Control: one program, one quota, only
    the number of threads differs.  Design: Java, whose requests have a thread of their own.  Opponent:
    one pair that agrees says nothing of another, so that no run shows that it is true.
    """
    host, fitting = _pair(table, "Java")
    _limited(host)
    apart = abs(host.throttled_percent - fitting.throttled_percent)
    least, most = tail_ratio(host, fitting)
    reason = (
        f"Java with {host.threads} and with {fitting.threads}: {host.throttled_percent:.0f} % and "
        f"{fitting.throttled_percent:.0f} % of the periods were throttled; p99 was {_p99(host)} and "
        f"{_p99(fitting)}."
    )
    if apart > APART:
        raise CannotTell(f"These two differ: {reason}")
    if least > 2 or most < 1 / 2:
        return Verdict(FAILS, reason)
    raise CannotTell(f"Neither is twice as slow for sure: {reason}")


QUOTA = "runtimes.quota"
CLAIMS = [
    Claim("gomaxprocs-throttled", "A Go program whose GOMAXPROCS is its quota is not throttled.", UBER, QUOTA,
          _never_throttled),
    Claim("gomaxprocs-tail", "GOMAXPROCS above the quota makes the slowest requests slower.", UBER, QUOTA,
          _tail),
    Claim("gomaxprocs-work", "GOMAXPROCS above the quota gets less work done.", UBER, QUOTA, _less_work),
    Claim("runtime-counts", "Under a quota Go and Java count no more CPUs than it is worth.",
          "a common belief", QUOTA, _counts_the_quota),
    Claim("percent-tells", "Two services whose limits throttle about as many of their periods are slowed "
          "about as much.", "a common reading of dashboards", QUOTA, _percent_tells),
]  # fmt: skip
