"""The table that the benchmarks print, and the ratio of two sides that were measured in turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Line:
    """One line of the table; `ok` is None where there is no target or nothing could be measured."""

    what: str
    value: str
    target: str
    ok: bool | None
    remark: str = ""


class NotMeasurable(Exception):
    """Why something cannot be measured on this machine."""


def ratio_interval(numerator: Sequence[float], denominator: Sequence[float]) -> tuple[float, float, float]:
    """Ratio of medians with its 95 % bootstrap interval; blocks are drawn in pairs."""
    above, below = np.asarray(numerator), np.asarray(denominator)
    picks = np.random.default_rng(0).integers(0, above.size, size=(4000, above.size))
    ratios = np.median(above[picks], axis=1) / np.median(below[picks], axis=1)
    low, high = np.quantile(ratios, (0.025, 0.975))
    return float(np.median(above) / np.median(below)), float(low), float(high)


def remark_on(spans: bool) -> str:
    """What a remark adds where the interval lies on both sides of the target."""
    return "; the interval reaches over the target" if spans else ""


def show(lines: Sequence[Line]) -> None:
    verdict = {True: "met", False: "MISSED", None: ""}
    rows = [("what", "value [95 % interval]", "target", "", "")]
    rows += [(line.what, line.value, line.target, verdict[line.ok], line.remark) for line in lines]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        print("  ".join([*cells, row[4]]).rstrip())
