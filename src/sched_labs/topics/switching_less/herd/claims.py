"""What people say about herd, judged on a run."""

from __future__ import annotations

import pandas as pd

from sched_labs.claims.base import WEB_COURSE, CannotTell, Claim, Verdict
from sched_labs.claims.helpers import between, count, holds_or_fails, one_row

_WORDS = {"exclusive": "with the flag", "own": "without the flag, each with a source of its own"}


def _woken(table: pd.DataFrame, by: str) -> tuple[pd.Series, str]:
    way = one_row(table, f"threads {_WORDS[by]}", by=by)
    said = f"{way.threads} threads {_WORDS[by]}: {count(way.switches_per_event)}"
    return way, f"Switches for each event among {said}. Up to two count as one woken thread."


def _spans(way: pd.Series) -> str:
    return f"The interval spans two switches ({between(way, 'switches', 'per_event', count)}):"


def _flag_wakes_one(table: pd.DataFrame) -> Verdict:
    """Statistic: switches an event, by interval.  Control: the same without the flag.  Design: several
    threads on one descriptor.  Opponent: two are allowed, for one that comes too late.
    """
    way, reason = _woken(table, "exclusive")
    if way.threads < 3:
        raise CannotTell(f"Too few threads to tell. {reason}")
    return holds_or_fails(way.switches_hi_per_event <= 2, way.switches_lo_per_event > 2, reason, _spans(way))


def _flag_helps_connections(table: pd.DataFrame) -> Verdict:
    """Statistic: switches an event without the flag.  Control: a shared descriptor.  Design: connections
    of their own, where one waits: more switches have a cause that no flag takes away, and the sentence can
    only fail.  Opponent: a descriptor that is shared is another case.
    """
    way, reason = _woken(table, "own")
    if way.threads < 3:
        raise CannotTell(f"Too few threads to tell. {reason}")
    ends = between(way, "switches", "per_event", count)
    unclear = f"Not surely up to two ({ends}), and with one waiter for each source more have another cause:"
    return holds_or_fails(False, way.switches_hi_per_event <= 2, reason, unclear)


CLAIMS = [
    Claim("exclusive", "With EPOLLEXCLUSIVE one event wakes one of those who wait for it.",
          "read out of epoll_ctl(2), which says 'one or more'", "herd.wakeups", _flag_wakes_one),
    Claim("000-086", "EPOLLEXCLUSIVE saves threads that each wait for their own connections from needless "
          "wake-ups.", WEB_COURSE, "herd.wakeups", _flag_helps_connections),
]  # fmt: skip
