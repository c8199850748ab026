"""The general table: a row per configuration, from the tables of times and of speedups."""

from page_tables import GPU, h200, tables, times_row

from dpscale.present.study.general import general
from rows import one


def test_speed_stands_beside_price_in_rows_of_enough_steps_alone() -> None:
    data = h200()
    made = general(data.times, data.speedup, GPU)
    assert [column.heading for column in made.columns] == [
        "Strategy", "GPUs", "Batch per GPU, images", "Speedup, ×", "Efficiency, %", "Epoch time, s", "GPU-seconds",
        "Peak memory, GB", "Energy, J per epoch", "MFU, %",
    ]  # fmt: skip
    found = {tuple(row[:3]): row[3:5] for row in made.cells}
    assert len(found) == len(made.cells)
    at = one(data.speedup, scaling="weak", scope="compute", strategy="ddp", gpus=4, batch_per_gpu=512)
    assert found["single", "1", "512"] == ["–", "–"]
    assert found["ddp", "4", "512"] == [
        f"{at.speedup.value:.2f} [{at.speedup.low:.2f}, {at.speedup.high:.2f}]", f"{100 * at.efficiency.value:.1f}",
    ]  # fmt: skip
    # Epochs of few steps and other scopes have no row.
    assert {batch for _, gpus, batch in found if gpus == "4"} == {"32", "128", "512"}


def test_a_peak_that_is_not_known_is_said_to_be() -> None:
    row = times_row(2.0, strategy="ddp", gpus=4, batch=32)
    made = tables(times=[{**row, "peak_source": "unknown", "mfu": None}])
    assert general(made.times, made.speedup, GPU).cells[0][-1] == "unknown"
