"""The guest's half of an experiment: the experiment itself, as on any machine."""

from __future__ import annotations

import importlib
import sys
from typing import Any

GUEST_PACKAGES = "/usr/lib/python3/dist-packages"  # where the guest has BCC, NumPy and pandas


def measure(module: str, name: str, parameters: dict[str, Any]) -> str:
    """Runs the experiment of that name in its module and returns its Result as the text of its file."""
    sys.path.append(GUEST_PACKAGES)
    experiment = getattr(importlib.import_module(module), name)
    text: str = experiment(save=False, **parameters).to_json()
    return text
