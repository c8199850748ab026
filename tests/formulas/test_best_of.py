"""The interval of what was chosen as the best of several."""

import math

import numpy as np
import pytest

from dpscale.formulas.figure import Figure, estimate_of_blocks
from dpscale.formulas.statistics import best_of
from rows import apart

COVERED = 0.93
STUDIES, EQUAL = 400, 8


@pytest.mark.slow
@pytest.mark.parametrize("servers", [3, 6])
@pytest.mark.parametrize("shared", [0.0, 0.02], ids=["independent", "servers in common"])
def test_the_best_of_equal_ones_is_covered(servers: int, shared: float) -> None:
    """Runs differ by 2 %, and servers by as much where they are the same for all. The interval of one figure alone
    covers the largest of eight too seldom."""
    random = np.random.default_rng(servers)
    covered, naive = 0, 0
    for _ in range(STUDIES):
        common = random.normal(0, shared, servers)
        drawn = np.exp(math.log(1.8) + common + random.normal(0, 0.02, (EQUAL, servers)))
        figures = [estimate_of_blocks(apart(dict(enumerate(speedups.tolist())))) for speedups in drawn]
        chosen = max(figures, key=lambda figure: figure.value)
        covered += best_of(chosen, EQUAL).holds(1.8)
        naive += chosen.holds(1.8)
    assert covered / STUDIES >= COVERED
    assert shared or naive / STUDIES < COVERED - 0.05


def test_what_was_chosen_from_one_keeps_its_interval_and_without_one_there_is_none() -> None:
    figure = estimate_of_blocks(apart({server: 1.7 + server / 10 for server in range(3)}))
    assert best_of(figure, 1).interval == pytest.approx(figure.interval)
    assert not best_of(Figure.of(1.8, 1.7, 1.9), 8).has_interval, "of how many units is not known"
    assert not best_of(Figure(1.8), 8).has_interval
