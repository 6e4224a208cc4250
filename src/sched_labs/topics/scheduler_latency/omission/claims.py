"""What people say about omission, judged on a run."""

from __future__ import annotations

import math

import pandas as pd

from sched_labs.claims.base import FAILS, HOLDS, CannotTell, Claim, Verdict, ns
from sched_labs.claims.base import LATENCY_COURSE as COURSE
from sched_labs.claims.helpers import between, one_row, tail_ratio, within


def _clients(table: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    return one_row(table, "a closed client", client="closed"), one_row(table, "an open client", client="open")


def _clients_agree(table: pd.DataFrame) -> Verdict:
    """Statistic: ratio of p99, by interval.  Control: another server with the same work and stall.  Design:
    one stall in a trial of two seconds at most.  Opponent: a rate so low that no request falls into it.
    """
    closed, open_ = _clients(table)
    least, most = tail_ratio(open_, closed)
    reason = (
        f"of the same stall the client that waits reports a p99 of {ns(closed.p99_ns)} (interval "
        f"{between(closed, 'p99', 'ns')}), the one that keeps to its schedule {ns(open_.p99_ns)} "
        f"({between(open_, 'p99', 'ns')})."
    )
    return within(least, most, 0, 2, reason)


def _misses_the_run_delay(table: pd.DataFrame) -> Verdict:
    """Statistic: sum of waiting that one client did not see.  Control: the server's own run delay.
    Design: a stall that sleeps, which is no run delay.  Opponent: where the stall is a queue the two
    may agree.
    """
    closed, open_ = _clients(table)
    if math.isnan(open_.run_delay_ns):
        raise CannotTell("This kernel keeps no run delay for threads.")
    missed = open_.waited_ns - closed.waited_ns
    reason = (
        f"in a trial the client that waits missed {ns(missed)} of waiting in sum; the server's run delay was "
        f"{ns(open_.run_delay_ns)} by schedstat (which sees nothing of a stall that sleeps, and hardly "
        "anything of a wake-up on an idle CPU)."
    )
    if missed > 5 * open_.run_delay_ns or open_.run_delay_ns > 5 * abs(missed):
        return Verdict(FAILS, reason)
    if 0.8 <= missed / open_.run_delay_ns <= 1.25:
        return Verdict(HOLDS, reason)
    raise CannotTell(f"Neither alike nor five times apart: {reason}")


CLAIMS = [
    Claim("L46", "A client that waits for its answers sees the tail that users see.",
          "how many load generators work", "omission.compared", _clients_agree),
    Claim("002-116", "A measurement inside the application misses exactly the scheduler latency.", COURSE,
          "omission.compared", _misses_the_run_delay),
]  # fmt: skip
