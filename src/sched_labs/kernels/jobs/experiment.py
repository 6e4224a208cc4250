"""The guest's half of an experiment: the experiment itself, as on any machine."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

# An emulated guest on a busy machine takes many times as long to load a probe, and the workload waits for it.
# What bounds the guest is the host's deadline.
PATIENCE = 8


def measure(module: str, name: str, parameters: dict[str, Any]) -> str:
    """Runs the experiment of that name in its module and returns its Result as the text of its file."""
    from ... import workloads

    start = workloads.start

    def patient(name: str, arguments: Sequence[str] = (), *, deadline_s: float = 60.0) -> workloads.Workload:
        return start(name, arguments, deadline_s=PATIENCE * deadline_s)

    workloads.start = patient
    experiment = getattr(importlib.import_module(module), name)
    text: str = experiment(save=False, **parameters).to_json()
    return text
