"""What a lab's check works with: the reader's files, a seeded generator, and the findings."""

from __future__ import annotations

import importlib.util
import re
import shutil
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..core import jsontext


class Stop(Exception):
    """The check cannot go on: a finding says why."""


class Judge:
    """Collects findings.  A check passes when it made at least one and all of them are right.

    lab      the name of its folder
    folder   the reader's files
    seed     what the check draws comes from it; each sheet says what that is
    rng      the generator made from it
    """

    def __init__(self, lab: str, folder: Path, seed: int) -> None:
        self.lab, self.folder, self.seed = lab, folder, seed
        self.rng = np.random.default_rng(seed)
        self.findings: list[tuple[bool | None, str]] = []
        self.remarks: list[str] = []

    def expect(self, ok: bool | None, *, good: str, missing: str, unclear: str = "") -> bool:
        """One finding: what is right, what is missing (without giving it away), or what cannot be told now.

        ok   None where this machine, as busy as it is, does not tell
        Returns whether it is right.
        """
        if ok is None:
            self.findings.append((None, unclear))
            return False
        self.findings.append((bool(ok), good if ok else missing))
        return bool(ok)

    def need(self, ok: bool, missing: str) -> None:
        """Without this the check makes no sense: ends it with a finding."""
        if not ok:
            self.findings.append((False, missing))
            raise Stop

    def can_tell(self, able: bool, why: str) -> None:
        """Without this the machine cannot judge the reader's work now, right or wrong: ends the check."""
        if not able:
            self.findings.append((None, why))
            raise Stop

    def remark(self, text: str) -> None:
        """Something to know that decides nothing, such as what this machine could not show."""
        self.remarks.append(text)

    def file(self, name: str) -> Path:
        """A file of the reader's."""
        path = self.folder / name
        self.need(
            path.is_file(),
            f"{name} is not in {self.folder}. `sched-labs lab start {self.lab}` lays the starter out again.",
        )
        return path

    def function(self, file: str, name: str) -> Callable[..., Any]:
        """A function of the reader's; calls that raise become findings."""
        path = self.file(file)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module  # as for any imported module; dataclasses look themselves up there
        try:
            spec.loader.exec_module(module)
        except (Exception, SystemExit) as error:
            self.need(False, f"{file} cannot be loaded: {told(error, self.folder)}")
        found = getattr(module, name, None)
        self.need(callable(found), f"{file} has no function {name}.")

        def call(*arguments: Any) -> Any:
            try:
                return found(*arguments)  # type: ignore[misc]
            except (Exception, SystemExit) as error:
                self.need(False, f"{name} raised {told(error, self.folder)}")

        return call

    def built(self, source: Path, header: Path, into: Path) -> Path:
        """The lab's program, compiled in the new folder `into` with the reader's header or another."""
        into.mkdir()
        for file in (source, header):
            shutil.copy(file, into)
        compiler = shutil.which("cc") or shutil.which("gcc")
        self.need(compiler is not None, "There is no C compiler here; scripts/provision.sh installs one.")
        program = into / source.stem
        made = subprocess.run(
            [str(compiler), "-O2", "-pthread", "-o", program, into / source.name],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        said = made.stderr.strip().replace(f"{into}/", "")[:2000]
        self.need(made.returncode == 0, f"{header.name} does not compile:\n{said}")
        return program

    def counts(self, command: Sequence[object], names: Sequence[str], *, hung: str) -> dict[str, int]:
        """Run a program and name the numbers of the one line that it prints.

        hung    what to say where the program's own alarm ended it
        """
        ended = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
        status, words = ended.returncode, ended.stdout.split()
        if status < 0:
            self.need(
                False,
                hung if status == -signal.SIGALRM
                else f"The program was ended by {signal.Signals(-status).name}.",
            )  # fmt: skip
        self.need(status == 0, f"The program ended with status {status}: {ended.stderr.strip()[:2000]}")
        self.need(
            len(words) == len(names) and all(re.fullmatch("[0-9]{1,19}", word) for word in words),
            f"The program printed something else than its {len(names)} numbers: {ended.stdout[:200]!r}",
        )
        return dict(zip(names, map(int, words), strict=True))

    def settings(self, file: str) -> dict[str, Any]:
        """The reader's answer as a JSON object; a key that begins with an underscore is a comment."""
        path = self.file(file)
        try:
            found = jsontext.parse(path.read_bytes())
        except ValueError as error:
            self.need(False, f"{file} is not JSON: {error}")
        self.need(isinstance(found, dict), f"{file} does not hold one object.")
        return {key: value for key, value in found.items() if not key.startswith("_")}

    def number(self, settings: dict[str, Any], key: str, low: float, high: float) -> float:
        """A number of the answer, in its range."""
        value = settings.get(key)
        right = isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high
        self.need(right, f"{key} must be a number from {low:g} to {high:g}; it is {value!r}.")
        return float(value)  # type: ignore[arg-type]


def told(error: BaseException, folder: Path) -> str:
    """An exception in a sentence: what it is, and the last line of the reader's that led to it."""
    said = f"{type(error).__name__}: {error}"
    places = [
        (Path(frame.filename), frame.lineno, frame.line)
        for frame in traceback.extract_tb(error.__traceback__)
    ]
    if isinstance(error, SyntaxError) and error.filename:
        said = f"{type(error).__name__}: {error.msg}"
        places.append((Path(error.filename), error.lineno, (error.text or "").strip()))
    for path, number, line in reversed(places):
        if path.parent == folder:
            return f"{said}\n{path.name}, line {number}: {line}"
    return said
