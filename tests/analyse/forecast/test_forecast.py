"""The forecast: overlap on cases with known answers, and a held-out study that is known."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpscale.analyse.forecast.allreduce import (
    LinkModel,
    Measured,
    allreduce_s,
    exact_link,
    fits,
    fits_between,
    hierarchical_s,
)
from dpscale.analyse.forecast.overlap import (
    Backward,
    Buckets,
    critical_batch,
    exposed_s,
    hidden_where_measured,
    inferred_backwards,
)
from dpscale.analyse.forecast.steps import (
    FORECAST_GPUS,
    extrapolate,
    held_out,
    overhead_s,
    predict_step,
)
from dpscale.errors import DpscaleError
from dpscale.formulas.figure import Figure
from dpscale.formulas.statistics import RESAMPLES, derive
from dpscale.tables.forecast import ForecastRow

SIZES = [4 * 4**k * 1024 for k in range(10)]  # 4 KiB to 1 GiB
LINK, SLOW_LINK = exact_link(alpha_s=5e-6, beta_gb_s=250), exact_link(5e-6, 10)
INSIDE, BETWEEN = exact_link(5e-6, 200), exact_link(40e-6, 3)  # a node, nodes
NETWORK = exact_link(1e-5, 50)


# Of the reference network: its buckets, the shares of the backward FLOPs after which each is complete, and what
# backward is of all FLOPs.
NETWORK_BUCKETS = Buckets((9_461_800, 26_494_976, 8_739_072), (0.06808, 0.31012, 1.0), 0.66631)

seconds = st.floats(1e-6, 10)
fractions = st.sets(st.floats(0.01, 0.99), max_size=4).map(lambda chosen: (*sorted(chosen), 1.0))


@st.composite
def overlaps(draw: st.DrawFn) -> tuple[float, list[float], Buckets]:
    """t(1,b), the time of every bucket's allreduce, and the buckets."""
    ready = draw(fractions)
    bucket_s = draw(st.lists(st.floats(0, 5), min_size=len(ready), max_size=len(ready)))
    return draw(seconds), bucket_s, Buckets((1,) * len(ready), ready, draw(st.floats(0.1, 0.9)))


def around(value: float, relative_spread: float, seed: int) -> Figure:
    return Figure.of_draws(
        value, value * (1 + relative_spread * np.random.default_rng(seed).standard_normal(RESAMPLES))
    )


def collectives(link: LinkModel, gpus: Sequence[int], algorithm: str = "ring", noise: float = 0.01) -> list[Measured]:
    points = [(n, size, allreduce_s(algorithm, n, size, link).value) for n in gpus for size in SIZES]
    return [Measured(n, size, around(value, noise, seed)) for seed, (n, size, value) in enumerate(points)]


def ring(beta_gb_s: float, gpus: Sequence[int] = (2,), alpha_s: float = 5e-6) -> Callable[[int, int], Figure]:
    """Seconds of an allreduce, by the ring that is fitted to measurements of such a link."""
    return fits(collectives(exact_link(alpha_s, beta_gb_s), gpus))["ring"].seconds


def known_study(
    link: LinkModel, gpus: tuple[int, ...] = (2, 4, 8), algorithm: str = "ring"
) -> dict[tuple[int, int], Figure]:
    """Step times as the model makes them, with an overhead of 1 ms: t(1,b) = 2 ms + b * 50 us."""
    step_s = {}
    for batch in (32, 128, 512):
        single = around(2e-3 + batch * 50e-6, 0.002, batch)
        step_s[1, batch] = single
        for n in gpus:
            bucket_s = [allreduce_s(algorithm, n, size, link).value for size in NETWORK_BUCKETS.sizes_bytes]
            step = single.value + 1e-3 + exposed_s(single.value, bucket_s, NETWORK_BUCKETS)
            step_s[n, batch] = around(step, 0.002, 100 * n + batch)
    return step_s


@pytest.mark.parametrize(
    ("bucket_s", "exposed"),
    [
        ([1, 1, 1], 1),  # both earlier allreduces end before backward does
        ([2, 2, 1], 1),  # touching: each ends just when the next bucket is ready
        ([2, 3, 1], 2),  # the second runs 1 s past the end of backward, and the last waits for it
        ([5, 1, 1], 3),  # a queue from the first bucket on
        ([0, 0, 0], 0),
    ],
)
def test_overlap_by_hand(bucket_s: list[int], exposed: int) -> None:
    """Backward takes 6 of 10 s; buckets are ready after 2, 4 and 6 s of it."""
    buckets = Buckets((1, 1, 1), (2 / 6, 4 / 6, 1.0), 0.6)
    assert exposed_s(10.0, bucket_s, buckets) == pytest.approx(exposed)


@given(overlaps(), st.floats(1, 10))
def test_what_is_exposed_lies_in_its_bounds(case: tuple[float, list[float], Buckets], factor: float) -> None:
    """Between the last allreduce and all of them; of slower ones and faster compute no less; of none nothing."""
    single_s, bucket_s, buckets = case
    exposed = exposed_s(single_s, bucket_s, buckets)
    assert bucket_s[-1] - 1e-9 <= exposed <= sum(bucket_s) + 1e-9
    assert exposed_s(single_s, [factor * duration_s for duration_s in bucket_s], buckets) >= exposed - 1e-9
    assert exposed_s(single_s / factor, bucket_s, buckets) >= exposed - 1e-9
    assert exposed_s(single_s, [0.0 for _ in bucket_s], buckets) == 0
    scales = np.array([0.5, 1.0, 2.0])
    drawn = exposed_s(single_s * scales, [duration_s * scales for duration_s in bucket_s], buckets)
    assert drawn == pytest.approx(exposed * scales, abs=1e-9), "draws are overlapped one by one"


@pytest.mark.parametrize("ready", [(0.5, 0.9), (0.0, 1.0), (0.7, 0.7, 1.0), (1.0,), ()])
def test_buckets_that_cannot_be(ready: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="ready fraction"):
        Buckets((1, 1) if ready != (0.7, 0.7, 1.0) else (1, 1, 1), ready, 0.6)


def test_the_parts_of_a_step_add_up_and_overhead_is_what_calibrates_it() -> None:
    single, step = around(5e-3, 0.01, 1), around(6e-3, 0.01, 2)
    model = ring(250)
    overhead = overhead_s(2, single, step, model, NETWORK_BUCKETS)
    again = predict_step(2, single, overhead, model, NETWORK_BUCKETS)
    assert again.step_s.value == pytest.approx(step.value)
    assert again.step_s.draws == pytest.approx(step.draws)
    parts = again.compute_s.value + again.overhead_s.value + again.exposed_s.value
    assert parts == pytest.approx(again.step_s.value)
    total = sum(model(2, size).value for size in NETWORK_BUCKETS.sizes_bytes)
    assert again.exposed_s.value + again.hidden_s.value == pytest.approx(total)
    assert overhead.value < step.value - single.value


def test_a_step_without_an_interval_is_predicted_without_one() -> None:
    bare = predict_step(2, Figure(5e-3), around(1e-3, 0.1, 1), ring(250), NETWORK_BUCKETS)
    assert bare.step_s.draws is None
    assert bare.step_s.value > 6e-3


def test_a_held_out_step_of_a_known_study_is_met() -> None:
    """Slow links, so that communication decides: a ring made the steps, and a ring is among the models."""
    step_s = known_study(SLOW_LINK)
    scores = held_out(step_s, collectives(SLOW_LINK, [2, 4, 8]), NETWORK_BUCKETS)
    assert [(score.gpus, score.batch_per_gpu, score.calibrated_on_gpus) for score in scores] == [
        (8, 32, 4),
        (8, 128, 4),
        (8, 512, 4),
    ]
    for score in scores:
        assert score.algorithm == "ring"
        assert abs(score.relative_error.value) < 0.02
        assert score.within_tolerance
        assert score.step_s.low < score.measured_step_s.value < score.step_s.high
        low, high = score.relative_error.interval
        assert low < score.relative_error.value < high
        assert score.carried_over_relative_error == pytest.approx(
            step_s[4, score.batch_per_gpu].value / score.measured_step_s.value - 1
        )
    # Where communication decides, the step on fewer GPUs misses what the model knows; at 512 noise is larger than that.
    assert [score.beats_unchanged for score in scores] == ["yes", "yes", "undecided"]


@pytest.mark.parametrize(("way", "expected"), [(1, "yes"), (0, "no"), (0.5, "undecided")])
def test_the_model_beats_unchanged_only_where_intervals_say_so(way: float, expected: str) -> None:
    """The measured step lies some of the `way` from that of 4 GPUs to the predicted one: nobody can tell half way."""
    link = exact_link(5e-6, 50)
    measured = collectives(link, [2, 4], noise=0)
    step_s = {(1, 32): around(5e-3, 1e-4, 1), (4, 32): around(6e-3, 1e-4, 2)}

    def score(step: Figure) -> ForecastRow:
        return held_out({**step_s, (8, 32): step}, measured, NETWORK_BUCKETS)[0]

    predicted_s = score(Figure(1.0)).step_s.value
    assert predicted_s > 6.05e-3
    true_s = 6e-3 + way * (predicted_s - 6e-3)
    assert score(around(true_s, 1e-3, 3)).beats_unchanged == expected
    assert score(Figure(true_s)).beats_unchanged == "undecided", "without an interval"


def test_no_number_of_the_held_out_gpus_enters_their_prediction() -> None:
    step_s, measured = known_study(SLOW_LINK), collectives(SLOW_LINK, [2, 4, 8])
    other_steps = {
        place: derive(lambda s: 7 * s, estimate) if place[0] == 8 else estimate for place, estimate in step_s.items()
    }
    others = [
        Measured(8, point.message_bytes, derive(lambda s: 0.1 * s, point.seconds)) if point.gpus == 8 else point
        for point in measured
    ]
    scores = held_out(step_s, measured, NETWORK_BUCKETS)
    again = held_out(other_steps, others, NETWORK_BUCKETS)
    without = held_out(step_s, [point for point in measured if point.gpus < 8], NETWORK_BUCKETS)
    for score, changed, missing in zip(scores, again, without, strict=True):
        assert changed.measured_step_s.value != score.measured_step_s.value
        for other in (changed, missing):
            for part in ("algorithm", "step_s", "compute_s", "overhead_s", "exposed_s", "hidden_s"):
                assert getattr(other, part) == getattr(score, part)
        # Draw by draw: an error is that of the drawn prediction against the drawn measurement, 7 times as long.
        assert missing.relative_error == score.relative_error
        errors = [np.array([error.value, *error.interval]) for error in (score.relative_error, changed.relative_error)]
        assert 7 * (1 + errors[1]) == pytest.approx(1 + errors[0])


def test_the_band_holds_the_ring_and_the_tree_that_two_gpus_cannot_tell_apart() -> None:
    for algorithm in ("ring", "tree"):
        step_s = known_study(SLOW_LINK, gpus=(2, 4), algorithm=algorithm)
        for score in held_out(step_s, collectives(SLOW_LINK, [2, 4], algorithm), NETWORK_BUCKETS):
            assert score.step_s.low <= score.measured_step_s.value <= score.step_s.high


def test_batches_that_cannot_be_held_out_are_left_out_and_too_few_collectives_refused() -> None:
    step_s = known_study(LINK)
    step_s |= {(n, 2048): step_s[n, 512] for n in (1, 8)}  # no GPUs between to take the overhead from
    del step_s[1, 32], step_s[8, 128]
    assert [score.batch_per_gpu for score in held_out(step_s, collectives(LINK, [2]), NETWORK_BUCKETS)] == [512]
    with pytest.raises(DpscaleError, match="two sizes"):
        held_out(step_s, collectives(LINK, [8]), NETWORK_BUCKETS)


def test_extrapolation_inside_a_node_and_beyond() -> None:
    forecasts = [*extrapolate(known_study(LINK, gpus=(2, 4)), collectives(LINK, [2, 4]), NETWORK_BUCKETS, 8, NETWORK)]
    assert sorted({forecast.gpus for forecast in forecasts}) == [*FORECAST_GPUS]
    for forecast in forecasts:
        assert forecast.nodes == forecast.gpus / 8
        assert (forecast.algorithm in ("ring", "tree")) == (forecast.gpus == 8)
        assert forecast.step_s.low <= forecast.step_s.value <= forecast.step_s.high
        assert forecast.speedup.low <= forecast.speedup.value <= forecast.speedup.high
        assert forecast.images_per_s.value == pytest.approx(
            forecast.gpus * forecast.batch_per_gpu / forecast.step_s.value
        )
        assert forecast.efficiency.value == pytest.approx(forecast.speedup.value / forecast.gpus)
        assert forecast.efficiency.value < 1
        assert (forecast.kind == "scenario") == (forecast.gpus > 8)
    at_512 = [forecast for forecast in forecasts if forecast.batch_per_gpu == 512]
    assert all(a.efficiency.value >= b.efficiency.value for a, b in pairwise(at_512))
    flat_ring_s = allreduce_s("ring", 1024, sum(NETWORK_BUCKETS.sizes_bytes), NETWORK).value
    assert at_512[-1].step_s.high > flat_ring_s / 2, "the pessimistic bound is in the band"


def test_no_forecast_is_more_efficient_than_one_gpu() -> None:
    """A step on a few GPUs that is shorter than on one, within noise: carried over it would be 105 % efficient."""
    step_s = {(1, 512): around(20e-3, 0.05, 1), (2, 512): around(19e-3, 0.05, 2)}
    for forecast in extrapolate(step_s, collectives(LINK, [2, 4]), NETWORK_BUCKETS, 8, NETWORK):
        assert forecast.compute_s + forecast.overhead_s + forecast.exposed_s < 20e-3
        assert forecast.efficiency.low < forecast.efficiency.value == forecast.efficiency.high == 1
        assert forecast.speedup.value == forecast.speedup.high == forecast.gpus
        assert forecast.step_s.value == pytest.approx(20e-3)
        assert forecast.images_per_s.value == pytest.approx(forecast.gpus * 512 / 20e-3)


def test_what_was_measured_is_not_forecast() -> None:
    forecasts = extrapolate(known_study(LINK), collectives(LINK, [2]), NETWORK_BUCKETS, 8, NETWORK, gpus=[4, 8, 16])
    assert {(forecast.gpus, forecast.calibrated_on_gpus) for forecast in forecasts} == {(16, 8)}


def test_a_forecast_without_any_interval_has_none() -> None:
    step_s = {place: Figure(estimate.value) for place, estimate in known_study(LINK, gpus=(2,)).items()}
    forecast = next(extrapolate(step_s, collectives(LINK, [2]), NETWORK_BUCKETS, 4, NETWORK, gpus=[16]))
    assert forecast.step_s.value > 0
    assert np.isnan([forecast.step_s.low, forecast.step_s.high, forecast.speedup.low]).all()


def watched(backward_s: dict[int, float], spread: float = 0.0, busy: float = 1.0) -> dict[int, Backward]:
    """Backward passes by batch, in steps in which the device decides unless it is `busy` less."""
    return {
        b: Backward(Figure.of_draws(s, s * np.linspace(1 - spread, 1 + spread, RESAMPLES)), busy)
        for b, s in backward_s.items()
    }


PER_IMAGE_S = 35e-6
GRID = {b: b * PER_IMAGE_S for b in (32, 128, 512, 2048)}


def test_the_critical_batch_is_where_all_but_the_last_bucket_is_just_hidden() -> None:
    model = fits(collectives(SLOW_LINK, [2, 4, 8], noise=0))["ring"].seconds
    batch, statement = critical_batch(8, watched(GRID), model, NETWORK_BUCKETS)
    assert 32 < batch.value < 2048
    assert batch.interval == (batch.value, batch.value)
    assert f"a batch per GPU of {batch.value:,.0f} on" in statement
    bucket_s = [model(8, size).value for size in NETWORK_BUCKETS.sizes_bytes]

    def exposed(batch: float) -> float:
        return exposed_s(batch * PER_IMAGE_S / NETWORK_BUCKETS.backward_share, bucket_s, NETWORK_BUCKETS)

    assert exposed(batch.value + 1) == pytest.approx(bucket_s[-1])
    assert exposed(batch.value - 1) > bucket_s[-1]


@settings(max_examples=25)
@given(overlaps())
def test_from_the_critical_backward_on_only_the_last_bucket_is_exposed(
    case: tuple[float, list[float], Buckets],
) -> None:
    _, bucket_s, buckets = case
    times = dict(zip(range(len(bucket_s)), bucket_s, strict=True))
    buckets = Buckets(tuple(times), buckets.ready_fraction, buckets.backward_share)
    grid = watched({b: b * 1e-3 * buckets.backward_share for b in (1, 10**7)})
    batch, _ = critical_batch(2, grid, lambda _, size: Figure(times[size]), buckets)
    exposed = exposed_s((batch.value + 1) * 1e-3, bucket_s, buckets)
    assert exposed == pytest.approx(bucket_s[-1], abs=1e-6)


@pytest.mark.parametrize(("beta_gb_s", "words"), [(10_000, "at most 32"), (0.001, "above 2,048")])
def test_beyond_the_grid_the_critical_batch_is_not_extrapolated(beta_gb_s: float, words: str) -> None:
    batch, statement = critical_batch(4, watched(GRID), ring(beta_gb_s, (2, 4), 1e-9), NETWORK_BUCKETS)
    assert f"of {words} on" in statement
    assert batch.value in (32, 2048)


def test_the_interval_of_the_critical_batch_may_reach_beyond_the_grid() -> None:
    """A backward pass that is known badly: from at most 32 to somewhere inside."""
    backwards = watched({b: b * 30e-6 for b in (32, 128, 512)}, spread=0.9)
    batch, statement = critical_batch(4, backwards, ring(40, (2, 4)), NETWORK_BUCKETS)
    assert 32 < batch.value < 512
    assert "[at most 32, " in statement


def test_a_single_bucket_is_never_hidden_and_never_waits() -> None:
    one_bucket = Buckets((44_695_848,), (1.0,), 0.6)
    batch, _ = critical_batch(2, watched(GRID), ring(250), one_bucket)
    assert batch.value == 32


def test_where_the_host_decides_the_model_says_nothing_and_this_is_said() -> None:
    """By the lengths alone backward would hide everything at 32; the device waits for the host until 512."""
    model = ring(250)
    backwards = {**watched({b: GRID[b] for b in (32, 128)}, busy=0.7), **watched({b: GRID[b] for b in (512, 2048)})}
    batch, statement = critical_batch(2, backwards, model, NETWORK_BUCKETS)
    assert batch.value == 512
    assert "from a batch per GPU of 512 on. At 128 and below the host decides" in statement
    assert "the device computes during 70 % of the step at 128" in statement
    inferred = {batch: replace(backward, is_watched=False) for batch, backward in backwards.items()}
    _, statement = critical_batch(2, inferred, model, NETWORK_BUCKETS)
    assert "would compute, as fast per image as in larger batches, during 70 % of the step at 128" in statement


@pytest.mark.parametrize("backwards", [watched(GRID, busy=0.89), {}])
def test_where_the_host_decides_every_step_the_critical_batch_is_not_known(backwards: dict[int, Backward]) -> None:
    batch, statement = critical_batch(2, backwards, ring(250), NETWORK_BUCKETS)
    assert not batch.is_known
    assert "not known" in statement


def test_without_a_profiler_the_flat_part_of_the_step_is_the_hosts() -> None:
    """t(1,b) on an H200 (docs/method.md): at 32 it is flat, from 512 on it grows with the batch."""
    times = {32: 5.564e-3, 128: 7.357e-3, 512: 23.335e-3, 2048: 87.73e-3, 8192: 344.2e-3}
    step_s = {(1, batch): Figure(seconds) for batch, seconds in times.items()}
    found = inferred_backwards({**step_s, (2, 32): Figure(1.0)}, 0.7)
    assert [batch for batch, backward in found.items() if backward.host_decides] == [32, 128]
    assert found[512].seconds.value == pytest.approx(0.7 * 23.335e-3)
    assert found[32].busy_share == pytest.approx(32 * 344.2e-3 / 8192 / 5.564e-3)
    assert found[8192].busy_share == 1


def test_where_communication_was_seen_to_hide() -> None:
    profiled = {32: (0.9, 1.0), 128: (0.4, 1.0), 512: (0.2, 1.0)}
    assert hidden_where_measured(profiled, NETWORK_BUCKETS) == 512
    assert hidden_where_measured({32: (0.9, 1.0)}, NETWORK_BUCKETS) is None


def between_nodes(inside: LinkModel, network: LinkModel, nodes: list[int], per_node: int) -> list[Measured]:
    """Exact allreduces inside a node of so many GPUs, and over several of them."""
    sizes = [2**power for power in range(12, 27, 2)]
    found = [Measured(2, size, allreduce_s("ring", 2, size, inside)) for size in sizes] if per_node > 1 else []
    found += [Measured(per_node, size, allreduce_s("ring", per_node, size, inside)) for size in sizes] * (per_node > 2)
    for count in nodes:
        found += [
            Measured(
                count * per_node, size, hierarchical_s("ring", count * per_node, per_node, size, inside, network), count
            )
            for size in sizes
        ]
    return found


@pytest.mark.parametrize("per_node", [1, 4])
def test_the_link_between_nodes_is_found_beside_that_inside(per_node: int) -> None:
    measured = between_nodes(INSIDE, BETWEEN, [2, 4], per_node)
    ring = fits([timing for timing in measured if timing.nodes == 1])["ring"].link if per_node > 1 else None
    found = fits_between([timing for timing in measured if timing.nodes > 1], ring)["ring"]
    assert found.link.beta_gb_s.value == pytest.approx(3, rel=0.01)
    assert found.link.alpha_s.value == pytest.approx(40e-6, rel=0.05)
    assert found.gpus[0] == 2
    assert "on 2 and 4 nodes" in found.statement


def test_links_between_nodes_that_were_measured_make_a_forecast_of_a_scenario() -> None:
    measured = between_nodes(INSIDE, BETWEEN, [2, 4], 4)
    step_s = known_study(INSIDE, gpus=(2, 4))
    configured = exact_link(1e-3, 0.01)  # far off, and not asked
    inside_alone = [timing for timing in measured if timing.nodes == 1]
    forecast, *_ = extrapolate(step_s, measured, NETWORK_BUCKETS, 4, configured, [16])
    scenario, *_ = extrapolate(step_s, inside_alone, NETWORK_BUCKETS, 4, BETWEEN, [16])
    assert (forecast.kind, scenario.kind) == ("extrapolated", "scenario")
    assert forecast.algorithm == "hierarchical, ring"
    assert forecast.step_s.value == pytest.approx(scenario.step_s.value, rel=0.02)


def test_a_step_on_more_nodes_is_scored_only_where_links_between_fewer_were_measured() -> None:
    with_two = between_nodes(INSIDE, BETWEEN, [2], 1)

    def step(gpus: int) -> Figure:
        alone = known_study(INSIDE)[1, 512]
        if gpus == 1:
            return alone
        bucket_s = [hierarchical_s("ring", gpus, 1, size, INSIDE, BETWEEN) for size in NETWORK_BUCKETS.sizes_bytes]
        return derive(lambda single, *each: single + exposed_s(single, each, NETWORK_BUCKETS), alone, *bucket_s)

    step_s = {(gpus, 512): step(gpus) for gpus in (1, 2, 4)}
    (score,) = held_out(step_s, with_two, NETWORK_BUCKETS, gpus_per_node=1)
    assert score.relative_error.value == pytest.approx(0, abs=0.01)
    with pytest.raises(DpscaleError, match="4 GPUs are on 2 nodes: no links between fewer were measured"):
        held_out(step_s, between_nodes(INSIDE, INSIDE, [], 2), NETWORK_BUCKETS, gpus_per_node=2)
