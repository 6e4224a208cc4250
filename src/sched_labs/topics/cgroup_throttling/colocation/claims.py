"""What people say about batch jobs beside services, judged on a run."""

from __future__ import annotations

import pandas as pd

from sched_labs.claims.base import FAILS, HOLDS, CannotTell, Claim, Verdict, ns
from sched_labs.claims.helpers import between, count, holds_or_fails, one_row, some, tail_ratio

SLOWER = 1.25  # times, of p99: what two trials of one way may differ by
EITHER = f"The intervals allow either, more than {SLOWER} times or less:"
_WORDS = {
    "alone": "without the job",
    "beside": "beside the job",
    "quota": "a quota for the job",
    "weight": "the least weight for the job's group",
    "SCHED_BATCH": "the job under SCHED_BATCH",
    "SCHED_IDLE": "the job under SCHED_IDLE, in a group of its own",
    "SCHED_IDLE inside": "the job under SCHED_IDLE, in the service's group",
    "cpu.idle": "cpu.idle for the job's group",
    "apart": "one CPU each",
    "apart, quota": "one CPU each, and a quota for the service",
}


def _row(table: pd.DataFrame, way: str) -> pd.Series:
    return one_row(table, f"the way {_WORDS[way]!r}", way=way)


def _p99(row: pd.Series) -> str:
    return f"{ns(row.p99_ns)} ({_WORDS[row.way]}; interval {between(row, 'p99', 'ns')})"


def _had(row: pd.Series) -> str:
    return (
        f"{row.batch_percent:.0f} % of a CPU (interval {between(row, 'batch', 'percent', '{:.0f}'.format)})"
    )


def _harmed(table: pd.DataFrame) -> pd.Series:
    """The row of a batch job that nothing is done to, which has to slow the service."""
    beside, alone = _row(table, "beside"), _row(table, "alone")
    least, most = tail_ratio(beside, alone)
    if least <= SLOWER:
        slowed, rather = ("slowed", ", if at all") if most <= SLOWER else ("may have slowed", "")
        raise CannotTell(
            f"The batch job {slowed} the service by less than {SLOWER} times{rather}: p99 was "
            f"{_p99(beside)} and {_p99(alone)}."
        )
    return beside


def _quicker(row: pd.Series, beside: pd.Series) -> Verdict:
    """Whether the service is quicker by SLOWER at least than beside a job that nothing is done to."""
    least, most = tail_ratio(beside, row)
    reason = f"p99 was {_p99(row)} and {_p99(beside)}."
    unclear = EITHER if most >= SLOWER else f"Quicker, but by less than {SLOWER} times:"
    return holds_or_fails(least > SLOWER, least <= 1 and most < SLOWER, reason, unclear)


def _out_of_the_way(table: pd.DataFrame) -> Verdict:
    """Statistic: ratio of p99, by interval.  Control: the same batch job as an ordinary one.  Design: each in
    a group of its own, as in two containers.  Opponent: between threads of one group it is true; that row is
    beside it.
    """
    beside, idle = _harmed(table), _row(table, "SCHED_IDLE")
    return _quicker(idle, beside)


def _batch_gives_way(table: pd.DataFrame) -> Verdict:
    """Statistic: ratio of p99, by interval.  Control: the same batch job as an ordinary one.  Design: groups
    of equal weight.  Opponent: a batch job that sleeps now and then, which SCHED_BATCH is for.
    """
    beside, batch = _harmed(table), _row(table, "SCHED_BATCH")
    return _quicker(batch, beside)


def _only_a_limit(table: pd.DataFrame) -> Verdict:
    """Statistic: ratio of p99, by interval, of the limited job and of the best of all else that is done to
    it.  Control: a job that nothing is done to.  Design: a limit of half of the CPUs.  Opponent: a smaller
    limit protects more, and costs the job more.
    """
    _harmed(table)
    limited = _row(table, "quota")
    others = table[~table.way.isin(["alone", "beside", "quota", "apart, quota"])]
    others = some(others, "This run did nothing to the job but limit it.")
    best = others.sort_values("p99_hi_ns").iloc[0]
    least, most = tail_ratio(best, limited)
    if most < SLOWER:
        reason = f"p99 was {_p99(limited)} and {_p99(best)}."
        if least > 1:
            raise CannotTell(f"Slower than under the limit, but by less than {SLOWER} times: {reason}")
        return Verdict(FAILS, reason)
    best = others.sort_values("p99_lo_ns").iloc[0]  # for all of them to be slower, this one has to be
    reason = f"p99 was {_p99(limited)} and {_p99(best)}."
    if tail_ratio(best, limited)[0] > SLOWER:
        return Verdict(HOLDS, reason)
    raise CannotTell(f"{EITHER} {reason}")


def _gives_way_gets_less(table: pd.DataFrame) -> Verdict:
    """Statistic: CPU time of the batch job, by interval.  Control: the same job under a limit of half of the
    CPUs.  Design: the service leaves most of them idle.  Opponent: beside a service or other programs that
    need all of them, a job that gives way starves, so that no run shows that it is true.
    """
    limited, idle = _row(table, "quota"), _row(table, "SCHED_IDLE inside")
    reason = f"{_had(limited)} under the limit, {_had(idle)} under SCHED_IDLE in the service's group."
    if limited.batch_hi_percent < idle.batch_lo_percent:
        return Verdict(FAILS, reason)
    if limited.batch_lo_percent > idle.batch_hi_percent:
        raise CannotTell(f"Other programs, or the service, may have needed the CPUs: {reason}")
    raise CannotTell(f"The intervals overlap: {reason}")


def _own_cpu_is_enough(table: pd.DataFrame) -> Verdict:
    """Statistic: throttled periods of the service.  Control: the same CPU without a quota, for its p99.
    Design: one CPU and a quota of one CPU.  Opponent: a service that needs all of its CPU may be throttled
    for a tick, so that no run refutes it.
    """
    limited, free = _row(table, "apart, quota"), _row(table, "apart")
    reason = (
        f"{count(limited.service_throttled_percent)} % of its periods were throttled; p99 was "
        f"{ns(limited.p99_ns)}, and {ns(free.p99_ns)} without the quota. One CPU can use up no more than "
        "that quota."
    )
    if limited.service_throttled_percent != 0:
        raise CannotTell(f"It may have needed all of its CPU for a whole period: {reason}")
    return Verdict(HOLDS, reason)


BATCH = "colocation.batch"
CLAIMS = [
    Claim("idle-out-of-the-way", "A batch job under SCHED_IDLE is less in the way of a service in another "
          "container.", "a common belief", BATCH, _out_of_the_way),
    Claim("batch-gives-way", "SCHED_BATCH makes a batch job give way to others.", "a common belief", BATCH,
          _batch_gives_way),
    Claim("only-a-limit", "Nothing protects a service from a batch job as a CPU limit on the job does.",
          "a common belief", BATCH, _only_a_limit),
    Claim("gives-way-gets-less", "A batch job that gives way gets less CPU time than one with a limit, "
          "even where the service leaves most of the CPUs idle.",
          "a common belief", BATCH, _gives_way_gets_less),
    Claim("own-cpu-quota", "On a CPU of its own a service that leaves much of it idle is not throttled by a "
          "quota of one CPU.",
          "a common belief", BATCH, _own_cpu_is_enough),
]  # fmt: skip
