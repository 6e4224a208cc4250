"""Runs a lab's check in a process of its own, with a deadline, and reads what it found."""

from __future__ import annotations

import secrets
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..core import jsontext, lock
from ..core.errors import ParameterError, SchedLabError
from . import desk, keeper, ledger
from .catalogue import Lab

DEADLINE_S = 300.0
SEEDS = 1_000_000
_SAYS = {"findings", "remarks", "doubts"}

_WORDS = {True: "ok", False: "missing", None: "cannot tell"}


@dataclass(frozen=True)
class Report:
    """What a check found, remarks, and the seed that it asked with.

    findings   in order: True and what is right, False and what is missing, None and what cannot be told now
    doubts     what else the machine did meanwhile, where that was much; it decides nothing
    """

    lab: str
    seed: int
    findings: tuple[tuple[bool | None, str], ...]
    remarks: tuple[str, ...]
    doubts: tuple[str, ...] = field(default=(), compare=False)

    @property
    def passed(self) -> bool | None:
        """Whether everything is right; None where nothing is missing, and not everything could be judged."""
        told = {right for right, _ in self.findings}
        return None if told in ({None}, {None, True}) else told == {True}

    def __str__(self) -> str:
        told = [(_WORDS[right], text) for right, text in self.findings]
        told += [("note", text) for text in (*self.remarks, *self.doubts)]
        if self.passed is False and self.doubts:
            told.append(("note", "What is missing may be due to that: check again on a quiet machine."))
        lines = [f"{word:<13}" + text.replace("\n", "\n" + 13 * " ") for word, text in told]
        verdict = {True: "passed", False: "not yet", None: "not judged: check again when less goes on here"}
        return "\n".join([*lines, f"{self.lab}: {verdict[self.passed]} (seed {self.seed})"])


def check(lab: Lab, *, seed: int | None = None) -> Report:
    """Check the reader's work on a lab, and keep the outcome in the progress.

    seed: repeats what an earlier check had drawn; by default it is drawn anew.
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

    The check and the reader's code run in a process of their own.  Its keeper ends an endless loop at the
    deadline, and whatever they started; what they print is shown on stderr.
    """
    seed = secrets.randbelow(SEEDS) if seed is None else seed
    if not 0 <= seed < SEEDS:
        raise ParameterError(f"{seed} is no seed.", f"Give a number from 0 to {SEEDS - 1:,}.")
    command = [sys.executable, "-m", "sched_labs.labs.run", str(lab.folder), str(folder), str(seed)]
    child = subprocess.Popen(
        [sys.executable, "-I", keeper.__file__, str(deadline_s), *command],
        stdin=subprocess.PIPE,  # which closes when we are gone
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert child.stdin and child.stdout
    try:
        said = child.stdout.read()
    finally:
        child.stdin.close()
        child.wait()
        child.stdout.close()
    if child.returncode == keeper.OVER:
        measuring = lock.holder()
        raise SchedLabError(
            f"The check of {lab.name} was not over after {deadline_s:.0f} s and was ended.",
            f"Does your code loop for ever, or did it wait for this to end: {measuring}?"
            if measuring
            else "Does your code loop for ever?",
        )
    found = _read(said, lab, child.returncode)
    if "broke" in found:
        raise SchedLabError(
            f"The check of {lab.name} broke:\n{found['broke'].strip()}",
            "If its last line is in your file, mend it there. If it is in check.py, look at what your work "
            "returned; where that is what the sheet asks for, the lab has a fault.",
        )
    return Report(
        lab.name,
        seed,
        tuple((right, text) for right, text in found["findings"]),
        tuple(found["remarks"]),
        tuple(found["doubts"]),
    )


def _read(said: str, lab: Lab, status: int) -> dict[str, Any]:
    try:
        found = jsontext.parse(said)
        if not isinstance(found, dict) or not ("broke" in found or set(found) >= _SAYS):
            raise ValueError("these are no findings")
    except ValueError:
        raise SchedLabError(
            f"The check of {lab.name} ended with status {status} before it had said what it found.",
            "Something in your code ended or forked Python while the check ran, such as os._exit, os.fork or "
            "a signal. Return from your function instead.",
        ) from None
    return found
