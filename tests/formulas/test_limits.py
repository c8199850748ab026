"""The limit of a GPU, by hand."""

import pytest

from dpscale.formulas import limits


def test_times_and_bytes_by_hand() -> None:
    assert limits.compute_s_per_image(3e9, 6e14) == pytest.approx(5e-6)
    assert limits.traffic_bytes_per_step(1e6, 10, 2, 1000) == 1e6 * 10 * 2 + 8 * 4 * 1000
    assert limits.memory_s_per_image(4e9, 100, 2e12) == pytest.approx(2e-5)
    assert limits.limit_images_per_s(3e-6, 1e-6) == pytest.approx(250_000)


def test_the_method_counts_the_same_passes(method: str) -> None:
    assert f"{limits.PARAMETER_PASSES} passes over the parameters" in method
