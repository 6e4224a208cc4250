"""What people say about observer, judged on a run."""

from __future__ import annotations

from typing import Any

import pandas as pd

from sched_labs.claims.base import FAILS, HOLDS, WEB_COURSE, CannotTell, Claim, Verdict, ns
from sched_labs.claims.base import LATENCY_COURSE as COURSE
from sched_labs.claims.helpers import holds_or_fails, some
from sched_labs.core.words import count_text, number_text

ALIKE = 2  # percentage points: a cost that differs by less from rate to rate is told as one


def _observer(table: pd.DataFrame, name: str) -> pd.Series[Any]:
    rows = some(table[table["observer"] == name], f"This run has no {name}.")
    return rows.iloc[0]


def _below_one_percent(table: pd.DataFrame) -> Verdict:
    """Statistic: ratio of the time a switch takes, by interval.  Control: the same without an observer, in
    turns.  Design: a program that only switches: the worst case.  Opponent: a program that seldom
    switches pays less.
    """
    row = _observer(table, "runqlat")
    reason = (
        f"runqlat made a switch take {row['ratio']:.2f} times as long (interval {row['ratio_lo']:.2f} to "
        f"{row['ratio_hi']:.2f}) for a program that only switches."
    )
    return holds_or_fails(row["ratio_hi"] < 1.01, row["ratio_lo"] > 1.01, reason, "The interval spans 1 %:")


def _recording_is_dearer(table: pd.DataFrame) -> Verdict:
    """Statistic: time added to a switch, by interval.  Control: no observer, in turns.  Design: the same
    program for both.  Opponent: a recorder may be told to keep less.
    """
    if not (table["observer"] == "perf").any():
        raise CannotTell("This run has no perf; observer.cost() watches with it, too, where it is installed.")
    perf, count = _observer(table, "perf"), _observer(table, "runqlat")
    reason = (
        f"perf sched record adds {ns(perf['added_ns'])} to a switch (interval {ns(perf['added_lo_ns'])} to "
        f"{ns(perf['added_hi_ns'])}), runqlat {ns(count['added_ns'])} (interval "
        f"{ns(count['added_lo_ns'])} to {ns(count['added_hi_ns'])})."
    )
    if perf["added_lo_ns"] > count["added_hi_ns"]:
        return Verdict(HOLDS, reason)
    if perf["added_hi_ns"] < count["added_lo_ns"]:
        return Verdict(FAILS, reason)
    raise CannotTell(f"The intervals overlap: {reason}")


def _slower(row: pd.Series) -> str:
    if row["slower_lo_percent"] > 0:
        return f"{number_text(row['slower_percent'])} % slower"
    return "not measurably slower"


def _between(row: pd.Series) -> str:
    return f"{number_text(row['slower_lo_percent'])} to {number_text(row['slower_hi_percent'])}"


def _cost_is_the_tools_alone(table: pd.DataFrame) -> Verdict:
    """Statistic: CPU time a round, at two rates.  Control: no observer at the same rate.  Design: CPU
    time, so that other programs do not count.  Opponent: rates five times apart at least; intervals that
    overlap because they are wide show no cost alike, and a cost below nothing is what else differed
    between the blocks: a cost at the other rate has to be more than that.
    """
    rows = table[table["observer"] == "runqlat"].sort_values("switches_per_s")
    if len(rows) < 2:
        raise CannotTell("This run has runqlat at fewer than two rates.")
    seldom, often = rows.iloc[0], rows.iloc[-1]
    if often["switches_per_s"] < 5 * seldom["switches_per_s"]:
        raise CannotTell("The rates of this run are too much alike.")
    reason = (
        f"runqlat made two threads {_slower(seldom)} at {count_text(seldom['switches_per_s'])} switches a "
        f"second (interval {_between(seldom)} %), {_slower(often)} at {count_text(often['switches_per_s'])} "
        f"({_between(often)} %)."
    )
    ends = ["slower_lo_percent", "slower_hi_percent"]
    (seldom_lo, seldom_hi), (often_lo, often_hi) = seldom[ends], often[ends]
    noise = max((-low for low, high in ((seldom_lo, seldom_hi), (often_lo, often_hi)) if high < 0), default=0)
    if often_lo > max(seldom_hi, noise) or seldom_lo > max(often_hi, noise):
        return Verdict(FAILS, reason)
    if max(often_hi - seldom_lo, seldom_hi - often_lo) < ALIKE:
        return Verdict(HOLDS, reason)
    if noise:
        raise CannotTell(f"No tool makes threads faster; something else differed by as much: {reason}")
    raise CannotTell(f"The intervals overlap: {reason}")


CLAIMS = [
    Claim("002-036", "runqlat costs less than one per cent.", COURSE, "observer.cost", _below_one_percent),
    Claim("000-108", "Recording every switch with perf sched costs more than counting waits in the kernel.",
          WEB_COURSE, "observer.cost", _recording_is_dearer),
    Claim("L24", "What runqlat costs is so and so many per cent, whatever the program does.",
          "how the cost of tracing is often told", "observer.rates", _cost_is_the_tools_alone),
]  # fmt: skip
