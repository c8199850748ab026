"""What no machine can do, with figures that call for it and figures that do not."""

from typing import Any

import pytest

from dpscale.audit.checks import IMPOSSIBLE, LOOK, Doubt, above_the_peak, link_of_utilisation
from dpscale.audit.reading.published import Published, Spot
from dpscale.audit.verdicts import read
from dpscale.vocabulary.chips import chip_named
from published_factory import published

EPOCH_S = "128x1 17.20, 128x2 9.00"


def study(one_gpu_s: str = "17.20", **changes: Any) -> Published:
    return published(f"{EPOCH_S}, 128x1 {one_gpu_s}", {}, **{"gpu": "RTX 8000", **changes})


def severities(doubts: list[Doubt]) -> list[tuple[str, Spot]]:
    return [(doubt.severity, Spot(*doubt.place)) for doubt in doubts]


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
    doubts = [doubt for doubt in above_the_peak(read(study(one_gpu_s))) if doubt.place.gpus == 1]
    assert severities(doubts) == ([(severity, Spot(128, 1))] if severity else [])


@pytest.mark.parametrize(
    ("changes", "is_impossible"),
    [
        ({"precision": "float16"}, False),  # 130.5 TFLOP/s
        ({"gpu": "A40"}, False),  # TF32: 74.8
        ({"gpu": "A40", "precision": "float32-strict"}, False),  # 37.4
        ({"gpu": "K80"}, True),
        ({"precision": "bfloat16"}, True),  # no unit for it: float32, 16.3
        ({"gpu": None}, False),
        ({"parameters_trained": None}, False),
        ({"parameters_trained": None, "flop_per_image": 3.3290e9}, True),
        ({"flop_per_image": 1e9}, False),
    ],
)
def test_the_peak_is_that_of_the_gpu_and_the_precision(changes: dict[str, Any], is_impossible: bool) -> None:
    doubts = above_the_peak(read(study("8.00", **changes)))
    assert any(doubt.severity == IMPOSSIBLE for doubt in doubts) == is_impossible


def test_several_gpus_have_several_peaks() -> None:
    fast = published("128x1 17.20, 128x2 5.00, 128x4 2.60", {}, gpu="RTX 8000")
    assert severities(list(above_the_peak(read(fast)))) == [(IMPOSSIBLE, Spot(128, 2)), (LOOK, Spot(128, 4))]


@pytest.mark.parametrize(
    ("percent", "is_none"),
    [
        (100 / 31.5, False),  # PCIe 4.0 x16
        (100 / 56.25, False),  # NVLink
        (100 / 0.9, True),
        (100 / 45, True),
        (100 / 12.5, True),
    ],
)
def test_utilisation_of_a_link(percent: float, is_none: bool) -> None:
    bandwidth = {(32, 2): 1.234, (32, 4): 2.468, (128, 2): 3.579, (128, 4): 4.321}
    columns = {
        "bandwidth": {place: str(number) for place, number in bandwidth.items()},
        "utilisation_percent": {place: f"{number * percent:.4g}" for place, number in bandwidth.items()},
    }
    epoch_s = {(batch, gpus): f"{20 / gpus + 5:.2f}" for batch in (32, 128) for gpus in (1, 2, 4)}
    reading = read(published(epoch_s, columns, gpu="A40"))
    assert reading.outcomes["utilisation_percent"].factor
    assert bool(list(link_of_utilisation(reading))) == is_none


def test_chips_by_the_names_people_write() -> None:
    for name, chip in (
        ("Quadro RTX 8000", "RTX 8000"), ("rtx8000", "RTX 8000"), ("NVIDIA A40", "A40"), ("h100", "H100 SXM"),
        ("Tesla V100-SXM2-16GB", "V100 SXM2"), ("Tesla K80", "K80"),
    ):  # fmt: skip
        found = chip_named(name)
        assert found and found.name == chip
    for name in ("Voodoo 3", "", "RTX", "NVIDIA H20", "NVIDIA H200 NVL", "NVIDIA L40"):
        assert chip_named(name) is None
