"""Runs a lab's check in a process of its own, with a deadline, and reads what it found."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from .. import lock
from ..errors import SchedLabError
from . import desk, ledger
from .catalogue import Lab

DEADLINE_S = 300.0


@dataclass(frozen=True)
class Report:
    """What a check found: (right, what is right or missing) in order, remarks, and the seed it asked with.

    doubts: what else the machine did meanwhile, where that was much; it decides nothing.
    """

    lab: str
    seed: int
    findings: tuple[tuple[bool, str], ...]
    remarks: tuple[str, ...]
    doubts: tuple[str, ...] = field(default=(), compare=False)

    @property
    def passed(self) -> bool:
        return bool(self.findings) and all(right for right, _ in self.findings)

    def __str__(self) -> str:
        lines = [f"{'ok     ' if right else 'missing'}  {text}" for right, text in self.findings]
        lines += [f"note     {text}" for text in (*self.remarks, *self.doubts)]
        if self.doubts and not self.passed:
            lines.append("note     What is missing may be due to that: check again on a quiet machine.")
        verdict = "passed" if self.passed else "not yet"
        return "\n".join([*lines, f"{self.lab}: {verdict} (seed {self.seed})"])


def check(lab: Lab, *, seed: int | None = None) -> Report:
    """Check the reader's work on a lab, and keep the outcome in the progress.

    seed: asks the same questions again; by default new ones.
    Raises SchedLabError when the lab was not started, or the check hung or broke.
    """
    folder = desk.place(lab)
    if not folder.is_dir():
        raise SchedLabError(f"{lab.name} is not started.", f"Begin with: sched-labs lab start {lab.name}")
    report = check_folder(lab, folder, seed=seed)
    ledger.note(lab.name, "checked")
    if report.passed:
        ledger.note(lab.name, "passed", seed=report.seed)
    return report


def check_folder(
    lab: Lab, folder: Path, *, seed: int | None = None, deadline_s: float = DEADLINE_S
) -> Report:
    """Check the files in a folder, without a note in the progress.

    The check and the reader's code run in a child process with its own group: an endless loop ends at the
    deadline, and whatever they print is shown on stderr.
    """
    seed = secrets.randbelow(1_000_000) if seed is None else seed
    child = subprocess.Popen(
        [sys.executable, "-m", "sched_labs.labs.run", str(lab.folder), str(folder), str(seed)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        said, _ = child.communicate(timeout=deadline_s)
    except subprocess.TimeoutExpired:
        measuring = lock.holder()
        raise SchedLabError(
            f"The check of {lab.name} was not over after {deadline_s:.0f} s and was ended.",
            f"Does your code loop for ever, or did it wait for this to end: {measuring}?"
            if measuring
            else "Does your code loop for ever?",
        ) from None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    if child.returncode:
        raise SchedLabError(
            f"The check of {lab.name} broke; what it said stands above and names the line.",
            "If that line is in your file, mend it there. If it is in check.py, look at what your work "
            "returned; where that is what the sheet asks for, the lab has a fault.",
        )
    found = json.loads(said)
    return Report(
        lab.name,
        seed,
        tuple((bool(right), text) for right, text in found["findings"]),
        tuple(found["remarks"]),
        tuple(found["doubts"]),
    )
