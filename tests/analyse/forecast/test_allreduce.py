"""Models of allreduce: what they give, and that fits find the link the measurements were made with."""

from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from dpscale.analyse.forecast.allreduce import (
    ALGORITHMS,
    Fit,
    LinkModel,
    Measured,
    allreduce_s,
    exact_link,
    fit,
    fits,
    hierarchical_s,
    slowest_link,
)
from dpscale.errors import DpscaleError
from dpscale.formulas.figure import Figure
from dpscale.formulas.scaling import GB
from dpscale.formulas.statistics import RESAMPLES

SIZES = [4 * 4**k * 1024 for k in range(10)]  # 4 KiB to 1 GiB
INSIDE, NETWORK = exact_link(2e-6, 300), exact_link(10e-6, 50)
K_BYTES = 44_695_848
alphas = st.floats(1e-7, 1e-3)
betas_gb_s = st.floats(0.1, 1000)
algorithms = st.sampled_from(sorted(ALGORITHMS))


def generated(
    algorithm: str, link: LinkModel, gpus: Iterable[int] = (2, 4), sizes: Iterable[int] = SIZES, noise: float = 0.0
) -> list[Measured]:
    """Measurements as `link` would make them, each off by some `noise`."""
    random = np.random.default_rng(1)
    return [
        Measured(n, size, Figure(allreduce_s(algorithm, n, size, link).value * np.exp(noise * random.normal())))
        for n in gpus
        for size in sizes
    ]


def worst(found: Fit) -> float:
    return max(map(abs, found.relative_errors))


def test_times_by_hand() -> None:
    link = exact_link(alpha_s=1e-5, beta_gb_s=100)
    byte_s = 1 / (100 * GB)
    assert allreduce_s("ring", 4, 1_000_000, link).value == pytest.approx(6e-5 + 1.5 * 1e6 * byte_s)
    assert allreduce_s("tree", 4, 1_000_000, link).value == pytest.approx(4e-5 + 2 * 1e6 * byte_s)
    assert allreduce_s("tree", 5, 1_000_000, link).value == pytest.approx(6e-5 + 2 * 1e6 * byte_s)
    assert allreduce_s("tree", 1024, 1_000_000, link).value == pytest.approx(20e-5 + 2 * 1e6 * byte_s)
    ring, tree = (allreduce_s(name, 2, 1_000_000, link).value for name in ("ring", "tree"))
    assert ring == tree == pytest.approx(2e-5 + 1e6 * byte_s), "on two GPUs they are one model"
    with_base = exact_link(alpha_s=1e-5, beta_gb_s=100, base_s=3e-5)
    assert [allreduce_s(name, 1, 1_000_000, with_base).value for name in ALGORITHMS] == [0] * len(ALGORITHMS)
    assert allreduce_s("ring", 4, 1_000_000, with_base).value == pytest.approx(9e-5 + 1.5 * 1e6 * byte_s)


@settings(max_examples=30)
@given(algorithms, st.integers(2, 512), st.integers(1, 10**9))
def test_a_faster_link_is_never_slower_and_more_gpus_are_never_faster(algorithm: str, gpus: int, size: int) -> None:
    link, wider, quicker = exact_link(1e-5, 100), exact_link(1e-5, 200), exact_link(1e-6, 100)
    seconds = allreduce_s(algorithm, gpus, size, link).value
    assert allreduce_s(algorithm, gpus, size, wider).value <= seconds
    assert allreduce_s(algorithm, gpus, size, quicker).value <= seconds
    assert allreduce_s(algorithm, gpus + 1, size, link).value >= seconds


@settings(max_examples=25)
@given(algorithms, alphas, alphas, betas_gb_s)
def test_a_fit_finds_the_link_that_made_the_measurements(
    algorithm: str, base_s: float, alpha_s: float, beta_gb_s: float
) -> None:
    link = exact_link(alpha_s, beta_gb_s, base_s)
    found = fit(algorithm, generated(algorithm, link))
    for gpus in (2, 4, 8):
        assert found.latency_s(gpus).value == pytest.approx(allreduce_s(algorithm, gpus, 0, link).value, rel=1e-3)
    assert found.link.beta_gb_s.value == pytest.approx(beta_gb_s, rel=1e-3)
    assert worst(found) < 1e-3
    assert found.median_relative_error <= worst(found)


def assert_best(measured: list[Measured], gpus: list[int]) -> Fit:
    """The ring's parameters are the non-negative least squares of the relative errors, by SciPy's method of Lawson
    and Hanson."""
    rows = [[1, 2 * (m.gpus - 1), 2 * (m.gpus - 1) / m.gpus * m.message_bytes / 1e9] for m in measured]
    x = np.array(rows) / np.array([[m.seconds.value] for m in measured])
    if len(gpus) == 1:
        x[:, 1] = 0  # the latency as a whole
    (base, alpha, inverse), _ = nnls(x / np.linalg.norm(x, axis=0).clip(1e-30), np.ones(len(x)))
    base, alpha, inverse = np.array([base, alpha, inverse]) / np.linalg.norm(x, axis=0).clip(1e-30)
    found = fit("ring", measured)
    for n in gpus:
        assert found.latency_s(n).value == pytest.approx(base + 2 * (n - 1) * alpha, rel=1e-6, abs=1e-12)
    assert found.link.seconds_per_byte.value == pytest.approx(inverse / 1e9, rel=1e-6, abs=1e-20)
    return found


@pytest.mark.parametrize("gpus", [[2], [2, 4], [2, 4, 8]])
@settings(max_examples=25)
@given(st.floats(0, 1), betas_gb_s)
def test_the_parameters_are_those_of_another_solver(gpus: list[int], noise: float, beta_gb_s: float) -> None:
    assert_best(generated("ring", exact_link(1e-5, beta_gb_s, 2e-5), gpus=gpus, noise=noise), gpus)


@pytest.mark.parametrize(("seconds", "no_bandwidth"), [([1e-3, 1e-3, 0.5e-3], True), ([1e-6, 20e-6, 900e-6], False)])
def test_neither_parameter_becomes_negative_and_the_other_is_then_the_best(
    seconds: list[float], no_bandwidth: bool
) -> None:
    """Times that fall with the size have no bandwidth, times that rise faster than the size no latency."""
    sizes = [10_000, 100_000, 1_000_000]
    found = assert_best([Measured(2, size, Figure(s)) for size, s in zip(sizes, seconds, strict=True)], [2])
    latency_s, byte_s = found.latency_s(2), found.link.seconds_per_byte
    assert [latency_s.value == 0, byte_s.value == 0] == [not no_bandwidth, no_bandwidth]
    assert (found.link.beta_gb_s.value == np.inf) == no_bandwidth
    assert all((np.asarray(figure.draws) >= 0).all() for figure in (latency_s, byte_s))


def test_latency_is_not_proportional_to_the_rounds() -> None:
    """7 us on 2 GPUs and 10 us on 4, as NCCL has them on a fast link: one latency of a round would miss by half."""
    found = fit("ring", generated("ring", exact_link(0.75e-6, 300, base_s=5.5e-6)))
    assert found.latency_s(2).value == pytest.approx(7e-6)
    assert found.latency_s(4).value == pytest.approx(10e-6)


def test_noise_shows_in_the_intervals_and_they_contain_the_truth() -> None:
    link = exact_link(5e-6, 250, base_s=10e-6)
    found = fit("ring", generated("ring", link, noise=0.05))
    for estimate, truth in (
        (found.latency_s(2), 20e-6),
        (found.latency_s(4), 40e-6),
        (found.link.alpha_s, 5e-6),
        (found.link.beta_gb_s, 250),
    ):
        low, high = estimate.interval
        assert low < truth < high
        assert 0.02 < (high - low) / truth < 0.6


def test_the_spread_of_the_timings_shows_in_the_intervals_too() -> None:
    """Timings that the model fits, and that might all have been a tenth longer: another machine's would be."""
    together = 1 + 0.1 * np.random.default_rng(1).standard_normal(RESAMPLES)
    exact = generated("ring", exact_link(5e-6, 250))
    spread = [
        Measured(m.gpus, m.message_bytes, Figure.of_draws(m.seconds.value, m.seconds.value * together)) for m in exact
    ]
    low, high = fit("ring", spread).seconds(4, K_BYTES).interval
    narrow_low, narrow_high = fit("ring", exact).seconds(4, K_BYTES).interval
    value = fit("ring", exact).seconds(4, K_BYTES).value
    assert (high - low) / value == pytest.approx(4 * 0.1, rel=0.1)
    assert (narrow_high - narrow_low) / value < 1e-6


@pytest.mark.parametrize("missed", [0.1, 0.3])
def test_what_the_model_misses_is_in_the_interval_of_every_time(missed: float) -> None:
    """Sizes at random are off by as much as the fitted ones: 95 % intervals hold at least nine tenths of them."""
    link = exact_link(1e-6, 300, base_s=6e-6)
    found = fit("ring", generated("ring", link, sizes=SIZES * 3, noise=missed))
    random = np.random.default_rng(2)
    held = 0
    for _ in range(200):
        gpus, size = int(random.choice([2, 4])), int(np.exp(random.uniform(np.log(4096), np.log(1e9))))
        truth = allreduce_s("ring", gpus, size, link).value * np.exp(missed * random.normal())
        low, high = found.seconds(gpus, size).interval
        held += low <= truth <= high
    assert 180 <= held < 200, "neither too narrow nor without end"


def test_with_as_many_parameters_as_points_no_interval_is_known() -> None:
    found = fit("ring", generated("ring", exact_link(1e-5, 100), gpus=[2], sizes=[4096, 2**30]))
    assert np.isnan(found.seconds(2, K_BYTES).interval).all()
    assert np.isnan(found.link.beta_gb_s.interval).all()
    assert "what the model misses is not known" in found.statement


def test_from_one_number_of_gpus_a_latency_may_stay_or_grow_with_the_rounds() -> None:
    found = fit("ring", generated("ring", exact_link(0, 300, base_s=10e-6), gpus=[2]))
    assert found.latency_s(2).value == pytest.approx(10e-6)
    low, high = found.latency_s(8).interval
    assert low == pytest.approx(10e-6, rel=0.2)
    assert high == pytest.approx(7 * 10e-6, rel=0.05)
    assert "stays to one that grows with the rounds" in found.statement


def test_residuals_are_given_per_number_of_gpus() -> None:
    truth = generated("ring", exact_link(1e-6, 300, base_s=6e-6), gpus=[2, 4])
    slower = [Measured(m.gpus, m.message_bytes, Figure(m.seconds.value * (1.5 if m.gpus == 4 else 1))) for m in truth]
    found = fit("tree", slower)
    for gpus in (2, 4):
        points = [m for m in slower if m.gpus == gpus]
        # The value of a modelled time has no misfit in it.
        expected = [found.seconds(gpus, m.message_bytes).value / m.seconds.value - 1 for m in points]
        assert found.errors_on(gpus) == pytest.approx(expected)
    assert {*found.errors_on(2), *found.errors_on(4)} == {*found.relative_errors}


def test_too_few_sizes_are_refused() -> None:
    link = exact_link(1e-5, 100)
    for measured in (
        [],
        generated("ring", link, gpus=[2, 4], sizes=[4096]),
        generated("ring", link, gpus=[2], sizes=[4096]) + generated("ring", link, gpus=[4], sizes=[8192]),
    ):
        with pytest.raises(DpscaleError, match="two sizes"):
            fit("ring", measured)


def test_a_fit_on_two_gpus_says_that_ring_and_tree_cannot_be_told_apart() -> None:
    on_two = fits(generated("ring", exact_link(1e-5, 100), gpus=[2]))
    assert on_two["ring"].link.alpha_s.value == on_two["tree"].link.alpha_s.value
    assert on_two["ring"].relative_errors == on_two["tree"].relative_errors
    assert all("cannot be told" in found.statement for found in on_two.values())
    assert on_two["ring"].seconds(8, K_BYTES).value != on_two["tree"].seconds(8, K_BYTES).value
    on_four = fits(generated("ring", exact_link(1e-5, 100), gpus=[2, 4]))
    assert worst(on_four["ring"]) < worst(on_four["tree"])
    assert all("cannot be told" not in found.statement for found in on_four.values())


def test_hierarchical_by_hand() -> None:
    """16 GPUs in 2 nodes of 8: 14 rounds and 14/8 n INSIDE, then 2 rounds and n/8 through the NETWORK."""
    seconds = hierarchical_s("ring", 16, 8, 8_000_000, INSIDE, NETWORK).value
    assert seconds == pytest.approx(14 * 2e-6 + 1.75 * 8e6 / 300e9 + 2 * 10e-6 + 1e6 / 50e9)


@settings(max_examples=30)
@given(algorithms, st.sampled_from([2, 4, 8]), st.integers(1, 128), st.integers(1, 10**9))
def test_one_node_is_a_ring_inside_and_nodes_of_one_gpu_are_the_network_alone(
    across: str, gpus_per_node: int, nodes: int, size: int
) -> None:
    one_node = hierarchical_s(across, gpus_per_node, gpus_per_node, size, INSIDE, NETWORK).value
    assert one_node == pytest.approx(allreduce_s("ring", gpus_per_node, size, INSIDE).value)
    alone = hierarchical_s(across, nodes, 1, size, INSIDE, NETWORK).value
    assert alone == pytest.approx(allreduce_s(across, nodes, size, NETWORK).value)


def test_the_slowest_link_takes_the_worst_of_both() -> None:
    slowest = slowest_link(exact_link(2e-6, 50), exact_link(10e-6, 300))
    assert slowest.alpha_s.value == 10e-6
    assert slowest.beta_gb_s.value == pytest.approx(50)
    assert slowest.alpha_s.interval == (10e-6, 10e-6)


def test_gpus_that_do_not_fill_nodes_are_refused() -> None:
    with pytest.raises(DpscaleError, match="12 GPUs do not fill nodes of 8"):
        hierarchical_s("ring", 12, 8, 1000, exact_link(1e-6, 100), exact_link(1e-6, 10))
