"""Every consistency check, with figures that call for it and figures that do not; and figures that have no number."""

import pytest

from dpscale.audit.checks import IMPOSSIBLE, doubts
from dpscale.audit.reading.published import Published, Spot
from dpscale.audit.verdicts import corrected, read
from published_factory import published

EPOCH_S = "32x1 40.00, 32x2 25.00, 128x1 30.00, 128x2 18.00"


def checks(study: Published) -> dict[tuple[str, Spot], str]:
    return {(doubt.check, doubt.place): doubt.detail for doubt in doubts(read(study))}


def named(study: Published, part: str) -> dict[Spot, str]:
    return {place: detail for (check, place), detail in checks(study).items() if part in check}


def test_parts_that_are_not_the_whole() -> None:
    """The total is only known by the printed speedup."""
    columns = {"speedup": "32x2 1.60", "compute_s": "32x2 20.00", "communication_s": "32x2 6.00"}
    study = published("32x1 40.00", columns)
    assert named(study, "compute plus communication") == {Spot(32, 2): "25.0 against 26.0 s"}


def test_a_global_batch_larger_than_the_dataset() -> None:
    study = published(
        "30000x1 9.0, 30000x2 8.0", {"speedup": "30000x2 1.1"},
        batch_sweep_s={50_000: "1.0", 50_001: "1.0"},
    )  # fmt: skip
    assert set(named(study, "larger than the dataset")) == {Spot(30_000, 2), Spot(50_001, 1)}
    assert "capped: N*b > 50000 images, no full step" in corrected(read(study)).values()


@pytest.mark.parametrize(
    ("gpu", "unit", "printed", "above"),
    [
        ("RTX 8000", "GB/s", "50.1", True),
        ("RTX 8000", "GB/s", "49.9", False),
        ("RTX 8000", "MB/s", "51", False),
        ("RTX 8000", "GiB/s", "47.0", True),
        (None, "GB/s", "901", True),
        (None, "GB/s", "899", False),
    ],
)
def test_a_bandwidth_above_any_link(gpu: str | None, unit: str, printed: str, above: bool) -> None:
    study = published(EPOCH_S, {"bandwidth": {(32, 2): printed}}, gpu=gpu, bandwidth_unit=unit)
    severities = [doubt.severity for doubt in doubts(read(study)) if "above any link" in doubt.check]
    assert severities == ([IMPOSSIBLE] if above else [])


def test_a_communication_time_around_zero_gives_no_bandwidth() -> None:
    study = published("32x1 40.0, 32x2 20.0", {"speedup": "32x2 2.0"})
    reason = corrected(read(study))["bandwidth", Spot(32, 2)]
    assert str(reason).startswith("not resolvable: a communication time of -0.075 to 0.075 s")


def test_a_missing_one_gpu_time_leaves_no_speedup_and_borrows_no_other() -> None:
    study = published("32x2 25.00", {"speedup": "32x2 1.60"}, batch_sweep_s={32: "40.00"})
    assert corrected(read(study))["speedup", Spot(32, 2)] == "T(1,b) was not printed"


@pytest.mark.parametrize(
    ("two_gpus_s", "detail"),
    [
        # Half of 40.00 s, known to 0.005 s; and 2 GPUs may be exactly twice as fast.
        ("19.00", "105.3 % of 2 GPUs: that needs a cause, such as a slow T(1,b)"),
        ("19.99", "100.1 % of 2 GPUs: that needs a cause, such as a slow T(1,b)"),
        ("20.00", None),
        ("25.00", None),
    ],
)
def test_an_efficiency_above_one_needs_a_cause(two_gpus_s: str, detail: str | None) -> None:
    study = published({(32, 1): "40.00", (32, 2): two_gpus_s}, {"speedup": "32x2 2.0"})
    assert named(study, "efficiency above 100 %") == ({Spot(32, 2): detail} if detail else {})
