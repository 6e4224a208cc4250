"""What people say about offcpu, judged on a run."""

from __future__ import annotations

import pandas as pd

from sched_labs.claims.base import LATENCY_COURSE, CannotTell, Claim, Verdict
from sched_labs.claims.helpers import above


def _state_2_is_runnable(table: pd.DataFrame) -> Verdict:
    """Statistic: time off the CPU, by state, of two hogs.  Control: a parent that is known to sleep in
    that state.  Design: hogs never sleep.  Opponent: another tool may number its states otherwise.
    """
    hogs = table[table["role"].isin(["hog", "rival"])]
    runnable, deep = (
        float(hogs.loc[hogs["state"] == state, "off_cpu_ns"].sum())
        for state in ("runnable", "uninterruptible")
    )
    parent = table[(table["role"] == "parent") & (table["state"] == "uninterruptible")]["off_cpu_ns"].sum()
    reason = (
        f"two threads that only waited for a CPU did so for {runnable / 1e9:.2f} s in state 0 and for "
        f"{deep / 1e9:.2f} s in state 2, in which another waited {parent / 1e9:.2f} s for a process."
    )
    if max(runnable, deep) < 1e6:
        raise CannotTell(f"They hardly waited: {reason}")
    share = deep / (runnable + deep)
    return above(share, share, 0.5, reason)


CLAIMS = [
    Claim("L23", "offcputime --state 2 selects the threads that wait for a CPU.", LATENCY_COURSE,
          "offcpu.stacks", _state_2_is_runnable),
]  # fmt: skip
