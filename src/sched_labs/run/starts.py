"""Trials that each have a new start of their workload: what an interval over them then covers.

Much of what a program's speed depends on is drawn when it starts and stays until it ends: which physical
pages it got and so which cache sets they share, where the loader put its code and stack, what the branch
predictor makes of it, where the scheduler first put its threads.  Turns of one start agree with each other
better than with the next start's, so that an interval over them is too narrow (Mytkowicz and others,
"Producing wrong data without doing anything obviously wrong!", ASPLOS 2009; Kalibera and Jones, "Rigorous
benchmarking in reasonable time", ISMM 2013).  So a trial is a start.  The workload's conditions take a few
turns in it, whose median is the trial's one value, and trials are compared and resampled as wholes.

What such an interval does not cover is what stays the same throughout a run: this boot with its kernel's own
place in memory, the host that a virtual machine shares, and what the clock frequency does over minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import pandas as pd

from ..core import stats
from .base import Run

T = TypeVar("T")


def each(run: Run, cells: Iterable[T], trials: int, *, label: Callable[[T], str]) -> Iterator[tuple[int, T]]:
    """(trial, cell) with progress, for whoever starts the workload anew for each.

    Every cell has its turn before any has the next, so that a cell's trials lie apart.
    """
    chosen = list(cells)
    pairs = [(trial, cell) for trial in range(trials) for cell in chosen]
    return run.each(pairs, label=lambda pair: label(pair[1]))


def with_turns(data: pd.DataFrame) -> pd.DataFrame:
    """The data with their column `turn`; one turn in each trial where they have none, as runs once were."""
    return data if "turn" in data else data.assign(turn=0)


def by_trial(part: pd.DataFrame, values: str) -> pd.DataFrame:
    """Trials down, conditions across: medians over a trial's turns.  Trials that lack one are left out."""
    return part.pivot_table(index="trial", columns="condition", values=values, aggfunc="median").dropna()


def noise_floor(baseline: pd.Series) -> float:
    """The difference that this run shows where there is none: a start's last turn against the one before.

    baseline has one value for each trial and turn, its index.  The floor is that end of the paired
    difference's 95 % interval which is further from zero, because that is how a treatment is compared, too.
    Where a start had one turn only, it is compared with the next start's (stats.noise_floor): a higher floor.
    """
    turns = baseline.unstack("turn").dropna()
    if turns.shape[1] < 2 or turns.empty:
        return stats.noise_floor(baseline.groupby("trial").median())
    against = stats.paired_difference(turns.iloc[:, -1], turns.iloc[:, -2])
    return max(abs(against.low), abs(against.high))
