"""The table that the benchmarks print, how two sides are measured in turns, and the ratio of the two."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from sched_labs.core import store
from sched_labs.machine import survey


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


def alternate(*sides: Callable[[], float], blocks: int) -> list[list[float]]:
    """The values of each side, block by block; the order of the sides is drawn anew in each block.

    What neighbours in time have in common then favours neither side, whatever it is: of two sides that are
    the same each is as often the larger one (Fisher, The Design of Experiments, 1935).  An order that turns
    round from block to block cancels a steady drift, but not noise that lasts for some blocks.  One block
    warms up.
    """
    values: list[list[float]] = [[] for _ in sides]
    for block in range(-1, blocks):
        for side in random.sample(range(len(sides)), len(sides)):
            value = sides[side]()
            if block >= 0:
                values[side].append(value)
    return values


def ratio_interval(numerator: Sequence[float], denominator: Sequence[float]) -> tuple[float, float, float]:
    """The ratio of two sides measured in turns, and an interval that covers the true one in 95 of 100 runs.

    The middle of the means of any two of the turns' ratios, on the logarithmic scale, and the interval of
    Wilcoxon's signed ranks (Hodges and Lehmann 1963).  Its coverage is exact for few blocks, where that of a
    bootstrap is not, if the order within each turn was drawn (`alternate`).  Below six blocks, too few for
    any 95 %, the interval has no ends.
    """
    ratios = np.log(np.asarray(numerator) / np.asarray(denominator))
    means = np.sort(((ratios[:, None] + ratios) / 2)[np.triu_indices(ratios.size)])
    # In how many of all patterns of signs do the positive ranks add up to 0, 1, 2, ...?
    patterns = np.ones(1)
    for rank in range(1, ratios.size + 1):
        patterns = np.convolve(patterns, [1, *[0] * (rank - 1), 1])
    outside = int(np.searchsorted(np.cumsum(patterns / patterns.sum()), 0.025, side="right"))
    low, high = (means[outside - 1], means[-outside]) if outside else (-np.inf, np.inf)
    return float(np.exp(np.median(means))), float(np.exp(low)), float(np.exp(high))


def wilson(hits: int, tries: int) -> tuple[float, float]:
    """An interval for a rate, which covers the true one in about 95 of 100 runs (Wilson 1927)."""
    if not tries:
        return 0.0, 1.0
    z, share = 1.96, hits / tries
    middle = share + z**2 / (2 * tries)
    half = z * math.sqrt(share * (1 - share) / tries + z**2 / (4 * tries**2))
    low, high = ((middle + sign * half) / (1 + z**2 / tries) for sign in (-1, 1))
    return max(0.0, low), min(1.0, high)


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


def here() -> str:
    """This machine in words."""
    facts = survey().provenance()
    return f"{facts['cpu_model']}, {facts['cpus']} CPUs, {facts['hypervisor']}, Linux {facts['kernel']}"


def keep(path: Path, command: str, lines: Sequence[Line], doubts: Sequence[str]) -> None:
    """Write the table for the page that shows the last one, with where and when it was measured."""
    table = {
        "command": command,
        "measured_at": store.now(),
        "machine": here(),
        "doubts": list(doubts),
        "lines": [asdict(line) for line in lines],
    }
    store.write_text(path, json.dumps(table, indent=1, ensure_ascii=False) + "\n")


def conclude(command: str, lines: Sequence[Line], doubts: Sequence[str], kept: Path | None) -> int:
    """Print the table and what speaks against it, and keep both where asked; 1 where a target was missed."""
    show(lines)
    for doubt in doubts:
        print(f"Doubt: {doubt}")
    if kept:
        keep(kept, command, lines, doubts)
    return 1 if any(line.ok is False for line in lines) else 0
