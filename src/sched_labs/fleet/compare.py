"""What do the odd ones have in common?

For each number, how far a machine is from the fleet's median *beyond its own interval*: a difference that
its own repetitions show too is none.  Then each trait (a fact and a value, such as governor powersave) is
held against each number: do the machines that have it lie elsewhere?  So many comparisons find something by
chance; what counts is the largest statistic of them all in fleets whose traits are dealt anew among the
machines (Westfall and Young, Resampling-Based Multiple Testing, 1993, chapter 2: single-step maxT).  A fleet
without any common trait is told that it has one in at most 2 % of all cases, however many numbers and traits
it has, and however they hang together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .. import claims
from .tables import Fleet

LEVEL = 0.02
DEALT = 399  # times that the traits are dealt anew: the smallest p is 1 / 400
FARTHEST = (
    8.0  # in robust standard deviations: one machine that is out of all bounds shall not speak for others
)
FEWEST = 2  # machines with a trait, and without it
MOST_VALUES = 40  # of one fact: another one names single machines
ODD = 3.0

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Common:
    """A trait whose machines lie elsewhere.

    traits    the facts and values that the same machines share: they cannot be told apart here
    machines  how many have it; odd: how many of these are odd in this number, and others: of the rest
    ratio     median of those with it over the median of the rest, None where the rest's is no positive number
    p         how often a fleet of the same machines without common traits shows as much anywhere
    """

    kind: str
    name: str
    column: str
    traits: tuple[str, ...]
    machines: int
    odd: int
    others: int
    ratio: float | None
    p: float


@dataclass(frozen=True)
class Compared:
    """Distances (machines × numbers), the numbers' keys (kind, name, column), what was found, and why not."""

    distances: pd.DataFrame
    commons: list[Common]
    held: int  # comparisons
    remark: str

    @cached_property
    def odd(self) -> pd.DataFrame:
        """machine, kind, name, column, distance: what lies beyond ODD deviations, farthest first."""
        scores = self.distances.to_numpy()
        rows, columns = np.nonzero(np.abs(scores) >= ODD)
        order = np.argsort(-np.abs(scores[rows, columns]), kind="stable")
        found = [
            (self.distances.index[row], *self.distances.columns[column], scores[row, column])
            for row, column in zip(rows[order], columns[order], strict=True)
        ]
        return pd.DataFrame(found, columns=["machine", "kind", "name", "column", "distance"])


def compare(fleet: Fleet, *, seed: int = 0) -> Compared:
    """The odd ones of a fleet, and what they have in common."""
    known = distances(fleet)
    found = known.fillna(0.0)
    scores, keys = known.to_numpy(dtype=np.float32), list(known.columns)
    verdicts = _verdicts(fleet, found.index)
    if verdicts.shape[1]:
        scores = np.hstack([scores, verdicts.to_numpy(dtype=np.float32)])
        keys += list(verdicts.columns)
    marks, names = indicators(fleet.machines.reindex(found.index))
    held = len(names) * len(keys)
    if not held:
        few = f"No trait divides the machines into groups of {FEWEST} or more."
        return Compared(found, [], 0, few)
    statistic, p = dealt(scores, marks, seed=seed)
    ways = max(_ways(len(found), int(size)) for size in marks.sum(axis=0))
    if 1 / ways > LEVEL:
        few = f"These machines can be divided in {ways} ways only: no trait can stand out from chance."
        return Compared(found, [], held, few)
    return Compared(found, _found(fleet, found, scores, keys, marks, names, statistic, p), held, "")


def _ways(total: int, size: int) -> int:
    """In how many ways a trait of so many machines can be dealt; which of two halves has it shows nowhere."""
    return math.comb(total, size) // (2 if 2 * size == total else 1)


def distances(fleet: Fleet) -> pd.DataFrame:
    """Machines × (kind, name, column): how far from the median, in the fleet's own robust deviations.

    Zero where the median lies within the machine's interval, NaN where it has not measured; never beyond
    FARTHEST.  Numbers that fewer than three machines have are left out.
    """
    table = fleet.newest()
    if table.empty:
        return pd.DataFrame(index=fleet.machines.index)
    wide = table.pivot(index="machine", columns=["kind", "name", "column"], values=["value", "low", "high"])
    wide = wide.reindex(fleet.machines.index)
    value, low, high = (wide[part].to_numpy(dtype=float) for part in ("value", "low", "high"))
    columns = wide["value"].columns
    low, high = np.where(np.isnan(low), value, low), np.where(np.isnan(high), value, high)
    with np.errstate(all="ignore"):
        positive = np.nanmin(np.where(np.isnan(low), np.inf, np.minimum(low, value)), axis=0) > 0
        value, low, high = (
            np.where(positive, np.log(np.where(positive, part, 1.0)), part) for part in (value, low, high)
        )
        enough = (~np.isnan(value)).sum(axis=0) >= 3
        value, low, high, positive = (part[..., enough] for part in (value, low, high, positive))
        middle = np.nanmedian(value, axis=0)
        spread = 1.4826 * np.nanmedian(np.abs(value - middle), axis=0)
        # Where most machines say the same to the digit, what their own intervals span is the measure.
        own = np.nanmedian((high - low) / 3.92, axis=0)
        spread = np.maximum(spread, own)
        spread = np.where(spread > 0, spread, np.where(positive, 1.0, np.maximum(np.abs(middle), 1.0)) * 1e-2)
        beyond = np.where(low > middle, low - middle, np.where(high < middle, high - middle, 0.0))
        scores = np.clip(np.where(np.isnan(value), np.nan, beyond / spread), -FARTHEST, FARTHEST)
    return pd.DataFrame(scores, index=wide.index, columns=columns[enough])


def _verdicts(fleet: Fleet, machines: pd.Index) -> pd.DataFrame:
    """Machines × ("claim", id, kind): where a claim fails, as 1 and 0; NaN where nobody knows."""
    table = fleet.newest_claims()
    table = table[table["outcome"] != claims.UNKNOWN]
    if table.empty:
        return pd.DataFrame(index=machines)
    fails = (
        table.assign(fails=(table["outcome"] == claims.FAILS).astype(float), what="claim")
        .pivot(index="machine", columns=["what", "id", "kind"], values="fails")
        .reindex(machines)
    )
    return fails.loc[:, fails.std(ddof=0) > 0]


def indicators(machines: pd.DataFrame) -> tuple[Floats, list[tuple[str, ...]]]:
    """Machines × traits as 0 and 1, and each column's names: traits of the same machines are one column."""
    columns: dict[bytes, tuple[Floats, list[str]]] = {}
    for fact in machines.columns:
        values = machines[fact].astype(str)
        counts = values.value_counts()
        if len(counts) > MOST_VALUES:
            continue
        for value in sorted(counts.index):
            if FEWEST <= counts[value] <= len(machines) - FEWEST:
                mark = (values == value).to_numpy(dtype=np.float32)
                columns.setdefault(mark.tobytes(), (mark, []))[1].append(f"{fact} {value}")
    # Of two sides that divide the machines alike, the smaller one is the odd one.
    for key, (mark, _) in list(columns.items()):
        if key in columns and (other := (1 - mark).tobytes()) in columns:
            del columns[key if mark.sum() > len(mark) / 2 else other]
    marks = np.array([mark for mark, _ in columns.values()], dtype=np.float32).T
    return marks.reshape(len(machines), len(columns)), [tuple(names) for _, names in columns.values()]


def dealt(scores: Floats, marks: Floats, *, seed: int = 0, times: int = DEALT) -> tuple[Floats, Floats]:
    """(statistic, p), both traits × numbers: how far the machines with a trait lie from all, and by chance.

    scores are machines × numbers, NaN where a machine has not measured; marks are machines × traits, 0 and 1.
    The statistic is the mean's distance of a trait's machines from that of all in its standard error; p is
    how often the largest statistic of a dealing reaches it.  Only machines that have measured a number are
    among those it is held against: whoever lacks it lies nowhere, and not in the middle.
    """
    there = ~np.isnan(scores)
    counts = np.maximum(there.sum(axis=0), 1)
    centred = np.where(there, scores - np.where(there, scores, 0).sum(axis=0) / counts, 0)
    deviation = np.sqrt((centred**2).sum(axis=0) / counts)
    centred = np.where(deviation > 0, centred / np.where(deviation > 0, deviation, 1), 0).astype(np.float32)
    patterns, of_number = np.unique(there, axis=1, return_inverse=True)
    measured = patterns.astype(np.float32)
    totals = measured.sum(axis=0)

    def distance(marks: Floats) -> Floats:
        sizes = marks.T @ measured  # traits × patterns: machines with the trait that have measured
        error = np.sqrt(sizes * (totals - sizes) / np.maximum(totals - 1, 1))
        enough = (sizes >= FEWEST) & (totals - sizes >= FEWEST)
        scale = np.divide(1, error, out=np.zeros_like(error), where=enough)
        found: Floats = np.abs(marks.T @ centred) * scale[:, of_number.ravel()]
        return found

    statistic = distance(marks)
    generator = np.random.default_rng(seed)
    largest = np.empty(times, dtype=np.float32)
    for turn in range(times):
        largest[turn] = distance(marks[generator.permutation(len(marks))]).max()
    above = np.searchsorted(np.sort(largest), statistic - 1e-5, side="left")
    return statistic, ((times - above + 1) / (times + 1)).astype(np.float32)


def _found(
    fleet: Fleet,
    found: pd.DataFrame,
    scores: Floats,
    keys: list[Any],
    marks: Floats,
    names: list[tuple[str, ...]],
    statistic: Floats,
    p: Floats,
) -> list[Common]:
    """The traits that stand out, the strongest number of each kind; strongest first."""
    best: dict[tuple[int, str], tuple[float, int]] = {}
    for trait, number in zip(*np.nonzero(p <= LEVEL), strict=True):
        key = (int(trait), str(keys[number][0]))
        if statistic[trait, number] > best.get(key, (0.0, 0))[0]:
            best[key] = (float(statistic[trait, number]), int(number))
    made = []
    values = fleet.newest().set_index(["kind", "name", "column"]).sort_index()
    for (trait, _), (_, number) in sorted(best.items(), key=lambda item: -item[1][0]):
        kind, name, column = keys[number]
        has = marks[:, trait] > 0
        odd = np.abs(scores[:, number]) >= ODD if kind != "claim" else scores[:, number] > 0  # NaN is not
        ratio = None
        if kind != "claim":
            own = values.loc[[(kind, name, column)]].set_index("machine")["value"]
            inside = own.index.isin(found.index[has])
            sides = float(own[inside].median()), float(own[~inside].median())
            ratio = sides[0] / sides[1] if min(sides) > 0 else None
        made.append(
            Common(
                str(kind), str(name), str(column), names[trait], int(has.sum()),
                int((odd & has).sum()), int((odd & ~has).sum()), ratio, float(p[trait, number]),
            )
        )  # fmt: skip
    return made
