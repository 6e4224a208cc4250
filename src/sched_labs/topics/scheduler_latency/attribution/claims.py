"""What people say about attribution, judged on a run."""

from __future__ import annotations

from typing import Any

import pandas as pd

from sched_labs.claims.base import LATENCY_COURSE as COURSE
from sched_labs.claims.base import CannotTell, Claim, Verdict
from sched_labs.claims.helpers import above
from sched_labs.core.words import number_text

KIND = "attribution.waits"
FEWEST_WAITS = 30


def _of(table: pd.DataFrame, condition: str) -> pd.DataFrame:
    """The rows of a condition whose waits are attributed, by occupant."""
    rows = table[table["condition"] == condition]
    if rows.empty:
        raise CannotTell(f"This run has no condition {condition.replace('_', ' ')!r}.")
    if not rows["attributed"].all():
        raise CannotTell("Without the BPF probe nobody knows what had the CPU meanwhile.")
    if rows["waits"].iloc[0] < FEWEST_WAITS:
        raise CannotTell(f"{int(rows['waits'].iloc[0])} waits are too few.")
    return rows.set_index("occupied_by")


def _threads_in_the_way(table: pd.DataFrame) -> Verdict:
    """Statistic: share of the waiting time, by the ends of the intervals.  Control: idle and interrupts
    are told apart.  Design: alone, where no thread is in the way.  Opponent: beside rivals it is true.
    """
    rows = _of(table, "alone")
    other = rows.loc[["idle", "interrupt"]]
    shares = [round(100 * float(rows["share"][name]), 1) for name in ("idle", "interrupt")]
    # What a quota, an unseen move or nothing known had is no thread's: it may not let the sentence hold.
    doubtful = rows.loc[["throttled", "migrated", "unattributed"]]
    # The two parts share their trials, so the sum of their intervals is wider than the interval of their sum.
    low, high = (
        1 - min(1.0, pd.concat([other, doubtful])["share_hi"].to_numpy(float).sum()),
        1 - max(0.0, other["share_lo"].to_numpy(float).sum()),
    )
    reason = (
        f"alone, the CPU was idle during {shares[0]:.1f}% of the program's waiting time and in "
        f"interrupts for {shares[1]:.1f}%, which leaves {max(0.0, 100 - sum(shares)):.1f}% to others "
        f"({low:.0%} to {high:.0%} by the ends of the intervals"
        + (
            "; the lower leaves out a used-up quota and what is not known)."
            if doubtful["share"].sum() > 0.0005
            else ")."
        )
    )
    return above(100 * low, 100 * high, 50, reason)


def _kernel_workers(table: pd.DataFrame) -> Verdict:
    """Statistic: share of the waiting time, by interval.  Control: every occupant is counted.  Design: two
    rivals that only compute.  Opponent: with packets or disks kernel threads have more to do.
    """
    row: Any = _of(table, "rival").loc["kernel_thread"]
    share, low, high = (100 * float(part) for part in (row.share, row.share_lo, row.share_hi))
    reason = (
        f"beside rivals that only compute, kernel threads had the CPU during {number_text(share, 2)} % of "
        f"the waiting time (interval {number_text(low, 2)} to {number_text(high, 2)} %)."
    )
    return above(low, high, 50, reason)


CLAIMS = [
    Claim("002-020", "Scheduler latency is time during which other threads have the CPU.", COURSE, KIND,
          _threads_in_the_way),
    Claim("002-061", "Kernel threads of the same priority are what a loaded program waits for.", COURSE, KIND,
          _kernel_workers),
]  # fmt: skip
