"""Charts of forecasts: how good they are, and what they say of more GPUs than were measured."""

from typing import Any

import pytest
from page_tables import GPU, extrapolated_row, held_out_row, speedup_row, tables

from dpscale.present.charts.chart import Chart, Picture
from dpscale.present.charts.forecast import forecast, held_out
from pictures import description, headings, paths, texts

# To draw charts takes longest of all.
pytestmark = pytest.mark.slow


def scored(*rows: dict[str, Any]) -> Chart:
    return held_out(tables(forecast=list(rows)).forecast, GPU)


def test_prediction_is_drawn_beside_no_prediction_at_all() -> None:
    (picture,) = scored(held_out_row(512, -0.01)).pictures
    assert description(picture.svg) == "predicted: −1.00 % at 512. unchanged: −2.00 % at 512."
    (alone,) = scored(held_out_row(512, -0.01, None)).pictures
    assert "unchanged" not in texts(alone.svg)


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        ({32: -0.05, 512: 0.01}, "Step on 4 GPUs predicted from 2: at most 5.0 % off, at batch 32"),
        ({32: -0.05, 512: 0.20}, "Step on 4 GPUs predicted from 2: at most 20 % off, at batch 512"),
        ({512: 0.01}, "Step on 4 GPUs predicted from 2: 1.0 % off, at batch 512"),
    ],
)
def test_prediction_is_as_good_as_its_worst(errors: dict[int, float], expected: str) -> None:
    assert headings(scored(*(held_out_row(*pair) for pair in errors.items()))) == [expected]


def ahead(*measured: dict[str, Any], images: int = 50_000, gpus: tuple[int, ...] = (8, 64, 1024)) -> Picture:
    expected = [extrapolated_row(number, 32, 0.8, gpus_at_most=images // 32) for number in gpus]
    expected.append({**expected[0], "batch_per_gpu": None, "status": "missing"})
    data = tables(forecast=expected, speedup=list(measured))
    (picture,) = forecast(data.forecast, data.speedup, images, GPU).pictures
    return picture


def test_forecast_is_a_dashed_line_and_measurements_are_marks() -> None:
    svg = ahead(*(speedup_row(0.9 * gpus, 2.0, batch=32, strategy="ddp", gpus=gpus) for gpus in (2, 4))).svg
    assert description(svg) == "b = 32: 100 % at 1, 80.0 % at 1,024."
    assert {"forecast", "b = 32"} <= set(texts(svg))
    (squares,) = [way for way in paths(svg, fill="var(--single)") if "a" not in way and "h" in way]
    assert squares.count("M") == 3
    (line,) = paths(svg, stroke="var(--single)", stroke_width="1.8", stroke_dasharray="7,3")
    assert line.count("l") == 5


def test_forecast_without_measurement_starts_from_one_device() -> None:
    other = speedup_row(1.9, 2.0, batch=32, strategy="dp", gpus=2)
    end_to_end = speedup_row(1.9, 2.0, batch=32, strategy="ddp", gpus=2, scope="end_to_end")
    assert ahead() == ahead(other, end_to_end)


def test_forecast_says_where_a_step_takes_more_images_than_there_are() -> None:
    assert "images of an epoch" not in ahead(images=1024 * 32).subtitle
    assert ahead(images=1024 * 32 - 1).subtitle.endswith(
        "The 32,767 images of an epoch make a step on at most 1,023 GPUs at b = 32: more suppose a larger dataset"
    )


def test_forecast_says_from_where_on_it_is_a_scenario() -> None:
    assert "From 64 GPUs on a scenario: links between nodes were not measured" in ahead().subtitle
    assert "scenario" not in ahead(gpus=(8,)).subtitle


def test_forecast_names_its_band_at_both_ends() -> None:
    rows = [extrapolated_row(gpus, batch, 0.8) for gpus in (8, 1024) for batch in (32, 8192)]
    for some, expected in (
        (rows, "Scenario for 1,024 GPUs: efficiency 80 % [72, 88] at batch 32, 80 % [72, 88] at 8,192"),
        (rows[:1], "Forecast for 8 GPUs: efficiency 80 % [72, 88] at batch 32"),
    ):
        assert headings(forecast(tables(forecast=some).forecast, [], 50_000, GPU)) == [expected]


def test_nothing_measured_is_nothing_drawn() -> None:
    assert held_out([], GPU).pictures == forecast([], [], 50_000, GPU).pictures == []
