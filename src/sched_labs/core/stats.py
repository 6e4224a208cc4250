"""Medians, intervals and the noise floor: the few statistics that the book's figures rest on.

Latencies are skewed and have outliers that belong to somebody else, so nothing here is a bare mean.
Intervals are percentile bootstrap intervals (Efron and Tibshirani, An Introduction to the Bootstrap, 1993,
chapter 13) over *trials*: the passes inside one trial share their moment and are not independent.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import ParameterError

RESAMPLES = 2000
POOLED_RESAMPLES = 500  # each of them goes through all values


class Interval(NamedTuple):
    """A median with its 95 % bootstrap interval, in the unit of the values."""

    median: float
    low: float
    high: float


def _values(values: ArrayLike, what: str) -> NDArray[np.float64]:
    array = np.asarray(values, dtype=float).ravel()
    if array.size == 0:
        raise ParameterError(f"{what} needs at least one value.", "The run recorded none; measure longer.")
    if not np.isfinite(array).all():
        raise ParameterError(f"{what} needs finite values.", "Drop missing values first.")
    return array


def median_interval(values: ArrayLike, *, seed: int = 0) -> Interval:
    """Median of the values (one per trial) with its 95 % percentile bootstrap interval.

    With a single value the interval is infinite: one trial says nothing about how trials vary.  Fewer than
    six values have no interval of 95 %: of three, the bootstrap gives their range, which covers the median
    three times out of four, and a run of so few trials carries a note that says so.
    The seed makes the interval of one data set the same wherever it is computed.
    """
    array = _values(values, "An interval")
    middle = float(np.median(array))
    if array.size == 1:
        return Interval(middle, -np.inf, np.inf)
    picks = np.random.default_rng(seed).integers(0, array.size, size=(RESAMPLES, array.size))
    low, high = np.quantile(np.median(array[picks], axis=1), (0.025, 0.975))
    return Interval(middle, float(low), float(high))


def pooled_quantile(values: ArrayLike, trials: ArrayLike, q: float, *, seed: int = 0) -> Interval:
    """A quantile of all values together, with its 95 % bootstrap interval over the trials that they are of.

    Whole trials are drawn, with all that is in them, because what comes in one trial shares its moment
    (Davison and Hinkley, Bootstrap Methods and their Application, 1997, section 3.8).  Both arrays have one
    element for each value.  A single trial has an infinite interval, as in `median_interval`.
    """
    array, of = _values(values, "A quantile"), np.asarray(trials).ravel()
    if array.shape != of.shape:
        raise ParameterError(
            f"{array.size} values cannot be of {of.size} trials.", "Give one trial for each."
        )
    middle = float(np.quantile(array, q))
    names, index = np.unique(of, return_inverse=True)
    if names.size == 1:
        return Interval(middle, -np.inf, np.inf)
    order = np.argsort(array, kind="stable")
    ranked, index = array[order], index[order]
    generator = np.random.default_rng(seed)
    drawn = generator.multinomial(names.size, np.full(names.size, 1 / names.size), size=POOLED_RESAMPLES)
    found = np.empty(POOLED_RESAMPLES)
    for number, times in enumerate(drawn):
        reached = np.cumsum(times[index])
        found[number] = ranked[np.searchsorted(reached, q * reached[-1])]
    low, high = np.quantile(found, (0.025, 0.975))
    return Interval(middle, float(min(low, middle)), float(max(high, middle)))


def paired_difference(treatment: ArrayLike, baseline: ArrayLike, *, seed: int = 0) -> Interval:
    """Median of treatment minus baseline, pair by pair, with its interval.

    Both have one value per trial, in the same order; trials that ran next to each other share their drift,
    and the difference cancels it.
    """
    left, right = _values(treatment, "A difference"), _values(baseline, "A difference")
    if left.shape != right.shape:
        raise ParameterError(
            f"{left.size} treatments and {right.size} baselines cannot be paired.",
            "Give one of each per trial.",
        )
    return median_interval(left - right, seed=seed)


def noise_floor(baseline: ArrayLike, *, seed: int = 0) -> float:
    """The difference that this run shows where there is none: A against A.

    Each baseline trial is compared with the next; 95 % of the medians of as many such differences, with
    random sign, lie within the floor.  A measured difference inside it is "no difference seen".
    Infinite with fewer than three trials.
    """
    array = _values(baseline, "A noise floor")
    if array.size < 3:
        return float("inf")
    steps = np.diff(array)
    generator = np.random.default_rng(seed)
    picks = generator.integers(0, steps.size, size=(RESAMPLES, array.size))
    signs = generator.choice((-1.0, 1.0), size=picks.shape)
    return float(np.quantile(np.abs(np.median(signs * steps[picks], axis=1)), 0.95))


def seen(difference: Interval, floor: float) -> bool:
    """Whether all of a difference's interval lies beyond the noise floor, on one side of zero."""
    return difference.low > floor or difference.high < -floor


def in_columns(stem: str, unit: str, interval: Interval | None) -> dict[str, float]:
    """An interval as three columns of a summary: {stem_unit, stem_lo_unit, stem_hi_unit}.

    A quantity without a unit gives {stem, stem_lo, stem_hi}; where there is no interval, all are missing.
    """
    names = [f"{stem}{end}_{unit}".removesuffix("_") for end in ("", "_lo", "_hi")]
    return dict(zip(names, interval or (math.nan,) * 3, strict=True))


def spread(stem: str, unit: str, values: ArrayLike) -> dict[str, float]:
    """The columns of a quantity's median and its 95 % interval; values has one number per trial."""
    return in_columns(stem, unit, median_interval(values))


def sign_interval(values: ArrayLike) -> Interval:
    """Median of the values with its exact interval of at least 95 %, which is that of the sign test.

    It ends at the k-th value from below and the k-th from above: however values are distributed, the median
    lies below the k-th of n with the chance that a coin falls heads fewer than k times in n (Conover,
    Practical Nonparametric Statistics, 1999, chapter 3).  Fewer than six have none: then it is infinite.
    """
    array = np.sort(_values(values, "An interval"))
    size, out, chance = array.size, 0, 0.0
    while (chance := chance + math.comb(size, out) / 2**size) <= 0.025:
        out += 1
    middle = float(np.median(array))
    if out == 0:
        return Interval(middle, -np.inf, np.inf)
    return Interval(middle, float(array[out - 1]), float(array[size - out]))
