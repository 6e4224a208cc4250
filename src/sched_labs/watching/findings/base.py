"""What a finding is, and what all of them ask."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pandas as pd

from ..causes import Causes
from ..seen import Seen

LEAST_MS = 5.0  # of every second: less is not worth a finding
LEAST_SHARE = 0.05  # of what the program wanted

PAGES = {
    "wait": "notebooks/03-scheduler-latency",
    "quota": "notebooks/04-cgroup-throttling",
    "mask": "notebooks/05-pinning",
    "threads": "notebooks/06-switching-less",
    "switch": "notebooks/01-context-switch",
    "cost": "notebooks/02-latency-ladder",
}


@dataclass(frozen=True)
class Finding:
    """One reason.

    name             a word that stays the same: quota, rival, own_threads, mask, realtime, ...
    title            what is the matter, in one sentence
    size_ms_per_s    how much of every second it took, summed over threads; NaN where only a rate is known
    share            that as a part of what the threads wanted (ran or could have run); NaN for no wait
    evidence         the numbers that say so
    instead          what else could look like this, and how to tell
    attempt          the one thing to try
    page             of the book, that explains it
    scheduling       whether it is a wait for a CPU
    """

    name: str
    title: str
    size_ms_per_s: float
    share: float
    evidence: str
    instead: str
    attempt: str
    page: str
    scheduling: bool = True


def share_of(ms: float, seen: Seen, causes: Causes) -> float:
    """A part of what its threads wanted; the waits of those that lived too shortly to be seen count."""
    counted = causes.long_sum + sum(causes.short.values()) if causes.exact else 0.0
    wanted = seen.running + max(seen.waiting, counted)
    return ms / wanted if wanted else math.nan


def how(causes: Causes) -> str:
    return "counted wait by wait" if causes.exact else "estimated from who used the CPUs"


def names(rows: pd.DataFrame) -> str:
    """The names of these threads, at most three of them."""
    names = list(dict.fromkeys(rows["name"]))
    return ", ".join(names[:3]) + (" and others" if len(names) > 3 else "")
