"""The table of peaks, and MFU."""

import pytest
import yaml

from dpscale.analyse.peaks import UNITS, mfu, peak_flop_s, peak_source
from dpscale.vocabulary.chips import TABLE

ENTRIES = yaml.safe_load(TABLE.read_text())
MODELS = [model for entry in ENTRIES for model in entry["models"]]


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
    assert peak_flop_s(model, precision) == pytest.approx(tflop_s * 1e12)


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
    assert peak_flop_s(model, precision) is None


def test_a_model_that_is_not_in_the_table_has_no_source() -> None:
    assert peak_source("NVIDIA H200 NVL") is None


def test_every_model_stands_once_with_its_source() -> None:
    assert len(MODELS) == len(set(MODELS))
    for model in MODELS:
        source = peak_source(model)
        assert source and ("data sheet" in source or "white paper" in source)


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


def test_mfu_of_an_epoch() -> None:
    """docs/method.md, Experiment: 3.3290 GFLOP per image; 50,000 images in 0.545 s on 4 H200 in TF32."""
    peak = peak_flop_s("NVIDIA H200", "float32")
    assert peak
    assert mfu(3.3290e9, 50_000 / 0.545, 4, peak) == pytest.approx(0.1544, abs=0.0001)
    assert mfu(1.0, peak, 1, peak) == 1
