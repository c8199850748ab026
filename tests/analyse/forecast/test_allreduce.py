"""Latency and bandwidth of allreduce: found again where they are known, and never below zero."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpscale.analyse.forecast.allreduce import Allreduce, fit

SIZES = [4 * 4**k * 1024 for k in range(10)]  # 4 KiB to 1 GiB
LATENCY_S, GB_S = 20e-6, 250.0
KNOWN = Allreduce(4, LATENCY_S, 1 / (GB_S * 1e9))


def test_an_allreduce_by_hand() -> None:
    """Every one of 4 GPUs sends 2 * 3/4 of 10^9 bytes at 250 GB/s, after the latency."""
    assert KNOWN.seconds(10**9) == pytest.approx(20e-6 + 1.5 / 250)


@given(latency_s=st.floats(1e-6, 1e-3), gb_s=st.floats(0.1, 1e3), gpus=st.integers(2, 64))
def test_a_link_that_made_the_times_is_found(latency_s: float, gb_s: float, gpus: int) -> None:
    made = Allreduce(gpus, latency_s, 1 / (gb_s * 1e9))
    found = fit(gpus, {size: made.seconds(size) for size in SIZES})
    assert found.latency_s == pytest.approx(latency_s, rel=1e-6)
    assert found.seconds_per_byte == pytest.approx(made.seconds_per_byte, rel=1e-6)


def test_on_more_gpus_latency_grows_half_as_much_as_the_rounds() -> None:
    assert KNOWN.on(4) == KNOWN
    assert KNOWN.on(8).latency_s == pytest.approx(LATENCY_S * (1 + 7 / 3) / 2)
    assert KNOWN.on(8).seconds(10**9) == pytest.approx(KNOWN.on(8).latency_s + 1.75 / 250)


def test_one_size_cannot_tell_latency_and_bandwidth_apart() -> None:
    with pytest.raises(ValueError, match="two sizes"):
        fit(2, {4096: 1e-5})
