"""What else went on while an experiment ran: time the hypervisor took, and other programs on the CPUs."""

from __future__ import annotations

import os
import resource
import time
from typing import Any

from ..machine import files

# Above these a run is flagged.  They are where a median starts to move on a two-CPU machine.
STEAL_SHARE = 0.02
OTHERS_SHARE = 0.10


class Surroundings:
    """Takes stock when made; `since()` says what happened from then on.

    /proc/stat counts in ticks of 1/100 s, so shares of very short runs are coarse.
    """

    def __init__(self) -> None:
        self._start = self._look()

    @staticmethod
    def _look() -> tuple[float, float | None, float | None, float]:
        line = (files.read("/proc/stat") or "").partition("\n")[0].split()
        own = sum(
            usage.ru_utime + usage.ru_stime
            for usage in (
                resource.getrusage(resource.RUSAGE_SELF),
                resource.getrusage(resource.RUSAGE_CHILDREN),
            )
        )
        if len(line) < 9 or line[0] != "cpu":
            return time.monotonic(), None, None, own
        ticks_per_s = os.sysconf("SC_CLK_TCK")
        user, nice, system, _idle, _iowait, irq, softirq, steal = (
            int(word) / ticks_per_s for word in line[1:9]
        )
        return time.monotonic(), user + nice + system + irq + softirq, steal, own

    def since(self) -> dict[str, Any]:
        """Seconds and shares since this was made; None where the machine does not say."""
        then, now = self._start, self._look()
        capacity = (now[0] - then[0]) * (os.cpu_count() or 1)
        if now[1] is None or then[1] is None or now[2] is None or then[2] is None or capacity <= 0:
            return {"steal_s": None, "steal_share": None, "others_share": None}
        steal = now[2] - then[2]
        others = max(0.0, (now[1] - then[1]) - (now[3] - then[3]))
        return {
            "steal_s": round(steal, 2),
            "steal_share": round(steal / capacity, 4),
            "others_share": round(others / capacity, 4),
        }

    @staticmethod
    def doubts(around: dict[str, Any]) -> list[str]:
        """Sentences about surroundings that may have moved the numbers."""
        found = []
        if (around["steal_share"] or 0) > STEAL_SHARE:
            found.append(
                f"The hypervisor took {around['steal_share']:.0%} of this machine's time "
                "during the run (steal)."
            )
        if (around["others_share"] or 0) > OTHERS_SHARE:
            found.append(
                f"Other programs used {around['others_share']:.0%} of this machine during the run; "
                "a quieter machine gives narrower intervals."
            )
        return found
