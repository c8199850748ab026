"""The general table: a row per configuration, from the tables of times and of speedups."""

from typing import Any

from page_tables import GPU, h200, tables, times_row

from dpscale.present.study.general import general
from dpscale.present.text.view import View
from rows import one

DDP: dict[str, Any] = {"strategy": "ddp", "gpus": 4, "batch": 32}


def rows(made: View) -> list[dict[str, str]]:
    headings = [column.heading for column in made.columns]
    return [dict(zip(headings, row, strict=True)) for row in made.cells]


def of(**data: Any) -> View:
    made = tables(**data)
    return general(made.times, made.speedup, GPU)


def test_speed_stands_beside_price_in_rows_of_enough_steps_alone() -> None:
    data = h200()
    made = general(data.times, data.speedup, GPU)
    assert [column.heading for column in made.columns] == [
        "Strategy", "GPUs", "Batch per GPU, images", "Speedup, ×", "Efficiency, %", "Epoch time, s", "GPU-seconds",
        "Peak memory, GB", "Energy, J per epoch", "MFU, %",
    ]  # fmt: skip
    found = rows(made)
    alone, four = (
        next(row for row in found if (row["Strategy"], row["GPUs"], row["Batch per GPU, images"]) == place)
        for place in (("single", "1", "512"), ("ddp", "4", "512"))
    )
    assert (alone["Speedup, ×"], alone["Efficiency, %"]) == ("–", "–")
    at = one(data.speedup, scaling="weak", scope="compute", strategy="ddp", gpus=4, batch_per_gpu=512)
    assert four["Speedup, ×"] == f"{at.speedup.value:.2f} [{at.speedup.low:.2f}, {at.speedup.high:.2f}]"
    assert four["Efficiency, %"] == f"{100 * at.efficiency.value:.1f}"
    # Epochs of few steps and other scopes have no row.
    assert {row["Batch per GPU, images"] for row in found if row["GPUs"] == "4"} == {"32", "128", "512"}
    assert len(found) == len({tuple(row.values())[:3] for row in found})


def test_a_peak_that_is_not_known_is_said_to_be() -> None:
    assert rows(of(times=[{**times_row(2.0, **DDP), "peak_source": "unknown", "mfu": None}]))[0]["MFU, %"] == "unknown"
