"""Which trades of cost against gain no other one beats."""

from hypothesis import given
from hypothesis import strategies as st

from dpscale.formulas.figure import Figure
from dpscale.formulas.frontier import Trade, is_pareto_best, is_surely_beaten

few = st.integers(0, 6).map(float)
reach = st.floats(0, 3)


def trade(cost: float, gain: float, cost_reach: float = 0.0, gain_reach: float = 0.0) -> Trade:
    return Trade(
        Figure.of(cost, cost - cost_reach, cost + cost_reach), Figure.of(gain, gain - gain_reach, gain + gain_reach)
    )


trades = st.lists(st.builds(trade, few, few, reach, reach), min_size=1, max_size=12)


def best(found: list[Trade]) -> list[bool]:
    return [is_pareto_best(one, found) for one in found]


def beaten(found: list[Trade]) -> list[bool]:
    return [is_surely_beaten(one, found) for one in found]


def test_by_hand() -> None:
    found = [trade(1, 1), trade(2, 3), trade(2, 2), trade(3, 3), trade(4, 4), trade(1, 1)]
    assert best(found) == [True, True, False, False, True, True]
    assert beaten([trade(1, 3), trade(2, 2)]) == [False, True]
    assert beaten([trade(1, 3, 0.6), trade(2, 2, 0.6)]) == [False, False]
    assert beaten([trade(1, 3, 0.1, 0.6), trade(2, 2, 0.1, 0.6)]) == [False, False]


@given(trades)
def test_what_is_not_best_is_beaten_by_a_best_one_and_what_is_best_is_never_surely_beaten(found: list[Trade]) -> None:
    top = [one for one in found if is_pareto_best(one, found)]
    assert top
    for one in found:
        assert (one in top) == (not any(other.beats(one) for other in found))
        assert one in top or any(other.beats(one) for other in top)
        assert not (one in top and is_surely_beaten(one, found))
