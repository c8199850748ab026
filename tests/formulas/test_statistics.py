import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpscale.formulas.statistics import bootstrap_median, derive, mean_with_t_interval, welch_difference

seconds = st.floats(0.01, 1000, allow_nan=False)
runs_of_seconds = st.lists(st.lists(seconds, min_size=1, max_size=5), min_size=1, max_size=4)


@given(runs_of_seconds)
def test_the_value_is_the_median_of_all_timings_and_lies_among_the_draws(runs: list[list[float]]) -> None:
    pooled = [value for run in runs for value in run]
    estimate = bootstrap_median(runs, "x")
    assert estimate.value == np.median(pooled)
    if estimate.draws is not None:
        assert min(pooled) <= estimate.draws.min() <= estimate.draws.max() <= max(pooled)


@given(runs_of_seconds)
def test_the_same_data_give_the_same_interval(runs: list[list[float]]) -> None:
    first, second = bootstrap_median(runs, "x"), bootstrap_median(runs, "x")
    assert first.interval == second.interval or math.isnan(first.interval[0])


def test_a_single_timing_has_no_interval() -> None:
    assert bootstrap_median([[1.0]], "x").draws is None
    assert all(math.isnan(bound) for bound in bootstrap_median([[1.0]], "x").interval)


def test_the_spread_between_runs_counts_not_only_that_within() -> None:
    """Ten agreeing epochs of each of two runs that differ are two observations, not twenty."""
    between = bootstrap_median([[1.0] * 10, [2.0] * 10], "x")
    within = bootstrap_median([np.linspace(1, 2, 10).tolist()] * 2, "x")
    assert between.interval == (1.0, 2.0)
    assert between.draws is not None and within.draws is not None
    assert np.mean(np.isin(between.draws, [1.0, 2.0])) == pytest.approx(0.5, abs=0.05)
    assert np.std(between.draws) > np.std(within.draws)


def test_runs_of_different_lengths_are_not_padded_into_the_median() -> None:
    estimate = bootstrap_median([[5.0], [5.0, 5.0, 5.0]], "x")
    assert estimate.interval == (5.0, 5.0)


def test_the_interval_covers_the_true_median_about_as_often_as_it_says() -> None:
    """With many runs; with the few of a study it covers less often, as the page says."""
    generator = np.random.default_rng(1)
    covered = 0
    for trial in range(200):
        runs = generator.normal(10, 1, (30, 1)).tolist()
        low, high = bootstrap_median(runs, str(trial)).interval
        covered += low <= 10 <= high
    assert 0.88 <= covered / 200 <= 0.99


def test_derived_figures_carry_the_spread() -> None:
    one = bootstrap_median([[2.0, 2.2, 1.8]], "a")
    other = bootstrap_median([[1.0, 1.1, 0.9]], "b")
    ratio = derive(lambda a, b: a / b, one, other)
    low, high = ratio.interval
    assert ratio.value == 2.0
    assert low < 2.0 < high
    assert derive(lambda a, b: a / b, one, bootstrap_median([[1.0]], "c")).draws is None


@pytest.mark.parametrize(
    ("degrees_of_freedom", "quantile"),
    [(1, 12.7062), (2, 4.30265), (4, 2.77645), (10, 2.22814), (30, 2.04227), (1_000_000, 1.95997)],
)
def test_students_t_is_that_of_the_printed_tables(degrees_of_freedom: int, quantile: float) -> None:
    values = np.linspace(1.0, 3.0, degrees_of_freedom + 1).tolist()
    sample = mean_with_t_interval(values)
    standard_error = np.std(values, ddof=1) / math.sqrt(len(values))
    for distance in (sample.high - sample.value, sample.value - sample.low):
        assert distance / standard_error == pytest.approx(quantile, rel=1e-5)


@pytest.mark.slow
def test_a_t_interval_covers_the_mean_in_95_of_100_cases() -> None:
    """4,000 samples of 3: the share has a standard error of 0.34 %."""
    samples = np.random.default_rng(5).normal(1.0, 2.0, (4000, 3))
    intervals = [mean_with_t_interval(sample) for sample in samples]
    assert np.mean([one.low <= 1.0 <= one.high for one in intervals]) == pytest.approx(0.95, abs=0.012)


@pytest.mark.slow
def test_welchs_interval_covers_the_difference_where_spreads_differ() -> None:
    generator = np.random.default_rng(6)
    pairs = zip(generator.normal(3, 1, (4000, 3)), generator.normal(1, 4, (4000, 5)), strict=True)
    covered = np.mean([one.low <= 2.0 <= one.high for one in (welch_difference(*pair) for pair in pairs)])
    assert covered == pytest.approx(0.95, abs=0.015)


def test_single_values_have_no_interval_and_equal_ones_none_but_themselves() -> None:
    assert math.isnan(mean_with_t_interval([1.0]).low)
    assert math.isnan(welch_difference([1.0], [2.0, 3.0]).low)
    same = welch_difference([2.0, 2.0], [1.0, 1.0])
    assert (same.value, same.low, same.high) == (1, 1, 1)
