"""What people say about nice values and weights, judged on a run."""

from __future__ import annotations

import pandas as pd

from sched_labs.claims.base import CannotTell, Claim, Verdict
from sched_labs.claims.helpers import holds_or_fails, one_row, within

LITTLE, MUCH = 15, 40  # percent of what two hogs have: out of the way; no less than if nothing were said
TRADITION = "advice as old as nice(1)"


def _had(table: pd.DataFrame, arrangement: str) -> tuple[pd.Series, str]:
    row = one_row(table, f"two hogs: {arrangement}", arrangement=arrangement)
    if row.pair_percent < 50:
        raise CannotTell(f"Other programs had {100 - row.pair_percent:.0f} % of that CPU.")
    return row, (
        f"{row.second_percent:.2f} % (interval {row.second_lo_percent:.2f} to {row.second_hi_percent:.2f})"
    )


def _nice_counts(table: pd.DataFrame) -> str:
    """What the second had where both stood in one session: the control of everything else."""
    row, share = _had(table, "one session")
    if row.second_hi_percent > LITTLE:
        raise CannotTell(f"Even in one session the second hog had {share}.")
    return f"In one session a hog of nice 10 had {share} beside one of nice 0"


def _even(table: pd.DataFrame, arrangement: str) -> str:
    """What the second had where it weighs as much as the first: the control of every unequal share."""
    row, share = _had(table, arrangement)
    if not 45 < row.second_lo_percent <= row.second_hi_percent < 55:
        raise CannotTell(f"Two hogs of equal weight ({arrangement}) shared unevenly: the second had {share}.")
    return share


def _out_of_the_way(table: pd.DataFrame, arrangement: str, words: str) -> Verdict:
    control = _nice_counts(table)
    row, share = _had(table, arrangement)
    reason = f"{control}; {words} it had {share}."
    return holds_or_fails(row.second_hi_percent < LITTLE, row.second_lo_percent > MUCH, reason)


def _nice_in_any_terminal(table: pd.DataFrame) -> Verdict:
    """Statistic: the second hog's share of what the two had, by interval.  Control: both in one session.
    Design: setsid(), as a terminal calls it; the nice value is the process's own.  Opponent: without
    autogroup a session is no group, and the sentence is true there; within a control group it is none
    either, but another terminal may stand in another control group, which a session alone cannot show.
    """
    row = one_row(table, "two hogs: two sessions", arrangement="two sessions")
    if row.task_groups < 2 and row.task_group == "its control group":
        raise CannotTell(
            "This program stands in a control group, in which sessions are no task groups; whether every "
            "terminal stands in the same one was not tried."
        )
    return _out_of_the_way(table, "two sessions", "in a session of its own")


def _nice_in_a_group(table: pd.DataFrame) -> Verdict:
    """Statistic: the second hog's share, by interval.  Control: both in one session.  Design: two control
    groups with the cpu controller, of one weight.  Opponent: v2 without that controller makes no task group.
    """
    return _out_of_the_way(table, "two groups", "in a control group of its own")


def _autogroup_nice(table: pd.DataFrame) -> Verdict:
    """Statistic: the second hog's share, by interval.  Control: its own nice value in a session of its own.
    Design: the same two sessions.  Opponent: where sessions are no task groups, the file has no effect, and
    this machine cannot tell.
    """
    row, share = _had(table, "two sessions, autogroup")
    plain, before = _had(table, "two sessions")
    if row.task_groups < 2:
        raise CannotTell("Sessions are no task groups here: the kernel makes none of them.")
    reason = (
        f"with nice 10 for its session the second hog had {share}; with a nice value of its own, {before}."
    )
    return holds_or_fails(row.second_hi_percent < min(LITTLE, plain.second_lo_percent),
                          row.second_lo_percent > MUCH, reason)  # fmt: skip


def _as_the_weights(table: pd.DataFrame) -> Verdict:
    """Statistic: the second hog's share, by interval.  Control: two groups of one weight, which must have the
    same.  Design: 100 and 25, one thread in each, one CPU, always runnable.  Opponent: on several CPUs a
    weight is divided first; three points are allowed for turns that are cut off by the end.
    """
    row, share = _had(table, "two groups, weight")
    before = _even(table, "two groups")
    due = row.by_groups_percent
    reason = (
        f"with a quarter of the weight the second group had {share}, where {due:.1f} is due; with the same "
        f"weight, {before}."
    )
    return within(row.second_lo_percent, row.second_hi_percent, due - 3, due + 3, reason)


def _weight_on_each_cpu(table: pd.DataFrame) -> Verdict:
    """Statistic: the second hog's share, by interval.  Control: two hogs alike, which must have the same.
    Design: its group has one more hog, pinned to another CPU.  Opponent: averages settle for 200 ms before
    anything counts.
    """
    row, share = _had(table, "two sessions, spread")
    if row.task_groups < 2:
        raise CannotTell("Sessions are no task groups here, and so nothing is divided.")
    alike = _even(table, "alike")
    reason = (
        f"a hog whose session has another hog on another CPU had {share} of what it and its rival had; of "
        f"two alike in one session the second had {alike}."
    )
    return holds_or_fails(row.second_lo_percent > 42, row.second_hi_percent < 42, reason)


CLAIMS = [
    Claim("nice-terminal", "A job with nice 10 stays out of the way, in whichever terminal it was started.",
          TRADITION, "weights.pairs", _nice_in_any_terminal),
    Claim("nice-container", "A process with nice 10 stays out of the way of other control groups.",
          TRADITION, "weights.pairs", _nice_in_a_group),
    Claim("autogroup-nice", "Between sessions the nice value in /proc/PID/autogroup counts.", "sched(7)",
          "weights.pairs", _autogroup_nice),
    Claim("cgroup-weights", "Two control groups that are busy on one CPU divide it as their weights are.",
          "Documentation/admin-guide/cgroup-v2.rst", "weights.pairs", _as_the_weights),
    Claim("weight-per-cpu", "A group has its whole weight on every CPU on which it runs.", "a common belief",
          "weights.pairs", _weight_on_each_cpu),
]  # fmt: skip
