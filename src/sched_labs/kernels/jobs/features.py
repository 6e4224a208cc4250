"""The sleeper among hogs with a feature switch of the scheduler turned: which one makes the difference?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...topics.other_kernels.sleeper.experiment import among_hogs

FEATURES = Path("/sys/kernel/debug/sched/features")


def switched(feature: str, **parameters: Any) -> dict[str, Any]:
    """Turn `feature` (on by its name, off as NO_name) in this guest, then run the experiment.

    Returns late_ns of each wake-up, and the switches as the kernel shows them afterwards.
    The guest ends with the job.
    """
    FEATURES.write_text(feature)
    result = among_hogs(save=False, progress=False, **parameters)
    return {"late_ns": result.data["late_ns"].tolist(), "features": FEATURES.read_text().split()}
