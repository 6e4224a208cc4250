"""What people say about nice values, judged on a run."""

from __future__ import annotations

import pandas as pd

from sched_labs.claims.base import Claim, Verdict
from sched_labs.claims.helpers import one_row, within


def _a_quarter(table: pd.DataFrame) -> Verdict:
    five = one_row(table, "a thread at nice 5", nice=5)
    reason = (
        f"It gets {five.share_percent:.0f} % (interval {five.share_lo_percent:.0f} to "
        f"{five.share_hi_percent:.0f} %)."
    )
    return within(five.share_lo_percent, five.share_hi_percent, 20, 30, reason)


CLAIMS = [
    Claim("nice-quarter", "Beside one at nice 0, a thread at nice 5 gets a quarter of the CPU.",
          "sched(7): a factor of 1.25 for each unit of difference", "two_hogs.shares", _a_quarter),
]  # fmt: skip
