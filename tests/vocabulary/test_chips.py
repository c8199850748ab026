"""The table of GPUs: their peaks, by names as torch gives them."""

import pytest

from cases import cases
from dpscale.vocabulary.chips import UNITS, chip_named, chips


@pytest.mark.parametrize(
    ("model", "precision", "tflop_s"),
    cases(__file__, "peaks"),
)
def test_peaks_by_precision(model: str, precision: str, tflop_s: float | None) -> None:
    chip = chip_named(model)
    peak = chip.peak(precision) if chip else None
    assert (peak.flop_s if peak else None) == (tflop_s and pytest.approx(tflop_s * 1e12))


def test_every_model_stands_once_with_its_source() -> None:
    models = [model for chip in chips() for model in chip.models]
    assert len(models) == len(set(models))
    for model in models:
        chip = chip_named(model)
        assert chip and model in chip.models
        assert "data sheet" in chip.source or "white paper" in chip.source


def test_peaks_are_dense_and_grow_as_numbers_shrink() -> None:
    """bfloat16 tensor cores do twice what TF32 does: a figure with sparsity among dense ones would break this."""
    units = {unit for units in UNITS.values() for unit in units}
    for chip in chips():
        peaks = chip.peak_tflop_s
        assert set(peaks) <= units
        assert ("tf32" in peaks) == ("bfloat16" in peaks)
        if "tf32" in peaks:
            assert peaks["float32"] <= peaks["tf32"]
            assert peaks["bfloat16"] / peaks["tf32"] == pytest.approx(2, rel=0.05)
