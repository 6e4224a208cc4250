"""What the tests of the ladder's experiments share: their own lock, and what a docstring promises."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sched_labs.core import lock

KIB, MIB = 1 << 10, 1 << 20
MACHINE = {
    "cpu_model": "Made-up 9000",
    "kernel": "6.99.1",
    "l1d_bytes": 48 * KIB,
    "l2_bytes": MIB,
    "l3_bytes": 32 * MIB,
}


@contextmanager
def own_lock(folder: Path) -> Iterator[None]:
    """So that these tests need not wait for somebody's experiment."""
    folder.chmod(0o1777)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lock, "_PLACES", (folder,))
        yield


def documented(function: Callable[..., Any]) -> list[str]:
    """The names that begin the lines of the docstring's table: a name or several, then two spaces or more."""
    lines = inspect.cleandoc(function.__doc__ or "").splitlines()
    found = [re.match(r"([a-z_0-9]+(?:, [a-z_0-9]+)*)(?: {2,}| {3}|$)", line) for line in lines[1:]]
    return [name for match in found if match for name in match[1].split(", ")]
