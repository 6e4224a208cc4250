"""Medians, intervals and the noise floor, tried on data whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from sched_labs.core import stats
from sched_labs.core.errors import ParameterError


def skewed(seed: int, size: int) -> np.ndarray:
    """Log-normal, like latencies; its median is 1."""
    return np.random.default_rng(seed).lognormal(0, 0.5, size)


@pytest.mark.parametrize("size", [2, 3, 4, 9, 10, 31])
def test_interval_contains_its_median_and_lies_within_the_values(size: int) -> None:
    for seed in range(20):
        values = skewed(seed, size)
        interval = stats.median_interval(values)
        assert values.min() <= interval.low <= interval.median <= interval.high <= values.max()


@pytest.mark.parametrize("size", [9, 25])
def test_interval_covers_the_true_median_about_as_often_as_it_says(size: int) -> None:
    intervals = [stats.median_interval(skewed(seed, size)) for seed in range(300)]
    covered = np.mean([i.low <= 1 <= i.high for i in intervals])
    assert 0.88 <= covered <= 0.995  # 95 % nominal; small samples make the bootstrap of a median uneven


def test_more_trials_narrow_the_interval() -> None:
    def width(size: int) -> float:
        intervals = [stats.median_interval(skewed(seed, size)) for seed in range(30)]
        return float(np.median([i.high - i.low for i in intervals]))

    assert width(80) < 0.6 * width(10)


def test_one_trial_says_nothing_about_trials() -> None:
    assert stats.median_interval([5.0]) == (5.0, -np.inf, np.inf)


def test_the_same_data_has_the_same_interval() -> None:
    assert stats.median_interval(skewed(1, 9)) == stats.median_interval(skewed(1, 9))


@pytest.mark.parametrize("values", [[], [1.0, float("nan")], [1.0, float("inf")]])
def test_values_that_have_no_median_are_refused(values: list[float]) -> None:
    with pytest.raises(ParameterError):
        stats.median_interval(values)
    with pytest.raises(ParameterError):
        stats.noise_floor(values)


def test_pairs_cancel_drift_that_would_hide_a_planted_shift() -> None:
    drift = np.linspace(0, 1000, 15)
    noise = np.random.default_rng(3)
    baseline = drift + noise.normal(0, 1, 15)
    treatment = drift + 20 + noise.normal(0, 1, 15)
    difference = stats.paired_difference(treatment, baseline)
    assert abs(difference.median - 20) < 2
    assert difference.high - difference.low < 10
    # Unpaired, the two overlap and show nothing.
    assert stats.median_interval(treatment).low < stats.median_interval(baseline).high


def test_a_pooled_quantile_is_of_all_values_and_its_interval_of_the_trials() -> None:
    quiet, tail = np.arange(100.0), np.arange(100.0) + 1000
    both = stats.pooled_quantile([*quiet, *tail], [0] * 100 + [1] * 100, 0.99)
    assert both.median == np.quantile([*quiet, *tail], 0.99)
    assert both.low < 100 and both.high >= both.median  # one of the two trials may have been drawn twice
    alike = stats.pooled_quantile(np.tile(quiet, 6), np.repeat(np.arange(6), 100), 0.99)
    assert alike.high - alike.low <= 1
    assert stats.pooled_quantile(quiet, np.zeros(100), 0.5).high == np.inf
    with pytest.raises(ParameterError, match="3 values cannot be of 2 trials"):
        stats.pooled_quantile([1, 2, 3], [1, 2], 0.5)


def test_unequal_numbers_of_trials_cannot_be_paired() -> None:
    with pytest.raises(ParameterError, match="3 treatments and 2 baselines"):
        stats.paired_difference([1, 2, 3], [1, 2])


def test_pure_noise_is_rarely_called_a_difference() -> None:
    false = 0
    for seed in range(300):
        noise = skewed(seed, 18)
        baseline, treatment = noise[:9], noise[9:]
        difference = stats.paired_difference(treatment, baseline)
        false += stats.seen(difference, stats.noise_floor(baseline))
    assert false / 300 < 0.06


def test_a_large_shift_is_seen() -> None:
    for seed in range(30):
        noise = skewed(seed, 18)
        difference = stats.paired_difference(noise[9:] + 10, noise[:9])
        assert stats.seen(difference, stats.noise_floor(noise[:9]))


def test_the_floor_grows_with_the_noise_and_needs_three_trials() -> None:
    values = skewed(7, 15)
    assert stats.noise_floor(10 * values) == pytest.approx(10 * stats.noise_floor(values))
    assert stats.noise_floor([4.0] * 5) == 0
    assert stats.noise_floor([1.0, 2.0]) == np.inf
    assert not stats.seen(stats.Interval(5, 4, 6), np.inf)
    assert not stats.seen(stats.Interval(5, -1, 6), 1)
    assert stats.seen(stats.Interval(-5, -6, -4), 1)


@pytest.mark.parametrize(("size", "out"), [(6, 1), (8, 1), (9, 2), (11, 2), (12, 3), (15, 4)])
def test_a_sign_interval_ends_where_the_tables_say(size: int, out: int) -> None:
    values = np.random.default_rng(size).permutation(np.arange(1.0, size + 1))
    assert stats.sign_interval(values) == ((size + 1) / 2, out, size + 1 - out)


def test_a_sign_interval_covers_the_median_at_least_as_often_as_it_says() -> None:
    for size in (6, 9, 15):
        intervals = [stats.sign_interval(skewed(seed, size)) for seed in range(2000)]
        assert np.mean([i.low <= 1 <= i.high for i in intervals]) >= 0.94  # 0.95 and chance


def test_fewer_than_six_values_have_no_sign_interval() -> None:
    assert stats.sign_interval([1.0, 2.0, 3.0, 4.0, 5.0]) == (3.0, -np.inf, np.inf)
    with pytest.raises(ParameterError):
        stats.sign_interval([])
