"""The sleeper among hogs with a feature switch of the scheduler turned: which one makes the difference?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sched_labs.kernels.jobs.sleeper import sleeper_among_hogs

FEATURES = Path("/sys/kernel/debug/sched/features")


def switched(
    feature: str, hogs: int = 3, period_us: int = 2017, wakes: int = 1000, work_us: int = 300
) -> Any:
    """Turn `feature` (on by its name, off as NO_name) in this guest, then run `sleeper_among_hogs`.

    Also returns the switches as the kernel shows them afterwards.  The guest ends with the job.
    """
    FEATURES.write_text(feature)
    return sleeper_among_hogs(hogs, period_us, wakes, work_us) | {"features": FEATURES.read_text().split()}
