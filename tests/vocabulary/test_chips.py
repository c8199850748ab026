"""The table of GPUs: their peaks, by names as torch gives them."""

import pytest

from dpscale.vocabulary import chips
from dpscale.vocabulary.chips import UNITS, Peak, chip_named
from dpscale.vocabulary.own_yaml import own_yaml

ENTRIES = own_yaml(chips.__file__, "chips.yaml")
MODELS = [model for entry in ENTRIES for model in entry["models"]]


def peak_of(model: str, precision: str) -> Peak | None:
    chip = chip_named(model)
    return chip.peak(precision) if chip else None


@pytest.mark.parametrize(
    ("model", "precision", "tflop_s"),
    [
        ("NVIDIA H200", "float32", 494.5),
        ("NVIDIA H200", "float32-strict", 67),
        ("NVIDIA H200", "bfloat16", 989.5),
        ("NVIDIA A100-SXM4-80GB", "float32", 156),
        ("Tesla V100-PCIE-16GB", "float32", 14),
        ("Tesla V100-PCIE-16GB", "float32-strict", 14),
    ],
)
def test_peaks_by_precision(model: str, precision: str, tflop_s: float) -> None:
    peak = peak_of(model, precision)
    assert peak and peak.flop_s == pytest.approx(tflop_s * 1e12)


@pytest.mark.parametrize(
    ("model", "precision"),
    [
        ("Tesla T4", "bfloat16"),
        ("Quadro RTX 8000", "bfloat16"),
        ("NVIDIA H200 and NVIDIA H100 PCIe", "float32"),
        ("NVIDIA H200 NVL", "float32"),
        ("AMD EPYC 9654", "float32"),
    ],
)
def test_what_has_no_peak(model: str, precision: str) -> None:
    assert peak_of(model, precision) is None


def test_every_model_stands_once_with_its_source() -> None:
    assert len(MODELS) == len(set(MODELS))
    for model in MODELS:
        chip = chip_named(model)
        assert chip and model in chip.models
        assert "data sheet" in chip.source or "white paper" in chip.source


def test_peaks_are_dense_and_grow_as_numbers_shrink() -> None:
    """bfloat16 tensor cores do twice what TF32 does: a figure with sparsity among dense ones would break this."""
    known_units = {unit for units in UNITS.values() for unit in units}
    for entry in ENTRIES:
        peaks = entry["peak_tflop_s"]
        assert set(peaks) <= known_units
        assert ("tf32" in peaks) == ("bfloat16" in peaks)
        if "tf32" in peaks:
            assert peaks["float32"] <= peaks["tf32"]
            assert peaks["bfloat16"] / peaks["tf32"] == pytest.approx(2, rel=0.05)


@pytest.mark.parametrize(("name", "tflop_s"), [("P100", 21.2), ("T4", 65), ("A100", 312), ("RTX 8000", 130.5)])
def test_half_precision_is_bounded_by_the_unit_that_does_it(name: str, tflop_s: float) -> None:
    chip = chip_named(name)
    assert chip is not None
    assert chip.most("float16").tflop_s == tflop_s
    assert chip.most("float16").tflop_s > chip.most("float32-strict").tflop_s
