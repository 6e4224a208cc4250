"""What people say about switchgraph, judged on a run."""

from __future__ import annotations

import pandas as pd

from sched_labs.claims.base import FAILS, HOLDS, CannotTell, Claim, Verdict


def _never_switched_out(table: pd.DataFrame) -> Verdict:
    """Statistic: how often hogs left their CPU, counted by the probe.  Control: whether they could have
    gone on.  Design: they share a CPU with others.  Opponent: alone on a CPU only a tick's work would
    do it.
    """
    hogs = table[table["thread"].str.startswith("hog")]
    left, preempted = int(hogs["left"].sum()), int(hogs["preempted"].sum())
    if hogs.empty:
        raise CannotTell("This run had no thread that never sleeps.")
    reason = (
        f"threads that never sleep left their CPU {left} times, {preempted} times although they could go on."
    )
    if 0 < left < 10:
        raise CannotTell(f"Too few: {reason}")
    return Verdict(FAILS if left else HOLDS, reason)


CLAIMS = [
    Claim("L21", "A thread that never sleeps is never switched out.", "a common belief", "switchgraph.window",
          _never_switched_out),
]  # fmt: skip
