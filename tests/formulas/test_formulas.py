"""The formulas of docs/method.md: their properties. tests/audit has what they give of the published studies."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpscale.formulas import scaling


@given(st.floats(1e-4, 10), st.floats(1e-4, 10), st.integers(2, 16), st.integers(1, 512), st.integers(1, 40))
def test_both_ways_to_weak_speedup_agree_where_all_steps_are_full(
    step_1: float, step_n: float, n: int, batch: int, steps_n: int
) -> None:
    """Epochs of full steps: T = steps * t, and N GPUs take N times fewer steps. N is not counted twice."""
    images = n * batch * steps_n
    epoch_1 = scaling.steps_per_epoch(images, 1, batch) * step_1
    epoch_n = scaling.steps_per_epoch(images, n, batch) * step_n
    assert scaling.speedup(epoch_1, epoch_n) == pytest.approx(scaling.speedup_from_steps(n, step_1, step_n))


@pytest.mark.parametrize(
    ("operation", "factor"), [("allreduce", 1.5), ("all_gather", 0.75), ("reduce_scatter", 0.75), ("broadcast", 1)]
)
def test_bus_bandwidth_has_nccl_tests_factors(operation: str, factor: float) -> None:
    assert scaling.bus_bandwidth_gb_s(operation, 4, 2_000_000_000, 1.0) == 2 * factor
