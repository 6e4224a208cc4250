"""Recorded deterministic answers: what they are, how they are compared, and how they are made.

    python tests/kernels/deterministic.py          # records all of them anew, in two minutes
    python tests/kernels/deterministic.py 6.1 7.2  # only these

An answer is a function of its key: the kernel's package, QEMU, the guest's command line and its initramfs.
With the same key it must be equal to the digit, on a machine that lets QEMU run.
Where QEMU's threads had to wait for a CPU, some answers came out with other digits (seen with four runnable
threads per CPU; the emulator's main loop and its CPU's thread are two, and who is first then shows).
With another one there is nothing to compare, and only relations are tested.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from sched_labs import kernels

FOLDER = Path(__file__).parent / "recorded"
JOB = "sleeper_among_hogs"
PARAMETERS = {"hogs": 3, "period_us": 2017, "wakes": 500, "work_us": 300}


def run(name: str) -> Any:
    return kernels.run(name, JOB, PARAMETERS, timing="deterministic")


def as_text(answer: Any) -> str:
    """The answer and its key; the same answer is the same text."""
    held = {"kernel": answer.kernel.name, "key": answer.key, "job": JOB, "parameters": PARAMETERS}
    return json.dumps({**held, "value": answer.value}, indent=1, sort_keys=True) + "\n"


def recorded(name: str) -> dict[str, Any] | None:
    path = FOLDER / f"{JOB}-{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def difference(answer: Any) -> str:
    """Why the answer cannot be compared with the recorded one; empty when it can."""
    held = recorded(answer.kernel.name)
    if held is None:
        return f"nothing was recorded for {answer.kernel.name}"
    names = {
        "kernel": "another kernel package", "qemu": "another QEMU", "machine": "another guest",
        "sources": "other sources of the guest: record anew with tests/kernels/deterministic.py",
        "guest": "another Python or C library in the guest",
    }  # fmt: skip
    for part, words in names.items():
        if held["key"][part] != answer.key[part]:
            return f"recorded with {words}"
    return ""


def late(answer: Any, share: float) -> int:
    """A quantile of the lateness, in virtual ns."""
    values = sorted(answer.value["late_ns"])
    return int(values[min(len(values) - 1, int(share * len(values)))])


def check_relations(answer: Any) -> None:
    """What holds of every kernel of a kind, whatever its version."""
    value = answer.value
    assert answer.timing == "deterministic"
    assert len(value["late_ns"]) == PARAMETERS["wakes"]
    assert min(value["late_ns"]) > 0
    # One CPU: the sleeper works as long as it was asked to, the hogs share the rest evenly and all of it.
    window_ns = 100e6 + PARAMETERS["wakes"] * PARAMETERS["period_us"] * 1000
    asked_ns = PARAMETERS["wakes"] * PARAMETERS["work_us"] * 1000
    assert asked_ns <= value["sleeper_cpu_ns"] < 1.1 * asked_ns
    assert sum(value["hog_cpu_ns"]) + value["sleeper_cpu_ns"] == pytest.approx(window_ns, rel=0.05)
    assert max(value["hog_cpu_ns"]) < 1.1 * min(value["hog_cpu_ns"])
    if tuple(int(part) for part in answer.kernel.upstream.split(".")[:2]) < (6, 6):
        # CFS lets a thread that uses less than its share preempt at once.
        assert late(answer, 0.99) < 100_000
    else:
        # EEVDF: a thread that has just had its turn may have to wait for somebody else's slice.
        assert late(answer, 0.9) > 1_000_000


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name in sys.argv[1:] or kernels.gallery():
        answer = run(name)
        check_relations(answer)
        (FOLDER / f"{JOB}-{name}.json").write_text(as_text(answer))
        print(
            f"{name}: p50 {late(answer, 0.5)}, p99 {late(answer, 0.99)} virtual ns, {answer.duration_s:.1f} s"
        )


if __name__ == "__main__":
    main()
