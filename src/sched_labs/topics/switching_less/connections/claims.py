"""What people say about connections, judged on a run."""

from __future__ import annotations

import pandas as pd

from sched_labs.claims.base import FAILS, HOLDS, WEB_COURSE, CannotTell, Claim, Verdict, ns
from sched_labs.claims.helpers import count, holds_or_fails, some

MANY = 10_000  # connections: of fewer the sentence does not speak
NEARLY = 0.8  # wake-ups for each message: from here on they are called one
BUSY = 0.5  # of a CPU: a loop that never uses as much was not under load
FEW = 0.1  # switches for each item: nothing that happens at every item


def _at(row: pd.Series) -> str:
    return f"{int(row.connections):,} connections, {int(row.rate_per_s):,} requests/s"


def _loop_pays_nothing(table: pd.DataFrame) -> Verdict:
    """Statistic: switches a request, by interval.  Control: a thread for each connection.  Design: rates
    from idle to busy.  Opponent: a loop that never idles pays almost none.
    """
    loop = some(table[table["by"] == "loop"], "This run did not measure the event loop.")
    most = loop.sort_values("switches_per_request").iloc[-1]
    widest = loop.sort_values("switches_hi_per_request").iloc[-1]
    reason = (
        f"up to {most.switches_per_request:.2f} switches a request ({_at(most)}; interval "
        f"{most.switches_lo_per_request:.2f} to {most.switches_hi_per_request:.2f})."
    )
    return holds_or_fails(
        (loop.switches_hi_per_request < FEW).all(),
        (loop.switches_lo_per_request > 0.5).any(),
        reason,
        f"An interval, {widest.switches_lo_per_request:.2f} to {widest.switches_hi_per_request:.2f} "
        f"({_at(widest)}), is not clearly below {FEW:g}, and none is clearly above 0.5:",
    )


def _one_wake_a_message(table: pd.DataFrame) -> Verdict:
    """Statistic: voluntary switches a request, by interval: the loop had slept.  Control: the rate.  Design:
    rates from idle to busy, or else the sentence can only fail.  Opponent: at a low rate it is true.
    """
    loop = table[table["by"] == "loop"]
    if loop.empty:
        raise CannotTell("This run did not measure the event loop.")
    shares = loop[["voluntary_share", "voluntary_lo_share", "voluntary_hi_share"]].fillna(1)  # of no switches
    loop = loop.assign(
        wakeups=loop.switches_per_request * shares.voluntary_share,
        wakeups_lo=loop.switches_lo_per_request * shares.voluntary_lo_share,
        wakeups_hi=loop.switches_hi_per_request * shares.voluntary_hi_share,
    )
    least = loop.sort_values("wakeups_hi").iloc[0]
    lowest = loop.sort_values("wakeups_lo").iloc[0]
    reason = f"{least.wakeups:.2f} wake-ups a request at {_at(least)}."
    each, busy = (loop.wakeups_lo >= NEARLY).all(), (loop.cpu_ns_per_request * loop.rate_per_s).max() / 1e9
    if each and busy < BUSY:
        raise CannotTell(f"The loop was not under load: it used {busy:.0%} of its CPU at the most. {reason}")
    return holds_or_fails(
        each,
        least.wakeups_hi < NEARLY,
        reason,
        f"An interval, {lowest.wakeups_lo:.2f} to {lowest.wakeups_hi:.2f} ({_at(lowest)}), spans "
        f"{NEARLY:g}, and none is clearly below it:",
    )


def _hundred_to_one(table: pd.DataFrame) -> Verdict:
    """Statistic: share of voluntary switches, by interval.  Control: both counted.  Design: rates from
    idle to busy.  Opponent: a loop beside hogs is preempted more.
    """
    loop = table[(table["by"] == "loop") & table["voluntary_share"].notna()]
    if loop.empty:
        raise CannotTell("This run counted no switches of the event loop.")
    least = loop.sort_values("voluntary_share").iloc[0]
    lowest = loop.sort_values("voluntary_lo_share").iloc[0]
    reason = (
        f"At the least, {least.voluntary_share:.1%} of the loop's switches are voluntary in the median "
        f"({_at(least)})."
    )
    return holds_or_fails(
        (loop.voluntary_lo_share >= 0.99).all(),
        (loop.voluntary_hi_share < 0.99).any(),
        reason,
        f"An interval spans 99 %, from {lowest.voluntary_lo_share:.2%} on ({_at(lowest)}):",
    )


def _loop_is_cheaper(table: pd.DataFrame) -> Verdict:
    """Statistic: CPU time a request, by interval, at every point.  Control: threads for the same.  Design:
    requests that compute nothing.  Opponent: work in a request hides the difference.
    """
    pairs = table[table["by"] == "loop"].merge(
        table[table["by"] == "threads"], on=["connections", "rate_per_s"], suffixes=("_loop", "_threads")
    )
    if pairs.empty:
        raise CannotTell("This run measured no point both ways.")
    pairs = pairs.sort_values("cpu_ns_per_request_loop")
    cheaper = pairs.cpu_ns_hi_per_request_loop < pairs.cpu_ns_lo_per_request_threads
    dearer = pairs.cpu_ns_lo_per_request_loop > pairs.cpu_ns_hi_per_request_threads
    if cheaper.all():
        return Verdict(HOLDS, f"CPU time a request, loop and threads: {_both(pairs)}.")
    if dearer.any():
        return Verdict(FAILS, f"CPU time a request, loop and threads: {_both(pairs[dearer])}.")
    overlap = f"CPU time a request, loop and threads, at points where they do: {_both(pairs[~cheaper])}."
    raise CannotTell(f"The intervals overlap somewhere. {overlap}")


def _both(pairs: pd.DataFrame) -> str:
    """The first of these points and the last, with the intervals of both servers."""
    said = []
    for _, one in pairs.iloc[sorted({0, len(pairs) - 1})].iterrows():
        loop, threads = (
            f"{ns(one[f'cpu_ns_per_request_{by}'])} ({ns(one[f'cpu_ns_lo_per_request_{by}'])} to "
            f"{ns(one[f'cpu_ns_hi_per_request_{by}'])})"
            for by in ("loop", "threads")
        )
        said.append(f"{loop} and {threads} at {_at(one)}")
    return "; ".join(said)


def _threads_use_more_than_requests(table: pd.DataFrame) -> Verdict:
    """Statistic: CPU time a request, of a thread for each connection beyond an event loop's for the same.
    Control: the loop, which serves the same requests with one thread.
    Design: so many connections as this run had, and requests that compute nothing: that favours the sentence.
    Opponent: the loop's requests are not free of overhead either, so that what they need is less than its
    time.
    """
    pairs = table[table["by"] == "loop"].merge(
        table[table["by"] == "threads"], on=["connections", "rate_per_s"], suffixes=("_loop", "_threads")
    )
    if pairs.empty or pairs.connections.max() < MANY:
        raise CannotTell(f"This run measured no point with {MANY:,} connections both ways.")
    pairs = pairs[pairs.connections == pairs.connections.max()]
    said = "; ".join(
        f"{ns(one.cpu_ns_per_request_threads)} a request, {ns(one.cpu_ns_per_request_loop)} by one thread at "
        f"{int(one.connections):,} connections, {int(one.rate_per_s):,} requests/s"
        for one in pairs.itertuples()
    )
    reason = f"CPU time with a thread for each connection: {said}."
    if (pairs.cpu_ns_lo_per_request_threads > 2 * pairs.cpu_ns_hi_per_request_loop).all():
        return Verdict(HOLDS, reason)
    if (pairs.cpu_ns_hi_per_request_threads < 2 * pairs.cpu_ns_lo_per_request_loop).all():
        return Verdict(FAILS, reason)
    least = (pairs.cpu_ns_lo_per_request_threads / pairs.cpu_ns_hi_per_request_loop).min()
    most = (pairs.cpu_ns_hi_per_request_threads / pairs.cpu_ns_lo_per_request_loop).max()
    unclear = "It depends on the rate, or the intervals span twice as much"
    raise CannotTell(f"{unclear} ({count(least)} to {count(most)} times): {reason}")


CLAIMS = [
    Claim("000-095", "Ten thousand threads use more CPU than the requests that they serve.", WEB_COURSE,
          "connections.sweep", _threads_use_more_than_requests),
    Claim("000-089", "An event loop pays no switches.", WEB_COURSE, "connections.sweep", _loop_pays_nothing),
    Claim("000-084", "The kernel wakes an event loop once for every message.", WEB_COURSE,
          "connections.sweep", _one_wake_a_message),
    Claim("000-098", "An event loop makes a hundred voluntary switches for each involuntary one.", WEB_COURSE,
          "connections.sweep", _hundred_to_one),
    Claim("loop", "An event loop needs less CPU time for a request than a thread for each connection.",
          "advice in many places", "connections.sweep", _loop_is_cheaper),
]  # fmt: skip
