import math

import pytest
from bench.interval_coverage import CASES, SERVERS, covered
from hypothesis import given
from hypothesis import strategies as st

from dpscale.formulas import OnServer, scaling
from dpscale.formulas.figure import derive_in_blocks, estimate_of_blocks, estimate_of_runs, ratio
from dpscale.formulas.statistics import (
    mean_with_t_interval,
    ratio_of_blocks,
    welch_difference,
)
from rows import apart, together

seconds = st.floats(0.01, 1000, allow_nan=False)
blocks = st.dictionaries(st.text("abcdef", min_size=1, max_size=3), seconds, min_size=1, max_size=6).map(apart)
COVERED = 0.93


@given(blocks, st.floats(0.01, 100))
def test_a_mean_of_logarithms_does_not_depend_on_the_unit(values: dict[OnServer, float], unit: float) -> None:
    estimate = estimate_of_blocks(values)
    in_unit = estimate_of_blocks({name: value * unit for name, value in values.items()})
    assert in_unit.value == pytest.approx(estimate.value * unit)
    if estimate.kind != "one run":
        assert in_unit.interval == pytest.approx([end * unit for end in estimate.interval])


def test_runs_of_one_server_are_averaged_in_it() -> None:
    """Geometric means 2, 4 and 8 are the three units, whichever server has more runs."""
    estimate = estimate_of_blocks(
        {OnServer("a", 1): 1.0, OnServer("b", 1): 4.0, OnServer("c", 2): 8.0, OnServer("d", 3): 4.0}
    )
    assert estimate.value == pytest.approx(4)
    assert estimate.kind == "interval"
    assert estimate.interval == pytest.approx(estimate_of_blocks(apart({"a": 2.0, "b": 8.0, "c": 4.0})).interval)


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


def test_inside_blocks_what_they_share_drops_out() -> None:
    """Servers differ by 30 %, the ratio by 0.1 %: formed within blocks it is known, across them it is not."""
    server = {"a": 1.0, "b": 1.3, "c": 0.8, "d": 1.1}
    noise = {"a": 0.999, "b": 1.001, "c": 1.0, "d": 1.0}
    baseline = estimate_of_blocks(apart(server))
    epoch = estimate_of_blocks(apart({name: server[name] * noise[name] / 2 for name in server}))
    low, high = derive_in_blocks(scaling.speedup, baseline, epoch).interval
    assert 1.99 < low < 2.0 < high < 2.01
    low, high = ratio(baseline, epoch).interval
    assert low < 1.6 and high > 2.5


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
