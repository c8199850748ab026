"""Networks that published figures are about: parameters, and work for an image."""

from dataclasses import dataclass
from functools import cache

from dpscale.vocabulary import own_yaml


@dataclass(frozen=True)
class Network:
    """A network. `first` are the weights of its first layer; FLOP are forward and backward."""

    name: str
    parameters: int
    first: int
    flop_per_image: float | None = None


@cache
def networks() -> list[Network]:
    """Return all networks of the table."""
    return [Network(**entry) for entry in own_yaml(__file__, "networks.yaml")]


def network_of(parameters: int | None) -> Network | None:
    """Return the network with so many trainable parameters. None where the table has none."""
    return next((network for network in networks() if network.parameters == parameters), None)
