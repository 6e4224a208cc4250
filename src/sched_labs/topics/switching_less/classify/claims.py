"""What people say about classify, judged on a run."""

from __future__ import annotations

import pandas as pd

from sched_labs.claims.base import FAILS, HOLDS, WEB_COURSE, CannotTell, Claim, Verdict
from sched_labs.probes import status as switches


def _ratio_tells(table: pd.DataFrame) -> Verdict:
    """Statistic: counts of both kinds of each process.  Control: what each was built to be.  Design: five
    processes, one that yields among them.  Opponent: a pool is another claim's subject.
    """
    wrong = []
    judged = table[table.truth != switches.POOL]  # another claim's subject
    for _, one in judged.iterrows():
        voluntary, involuntary = one.voluntary_per_s, one.involuntary_per_s
        guess = switches.IO_BOUND if voluntary > 10 * involuntary else switches.BOTH
        guess = switches.CONTENDED if involuntary > 10 * voluntary else guess
        if guess != one.truth:
            wrong.append(f"{one.process} looks {guess} and is {one.truth}")
    if len(table) < 4:
        raise CannotTell("This run watched too few processes.")
    said = "; ".join(wrong) if wrong else f"all {len(judged)} processes as they are"
    return Verdict(FAILS if wrong else HOLDS, f"By a ratio of more than ten alone: {said}.")


def _leader_is_enough(table: pd.DataFrame) -> Verdict:
    """Statistic: the leader's part of the switches.  Control: all threads.  Design: a pool whose leader
    waits.  Opponent: a program whose leader works.
    """
    many = table[(table.threads > 1) & (table.voluntary_per_s + table.involuntary_per_s > 10)]
    if many.empty:
        raise CannotTell("This run watched no process of several threads that switch.")
    leaders = many.leader_voluntary_per_s + many.leader_involuntary_per_s
    share = leaders / (many.voluntary_per_s + many.involuntary_per_s)
    least = many.assign(share=share).sort_values("share").iloc[0]
    part = f"{least.share:.0%} of the switches of its {least.threads} threads"
    reason = f"The leader of {least.process} makes {part}."
    return Verdict(FAILS if share.min() < 0.9 else HOLDS, reason)


PROCESSES = "classify.processes"
CLAIMS = [
    Claim("000-105", "Many voluntary switches and few others mean I/O-bound, the reverse CPU-bound and "
          "preempted, both high means both.", WEB_COURSE, PROCESSES, _ratio_tells),
    Claim("000-104", "pidstat -w shows how often a process is switched.", WEB_COURSE, PROCESSES,
          _leader_is_enough),
]  # fmt: skip
