"""The answer of a diagnosis: which cause it is, what it costs, and the data with which it is none."""

from typing import Any

import pytest

from diagnosis_factory import BATCH, HEALTHY, diagnosis_record
from dpscale.analyse.answer.causes import FoundCause
from dpscale.analyse.answer.diagnosis import Diagnosis, diagnose
from dpscale.formulas.statistics import median_of_blocks
from dpscale.schemas.validation import violations


def answer(alone_ms: tuple[float, ...] = (10.0, 10.0), **changed: Any) -> Diagnosis:
    """Of a healthy step on which some probes take other times, in ms."""
    parts = {name: changed.pop(name) for name in list(changed) if isinstance(changed[name], dict)}
    settings = {name: changed.pop(name) for name in ("device", "allreduce_ms") if name in changed}
    record = diagnosis_record({**HEALTHY, **changed}, alone_ms, **settings, **parts)
    assert violations("diagnosis", record) == []
    return diagnose(record)


def found(diagnosis: Diagnosis, name: str) -> FoundCause:
    (finding,) = [one for one in (*diagnosis.reasons, *diagnosis.smaller) if one.cause.name == name]
    return finding


def saved_ms(finding: FoundCause, number: int = 0) -> tuple[float | None, float | None]:
    """Predicted and measured."""
    remedy = finding.remedies[number]
    predicted, measured = remedy.predicted_s, remedy.measured_s
    return (
        None if predicted is None else round(predicted.value * 1e3, 2),
        None if measured is None else round(measured.value * 1e3, 2),
    )


def test_a_healthy_step_has_no_reason() -> None:
    healthy = answer()
    assert healthy.first.name == "nothing"
    assert healthy.reasons == []
    assert healthy.efficiency.value == pytest.approx(10 / 10.4, rel=1e-3)
    assert healthy.is_efficient
    assert sum(part.seconds.value for part in healthy.parts) == pytest.approx(healthy.whole_s.value, rel=1e-3)


# What is found with these times, its cost in ms, and what is predicted and measured of its remedy.
CASES: list[tuple[str, dict[str, Any], float, tuple[float | None, float | None]]] = [
    # Four workers in place of two: twice as fast, until the step is what takes time.
    ("slow_loader", {"loader": 40.0, "end_to_end": 41.0, "end_to_end_more": 21.5}, 30.7, (21.0, 19.5)),
    # Half of the workers halve a start of 50 ms, which 100 steps share; more was saved.
    ("loading_disturbs", {"loader": 9.0, "end_to_end": 15.0}, 4.7, (None, None)),
    ("too_many_workers", {"end_to_end": 25.0, "end_to_end_fewer": 11.0}, 14.0, (0.25, 14.0)),
    ("too_few_cores", {"end_to_end": 30.0, "end_to_end_all_cores": 11.0}, 19.0, (19.8, 19.0)),
    ("small_batch", {"alone_graph": 2.0, "alone_large": 16.0, "training_scaled": 17.0}, 8.0, (8.26, 8.17)),
    ("small_batch", {"device": "cpu", "alone_large": 16.0, "training_scaled": 17.0}, 8.0, (8.26, 8.17)),
    ("batch_not_scaled", {"alone_reference": 12.0}, 4.0, (None, None)),
    ("heavy_gradients", {"allreduce_ms": 40.0, "training": 40.0, "end_to_end": 40.1}, 29.8, (None, None)),
    ("slow_device", {"alone_ms": (10.0, 25.0), "together": 25.0, "no_op_hook": 25.1, "training": 25.2,
                     "end_to_end": 25.3}, 15.0, (0.0, None)),
    ("data_parallel", {"dp": 30.0, "end_to_end": 30.1}, 19.7, (18.0, 19.7)),
    ("hidden_synchronisation", {"alone_unsynchronised": 6.0, "training_unsynchronised": 6.5}, 4.0, (4.0, 3.8)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "changed", "cost_ms", "saving"), CASES, ids=[case[0] for case in CASES])
def test_a_cause_is_the_first_reason_with_what_it_costs(
    name: str, changed: dict[str, Any], cost_ms: float, saving: tuple[float | None, float | None]
) -> None:
    diagnosis = answer(**changed)
    assert diagnosis.first.name == name
    finding = diagnosis.reasons[0]
    assert finding.cost_s.value * 1e3 == pytest.approx(cost_ms, rel=5e-3)
    assert finding.cost_s.low <= finding.cost_s.value <= finding.cost_s.high
    assert finding.share.value == pytest.approx(cost_ms / (diagnosis.whole_s.value * 1e3), rel=5e-3)
    if finding.remedies:
        assert saved_ms(finding) == pytest.approx(saving, abs=0.02)


SLOW_LOADER: dict[str, Any] = {"loader": 40.0, "end_to_end": 41.0, "end_to_end_more": 21.5}
WAITING: dict[str, Any] = {
    "alone_large": 10.0,
    "alone_unsynchronised": 6.0,
}  # for numbers, which on a GPU is not a small batch


@pytest.mark.parametrize(
    ("changed", "first"),
    [
        ({"launches": {"processes_of_launcher": 1, "variable": "WORLD_SIZE"}}, "nothing"),
        ({"cores": {"usable": 2, "busy_share": 0.3}, **SLOW_LOADER}, "slow_loader"),  # idle cores are enough
        # A step waits for a loader that is slower than it, or not beside it.
        ({"loader": 10.4, "end_to_end": 20.0, "cell": {"loader_workers": 2}}, "slow_loader"),
        ({"loader": 10.2, "end_to_end": 20.0, "cell": {"loader_workers": 2}}, "loading_disturbs"),
        ({"loader": 10.2, "end_to_end": 20.0, "cell": {"loader_workers": 0}}, "slow_loader"),
        (WAITING, "hidden_synchronisation"),
        ({"device": "cpu", **WAITING}, "small_batch"),
    ],
)
def test_the_cause_that_is_named_first(changed: dict[str, Any], first: str) -> None:
    assert answer(**changed).first.name == first


def test_a_cause_below_its_least_share_is_no_reason() -> None:
    """Launching is told by a part of the step that is larger than that of other causes."""
    diagnosis = answer(alone_graph=8.8)
    assert diagnosis.first.name == "nothing"
    assert found(diagnosis, "small_batch").share.value == pytest.approx(0.115, abs=0.01)


@pytest.mark.parametrize(("bus_gb_s", "copy_gb_s", "cause"), [(10, 350, "slow_link"), (300, 350, "heavy_gradients"),
                                                             (20, 24, "slow_link")])  # fmt: skip
def test_a_link_is_slow_beside_a_plain_copy_or_its_data_sheet(bus_gb_s: float, copy_gb_s: float, cause: str) -> None:
    size = 64 * 2**20
    link = {"copy_gb_s": [copy_gb_s] * 7, "allreduce": {"bytes": size, "seconds": [size / bus_gb_s / 1e9] * 5}}
    diagnosis = answer(link=link, allreduce_ms=40.0, training=40.0, end_to_end=40.1)
    assert diagnosis.first.name == cause


@pytest.mark.parametrize(
    ("launches", "share"),
    [({"same_command": [7]}, 1 / 2), ({"processes_of_launcher": 4, "variable": "WORLD_SIZE"}, 3 / 4)],
)
def test_started_more_than_once_comes_before_all_that_was_measured_beside_it(
    launches: dict[str, Any], share: float
) -> None:
    diagnosis = answer(launches=launches, loader=400.0, end_to_end=410.0)
    assert [reason.cause.name for reason in diagnosis.reasons] == ["started_twice", "slow_loader"]
    assert diagnosis.reasons[0].share.value == pytest.approx(share)


def test_busy_cores_that_are_too_few_explain_loading_and_contention() -> None:
    few = {"usable": 2, "busy_share": 0.97}
    times: dict[str, Any] = {"together": 18.0, "no_op_hook": 18.1, "training": 18.2, "loader": 9.0, "end_to_end": 30.0}
    diagnosis = answer(cores=few, **times, end_to_end_all_cores=19.0)
    assert diagnosis.first.name == "too_few_cores"
    assert diagnosis.reasons[0].cost_s.value * 1e3 == pytest.approx(8 + 11.8, rel=5e-3)
    assert "slow_loader" not in [reason.cause.name for reason in diagnosis.reasons]


def test_a_larger_batch_is_predicted_and_measured_for_the_batch_that_is_used() -> None:
    """Of the whole step, what DDP adds to the plain one stays as long per step: (10.3 − 10 + 48) ms for 8 batches."""
    diagnosis = answer(device="cpu", alone_large=48.0, training_scaled=50.0)
    assert diagnosis.first.name == "small_batch"
    assert saved_ms(diagnosis.reasons[0]) == pytest.approx((10.3 - 48.3 / 8, 10.3 - 50 / 8), abs=0.02)
    assert diagnosis.reasons[0].remedies[0].words == {"batch_per_gpu": 8 * BATCH}


def test_a_step_on_one_device_is_diagnosed_without_what_needs_several() -> None:
    one = {"loader": 40.0, "end_to_end": 41.0, "end_to_end_more": 21.0}
    record = diagnosis_record(one, (10.0,))
    diagnosis = diagnose({**record, "link": None, "allreduce": None})
    assert diagnosis.first.name == "slow_loader"
    assert diagnosis.efficiency.value == pytest.approx(10 / 41, rel=1e-3)


def test_a_graph_of_the_whole_step_is_predicted_by_that_of_the_plain_one_and_an_allreduce() -> None:
    diagnosis = answer(alone_graph=2.0, training_graph=2.5)
    assert diagnosis.first.name == "small_batch"
    assert [remedy.name for remedy in diagnosis.reasons[0].remedies] == ["cuda_graph"]
    assert saved_ms(diagnosis.reasons[0]) == pytest.approx((10.3 - 2 - 2, 7.8), abs=0.02)


@pytest.mark.parametrize(
    ("allreduce_ms", "predicted_ms"),
    [(40.0, 20.0 - 1), (100.0, 29.8 - 1)],  # half of it; all that was not hidden; less a conversion of 1 ms
)
def test_half_the_bytes_save_half_of_what_is_not_hidden(allreduce_ms: float, predicted_ms: float) -> None:
    diagnosis = answer(allreduce_ms=allreduce_ms, training=40.0, end_to_end=40.1, bfloat16_gradients=22.0)
    assert diagnosis.first.name == "heavy_gradients"
    assert saved_ms(diagnosis.reasons[0]) == pytest.approx((predicted_ms, 18.0), abs=0.02)


def test_what_pays_without_a_cause_is_told_of_every_step() -> None:
    diagnosis = answer(bfloat16=6.3, end_to_end_unpinned=10.6)
    assert diagnosis.first.name == "nothing"
    saved = {remedy.name: remedy.measured_s.value * 1e3 for remedy in diagnosis.tried if remedy.measured_s}
    assert saved == pytest.approx({"bfloat16": 4.0, "pinned_memory": 0.2}, abs=0.01)
    assert answer().tried == []


def test_the_median_of_few_values_has_no_interval() -> None:
    assert str(median_of_blocks([1.0, 2.0, 3.0]).low) == "nan"
    assert median_of_blocks([5.0, 1.0, 2.0, 3.0, 4.0, 6.0]) == median_of_blocks([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    figure = median_of_blocks(list(range(1, 10)))
    assert (figure.value, figure.low, figure.high) == (5, 2, 8), "nine values leave out one at each end"
