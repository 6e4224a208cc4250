"""What people say about isolation, judged on a run."""

from __future__ import annotations

import pandas as pd

from sched_labs.claims.base import FAILS, CannotTell, Claim, Verdict
from sched_labs.claims.base import LATENCY_COURSE as COURSE


def _kept_off(table: pd.DataFrame) -> Verdict:
    """Statistic: CPU time of the owner, by interval.  Control: the same alone.  Design: an intruder pinned
    to that CPU from outside.  Opponent: an intruder whose group weighs little looks kept off, so that no run
    shows that it is true; a partition is another thing, and is another row.
    """
    by = table.set_index("condition")
    if not {"alone", "outside_pinned"} <= set(by.index):
        raise CannotTell("This run had no cpuset with an intruder from outside.")
    alone, intruded = by.loc["alone"], by.loc["outside_pinned"]
    kept, had = (
        f"{row.cpu_percent:.1f} % (interval {row.cpu_lo_percent:.1f} to {row.cpu_hi_percent:.1f})"
        for row in (alone, intruded)
    )
    reason = (
        f"in a cpuset of its own, no partition, the thread had {had} of its CPU beside an intruder "
        f"pinned to it from outside, and {kept} alone."
    )
    if alone.cpu_percent < 90:
        raise CannotTell(f"Even alone the thread had only {alone.cpu_percent:.0f} % of its CPU.")
    if intruded.cpu_hi_percent < 0.9 * alone.cpu_lo_percent:
        return Verdict(FAILS, reason)
    if intruded.cpu_lo_percent >= 0.9 * alone.cpu_hi_percent:
        raise CannotTell(f"The thread lost a tenth at most: {reason}")
    raise CannotTell(f"The intervals allow either, a tenth less or as much: {reason}")


CLAIMS = [
    Claim("002-070", "On exclusive CPUs, given by a cpuset, nobody else can run.", COURSE, "isolation.cpuset",
          _kept_off),
]  # fmt: skip
