"""Waiting for what must come, however busy the machine is."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(true: Callable[[], object], within_s: float = 20) -> bool:
    """Whether it comes true in time: enough on a busy machine, less than what is waited for lives."""
    end = time.monotonic() + within_s
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True
