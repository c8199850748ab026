import math

import numpy as np
import pytest
import scipy  # its distributions load when they are first used
from bench.interval_coverage import CASES, SERVERS, covered
from hypothesis import given
from hypothesis import strategies as st

from dpscale.formulas import OnServer, scaling
from dpscale.formulas.figure import Figure, derive_in_blocks, estimate_of_blocks, estimate_of_runs
from dpscale.formulas.statistics import (
    FEWEST_UNITS,
    MOST_UNITS,
    best_of,
    mean_with_t_interval,
    ratio_of_blocks,
    units_to_decide,
    welch_difference,
)
from rows import apart, together

COVERED = 0.93


def test_two_servers_or_runs_have_their_two_values_and_no_interval() -> None:
    of_two = estimate_of_blocks({OnServer("a", 1): 9.0, OnServer("b", 1): 4.0, OnServer("c", 2): 1.5})
    assert of_two.value == pytest.approx(3)
    assert of_two.interval == pytest.approx((1.5, 6))
    assert (of_two.kind, of_two.has_interval) == ("two machines", False)
    assert not (of_two.is_above(1) or of_two.is_below(9) or of_two.holds(3))
    runs = estimate_of_blocks(together({"a": 2.0, "b": 0.5}))
    assert (runs.interval, runs.kind, runs.has_interval) == ((0.5, 2.0), "two runs", False)


def test_runs_of_one_machine_have_their_interval_and_it_is_called_so() -> None:
    values = {"a": 1.0, "b": 1.1, "c": 1.3}
    of_one_machine = estimate_of_blocks(together(values))
    assert of_one_machine.interval == estimate_of_blocks(apart(values)).interval
    assert (of_one_machine.kind, of_one_machine.has_interval) == ("one machine", True)
    assert estimate_of_blocks(together({"a": 1.0})).kind == "one run"


def test_a_run_counts_once_however_many_timings_it_has() -> None:
    """Fast runs would weigh more, where they have more timings."""
    few, many = (apart({"a": [1.0] * number, "b": [2.0], "c": [4.0]}) for number in (1, 10))
    assert estimate_of_runs(few).value == estimate_of_runs(many).value == pytest.approx(2.0)
    assert estimate_of_runs(apart({"a": [1.0, 9.0, 2.0]})).value == 2.0


def test_only_blocks_that_both_have_are_paired() -> None:
    first = estimate_of_blocks(apart({"a": 2.0, "b": 4.0, "c": 5.0}))
    second = estimate_of_blocks(apart({"a": 1.0, "b": 1.0, "d": 9.0}))
    assert derive_in_blocks(scaling.speedup, first, second).blocks == apart({"a": 2.0, "b": 4.0})
    with pytest.raises(ValueError, match="no block"):
        derive_in_blocks(scaling.speedup, first, estimate_of_blocks(apart({"e": 1.0})))


@pytest.mark.slow
@pytest.mark.parametrize("servers", SERVERS)
@pytest.mark.parametrize("case", CASES)
def test_intervals_hold_the_truth_as_often_as_the_method_says(case: str, servers: int, method: str) -> None:
    """At least 93 % of time, speedup and communication where effects are normal. The method has the same numbers."""
    shares = covered(case, servers)
    assert "skewed" in case or min(shares.values()) >= COVERED
    printed = " | ".join(f"{100 * share:.1f} %" for share in shares.values())
    assert f"| {case} | {servers} | {printed} |" in method


def test_single_values_have_no_interval_and_equal_ones_none_but_themselves() -> None:
    assert math.isnan(mean_with_t_interval([1.0]).low)
    assert math.isnan(welch_difference([1.0], [2.0, 3.0]).low)
    single = ratio_of_blocks([1.0], [2.0, 2.0, 2.0])
    assert (single.value, single.has_interval) == (0.5, False)
    equal = welch_difference([2.0, 2.0], [1.0, 1.0])
    assert (equal.value, equal.low, equal.high) == (1, 1, 1)


STUDIES, EQUAL = 400, 8


@pytest.mark.slow
@pytest.mark.parametrize("servers", [3, 6])
@pytest.mark.parametrize("shared", [0.0, 0.02], ids=["independent", "servers in common"])
def test_the_best_of_equal_ones_is_covered(servers: int, shared: float) -> None:
    """Runs differ by 2 %, and servers by as much where they are the same for all. The interval of one figure alone
    covers the largest of eight too seldom."""
    random = np.random.default_rng(servers)
    covered, naive = 0, 0
    for _ in range(STUDIES):
        common = random.normal(0, shared, servers)
        drawn = np.exp(math.log(1.8) + common + random.normal(0, 0.02, (EQUAL, servers)))
        figures = [estimate_of_blocks(apart(dict(enumerate(speedups.tolist())))) for speedups in drawn]
        chosen = max(figures, key=lambda figure: figure.value)
        covered += best_of(chosen, EQUAL).holds(1.8)
        naive += chosen.holds(1.8)
    assert covered / STUDIES >= COVERED
    assert shared or naive / STUDIES < COVERED - 0.05


def test_what_was_chosen_from_one_keeps_its_interval_and_without_one_there_is_none() -> None:
    figure = estimate_of_blocks(apart({server: 1.7 + server / 10 for server in range(3)}))
    assert best_of(figure, 1).interval == pytest.approx(figure.interval)
    assert not best_of(Figure.of(1.8, 1.7, 1.9), 8).has_interval, "of how many units is not known"
    assert not best_of(Figure(1.8), 8).has_interval


NUMBERS = st.floats(-3, 3)
SPREADS = st.floats(0.001, 2)
UNITS = st.integers(1, 30)


def reach(units: int, spread: float) -> float:
    return float(scipy.stats.t.ppf(0.975, units - 1)) * spread / math.sqrt(units)


@given(NUMBERS, NUMBERS, SPREADS, UNITS)
def test_it_is_the_smallest_number_whose_interval_is_on_one_side(
    value: float, limit: float, spread: float, units: int
) -> None:
    deciding, distance = units_to_decide(value, limit, spread, units), abs(value - limit)
    smaller = range(max(FEWEST_UNITS, units + 1), deciding or MOST_UNITS + 1)
    assert not any(reach(number, spread) < distance * (1 - 1e-9) for number in smaller)
    if deciding is not None:
        assert max(units, FEWEST_UNITS - 1) < deciding <= MOST_UNITS
        assert reach(deciding, spread) < distance * (1 + 1e-9)
