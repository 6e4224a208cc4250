"""The guest's half of an experiment: the experiment itself, as on any machine."""

from __future__ import annotations

import sys
from typing import Any

GUEST_PACKAGES = "/usr/lib/python3/dist-packages"  # where the guest has BCC, NumPy and pandas


def measure(name: str, parameters: dict[str, Any]) -> str:
    """Runs the experiment and returns its Result as the text of its file."""
    sys.path.append(GUEST_PACKAGES)
    from sched_labs.experiments import find

    return find(name)(save=False, **parameters).to_json()
