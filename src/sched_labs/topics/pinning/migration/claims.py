"""What people say about migration, judged on a run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from sched_labs.claims.base import FAILS, HOLDS, WEB_COURSE, CannotTell, Claim, Verdict, ns, size
from sched_labs.claims.helpers import between, holds_or_fails
from sched_labs.core.words import number_text

MOVES = "migration.cost"
_NEITHER = "An interval spans half or twice what is said:"
# Resuming elsewhere over resuming at home, as the course says; for the distances that a machine has.
SAID = {"smt_sibling": 2.0, "same_cache": 8.0, "other_cache": 8.0, "other_node": 30.0}
FEW = {"smt_sibling": "the sibling", "same_cache": "another core", "other_cache": "another cache",
       "other_node": "another node", "other_cpu": "another CPU"}  # fmt: skip


def _most(rows: pd.DataFrame, values: pd.Series) -> Any:
    """The row where these values are highest."""
    return rows.iloc[int(np.argmax(values.to_numpy(dtype=float)))]


def _written(table: pd.DataFrame) -> pd.DataFrame:
    """The moves with a set that is written, the smallest set first."""
    rows = table[(table.touch == "writes") & (table.distance != "same_cpu")]
    if rows.empty:
        raise CannotTell("This run moved nothing: no other CPU was there.")
    if rows.flagged.all():
        raise CannotTell("The thread was not moved as often as it was told.")
    return rows.sort_values("working_set_bytes")


def _other_cores(table: pd.DataFrame) -> pd.DataFrame:
    """The same without moves to a sibling, which has the same caches; task_hot() leaves it out, too."""
    rows = _written(table)
    rows = rows[rows.distance != "smt_sibling"]
    if rows.empty:
        raise CannotTell("This run moved to the sibling only, which has the same caches.")
    return rows


def _not_waiting(rows: pd.DataFrame) -> pd.DataFrame:
    """The same, unless the thread mostly waited for a CPU that others had."""
    # To wake an idle CPU takes a part of this, even where a hypervisor has to help.
    waited = rows.wait_ns > 200_000
    if waited.mean() > 0.5:
        raise CannotTell(f"On arrival the thread waited {ns(rows.wait_ns.median())} for the CPU.")
    return rows[~waited]


def _deciding(rows: pd.DataFrame, stem: str, unit: str, fails: bool) -> list[Any]:
    """The rows that decide, one of them where both are the same set: those that lie lowest and highest with
    their whole interval where the sentence fails, those whose interval reaches farthest where it does not.
    """
    down, up = ("hi", "lo") if fails else ("lo", "hi")
    least = _most(rows, -rows[f"{stem}_{down}_{unit}"])
    most = _most(rows, rows[f"{stem}_{up}_{unit}"])
    return [least] if least.working_set_bytes == most.working_set_bytes else [least, most]


def _ratios(table: pd.DataFrame) -> Verdict:
    """Statistic: time to resume over that at home, within a factor of two.  Control: a stay.  Design:
    every set and distance that there is; forced moves.  Opponent: the sentence names no working set.
    """
    rows = _not_waiting(_written(table))
    rows = rows[rows.distance.isin(list(SAID))]
    if rows.empty:
        raise CannotTell("This machine does not tell how far apart its CPUs are.")
    said = rows.distance.map(SAID)
    inside = (rows.resume_lo_ratio >= said / 2) & (rows.resume_hi_ratio <= 2 * said)
    outside = (rows.resume_hi_ratio < said / 2) | (rows.resume_lo_ratio > 2 * said)
    parts = []
    for far in dict.fromkeys(rows.distance):
        here = rows.distance == far
        parts.append(
            f"{FEW[far]}, said {SAID[far]:.0f}: "
            + " and ".join(
                f"{r.resume_ratio:.3g} times (interval {number_text(r.resume_lo_ratio)} to "
                f"{number_text(r.resume_hi_ratio)}) with {size(r.working_set_bytes)}"
                for r in _deciding(rows[here], "resume", "ratio", outside[here].any())
            )
        )
    reason = f"to {'; '.join(parts)}."
    return holds_or_fails(inside.all(), outside.any(), reason, _NEITHER)


def _cold(table: pd.DataFrame) -> Verdict:
    """Statistic: what the first walk takes more, against a tenth of a walk.  Control: a stay, and its
    floor.  Design: random order, written data.  Opponent: a set that no cache held has nothing to lose.
    """
    rows = _other_cores(table)
    most = _most(rows, rows.warmup_ns / rows.stay_ns)
    reason = (
        f"the first walk over {size(most.working_set_bytes)} takes {ns(most.warmup_ns)} more after a move "
        f"(interval {between(most, 'warmup', 'ns')}) than the {ns(most.stay_ns)} without one."
    )
    if most.warmup_lo_ns > most.floor_ns and most.warmup_lo_ns > 0.1 * most.stay_ns:
        return Verdict(HOLDS, reason)
    if (rows.warmup_hi_ns < 0.1 * rows.stay_ns).all():
        return Verdict(FAILS, reason)
    raise CannotTell(f"Neither clearly cold nor clearly warm: {reason}")


def _half_a_millisecond(table: pd.DataFrame) -> Verdict:
    """Statistic: what the data cost after a move, within a factor of two, for every working set, to the
    nearest other core.  Control: walks after a stay.  Design: the move is forced, and that part of its price
    is left out, for the kernel's number is about caches (task_hot) and the balancer moves threads that wait.
    Opponent: a walk that waits for each line is the dearest way to fetch them.
    """
    rows = _not_waiting(_other_cores(table))
    nearest = next(far for far in FEW if (rows.distance == far).any())
    rows = rows[rows.distance == nearest]
    fails = bool(((rows.warmup_hi_ns < 250_000) | (rows.warmup_lo_ns > 1_000_000)).any())
    said = " and ".join(
        f"{ns(row.warmup_ns)} (interval {between(row, 'warmup', 'ns')}) with {size(row.working_set_bytes)}"
        for row in _deciding(rows, "warmup", "ns", fails)
    )
    reason = f"to {FEW[nearest]} the data cost {said}."
    inside = (rows.warmup_lo_ns >= 250_000) & (rows.warmup_hi_ns <= 1_000_000)
    return holds_or_fails(inside.all(), fails, reason, _NEITHER)


CLAIMS = [
    Claim("000-116", "Resuming on the SMT sibling costs 2 times, on another core 8 times, on another socket "
          "30 times as much as on the same core.", WEB_COURSE, MOVES, _ratios),
    Claim("000-087-move", "Pinning keeps caches warm, because a thread that is moved finds them cold.",
          WEB_COURSE, MOVES, _cold),
    Claim("migration-cost", "After a move a thread's data cost half a millisecond, whatever its working set.",
          "what Linux assumes by default (sysctl_sched_migration_cost, kernel/sched/fair.c)", MOVES,
          _half_a_millisecond),
]  # fmt: skip
