"""Scaling laws: the parameters they recover, and what they say of points that cannot carry them."""

from collections.abc import Iterable
from math import isnan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpscale.analyse.forecast.laws import LAWS, LawFit, fit_laws
from dpscale.formulas.figure import Figure
from dpscale.formulas.statistics import RESAMPLES, derive

BY_NAME = {law.name: law for law in LAWS}
series = st.sets(st.integers(2, 256), min_size=3, max_size=8)
shares = st.floats(0, 1)
N_THEN_FOUR = (2, 4)


def around(value: float, relative_spread: float, seed: int = 1) -> Figure:
    draws = value * (1 + relative_spread * np.random.default_rng(seed).standard_normal(RESAMPLES))
    return Figure.of_draws(value, draws)


def draw_7(estimate: Figure) -> float:
    assert estimate.draws is not None
    return float(estimate.draws[7])


def fits(speedups: dict[int, Figure]) -> dict[str, LawFit]:
    return {fit.law.name: fit for fit in fit_laws(speedups)}


def generated(name: str, gpus: Iterable[int], *parameters: float) -> dict[int, Figure]:
    return {n: Figure(BY_NAME[name].speedup(n, *parameters)) for n in gpus}


def test_the_laws_are_those_of_their_papers() -> None:
    assert BY_NAME["Amdahl"].speedup(4, 0.1) == pytest.approx(1 / (0.1 + 0.9 / 4))
    assert BY_NAME["Gustafson"].speedup(4, 0.1) == pytest.approx(4 - 0.1 * 3)
    assert BY_NAME["USL"].speedup(4, 0.1, 0.01) == pytest.approx(4 / (1 + 0.1 * 3 + 0.01 * 4 * 3))


@settings(max_examples=30)
@given(series, shares)
def test_one_serial_fraction_is_recovered(gpus: set[int], serial: float) -> None:
    for name in ("Amdahl", "Gustafson"):
        fit = fits(generated(name, gpus, serial))[name]
        assert fit.parameters["serial_fraction"].value == pytest.approx(serial, abs=1e-6)
        assert fit.worst_relative_error == pytest.approx(0, abs=1e-6)
        assert fit.degrees_of_freedom == len(gpus) - 1


@settings(max_examples=30)
@given(series, shares, st.floats(0, 0.1))
def test_contention_and_coherency_are_recovered(gpus: set[int], contention: float, coherency: float) -> None:
    fit = fits(generated("USL", gpus, contention, coherency))["USL"]
    assert fit.parameters["contention"].value == pytest.approx(contention, abs=1e-6)
    assert fit.parameters["coherency"].value == pytest.approx(coherency, abs=1e-6)


def test_every_draw_is_fitted_alone_and_a_shared_baseline_stays_shared() -> None:
    """Speedups that are exactly linear but for their baseline's noise give an interval and no contradiction."""
    baseline = around(1.0, 0.02)
    speedups = {n: derive(lambda seconds, n=n: seconds * (n - 0.05 * (n - 1)), baseline) for n in N_THEN_FOUR}
    fit = fits(speedups)["Gustafson"]
    serial = fit.parameters["serial_fraction"]
    low, high = serial.interval
    assert serial.value == pytest.approx(0.05)
    assert low < 0.05 < high
    weights = np.array([1, 3]) / 10
    drawn = [n - draw_7(speedups[n]) for n in N_THEN_FOUR]
    assert draw_7(serial) == pytest.approx(weights @ drawn)
    assert fit.contradicted_at == ()
    assert "do not contradict" in fit.statement


def test_without_intervals_there_is_none_and_nothing_is_contradicted() -> None:
    fit = fits(generated("Amdahl", N_THEN_FOUR, 0.1))["Gustafson"]
    assert fit.parameters["serial_fraction"].draws is None
    assert fit.contradicted_at == ()
    assert "cannot be tested" in fit.statement


@given(st.floats(0.2, 2), st.floats(0.2, 4))
def test_two_parameters_fit_any_two_points_and_this_is_said(two: float, four: float) -> None:
    fit = fits({2: Figure(two), 4: Figure(four)})["USL"]
    predicted = [
        BY_NAME["USL"].speedup(n, *(parameter.value for parameter in fit.parameters.values())) for n in N_THEN_FOUR
    ]
    assert predicted == pytest.approx([two, four])
    assert (fit.degrees_of_freedom, isnan(fit.worst_relative_error)) == (0, True)
    assert "USL: 2 parameters from 2 points (N = 2, 4) fit any data exactly" in fit.statement


def test_one_point_identifies_one_parameter_and_not_two() -> None:
    assert [fit.parameters for fit in fit_laws({})] == [{}, {}, {}]
    one_point = fits({2: around(1.8, 0.01)})
    assert one_point["Amdahl"].parameters["serial_fraction"].value == pytest.approx(2 / 1.8 - 1)
    assert "cannot be tested here" in one_point["Amdahl"].statement
    assert one_point["USL"].parameters == {}
    assert one_point["USL"].statement == "USL: 2 parameters from 1 point (N = 2): not identified."


def test_of_one_point_the_interval_is_that_of_the_speedup() -> None:
    speedup = Figure(1.9, 1.85, 1.95, "interval", drawn=np.random.default_rng(1).normal(1.9, 0.02, RESAMPLES))
    for name, expected in (("Amdahl", (2 / 1.95 - 1, 2 / 1.85 - 1)), ("Gustafson", (0.05, 0.15))):
        assert fits({2: speedup})[name].parameters["serial_fraction"].interval == pytest.approx(expected)


def test_a_law_that_the_points_contradict_says_where() -> None:
    """2 GPUs slower than one and 4 nearly ideal: no serial fraction gives both."""
    fit = fits({2: around(0.9, 0.01), 4: around(3.6, 0.01, 2)})["Amdahl"]
    assert fit.contradicted_at == N_THEN_FOUR
    assert fit.degrees_of_freedom == 1
    assert fit.worst_relative_error > 0.1
    assert "contradict it: it gives" in fit.statement
    assert "at N = 2, measured 0.9 [" in fit.statement


@pytest.mark.parametrize(
    ("speedups", "law", "parameter", "words"),
    [
        ({2: 2.2, 4: 4.0}, "USL", "contention", "below its physical range: superlinear speedup on few GPUs"),
        ({2: 2.1, 4: 4.4}, "Amdahl", "serial_fraction", "below its physical range: superlinear"),
        ({2: 0.5, 4: 0.4}, "Gustafson", "serial_fraction", "above its physical range: slower than one GPU"),
        ({2: 1.2, 4: 3.8}, "USL", "coherency", "below its physical range: efficiency that falls less"),
    ],
)
def test_parameters_outside_their_range_are_kept_and_said(
    speedups: dict[int, float], law: str, parameter: str, words: str
) -> None:
    fit = fits({n: around(value, 0.001, n) for n, value in speedups.items()})[law]
    low, high = BY_NAME[law].parameters[parameter]
    assert not low <= fit.parameters[parameter].value <= high
    assert words in fit.statement
    assert "reaches into the range" not in fit.statement


def test_a_parameter_that_noise_puts_outside_its_range_is_said_to_be_so() -> None:
    fit = fits({2: around(2.001, 0.01), 4: around(4.001, 0.01, 2)})["Amdahl"]
    assert fit.parameters["serial_fraction"].value < 0
    assert "its interval reaches into the range" in fit.statement
