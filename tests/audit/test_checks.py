"""Every check, with figures that call for it and figures that do not; and figures that have no number."""

from typing import Any

import pytest

from dpscale.audit.checks import IMPOSSIBLE, LOOK, above_the_peak, doubts
from dpscale.audit.published import Published, Spot
from dpscale.audit.verdicts import corrected, read
from published_factory import by_place, published

EPOCH_S = "32x1 40.00, 32x2 25.00, 128x1 30.00, 128x2 18.00"


def details(study: Published, check: str) -> dict[Spot, str]:
    """Return the details of the checks that have this in their names, by cell."""
    return {doubt.place: doubt.detail for doubt in doubts(read(study)) if check in doubt.check}


def test_parts_that_are_not_the_whole() -> None:
    """The total is only known by the printed speedup."""
    columns = {"speedup": "32x2 1.60", "compute_s": "32x2 20.00", "communication_s": "32x2 6.00"}
    study = published("32x1 40.00", columns)
    assert details(study, "compute plus communication") == {Spot(32, 2): "25.0 against 26.0 s"}


def test_a_mistake_is_not_said_of_figures_that_are_of_other_runs() -> None:
    columns = {"speedup": "32x2 3.20, 128x2 3.33"}
    study = published(f"{EPOCH_S}, 512x1 28.00, 512x2 15.00", columns, of_other_runs={"speedup": by_place("512x2 3.7")})
    assert set(details(study, "reported as speedup")) == {Spot(32, 2), Spot(128, 2)}


@pytest.mark.parametrize(("two_gpus_s", "is_copied"), [("25.00", True), ("25.01", False)])
def test_times_that_repeat_those_of_another_batch(two_gpus_s: str, is_copied: bool) -> None:
    study = published(f"32x1 40.00, 32x2 25.00, 128x1 40.00, 128x2 {two_gpus_s}", {})
    places = {Spot(128, 1), Spot(128, 2)} if is_copied else set()
    assert details(study, "times of another batch").keys() == places


def test_a_global_batch_larger_than_the_dataset() -> None:
    sweep_s = {50_000: "1.0", 50_001: "1.0"}
    study = published("30000x1 9.0, 30000x2 8.0", {"speedup": "30000x2 1.1"}, batch_sweep_s=sweep_s)
    assert set(details(study, "larger than the dataset")) == {Spot(30_000, 2), Spot(50_001, 1)}
    assert corrected(read(study))["speedup", Spot(30_000, 2)] == "capped: N*b > 50000 images, no full step"


@pytest.mark.parametrize(
    ("gpu", "unit", "printed", "is_above"),
    [
        ("RTX 8000", "GB/s", "50.1", True),
        ("RTX 8000", "GB/s", "49.9", False),
        ("RTX 8000", "MB/s", "51", False),
        ("RTX 8000", "GiB/s", "47.0", True),
        (None, "GB/s", "901", True),
        (None, "GB/s", "899", False),
    ],
)
def test_a_bandwidth_above_any_link(gpu: str | None, unit: str, printed: str, is_above: bool) -> None:
    study = published(EPOCH_S, {"bandwidth": {(32, 2): printed}}, gpu=gpu, bandwidth_unit=unit)
    severities = [doubt.severity for doubt in doubts(read(study)) if "above any link" in doubt.check]
    assert severities == ([IMPOSSIBLE] if is_above else [])


def test_a_figure_without_a_number_says_why() -> None:
    cancelled = corrected(read(published("32x1 40.0, 32x2 20.0", {"speedup": "32x2 2.0"})))
    reason = "not resolvable: its communication time may be zero"
    assert str(cancelled["bandwidth", Spot(32, 2)]).startswith(reason)
    # The time of a sweep is not taken for that of the table.
    without_one_gpu = published("32x2 25.00", {"speedup": "32x2 1.60"}, batch_sweep_s={32: "40.00"})
    assert corrected(read(without_one_gpu))["speedup", Spot(32, 2)] == "T(1,b) was not printed"


@pytest.mark.parametrize(
    ("two_gpus_s", "detail"),
    [
        # Half of 40.00 s, known to 0.005 s; and 2 GPUs may be exactly twice as fast.
        ("19.99", "100.1 % of 2 GPUs: that needs a cause, such as a slow T(1,b)"),
        ("20.00", None),
        ("25.00", None),
    ],
)
def test_an_efficiency_above_one_needs_a_cause(two_gpus_s: str, detail: str | None) -> None:
    study = published({(32, 1): "40.00", (32, 2): two_gpus_s}, {"speedup": "32x2 2.0"})
    assert details(study, "efficiency above 100 %") == ({Spot(32, 2): detail} if detail else {})


def severities_by_place(epoch_s: str, **changes: Any) -> dict[Spot, str]:
    """Return the severities of the doubts about times near the peak."""
    reading = read(published(epoch_s, {}, **{"gpu": "RTX 8000", **changes}))
    return {doubt.place: doubt.severity for doubt in above_the_peak(reading)}


@pytest.mark.parametrize(
    ("one_gpu_s", "severity"),
    [
        # 50,000 images * 3.3290 GFLOP over 16.3 TFLOP/s are 10.212 s; 70 % of the peak are 14.588 s.
        ("10.20", IMPOSSIBLE),
        ("10.22", LOOK),
        ("14.57", LOOK),
        ("14.60", None),
        # Half a unit of the last digit: 10 may be 10.49 s.
        ("10", LOOK),
    ],
)
def test_a_time_against_the_peak(one_gpu_s: str, severity: str | None) -> None:
    assert severities_by_place(f"128x1 {one_gpu_s}").get(Spot(128, 1)) == severity


@pytest.mark.parametrize(
    ("changes", "is_impossible"),
    [
        ({"precision": "float16"}, False),  # 130.5 TFLOP/s
        ({"gpu": "A40"}, False),  # TF32: 74.8
        ({"gpu": "K80"}, True),
        ({"precision": "bfloat16"}, True),  # no unit for it: float32, 16.3
        ({"gpu": None}, False),
        ({"parameters_trained": None}, False),
        ({"parameters_trained": None, "flop_per_image": 3.3290e9}, True),
        ({"flop_per_image": 1e9}, False),
    ],
)
def test_the_peak_is_that_of_the_gpu_and_the_precision(changes: dict[str, Any], is_impossible: bool) -> None:
    assert (IMPOSSIBLE in severities_by_place("128x1 8.00, 128x2 9.00", **changes).values()) == is_impossible
