"""Which trades of cost against gain no other one beats."""

from math import nan

from hypothesis import given
from hypothesis import strategies as st

from dpscale.formulas.frontier import Trade, beats, pareto_best, surely_beaten

few = st.integers(0, 6).map(float)
reach = st.floats(0, 3)


def trade(cost: float, gain: float, cost_reach: float = 0.0, gain_reach: float = 0.0) -> Trade:
    return Trade(cost, gain, cost - cost_reach, cost + cost_reach, gain - gain_reach, gain + gain_reach)


trades = st.lists(st.builds(trade, few, few, reach, reach), min_size=1, max_size=12)


def test_by_hand() -> None:
    found = [trade(1, 1), trade(2, 3), trade(2, 2), trade(3, 3), trade(4, 4), trade(1, 1)]
    assert pareto_best(found) == [True, True, False, False, True, True]
    assert surely_beaten([trade(1, 3), trade(2, 2)]) == [False, True]
    assert surely_beaten([trade(1, 3, 0.6), trade(2, 2, 0.6)]) == [False, False]
    assert surely_beaten([trade(1, 3, 0.1, 0.6), trade(2, 2, 0.1, 0.6)]) == [False, False]


def test_without_intervals_nothing_is_sure() -> None:
    single = Trade(1, 3, nan, nan, nan, nan)
    assert surely_beaten([single, trade(2, 2)]) == [False, False]
    assert surely_beaten([trade(1, 3), Trade(2, 2, nan, nan, nan, nan)]) == [False, False]


@given(trades)
def test_a_best_one_is_beaten_by_none_and_the_others_by_a_best_one(found: list[Trade]) -> None:
    best = pareto_best(found)
    assert any(best)
    for one, is_best in zip(found, best, strict=True):
        assert is_best == (not any(beats(other, one) for other in found))
        assert is_best or any(beats(other, one) for other, wins in zip(found, best, strict=True) if wins)


@given(trades)
def test_no_best_one_is_surely_beaten(found: list[Trade]) -> None:
    for is_best, is_beaten in zip(pareto_best(found), surely_beaten(found), strict=True):
        assert not (is_best and is_beaten)


@given(trades, st.randoms(use_true_random=False))
def test_the_order_does_not_matter(found: list[Trade], random: object) -> None:
    order = list(range(len(found)))
    random.shuffle(order)  # type: ignore[attr-defined]
    assert pareto_best([found[place] for place in order]) == [pareto_best(found)[place] for place in order]
    assert surely_beaten([found[place] for place in order]) == [surely_beaten(found)[place] for place in order]


@given(trades, trades)
def test_more_arms_make_no_beaten_one_best(found: list[Trade], more: list[Trade]) -> None:
    before, after = pareto_best(found), pareto_best([*found, *more])[: len(found)]
    assert not [wins for lost, wins in zip(before, after, strict=True) if wins and not lost]
