"""Medians of repeated timings with their 95 % bootstrap intervals, and figures derived from them."""

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from zlib import crc32

import numpy as np
import scipy  # its parts load when they are first used: an audit needs none of them
from numpy.typing import NDArray

RESAMPLES = 2000
INTERVAL = (0.025, 0.975)

Floats = NDArray[np.float64]
Draws = Floats  # (RESAMPLES,)


@dataclass(frozen=True)
class Estimate:
    """A figure and its bootstrap distribution. `draws` is None where there is only one timing, and so no spread."""

    value: float
    draws: Draws | None

    @cached_property
    def interval(self) -> tuple[float, float]:
        """The 95 % percentile interval, (nan, nan) where the spread is not known."""
        if self.draws is None:
            return math.nan, math.nan
        low, high = np.quantile(self.draws, INTERVAL)
        return float(low), float(high)


def bootstrap_median(runs: Sequence[Sequence[float]], label: str) -> Estimate:
    """The median of all timings, with a two-stage bootstrap (Davison and Hinkley 1997, section 3.8).

    `runs` holds the timings of every independent run. Timings of one run share a process, so runs are drawn
    first and timings within each drawn run second. `label` seeds the draws: the same data give the same interval,
    and different figures independent draws. With few runs such intervals are known to be too narrow.
    """
    value = float(np.median(np.concatenate([np.asarray(run, dtype=float) for run in runs])))
    counts = np.array([len(run) for run in runs])
    if counts.sum() < 2:
        return Estimate(value, None)
    padded = np.full((len(runs), counts.max()), np.inf)
    for row, run in zip(padded, runs, strict=True):
        row[: len(run)] = run
    generator = np.random.default_rng(crc32(label.encode()))
    drawn_runs = generator.integers(0, len(runs), (RESAMPLES, len(runs)))
    drawn_counts = counts[drawn_runs]
    shape = (*drawn_runs.shape, padded.shape[1])
    drawn = (generator.random(shape) * drawn_counts[..., None]).astype(int)
    values = padded[drawn_runs[..., None], drawn]
    values[np.arange(shape[2]) >= drawn_counts[..., None]] = np.inf  # a short run gives only as many as it has
    return Estimate(value, _medians(values.reshape(RESAMPLES, -1), drawn_counts.sum(axis=1)))


def _medians(values: NDArray[np.float64], counts: NDArray[np.int64]) -> Draws:
    """Row medians of the `counts` smallest values of every row; the rest is padding of infinity."""
    ordered = np.sort(values, axis=1)
    rows = np.arange(len(ordered))
    middle: Draws = (ordered[rows, (counts - 1) // 2] + ordered[rows, counts // 2]) / 2
    return middle


def derive(formula: Callable[..., Any], *estimates: Estimate) -> Estimate:
    """The figure that `formula` gives for independently drawn estimates, with its spread."""
    value = float(formula(*(estimate.value for estimate in estimates)))
    draws = [estimate.draws for estimate in estimates]
    if any(drawn is None for drawn in draws):
        return Estimate(value, None)
    return Estimate(value, np.asarray(formula(*draws)))


@dataclass(frozen=True)
class SmallSample:
    """A mean, or a difference of means, of so few values that only a t interval makes sense; NaN where none is."""

    value: float
    low: float
    high: float


def mean_with_t_interval(values: Sequence[float]) -> SmallSample:
    """The mean and its 95 % interval by Student's t, for values drawn independently from a normal distribution."""
    return _small_sample(float(np.mean(values)), lambda: scipy.stats.ttest_1samp(values, 0))


def welch_difference(values: Sequence[float], others: Sequence[float]) -> SmallSample:
    """Mean of `values` minus that of `others`, with Welch's 95 % interval (Welch 1947): the spreads may differ."""
    difference = float(np.mean(values) - np.mean(others))
    return _small_sample(difference, lambda: scipy.stats.ttest_ind(values, others, equal_var=False))


def paired_difference(values: Sequence[float], others: Sequence[float]) -> SmallSample:
    """Mean of `values` minus that of `others`, which belong together one by one, with Student's 95 % interval.

    What both of a pair have in common, such as a seed, is then no part of the spread (Student 1908).
    """
    difference = float(np.mean(np.subtract(values, others)))
    return _small_sample(difference, lambda: scipy.stats.ttest_rel(values, others))


def _small_sample(value: float, test: Callable[[], Any]) -> SmallSample:
    with warnings.catch_warnings():
        # Of a single value, whose interval is NaN, and of equal values, whose interval is the value itself.
        warnings.simplefilter("ignore", RuntimeWarning)
        low, high = test().confidence_interval(INTERVAL[1] - INTERVAL[0])
    return SmallSample(value, float(low), float(high))


@dataclass(frozen=True)
class Bounded:
    """Figures and their 95 % intervals as tables hold them, all of shape (n,); NaN where there is none."""

    value: Floats
    low: Floats
    high: Floats

    def map(self, function: Callable[[Floats], Floats]) -> "Bounded":
        """An increasing function of all three."""
        return Bounded(function(self.value), function(self.low), function(self.high))


def bounded_difference(figures: Bounded, others: Bounded) -> Bounded:
    """`figures` minus `others`, which are independent of them, from the intervals alone (Zou and Donner 2008).

    Each side's distance from figure to limit stands for its error there, so that intervals need not be symmetric.
    """
    value = figures.value - others.value
    return Bounded(
        value,
        value - np.hypot(figures.value - figures.low, others.high - others.value),
        value + np.hypot(figures.high - figures.value, others.value - others.low),
    )


def bounded_ratio(figures: Bounded, others: Bounded) -> Bounded:
    """`figures` over `others`: the difference of their logarithms. NaN where a figure or limit is not above zero."""
    return bounded_difference(figures.map(_logarithm), others.map(_logarithm)).map(np.exp)


def _logarithm(values: Floats) -> Floats:
    return np.log(values, where=values > 0, out=np.full_like(values, np.nan))
