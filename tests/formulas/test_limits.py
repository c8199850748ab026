"""The limit of a GPU: by hand, and what has to hold whatever the rates."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpscale.formulas import limits

FLOP, PARAMETERS = 3_328_997_376, 11_173_962
batches = st.integers(1, 100_000)


def test_times_and_bytes_by_hand() -> None:
    assert limits.compute_s_per_image(3e9, 6e14) == pytest.approx(5e-6)
    assert limits.traffic_bytes_per_step(1e6, 10, 2, 1000) == 1e6 * 10 * 2 + 8 * 4 * 1000
    assert limits.memory_s_per_image(4e9, 100, 2e12) == pytest.approx(2e-5)
    assert limits.limit_images_per_s(3e-6, 1e-6) == pytest.approx(250_000)


@given(batches, batches, st.floats(1, 1e8), st.integers(0, 10**9))
def test_a_larger_batch_shares_the_parameters_traffic(one: int, other: int, elements: float, parameters: int) -> None:
    small, large = sorted((one, other))
    of_small, of_large = (
        limits.memory_s_per_image(limits.traffic_bytes_per_step(elements, batch, 4, parameters), batch, 1e12)
        for batch in (small, large)
    )
    assert of_large <= of_small * (1 + 1e-12)
    assert of_large >= elements * 4 / 1e12 * (1 - 1e-12)


def test_the_method_counts_the_same_passes(method: str) -> None:
    assert f"{limits.PARAMETER_PASSES} passes over the parameters" in method
