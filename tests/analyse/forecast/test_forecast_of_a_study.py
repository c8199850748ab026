"""Forecasts, models of allreduce and laws in the tables of a study whose communication is known exactly."""

from copy import deepcopy
from statistics import median
from typing import Any

import pytest

import h200_study
from dpscale.analyse.communication.measured import Measurements
from dpscale.analyse.forecast.basis import bases
from dpscale.analyse.tables import build_tables
from dpscale.analyse.timing.environments import environment_letters
from dpscale.analyse.timing.points import compare, points_of
from dpscale.plan.cells import CollectivesCell, Configuration
from dpscale.records.collect import Collected
from dpscale.tables.forecast import ForecastRow
from dpscale.tables.tables import Tables
from h200_study import collected
from rows import one, picked

STUDY = h200_study.study()


@pytest.fixture(scope="module")
def tables() -> Tables:
    return h200_study.h200_tables()


def scores(data: Collected) -> list[ForecastRow]:
    return picked(build_tables(STUDY, data).forecast, kind="held out")


def test_the_step_on_4_gpus_is_predicted_without_a_number_from_4_gpus(tables: Tables) -> None:
    found = picked(tables.forecast, kind="held out")
    assert [(row.batch_per_gpu, row.within_tolerance) for row in found] == [(32, True), (128, True), (512, True)]
    changed = collected(STUDY)
    for cell, record in changed.records.items():
        if isinstance(cell, CollectivesCell) and cell.gpus == 4:
            for result in record["collectives"]:
                result["seconds"] = [3 * seconds for seconds in result["seconds"]]
        elif record["cell"]["gpus"] == 4 and record["kind"] == "timing":
            for result in record["scopes"].values():
                result["step_s_median"] = [2 * seconds for seconds in result["step_s_median"]]
    again = scores(changed)
    assert [row.step_s for row in again] == [row.step_s for row in found]
    assert not any(row.within_tolerance for row in again), "but what it is scored against has changed"


def on_slow_servers(factor: float) -> list[ForecastRow]:
    """The scores, where every server with 4 GPUs is so much slower than others, one of its GPUs alone too. What 2 GPUs
    say of overhead is not."""
    data = collected(STUDY)
    timing = [record for record in data.records.values() if record["kind"] == "timing"]
    single: dict[int, Any] = {}
    for record in timing:
        batch, scopes = record["cell"]["batch_per_gpu"], record["scopes"]
        if record["cell"]["strategy"] == "single":
            single[batch] = scopes
    for record in timing:
        batch, slower = record["cell"]["batch_per_gpu"], factor if record["cell"]["gpus"] == 4 else 1.0
        if record["cell"]["strategy"] != "single":
            own = {
                scope: {end: deepcopy(found) for end in ("before", "after")} for scope, found in single[batch].items()
            }
            record["alone"] = [{"batch_per_gpu": batch, "status": "ok", "scopes": own}]
            for result in (*record["scopes"].values(), *(end for ends in own.values() for end in ends.values())):
                result["step_s_median"] = [slower * seconds for seconds in result["step_s_median"]]
    return scores(data)


def test_a_forecast_and_what_it_is_scored_against_stand_on_the_same_servers(tables: Tables) -> None:
    for before, after in zip(on_slow_servers(1.0), on_slow_servers(1.3), strict=True):
        times = one(tables.times, strategy="ddp", gpus=4, batch_per_gpu=before.batch_per_gpu)
        assert before.measured_step_s.value == pytest.approx(times.step_s.value)
        assert after.measured_step_s.value == pytest.approx(1.3 * before.measured_step_s.value)
        assert after.relative_error.value == pytest.approx(before.relative_error.value, abs=0.06)


def test_steps_of_the_forecast_are_those_of_one_gpu_and_differences_within_blocks() -> None:
    data = collected(STUDY)
    letters = environment_letters(data.records)
    points = points_of(STUDY, data, letters)
    (basis,) = bases(points, Measurements.of(data, letters))
    parallel = [place for place in basis.step_s if place[0] > 1]
    assert len(parallel) == 6
    for gpus, batch in parallel:
        point = points[Configuration("ddp", gpus, batch), "compute", "A"]
        within = compare(points, point, batch).communication_step
        single, step = basis.step_s[1, batch], basis.step_s[gpus, batch]
        assert step.value - single.value == pytest.approx(within.value)
        assert step.draws is not None and single.draws is not None
        assert step.draws - single.draws == pytest.approx(within.draws)


def test_the_forecast_reaches_1024_gpus_and_says_where_epochs_are_too_small(tables: Tables) -> None:
    forecast = [row for row in tables.forecast if row.kind != "held out"]
    assert sorted({row.gpus for row in forecast if row.gpus}) == [8, 16, 32, 64, 128, 256, 512, 1024]
    for row in forecast:
        is_beyond = (row.nodes or 1) > 1
        assert row.kind == ("scenario" if is_beyond else "extrapolated"), "links between nodes were not measured"
        assert not max(row.efficiency.value, row.efficiency.high) > 1
        assert not row.step_s.low > row.step_s.value
        assert bool(row.reason) == ((row.global_batch or 0) > 50_000)


def test_the_model_of_allreduce_has_its_residuals_per_number_of_gpus(tables: Tables) -> None:
    models = tables.allreduce_models
    assert [(row.algorithm, row.gpus) for row in models] == [("ring", 2), ("ring", 4), ("tree", 2), ("tree", 4)]
    for model in models:
        gpus = model.gpus or 0
        sent = {"ring": 2 * (gpus - 1) / gpus, "tree": min(gpus - 1, 2)}[model.algorithm]
        errors = [
            (model.latency_s.value + sent * (row.message_bytes or 0) / model.bandwidth_gb_s.value / 1e9)
            / row.time_s.value
            - 1
            for row in picked(tables.collectives, operation="allreduce", gpus=gpus)
        ]
        sizes = list(map(abs, errors))
        found = (model.lowest_relative_error, model.highest_relative_error, model.median_relative_error)
        assert (*found, model.worst_relative_error) == pytest.approx(
            (min(errors), max(errors), median(sizes), max(sizes))
        )
        assert model.latency_s.value >= model.base_latency_s.value
    for algorithm in ("ring", "tree"):
        assert len({row.base_latency_s.value for row in picked(models, algorithm=algorithm)}) == 1


def test_every_weak_series_has_every_law(tables: Tables) -> None:
    assert {row.law for row in tables.laws} == {"Amdahl", "Gustafson", "USL"}
    assert len({(row.strategy, row.batch_per_gpu) for row in tables.laws}) == 6
    assert all("cannot be tested here" in row.statement for row in picked(tables.laws, law="USL"))
