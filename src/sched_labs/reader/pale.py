"""Whose recorded runs are drawn pale behind the reader's own, and shown where the reader has none.

    pale.machines()         # {"amd": "AMD EPYC · 2 CPUs · ...", "intel": ...}, the book's own first
    pale.choose("intel")    # kept until another one is chosen

The book's own runs lie beside their experiments as recorded.NAME.json, another machine's as
recorded.NAME.WORD.json, and `sched_labs.recorded` returns the chosen one.
"""

from __future__ import annotations

import re
from pathlib import Path

from ..core import registry, store
from ..core.errors import ParameterError
from ..core.result import load


def machines() -> dict[str, str]:
    """The machines that runs ship of, each in a line, by their words.

    The book's own comes first and is called by the maker of its processor; any other one as its files are.
    """
    first: dict[str, Path] = {}
    for kind in registry.names():
        first = registry.recorded_files(kind) | first
    runs = {word: load(path) for word, path in sorted(first.items())}
    return {
        word or _maker(str(run.machine.get("cpu_model"))): run.machine_line() for word, run in runs.items()
    }


def _maker(cpu_model: str) -> str:
    found = re.match("[a-z0-9]+", cpu_model.lower())
    return found[0] if found else "own"


def chosen() -> str:
    """The word of the machine that is drawn pale."""
    known = list(machines())
    word = store.recorded_machine()
    return word if word in known else known[0]


def choose(machine: str) -> None:
    """From now on draw this machine's runs pale; the book's own where it has none of a kind.

    Raises ParameterError for a machine of which no run ships, ResultError where nothing can be kept.
    """
    known = list(machines())
    if machine not in known:
        raise ParameterError(
            f"No recorded run is of a machine {machine!r:.40}.",
            f"Choose one of: {', '.join(known)}; {known[0]} is the book's own.",
        )
    store.keep_recorded_machine(machine)
