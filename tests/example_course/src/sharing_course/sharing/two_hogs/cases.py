"""Each claim on constructed summaries: one for each outcome, and for what a run may lack."""

from __future__ import annotations

from typing import Any

from sched_labs.claims import FAILS, HOLDS, UNKNOWN
from sched_labs.testing import Case


def share(percent: float, half: float, nice: int = 5) -> dict[str, Any]:
    low, high = percent - half, percent + half
    return {"nice": nice, "share_percent": percent, "share_lo_percent": low, "share_hi_percent": high}


CASES = [
    Case("nice-quarter", HOLDS, [share(25, 2)], "It gets 25 % (interval 23 to 27 %)"),
    Case("nice-quarter", FAILS, [share(50, 1)], "It gets 50 %"),
    Case("nice-quarter", UNKNOWN, [share(29, 4)], "spans a limit"),
    Case("nice-quarter", UNKNOWN, [share(50, 1, nice=0)], "did not measure a thread at nice 5"),
]
