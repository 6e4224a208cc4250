"""Recorded deterministic answers: what they are, how they are compared, and how they are made.

    python tests/kernels/deterministic.py          # records all of them anew, in two minutes
    python tests/kernels/deterministic.py 6.1 7.2  # only these

An answer is a function of its key: the kernel's package, QEMU, the guest's command line and what it holds.
With the same key it must be equal to the digit, on a machine that lets QEMU run.
Where QEMU's threads had to wait for a CPU, some answers came out with other digits (seen with four runnable
threads per CPU; the emulator's main loop and its CPU's thread are two, and who is first then shows).
With another one there is nothing to compare, and only relations are tested.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sched_labs import kernels
from sched_labs.core.result import Result
from sched_labs.kernels import catalogue, snapshots

FOLDER = Path(__file__).parent / "recorded"
EXPERIMENT = "sleeper.among_hogs"
PARAMETERS = {"hogs": 3, "period_us": 2017, "wakes": 500, "work_us": 300}


def run(name: str, *, booted_anew: bool = False) -> Result:
    """The experiment on that kernel; `booted_anew` forgets first that such a guest was ever booted."""
    if booted_anew:
        for state in snapshots.folder().glob(f"{name}-deterministic-*"):
            state.unlink()
    return kernels.run_experiment(EXPERIMENT, name, PARAMETERS, "deterministic", progress=False)


def key(result: Result) -> dict[str, Any]:
    """What the digits depend on."""
    parts = ("kernel_package", "emulator", "guest", "sources_hash", "guest_hash")
    return {part: result.machine[part] for part in parts}


def values(result: Result) -> dict[str, Any]:
    """The digits."""
    counted = ("sleeper_cpu_ns", "sleeper_voluntary_switches", "sleeper_involuntary_switches", "hog_cpu_ns")
    known = {name: result.facts[name] for name in counted}
    return known | {"late_ns": result.data["late_ns"].tolist()}


def as_text(result: Result) -> str:
    """The answer and its key; the same answer is the same text."""
    held = {"kernel": result.parameters["kernel"], "key": key(result), "parameters": PARAMETERS}
    return json.dumps({**held, "value": values(result)}, indent=1, sort_keys=True) + "\n"


def _place(kernel: str) -> Path:
    return FOLDER / f"{EXPERIMENT}-{kernel}.json"


def recorded(name: str) -> dict[str, Any] | None:
    path = _place(name)
    return json.loads(path.read_text()) if path.exists() else None


def difference(result: Result) -> str:
    """Why the answer cannot be compared with the recorded one; empty when it can."""
    held = recorded(result.parameters["kernel"])
    if held is None:
        return f"nothing was recorded for {result.parameters['kernel']}"
    names = {
        "kernel_package": "another kernel package", "emulator": "another QEMU", "guest": "another guest",
        "sources_hash": "other sources of the guest: record anew with tests/kernels/deterministic.py",
        "guest_hash": "another Python, NumPy or C library in the guest",
    }  # fmt: skip
    for part, words in names.items():
        if held["key"][part] != key(result)[part]:
            return f"recorded with {words}"
    return ""


def late(late_ns: Sequence[int], share: float) -> int:
    """A quantile of the lateness, in virtual ns."""
    return sorted(late_ns)[min(len(late_ns) - 1, int(share * len(late_ns)))]


def check_relations(result: Result) -> None:
    """What holds of every kernel of a kind, whatever its version."""
    value = values(result)
    assert result.timing == "deterministic"
    assert len(value["late_ns"]) == PARAMETERS["wakes"]
    assert min(value["late_ns"]) > 0
    # One CPU: the sleeper works as long as it was asked to, the hogs share the rest evenly and all of it.
    window_ns = 100e6 + PARAMETERS["wakes"] * PARAMETERS["period_us"] * 1000
    asked_ns = PARAMETERS["wakes"] * PARAMETERS["work_us"] * 1000
    assert asked_ns <= value["sleeper_cpu_ns"] < 1.1 * asked_ns
    assert sum(value["hog_cpu_ns"]) + value["sleeper_cpu_ns"] == pytest.approx(window_ns, rel=0.05)
    assert max(value["hog_cpu_ns"]) < 1.1 * min(value["hog_cpu_ns"])
    if result.machine["scheduler"] == "CFS":
        # It lets a thread that uses less than its share preempt at once.
        assert late(value["late_ns"], 0.99) < 100_000
    else:
        # EEVDF: a thread that has just had its turn may have to wait for somebody else's slice.
        assert late(value["late_ns"], 0.9) > 1_000_000


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name in sys.argv[1:] or catalogue.gallery():
        result = run(name)
        check_relations(result)
        late_ns = result.data["late_ns"].tolist()
        _place(name).write_text(as_text(result))
        print(f"{name}: p50 {late(late_ns, 0.5)}, p99 {late(late_ns, 0.99)} virtual ns")


if __name__ == "__main__":
    main()
