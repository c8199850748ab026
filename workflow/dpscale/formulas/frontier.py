"""Which of several trades of cost against gain are worth looking at: those that no other one beats."""

from collections.abc import Sequence
from dataclasses import dataclass

from dpscale.formulas.figure import Figure


@dataclass(frozen=True)
class Trade:
    """A cost, less of which is better, and a gain, more of which is better."""

    cost: Figure
    gain: Figure

    def beats(self, other: "Trade") -> bool:
        """Whether it costs no more and gains no less by its values, and is better in one of them."""
        mine, others = (self.cost.value, -self.gain.value), (other.cost.value, -other.gain.value)
        return mine != others and all(one <= another for one, another in zip(mine, others, strict=True))

    def surely_beats(self, other: "Trade") -> bool:
        """Whether the intervals carry that it costs less and gains more. Without intervals they do not."""
        return other.cost.exceeds(self.cost) and self.gain.exceeds(other.gain)


def is_pareto_best(trade: Trade, among: Sequence[Trade]) -> bool:
    """Whether no other trade beats it. Of equal ones none beats the other."""
    return not any(other.beats(trade) for other in among)


def is_surely_beaten(trade: Trade, among: Sequence[Trade]) -> bool:
    """Whether another trade surely beats it. No Pareto-best one is."""
    return any(other.surely_beats(trade) for other in among)
