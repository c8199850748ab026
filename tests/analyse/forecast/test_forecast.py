"""The forecast is shown only where its test says that the model helps: studies in which it does, and does not."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

import h200_study
from dpscale.analyse.forecast.allreduce import Allreduce
from dpscale.analyse.forecast.forecast import forecasts
from dpscale.analyse.forecast.overlap import Buckets
from dpscale.formulas.figure import Figure
from dpscale.plan.study import Study
from dpscale.tables.communication import CollectivesRow
from dpscale.tables.forecast import ForecastRow, HeldOutRow
from dpscale.tables.timing import TimesRow
from record_factory import network_facts
from rows import one

STUDY = h200_study.study()
NETWORK = network_facts(STUDY.settings)
BUCKETS = Buckets.of(NETWORK)
BATCHES = (32, 128, 512)
SIZES = [4 * 4**k * 1024 for k in range(10)]
LINKS = Allreduce(2, 10e-6, 1 / 5e9)  # so slow that communication decides

Steps = Mapping[tuple[int, int], float]


def single_s(batch: int) -> float:
    return 2e-3 + batch * 50e-6


def known_steps(gpus: Sequence[int] = (2, 4, 8)) -> dict[tuple[int, int], float]:
    """As the model makes them, with 1 ms of overhead on any number of GPUs."""
    steps = {(1, batch): single_s(batch) for batch in BATCHES}
    for n in gpus:
        for batch in BATCHES:
            exposed_s = BUCKETS.exposed_s(single_s(batch), LINKS.on(n).seconds)
            steps[n, batch] = single_s(batch) + 1e-3 + exposed_s
    return steps


def found(
    steps: Steps, study: Study = STUDY, timed: Sequence[int] = (2, 4, 8), nodes: int = 1, **more: Any
) -> tuple[list[HeldOutRow], list[ForecastRow]]:
    """What these steps, and allreduces on the `timed` GPUs, give."""
    times = [
        TimesRow(
            strategy="ddp" if gpus > 1 else "single", gpus=gpus, batch_per_gpu=batch, scope="compute", environment="A",
            step_s=Figure(seconds), nodes=nodes,
        )
        for (gpus, batch), seconds in steps.items()
    ]  # fmt: skip
    collectives = [
        CollectivesRow(
            operation="allreduce", gpus=n, message_bytes=size, environment="A", time_s=Figure(LINKS.on(n).seconds(size))
        )
        for n in timed
        for size in SIZES
    ]
    return forecasts(study, more.get("network", NETWORK), times, collectives)


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
def test_overlap_by_hand(bucket_s: list[float], exposed: float) -> None:
    """Backward takes 6 of 10 s; buckets are ready after 2, 4 and 6 s of it."""
    buckets = Buckets((0, 1, 2), (2 / 6, 4 / 6, 1.0), 0.6)
    assert buckets.exposed_s(10.0, lambda bucket: bucket_s[bucket]) == pytest.approx(exposed)


def test_a_model_that_made_the_steps_is_shown() -> None:
    """The latency on 8 GPUs, as foreseen from 4, is not that of the steps: an error is left, a small one."""
    held_out, forecast = found(known_steps((2, 4)), timed=(2, 4))
    assert [(row.gpus, row.fewer_gpus, row.batch_per_gpu) for row in held_out] == [(4, 2, batch) for batch in BATCHES]
    for row in held_out:
        measured_s = row.measured_step_s.value
        assert row.relative_error == pytest.approx(0, abs=1e-9)
        assert row.unchanged_relative_error == pytest.approx(known_steps()[2, row.batch_per_gpu] / measured_s - 1)
    assert [(row.status, row.gpus, row.batch_per_gpu) for row in forecast] == [("ok", 8, batch) for batch in BATCHES]
    for ahead in forecast:
        assert ahead.step_s == pytest.approx(known_steps()[8, ahead.batch_per_gpu or 0], rel=2e-3)
        assert ahead.images_per_s == pytest.approx((ahead.global_batch or 0) / ahead.step_s)
        assert ahead.speedup == pytest.approx(8 * single_s(ahead.batch_per_gpu or 0) / ahead.step_s)
        assert ahead.efficiency == pytest.approx(ahead.speedup / 8)
        assert ahead.reason == "a scenario on more than one node: links between nodes were not timed"


def test_between_nodes_that_were_measured_a_forecast_is_no_scenario() -> None:
    assert {row.reason for row in found(known_steps(), nodes=2)[1]} == {""}


def test_nothing_of_the_held_out_gpus_enters_their_prediction() -> None:
    held_out, _ = found(known_steps((2, 4)))
    slower = {place: seconds * (3 if place[0] == 4 else 1) for place, seconds in known_steps((2, 4)).items()}
    again, _ = found(slower, timed=(2,))
    assert [row.step_s for row in again] == pytest.approx([row.step_s for row in held_out])
    assert [row.relative_error for row in again] == pytest.approx([-2 / 3] * 3)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, ""),
        # The steps on 4 GPUs are those on 2: the model's growth of communication is wrong.
        ({(4, batch): known_steps()[2, batch] for batch in BATCHES}, "this test does not show that the model helps"),
        # One batch alone is far off for both: it counts, and the others cannot outweigh it.
        ({(4, 32): 1.0}, "this test does not show that the model helps"),
        ({(1, 512): None}, "its test needs 3 steps, not 2"),
        ({(4, batch): None for batch in BATCHES}, "its test needs a third number of GPUs"),
    ],
)
def test_without_a_test_that_it_passes_there_is_no_forecast(
    change: Mapping[tuple[int, int], float | None], expected: str
) -> None:
    steps = {**known_steps((2, 4)), **change}
    _, forecast = found({place: seconds for place, seconds in steps.items() if seconds})
    assert {row.reason for row in forecast if row.status != "ok"} == ({expected} if expected else set())
    assert bool(expected) == (len(forecast) == 1)


def test_nothing_to_forecast_from() -> None:
    on_a_cpu = Study({**STUDY.values, "device": "cpu", "strategies": ["single", "ddp"]})
    held_out, forecast = found(known_steps(), on_a_cpu)
    assert held_out
    assert one(forecast).reason.startswith("workers on a CPU")
    assert one(found(known_steps(), timed=())[1]).reason == "allreduce was not timed"
    assert found({(1, 32): 1.0}) == ([], [])
    assert found(known_steps(), network=None) == ([], [])


def test_no_step_is_shorter_than_without_communication_and_no_batch_larger_than_the_dataset() -> None:
    """A step on 4 GPUs that is shorter than on one, within noise: carried over it would be 105 % efficient."""
    steps = {**known_steps((2, 4)), (1, 8192): 1.0, (4, 8192): 0.9}
    steps |= {(1, 2): 1.0, (4, 2): 0.9}
    _, forecast = found(steps)
    assert one(forecast, batch_per_gpu=2).efficiency == 1
    assert 8192 not in {row.batch_per_gpu for row in forecast}, "8 times 8,192 images are more than an epoch has"
