"""Jobs that only look."""

from __future__ import annotations

import os
from typing import Any


def hello() -> dict[str, Any]:
    """Which kernel answers."""
    system = os.uname()
    return {"release": system.release, "version": system.version, "cpus": os.cpu_count()}


def survey() -> dict[str, Any]:
    """The machine survey as this kernel sees itself: scheduler, tunables with their names here, preemption,
    cgroups."""
    from ...machine import survey

    return survey().to_json()
