"""What people say about who gets a connection, judged on a run."""

from __future__ import annotations

import pandas as pd

from sched_labs.claims.base import CannotTell, Claim, Verdict, ns
from sched_labs.claims.helpers import between, count, holds_or_fails, one_row, tail_ratio
from sched_labs.core.words import number_text

ONE_WORKER = "There was one worker only."
_WORDS = {
    "exclusive": "one socket and EPOLLEXCLUSIVE",
    "reuseport": "a socket for each (SO_REUSEPORT)",
    "shared": "one epoll instance",
}
EVEN = 1.8  # times what the others have on average: up to here the busiest worker's share is called even


def _row(table: pd.DataFrame, way: str) -> pd.Series:
    return one_row(table, f"workers with {_WORDS[way]}", way=way)


def _busiest(table: pd.DataFrame, way: str) -> tuple[pd.Series, str]:
    row = _row(table, way)
    if row.workers < 2:
        raise CannotTell(ONE_WORKER)
    return row, (
        f"{row.busiest_percent:.0f} % (interval {row.busiest_lo_percent:.0f} to {row.busiest_hi_percent:.0f})"
    )


def _even(table: pd.DataFrame, way: str, other: str) -> Verdict:
    row, share = _busiest(table, way)
    _row(table, other)  # CannotTell without the control
    most = 100 * EVEN / (EVEN + row.workers - 1)
    reason = (
        f"the busiest of {row.workers} workers had {share} of the requests. "
        f"Up to {number_text(most)} % counts as even."
    )
    return holds_or_fails(row.busiest_hi_percent < most, row.busiest_lo_percent > most, reason)


def _exclusive_is_even(table: pd.DataFrame) -> Verdict:
    """Statistic: the busiest worker's share, by interval.  Control: SO_REUSEPORT on the same schedule.
    Design: as given, requests hold workers for little more than half of one worker's time, so that several
    are idle.  Opponent: where all are always busy, whoever is free next takes the next, and shares are even.
    """
    return _even(table, "exclusive", "reuseport")


def _reuseport_is_even(table: pd.DataFrame) -> Verdict:
    """Statistic: the busiest worker's share, by interval.  Control: EPOLLEXCLUSIVE on the same schedule.
    Design: each connection from another port, so that the hash spreads them.  Opponent: few long connections
    are not even by chance, which is another case.
    """
    return _even(table, "reuseport", "exclusive")


def _even_is_quick(table: pd.DataFrame) -> Verdict:
    """Statistic: p99 of quick requests, by interval.  Control: EPOLLEXCLUSIVE, with the same arrivals.
    Design: one request of ten holds its worker while others are idle, and shares are not alike.  Opponent:
    without slow requests nobody stands behind one, and the ways are alike.
    """
    own, one = (_row(table, way) for way in ("reuseport", "exclusive"))
    least, most = tail_ratio(own, one)
    reason = (
        f"one quick request in a hundred took {ns(own.p99_ns)} or more with a socket for each worker, "
        f"{ns(one.p99_ns)} from one socket with EPOLLEXCLUSIVE."
    )
    if own.busiest_hi_percent >= one.busiest_lo_percent:
        shares = " and ".join(between(row, "busiest", "percent", count) for row in (own, one))
        raise CannotTell(
            f"The busiest worker's percentage is not surely smaller with a socket for each ({shares}): "
            f"{reason}"
        )
    unclear = (
        f"The intervals allow either ({count(least)} to {count(most)} times as long with a socket for each):"
    )
    return holds_or_fails(most < 1, least > 1, reason, unclear)


def _shared_wakes_one(table: pd.DataFrame) -> Verdict:
    """Statistic: switches of all workers per request, by interval.  Control: a socket for each, where one
    worker waits for a connection.  Design: level-triggered, as by default.  Opponent: with EPOLLET or
    EPOLLONESHOT it is another case; a worker that finds nothing may go back to sleep without returning, so
    returns do not count it.
    """
    row, one = (_row(table, way) for way in ("shared", "reuseport"))
    if row.workers < 2:
        raise CannotTell(ONE_WORKER)
    reason = (
        f"switches of all workers for each request: {count(row.switches_per_request)} from one epoll "
        f"instance, {count(one.switches_per_request)} with a socket for each."
    )
    ends = " and ".join(between(way, "switches", "per_request", count) for way in (row, one))
    return holds_or_fails(
        row.switches_hi_per_request < one.switches_lo_per_request + 0.5,
        row.switches_lo_per_request > one.switches_hi_per_request + 0.5,
        reason,
        f"The intervals ({ends}) lie on no clear side of half a switch more:",
    )


CLAIMS = [
    Claim("exclusive-even", "EPOLLEXCLUSIVE shares connections out evenly among the workers.",
          "a common belief", "dispatch.ways", _exclusive_is_even),
    Claim("reuseport-even", "SO_REUSEPORT shares connections out evenly among the workers.", "socket(7)",
          "dispatch.ways", _reuseport_is_even),
    Claim("even-quick", "A socket for each worker shares evenly, and so makes the tail shorter.",
          "a common belief", "dispatch.ways", _even_is_quick),
    Claim("shared-one", "In one epoll instance that all workers share, a connection wakes one of them.",
          "read out of epoll(7)", "dispatch.ways", _shared_wakes_one),
]  # fmt: skip
