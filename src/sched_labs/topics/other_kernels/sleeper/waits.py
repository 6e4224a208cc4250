"""How long each wake-up of the sleeper waited of itself.

It is due at fixed points in time: one that is due while the sleeper is still at the work of an earlier one is
late without a wait of its own.
"""

from __future__ import annotations

import pandas as pd

from sched_labs.core.result import Result


def waits(result: Result) -> pd.Series[float]:
    """ns of each wake-up: from when it was due, or from the end of the work before where that came later.

    Raises KeyError for a run whose data lacks the period and the work.
    """
    data = result.data
    begun = data["wake_index"] * 1000.0 * data["period_us"] + data["late_ns"]
    over = (begun + 1000.0 * data["work_us"]).shift()
    behind = (over - (begun - data["late_ns"])).clip(lower=0).fillna(0)
    return (data["late_ns"] - behind).rename("waited_ns")
