"""Two servers, or two runs of one: when a speedup of them has an interval, and how often that holds the truth."""

import math
from collections.abc import Sequence

import pytest
from bench.interval_coverage import (
    USUAL,
    line_of_case,
    line_of_method,
    of_two_servers,
)

from cases import cases
from dpscale.formulas.figure import Figure, estimate_of_blocks, interval_of_two, is_uneven
from rows import apart, together

FEW_STUDIES = 300


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


@pytest.mark.parametrize(("servers", "speedups", "uneven", "lenders"), cases(__file__, "not_borrowed"))
def test_nothing_is_borrowed(servers: str, speedups: list[float], uneven: bool | None, lenders: list[str]) -> None:
    on = {"several": _on_servers, "one": _on_one_server}
    figure = on[servers](speedups)
    lent = [*OTHERS[:2], *(on[kind]([1.0, 1.1]) for kind in lenders)]
    assert interval_of_two(figure, uneven, lent) is figure


def test_two_runs_of_one_server_borrow_from_runs_of_it() -> None:
    lenders = [_on_one_server(values) for values in ([1.0, 1.1], [0.9, 1.2, 1.0], [2.0, 2.1])]
    borrowed = interval_of_two(_on_one_server([1.5, 1.8]), True, lenders)
    assert (borrowed.kind, borrowed.borrowed_from, borrowed.has_interval) == ("one machine", 3, True)


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
def test_the_document_says_how_often_the_truth_is_held(method: str) -> None:
    """A line of each of its tables: what draws the studies draws those of all lines."""
    assert line_of_method("others as one server") in method
    assert line_of_case(next(iter(USUAL))) in method
