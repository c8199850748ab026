"""What weights, gradients and the optimiser's state take on a GPU (Rajbhandari et al. 2020, section 3.1)."""

from collections.abc import Collection
from typing import NamedTuple


class States(NamedTuple):
    """Bytes on one GPU that stay from step to step."""

    weights: float  # And buffers.
    gradients: float
    optimiser: float

    @property
    def total(self) -> float:
        return sum(self)


def states_of(
    weights_bytes: float, buffer_bytes: float, states_per_weight: float, shards: Collection[str], sharers: int
) -> States:
    """Return the bytes on each GPU: K*s of weights and their buffers, K*s of gradients, and as many times K*s as the
    optimiser keeps numbers for a weight. Of what `shards` names, each of the `sharers` has an equal part alone."""

    def share(state: str) -> float:
        return weights_bytes / (sharers if state in shards else 1)

    return States(share("weights") + buffer_bytes, share("gradients"), states_per_weight * share("optimiser"))
