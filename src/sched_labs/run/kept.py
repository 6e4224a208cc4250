"""Runs that are kept while the book is built: a cell that runs again finds the run that it made before.

A chapter is run anew when its text, a figure or a claim has changed.  None of these changes what was
measured, so the build names a folder (SCHED_LABS_KEPT), and an experiment that was measured in there with
the same parameters, by the same code, on the same machine is read instead of measured.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from .. import probes
from ..core.closure import closure
from ..core.errors import ResultError
from ..core.result import Result, load
from ..workloads import build

VARIABLE = "SCHED_LABS_KEPT"
_asked: Counter[str] = Counter()


def sources(module: str, workloads: Iterable[str]) -> list[Path]:
    """Every file that the numbers of an experiment come from: its module and what that imports, its programs,
    and the privileged helper where it asks that.
    """
    modules = closure([module])
    found = {*modules.values()}
    found.update(path for name in workloads for path in (build.source(name), *build.headers(name)))
    if "sched_labs.probes.channel" in modules:
        helper = Path(probes.__file__).parent / "helper"
        found.update(path for path in helper.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return sorted(found)


def machine_marks() -> list[str]:
    """What tells this machine and its kernel from another one with the same folder (a VM's synced one)."""
    identity = Path("/etc/machine-id")
    known = identity.read_text(encoding="ascii", errors="replace") if identity.is_file() else ""
    return [platform.release(), platform.machine(), str(os.cpu_count()), known]


def digest(words: Iterable[str], files: Iterable[Path]) -> str:
    """One hash of words and of files by their names and contents."""
    made = hashlib.sha256()
    for word in words:
        made.update(word.encode() + b"\0")
    for path in files:
        made.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return made.hexdigest()


@cache
def _code(module: str, workloads: tuple[str, ...]) -> str:
    return digest(machine_marks(), sources(module, workloads))


def place(kind: str, module: str, workloads: Iterable[str], given: Mapping[str, Any]) -> Path | None:
    """The file of this run, whether there is one yet or not; None where nothing is kept.

    A chapter that asks for the same run twice wants two: they are counted.
    """
    folder = os.environ.get(VARIABLE)
    if not folder:
        return None
    words = [kind, _code(module, tuple(workloads)), json.dumps(given, sort_keys=True, default=str)]
    key = digest(words, ())[:24]
    _asked[key] += 1
    return Path(folder) / f"{kind}-{key}-{_asked[key]}.json"


def read(path: Path) -> Result | None:
    """The run that was kept there, or None.  Marks it as still in use."""
    try:
        result = load(path)
        path.touch()
    except (ResultError, OSError):
        return None
    result.path = None
    return result
