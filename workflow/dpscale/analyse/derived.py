"""Where it was. Only until all import it from its room."""

from collections.abc import Mapping
from typing import Any

from dpscale.analyse.communication.measured import ESTIMATES
from dpscale.analyse.timing.times import HEADLINE_STEPS as HEADLINE_STEPS
from dpscale.analyse.timing.times import WORTH as WORTH
from dpscale.vocabulary.states import DISTORTED


def estimates_of(row: Mapping[str, Any]) -> list[str]:
    """The estimates of communication that a row's step can be told by: not the profiler's, where that distorts it."""
    distorted = row.get("profiler") == DISTORTED
    return [name for name in ESTIMATES if not (distorted and name.startswith("profiler"))]
