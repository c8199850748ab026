"""The fastest published training of this network on one GPU: what others reach, to stand beside what was measured."""

from dataclasses import dataclass
from functools import cache

from dpscale.vocabulary.own_yaml import own_yaml


@dataclass(frozen=True)
class PublicBest:
    """Images/s on one GPU, and the share of its peak that this is, as published."""

    network: str
    gpu: str
    images_per_s: float
    mfu: float


@cache
def public_best() -> PublicBest:
    return PublicBest(**own_yaml(__file__, "public_best.yaml"))
