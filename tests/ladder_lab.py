"""What the tests of the ladder's experiments share: a made-up machine, and what a docstring promises."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

KIB, MIB = 1 << 10, 1 << 20
MACHINE = {
    "cpu_model": "Made-up 9000",
    "kernel": "6.99.1",
    "l1d_bytes": 48 * KIB,
    "l2_bytes": MIB,
    "l3_bytes": 32 * MIB,
}


def documented(function: Callable[..., Any]) -> list[str]:
    """The names that begin the lines of the docstring's table: a name or several, then two spaces or more."""
    lines = inspect.cleandoc(function.__doc__ or "").splitlines()
    found = [re.match(r"([a-z_0-9]+(?:, [a-z_0-9]+)*)(?: {2,}| {3}|$)", line) for line in lines[1:]]
    return [name for match in found if match for name in match[1].split(", ")]
