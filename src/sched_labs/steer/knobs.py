"""Move one knob of the scheduler for the length of a measurement, and put it back whatever happens.

    with knobs.moved("base_slice_ns", 20_000_000) as before:
        ...

Only root can, where debugfs is mounted and not locked down; the whole machine is scheduled by it meanwhile.
A small process keeps the old value and writes it back when this one has gone, however it went.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from .. import machine
from ..core.errors import ParameterError, PlacementError

# What may be moved, and how far: the kernel takes more, and nobody needs it.
LIMITS_NS = {
    "base_slice_ns": (100_000, 100_000_000),
    "min_granularity_ns": (100_000, 100_000_000),
    "migration_cost_ns": (0, 10_000_000),
}
# Ends with its standard input, which closes when this process ends, and writes the old value back.
_KEEPER = """
import sys
print("ready", flush=True)
sys.stdin.buffer.read()
open(sys.argv[1], "w").write(sys.argv[2])
"""


def movable(name: str) -> tuple[Path, int]:
    """Where a knob is and what it is set to.  PlacementError, which says why, where it cannot be moved."""
    if name not in LIMITS_NS:
        raise ParameterError(f"There is no knob {name!r} to move.", f"There are: {', '.join(LIMITS_NS)}.")
    fact = machine.survey().fact(f"tunable.{name}")
    if not isinstance(fact.value, int):
        raise PlacementError(f"{name} cannot be moved: {fact.why or 'it is not told'}.", lacking=True)
    path = Path(fact.source)
    return path, _now(path, name)


def _now(path: Path, name: str) -> int:
    try:
        descriptor = os.open(path, os.O_RDWR)  # asks for permission, and changes nothing
        try:
            return int(os.read(descriptor, 64))
        finally:
            os.close(descriptor)
    except (OSError, ValueError) as error:
        why = (getattr(error, "strerror", None) or str(error)).lower()
        raise PlacementError(f"{name} cannot be moved: {why}.", "Only root may.", lacking=True) from error


@contextlib.contextmanager
def moved(name: str, value_ns: int) -> Iterator[int]:
    """The knob at another value; yields the one before.

    Raises ParameterError for a knob or a value that no experiment needs, PlacementError where it may not be.
    """
    path, _ = movable(name)
    least, most = LIMITS_NS[name]
    if isinstance(value_ns, bool) or not isinstance(value_ns, int) or not least <= value_ns <= most:
        raise ParameterError(f"{name} takes {least} to {most} ns here, not {value_ns!r}.")
    with written(path, value_ns) as before:
        yield before


@contextlib.contextmanager
def written(path: Path, value: int) -> Iterator[int]:
    """A number in a file of the kernel's with another value; yields the one before.

    PlacementError where it may not be.
    """
    name = path.name
    before = _now(path, name)
    keeper = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _KEEPER, str(path), str(before)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={},
        start_new_session=True,  # a Ctrl-C is for us
    )
    assert keeper.stdout
    try:
        keeper.stdout.readline()  # its start must not fall into the measurement
        try:
            path.write_text(str(value))
        except OSError as error:
            raise PlacementError(f"{name} cannot be moved: {(error.strerror or '').lower()}.") from error
        yield before
    finally:
        keeper.communicate()
        if path.read_text().strip() != str(before):
            raise PlacementError(f"{name} could not be put back to {before}.", f"Write it to {path}.")
