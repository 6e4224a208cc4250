"""The same experiment on other kernels, under QEMU.

    from sched_labs import kernels
    kernels.available()                          # what can be had and what is on this disk
    kernels.get("6.1")                           # fetch it; no root needed
    kernels.run("6.1", "survey").value           # a job in that kernel
    kernels.run("6.12", "throttle", {"seconds": 1}, timing="deterministic").value
    kernels.run_experiment("sleeper.among_hogs", "6.12", {"hogs": 3})       # an experiment of the book

Three ways of timing, never mixed up: `vm-kvm` (real time of a virtual machine), `vm-emulated` (decisions,
and times of milliseconds), `deterministic` (virtual time: instructions are counted, and every run gives the
same digits).
"""

from __future__ import annotations

import importlib
from typing import Any

_WHERE = {
    "Answer": "runner",
    "run": "runner",
    "run_each": "runner",
    "run_experiment": "experiment",
    "available": "catalogue",
    "get": "packages",
    "Kernel": "packages",
}

__all__ = list(_WHERE)


def __getattr__(name: str) -> Any:
    # On demand: a guest imports this package for its own few modules, and every import is slow there.
    if name not in _WHERE:
        raise AttributeError(f"module 'sched_labs.kernels' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_WHERE[name]}"), name)
    globals()[name] = value
    return value
