"""Two servers, or two runs of one: when a speedup of them has an interval, and how often that holds the truth."""

import math
from collections.abc import Mapping, Sequence

import pytest
from bench.interval_coverage import (
    BAD,
    OTHERS_AS,
    USUAL,
    line_of_case,
    line_of_method,
    of_two_servers,
)
from hypothesis import given
from hypothesis import strategies as st

from dpscale.formulas.figure import Figure, estimate_of_blocks, interval_of_two, is_uneven
from rows import apart, together

FEW_STUDIES = 1000

speedups = st.floats(0.05, 50)
pairs = st.lists(speedups, min_size=2, max_size=2)


def _on_servers(values: Sequence[float]) -> Figure:
    """A run on each server."""
    return estimate_of_blocks(apart({f"run-{number}": value for number, value in enumerate(values)}))


def _on_one_server(values: Sequence[float]) -> Figure:
    return estimate_of_blocks(together({f"run-{number}": value for number, value in enumerate(values)}))


OTHERS = [_on_servers(values) for values in ([1.0, 1.1], [0.9, 1.2], [2.0, 2.1])]


def test_an_interval_holds_the_spread_of_the_others_as_that_of_one_more_server() -> None:
    """Worked by hand: two degrees of freedom have Student's factor 4.303."""
    borrowed = interval_of_two(_on_servers([1.5, 1.8]), True, OTHERS)
    own_variance = math.log(1.8 / 1.5) ** 2 / 2
    lent = (math.log(1.1) ** 2 + math.log(1.2 / 0.9) ** 2 + math.log(2.1 / 2) ** 2) / 2 / 3
    reach = 4.30265 * math.sqrt((own_variance + lent) / 2 / 2)
    assert borrowed.value == pytest.approx(math.sqrt(1.5 * 1.8))
    ends = borrowed.value * math.exp(-reach), borrowed.value * math.exp(reach)
    assert borrowed.interval == pytest.approx(ends, rel=1e-5)
    assert (borrowed.kind, borrowed.borrowed_from, borrowed.has_interval) == ("interval", 3, True)


def test_an_other_configuration_lends_by_its_degrees_of_freedom() -> None:
    """One on four servers counts three times; one on one server lends nothing."""
    four = [1.0, 1.05, 1.3, 1.1]
    of_four = interval_of_two(_on_servers([1.5, 1.8]), True, [_on_servers(four), *OTHERS[:2], _on_servers([1.0])])
    mean = sum(map(math.log, four)) / 4
    squares = sum((math.log(value) - mean) ** 2 for value in four)
    lent = (squares + (math.log(1.1) ** 2 + math.log(1.2 / 0.9) ** 2) / 2) / 5
    reach = 4.30265 * math.sqrt((math.log(1.8 / 1.5) ** 2 / 2 + lent) / 4)
    assert of_four.high / of_four.value == pytest.approx(math.exp(reach), rel=1e-5)
    assert of_four.borrowed_from == 3


def test_two_even_servers_have_students_interval_of_their_own() -> None:
    """One degree of freedom has the factor 12.706."""
    even = interval_of_two(_on_servers([1.945, 1.955]), False, OTHERS)
    reach = 12.7062 * math.log(1.955 / 1.945) / 2
    assert even.high / even.value == pytest.approx(math.exp(reach), rel=1e-6)
    assert (even.kind, even.borrowed_from) == ("interval", 0)


CASES: Mapping[str, tuple[Figure, bool | None, Sequence[Figure]]] = {
    "too few others": (_on_servers([1.5, 1.8]), True, OTHERS[:2]),
    "others of one server lend nothing to two": (
        _on_servers([1.5, 1.8]), True, [_on_one_server([1.0, 1.1])] * 2 + OTHERS[:2],
    ),
    "others of two lend nothing to one": (_on_one_server([1.5, 1.8]), True, OTHERS),
    "not known whether steps are uneven": (_on_servers([1.5, 1.8]), None, OTHERS),
    "three servers": (_on_servers([1.5, 1.8, 1.7]), True, OTHERS),
    "three runs of one server": (_on_one_server([1.5, 1.8, 1.7]), True, OTHERS),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_nothing_is_borrowed(case: str) -> None:
    figure, uneven, lenders = CASES[case]
    assert interval_of_two(figure, uneven, lenders) is figure


def test_two_runs_of_one_server_borrow_from_runs_of_it() -> None:
    lenders = [_on_one_server(values) for values in ([1.0, 1.1], [0.9, 1.2, 1.0], [2.0, 2.1])]
    borrowed = interval_of_two(_on_one_server([1.5, 1.8]), True, lenders)
    assert (borrowed.kind, borrowed.borrowed_from, borrowed.has_interval) == ("one machine", 3, True)


@given(pairs, st.lists(pairs, min_size=3, max_size=8))
def test_no_interval_cuts_off_one_of_the_two(values: list[float], lent: list[list[float]]) -> None:
    """It reaches at least 1.52 times their distance to each side: 4.303 / (2 sqrt 2)."""
    borrowed = interval_of_two(_on_servers(values), True, [_on_servers(pair) for pair in lent])
    assert borrowed.low * (1 - 1e-9) <= min(values) and max(values) <= borrowed.high * (1 + 1e-9)
    assert math.log(borrowed.high / borrowed.value) >= 1.52 * math.log(max(values) / min(values)) - 1e-9


@given(pairs, st.lists(pairs, min_size=3, max_size=8))
def test_where_two_agree_by_chance_the_interval_is_wider_than_their_own(
    values: list[float], lent: list[list[float]]
) -> None:
    """They agree where they lie less than a quarter as far apart as the others do. Further apart, it is narrower."""
    figure, lenders = _on_servers(values), [_on_servers(pair) for pair in lent]
    students, borrowed = interval_of_two(figure, False, lenders), interval_of_two(figure, True, lenders)
    distance = math.log(max(values) / min(values))
    usual = math.sqrt(sum(math.log(max(pair) / min(pair)) ** 2 for pair in lent) / len(lent))
    if 1e-9 < distance < usual / 4.1:
        assert borrowed.low < students.low and students.high < borrowed.high
    if distance > usual:
        assert students.low < borrowed.low and borrowed.high < students.high


def test_an_interval_stays_borrowed_through_a_formula() -> None:
    """The efficiency has the speedup's."""
    efficiency = interval_of_two(_on_servers([1.5, 1.8]), True, OTHERS).map(lambda speedup: speedup / 2)
    assert (efficiency.borrowed_from, efficiency.kind, [*efficiency.blocks.values()]) == (3, "interval", [0.75, 0.9])


@pytest.mark.parametrize(
    ("lower_s", "upper_s", "uneven"), [(0.0995, 0.1014, False), (0.0990, 0.1011, True), (0.1, 0.1, False)]
)
def test_steps_are_uneven_from_two_per_cent_on(lower_s: float, upper_s: float, uneven: bool) -> None:
    assert is_uneven(lower_s, upper_s, 0.1) == uneven


def test_borrowing_holds_the_truth_more_often_in_less_than_half_the_width() -> None:
    """The former where two agree by chance."""
    students, borrowed = (of_two_servers(USUAL["as recorded"], others_as, FEW_STUDIES) for others_as in (0, 1))
    assert students.coverage_of_alike < 0.8 < 0.92 < borrowed.coverage_of_alike
    assert borrowed.half_width < students.half_width / 2


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS_AS)
def test_the_document_says_how_often_each_method_holds_the_truth(name: str, method: str) -> None:
    assert line_of_method(name) in method


@pytest.mark.slow
@pytest.mark.parametrize("name", [next(iter(USUAL)), next(iter(BAD))])
def test_the_document_says_how_often_the_truth_is_held(name: str, method: str) -> None:
    assert line_of_case(name) in method
