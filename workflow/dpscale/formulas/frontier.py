"""Which of several trades of cost against gain are worth looking at: those that no other one beats."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Trade:
    """A cost, less of which is better, and a gain, more of which is better, with their 95 % intervals; an end that is
    not known is NaN."""

    cost: float
    gain: float
    cost_low: float
    cost_high: float
    gain_low: float
    gain_high: float


def beats(trade: Trade, other: Trade) -> bool:
    """Whether one costs no more and gains no less than the other, and is better in one of them."""
    no_worse = trade.cost <= other.cost and trade.gain >= other.gain
    return no_worse and (trade.cost < other.cost or trade.gain > other.gain)


def surely_beats(trade: Trade, other: Trade) -> bool:
    """Whether the intervals carry that one costs less and gains more than the other. Without intervals they do not."""
    return trade.cost_high < other.cost_low and trade.gain_low > other.gain_high


def pareto_best(trades: Sequence[Trade]) -> list[bool]:
    """Whether no other trade beats it, for every trade in its order. Of equal ones none beats the other."""
    return [not any(beats(other, trade) for other in trades) for trade in trades]


def surely_beaten(trades: Sequence[Trade]) -> list[bool]:
    """Whether another trade surely beats it, for every trade in its order. No Pareto-best one is."""
    return [any(surely_beats(other, trade) for other in trades) for trade in trades]
