"""Medians, intervals and the noise floor: the few statistics that the book's figures rest on.

Latencies are skewed and have outliers that belong to somebody else, so nothing here is a bare mean.
Intervals are percentile bootstrap intervals (Efron and Tibshirani, An Introduction to the Bootstrap, 1993,
chapter 13) over *trials*: the passes inside one trial share their moment and are not independent.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import ParameterError

RESAMPLES = 2000


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

    With a single value the interval is infinite: one trial says nothing about how trials vary.
    The seed makes the interval of one data set the same wherever it is computed.
    """
    array = _values(values, "An interval")
    middle = float(np.median(array))
    if array.size == 1:
        return Interval(middle, -np.inf, np.inf)
    picks = np.random.default_rng(seed).integers(0, array.size, size=(RESAMPLES, array.size))
    low, high = np.quantile(np.median(array[picks], axis=1), (0.025, 0.975))
    return Interval(middle, float(low), float(high))


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
    """Whether a difference stands clear of the noise floor and its interval clear of zero."""
    return abs(difference.median) > floor and (difference.low > 0 or difference.high < 0)
