"""Communication estimated in five ways, from records whose communication is known exactly."""

from collections.abc import Hashable, Mapping
from copy import deepcopy
from dataclasses import replace
from statistics import median
from typing import Any

import pandas as pd
import pytest

import h200_study
from dpscale.analyse.communication.measured import Measurements
from dpscale.analyse.forecast.basis import bases
from dpscale.analyse.tables import build_tables
from dpscale.analyse.timing.environments import environment_letters
from dpscale.analyse.timing.points import compare, points_of
from dpscale.plan.cells import AnyCell, CollectivesCell, CommunicationCell, Configuration
from h200_study import COMMUNICATION_S, EXPOSED_S, collected, step_s
from record_factory import network_facts

STUDY = h200_study.study()
GRADIENT_BYTES = 44_695_848


@pytest.fixture(scope="module")
def tables() -> Mapping[str, pd.DataFrame]:
    return build_tables(STUDY, collected(STUDY))


def row(table: pd.DataFrame, **where: Any) -> dict[Hashable, Any]:
    for name, value in where.items():
        table = table[table[name] == value]
    (found,) = table.to_dict("records")
    return found


def place(strategy: str, gpus: int, batch: int) -> dict[str, Any]:
    return {"strategy": strategy, "gpus": gpus, "batch_per_gpu": batch}


@pytest.mark.parametrize(("strategy", "gpus", "batch"), [("ddp", 4, 512), ("dp", 2, 32)])
def test_each_estimate_finds_what_it_is_defined_to_contain(
    tables: Mapping[str, pd.DataFrame], strategy: str, gpus: int, batch: int
) -> None:
    found = row(tables["communication"], **place(strategy, gpus, batch))
    subtraction_s = step_s(strategy, gpus, batch) - step_s("single", 1, batch)
    assert found["communication_step_s"] == pytest.approx(subtraction_s, rel=1e-6)
    assert found["profiler_step_s"] == pytest.approx(COMMUNICATION_S[strategy])
    assert found["profiler_exposed_step_s"] == pytest.approx(EXPOSED_S[strategy])
    if strategy == "ddp":
        assert found["profiler_least_step_s"] == pytest.approx(0.9 * COMMUNICATION_S["ddp"])
        assert found["profiler_least_exposed_step_s"] == pytest.approx(EXPOSED_S["ddp"])
    else:
        assert pd.isna(found["profiler_least_step_s"])
    if strategy == "ddp":
        assert found["ablation_step_s"] == pytest.approx(EXPOSED_S["ddp"])
        assert found["no_sync_step_s"] == pytest.approx(1.2 * EXPOSED_S["ddp"])
        assert found["logger_step_s"] == pytest.approx(COMMUNICATION_S["ddp"])
        assert found["logger_exposed_step_s"] == pytest.approx(EXPOSED_S["ddp"])
    else:
        assert pd.isna(found["ablation_step_s"])
        assert pd.isna(found["logger_step_s"])
    for name in ("profiler_step_s", "isolated_step_s"):
        assert found[f"{name}_low"] <= found[name] <= found[f"{name}_high"]


def test_the_isolated_floor_of_ddp_is_its_three_buckets_and_its_buffers(tables: Mapping[str, pd.DataFrame]) -> None:
    """2 (N-1) latencies and 2 (N-1)/N of the bytes, each; and one latency and the bytes of the broadcast."""
    found = row(tables["communication"], **place("ddp", 4, 512))
    buckets_s = 3 * 6 * 1e-5 + 1.5 * GRADIENT_BYTES / 250e9
    assert found["isolated_step_s"] == pytest.approx(buckets_s + 1e-5 + 38_560 / 250e9)


def test_the_isolated_floor_of_dp_holds_images_parameters_and_gradients(tables: Mapping[str, pd.DataFrame]) -> None:
    found = row(tables["communication"], **place("dp", 4, 512))
    collectives_s = (7 + 5) * 1e-5 + (2 * GRADIENT_BYTES + 38_560) / 250e9
    copies_s = 3 * 512 * (12_288 + 40) * 1e-3 / 2**28
    assert found["isolated_step_s"] == pytest.approx(collectives_s + copies_s)


def test_bandwidth_three_ways(tables: Mapping[str, pd.DataFrame]) -> None:
    found = row(tables["bandwidth"], **place("ddp", 4, 512))
    ring_bytes = 1.5 * GRADIENT_BYTES
    alone_s = 6 * 1e-5 + ring_bytes / 250e9
    assert found["bus_bandwidth_gb_s"] == pytest.approx(ring_bytes / alone_s / 1e9)
    assert found["profiler_bandwidth_gb_s"] == pytest.approx(ring_bytes / (0.9 * COMMUNICATION_S["ddp"]) / 1e9)
    assert found["utilisation"] == pytest.approx(found["bandwidth_gb_s"] / found["bus_bandwidth_gb_s"])
    assert found["utilisation_low"] < found["utilisation"] < found["utilisation_high"]
    assert pd.isna(found["root_link_bytes_per_step"])


def test_dataparallel_moves_more_through_its_first_gpu_than_a_ring_would(tables: Mapping[str, pd.DataFrame]) -> None:
    found = row(tables["bandwidth"], **place("dp", 4, 512))
    images_and_logits = 3 * 512 * (12_288 + 40)
    assert found["root_link_bytes_per_step"] == 2 * GRADIENT_BYTES + 38_560 + images_and_logits


def test_bus_bandwidth_has_nccl_tests_factors(tables: Mapping[str, pd.DataFrame]) -> None:
    for operation, factor in (("allreduce", 1.5), ("all_gather", 0.75), ("reduce_scatter", 0.75), ("broadcast", 1)):
        found = row(tables["collectives"], operation=operation, gpus=4, message_bytes=2**30)
        assert found["bus_bandwidth_gb_s"] == pytest.approx(factor * found["algorithm_bandwidth_gb_s"])
        assert found["algorithm_bandwidth_gb_s"] == pytest.approx(2**30 / found["time_s"] / 1e9)
        assert found["time_s_min"] < found["time_s"] < found["time_s_p95"]


def test_sizes_say_what_the_network_needs_them_for(tables: Mapping[str, pd.DataFrame]) -> None:
    collectives = tables["collectives"]
    assert row(collectives, operation="allreduce", gpus=4, message_bytes=26_494_976)["use"] == "DDP's bucket 2"
    assert row(collectives, operation="allreduce", gpus=2, message_bytes=GRADIENT_BYTES)["use"] == "whole gradient"
    assert len(collectives[collectives["operation"] == "peer_copy"]) == 2 * 1 + 4 * 3


def test_the_parts_of_a_step_sum_up_to_it(tables: Mapping[str, pd.DataFrame]) -> None:
    steps = tables["steps"]
    whole = steps[steps["phase"] == "all"]
    assert len(whole) == 3 * 2 * (2 + 4), "every device of every parallel configuration"
    for found in whole.to_dict("records"):
        coordinates = place(found["strategy"], found["gpus"], found["batch_per_gpu"])
        assert found["parts_s"] == pytest.approx(step_s(*coordinates.values()))
        assert found["difference"] == pytest.approx(1 / 1.001 - 1, rel=1e-3), "by the host's clock it is 0.1 % longer"
        phases = steps[(steps["phase"] != "all") & (steps["device"] == found["device"])]
        for name, value in coordinates.items():
            phases = phases[phases[name] == value]
        for part in ("compute_s", "communication_s", "copy_s", "idle_s"):
            assert phases[part].sum() == pytest.approx(found[part])
            assert found[f"{part}_low"] <= found[part] <= found[f"{part}_high"]


def test_mfu_is_work_over_peak(tables: Mapping[str, pd.DataFrame]) -> None:
    found = row(tables["times"], **place("ddp", 4, 512))
    assert found["mfu"] == pytest.approx(3_328_997_376 * 50_000 / 0.591 / (4 * 494.5e12), rel=1e-6)
    assert found["mfu_low"] < found["mfu"] < found["mfu_high"]
    assert "data sheet" in found["peak_source"]


def test_a_gpu_that_is_not_in_the_table_has_no_mfu() -> None:
    data = collected(STUDY)
    for record in data.records.values():
        record["hardware"]["device_model"] = "A GPU of tomorrow"
    found = build_tables(STUDY, data)["times"]
    assert found["mfu"].isna().all()
    assert found["peak_flop_s"].isna().all()
    assert (found["flop_per_image"].dropna() == 3_328_997_376).all()
    assert set(found["peak_source"].dropna()) == {"unknown"}


def test_a_network_whose_work_is_unknown_has_no_mfu_and_still_a_forecast(tables: Mapping[str, pd.DataFrame]) -> None:
    """Its backward pass is then taken for two thirds of its work, which it is of this network too."""
    data = collected(STUDY)
    found = build_tables(STUDY, replace(data, network={**network_facts(STUDY.settings), "flop_per_image": None}))
    assert found["times"]["mfu"].isna().all()
    assert found["times"]["flop_per_image"].isna().all()
    predicted, known = (built["forecast"].dropna(subset=["step_s"]) for built in (found, tables))
    assert len(predicted) == len(known) > 0
    assert predicted["step_s"].to_numpy() == pytest.approx(known["step_s"].to_numpy(), rel=1e-3)


def test_dataparallel_moves_the_samples_that_the_network_takes() -> None:
    facts = {**network_facts(STUDY.settings), "input_bytes_per_image": 1000, "output_bytes_per_image": 24}
    found = build_tables(STUDY, replace(collected(STUDY), network=facts))
    moved = row(found["bandwidth"], **place("dp", 4, 512))["root_link_bytes_per_step"]
    assert moved == 2 * GRADIENT_BYTES + 38_560 + 3 * 512 * 1024
    isolated_s = row(found["communication"], **place("dp", 4, 512))["isolated_step_s"]
    collectives_s = (7 + 5) * 1e-5 + (2 * GRADIENT_BYTES + 38_560) / 250e9
    assert isolated_s == pytest.approx(collectives_s + 3 * 512 * 1024 * 1e-3 / 2**28)


def test_the_step_on_4_gpus_is_predicted_without_a_number_from_4_gpus(tables: Mapping[str, pd.DataFrame]) -> None:
    def scored(built: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
        forecast = built["forecast"]
        return forecast[forecast["kind"] == "held out"]

    found = scored(tables)
    assert list(found["batch_per_gpu"]) == [32, 128, 512]
    assert found["within_tolerance"].all()
    changed = collected(STUDY)
    for cell, record in changed.records.items():
        if isinstance(cell, CollectivesCell) and cell.gpus == 4:
            for result in record["collectives"]:
                result["seconds"] = [3 * seconds for seconds in result["seconds"]]
        elif record["cell"]["gpus"] == 4 and record["kind"] == "timing":
            for result in record["scopes"].values():
                result["step_s_median"] = [2 * seconds for seconds in result["step_s_median"]]
    again = scored(build_tables(STUDY, changed))
    assert list(again["step_s"]) == list(found["step_s"])
    assert not again["within_tolerance"].any(), "but what it is scored against has changed"


def on_slow_servers(factor: float) -> pd.DataFrame:
    """The scores, where every server with 4 GPUs is so much slower than others, one of its GPUs alone too. What 2 GPUs
    say of overhead is not."""
    data = collected(STUDY)
    single = {
        record["cell"]["batch_per_gpu"]: record["scopes"] for record in data.records.values() if is_single(record)
    }
    for record in data.records.values():
        if record["kind"] == "timing" and not is_single(record):
            batch, slower = record["cell"]["batch_per_gpu"], factor if record["cell"]["gpus"] == 4 else 1.0
            own = {
                scope: {end: deepcopy(result) for end in ("before", "after")} for scope, result in single[batch].items()
            }
            record["alone"] = [{"batch_per_gpu": batch, "status": "ok", "scopes": own}]
            for result in (*record["scopes"].values(), *(end for ends in own.values() for end in ends.values())):
                result["step_s_median"] = [slower * seconds for seconds in result["step_s_median"]]
    forecast = build_tables(STUDY, data)["forecast"]
    return forecast[forecast["kind"] == "held out"]


def is_single(record: dict[str, Any]) -> bool:
    return bool(record["kind"] == "timing" and record["cell"]["strategy"] == "single")


def test_a_forecast_and_what_it_is_scored_against_stand_on_the_same_servers(tables: Mapping[str, pd.DataFrame]) -> None:
    before, after = on_slow_servers(1.0), on_slow_servers(1.3)
    for found in before.to_dict("records"):
        step = row(tables["times"], **place("ddp", 4, found["batch_per_gpu"]))["step_s"]
        assert found["measured_step_s"] == pytest.approx(step)
    assert list(after["measured_step_s"]) == pytest.approx(list(1.3 * before["measured_step_s"]))
    assert list(after["relative_error"]) == pytest.approx(list(before["relative_error"]), abs=0.06)


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
        assert (step.draws is None) == (within.draws is None or single.draws is None)
        if step.draws is not None and single.draws is not None:
            assert step.draws - single.draws == pytest.approx(within.draws)


def test_the_forecast_reaches_1024_gpus_and_says_where_epochs_are_too_small(
    tables: Mapping[str, pd.DataFrame],
) -> None:
    forecast = tables["forecast"][tables["forecast"]["kind"] != "held out"]
    assert sorted(forecast["gpus"].unique()) == [8, 16, 32, 64, 128, 256, 512, 1024]
    beyond = forecast["nodes"] > 1
    assert set(forecast["kind"][beyond]) == {"scenario"}, "the links between nodes were not measured"
    assert set(forecast["kind"][~beyond]) == {"extrapolated"}
    assert (forecast[["efficiency", "efficiency_low", "efficiency_high"]] <= 1).all(axis=None)
    assert (forecast["step_s_low"] <= forecast["step_s"]).all()
    too_large = forecast["global_batch"] > 50_000
    assert (forecast["reason"].notna() == too_large).all()


def test_the_model_of_allreduce_has_its_residuals_per_number_of_gpus(tables: Mapping[str, pd.DataFrame]) -> None:
    models = tables["allreduce_models"]
    assert models[["algorithm", "gpus"]].to_numpy().tolist() == [["ring", 2], ["ring", 4], ["tree", 2], ["tree", 4]]
    allreduces = tables["collectives"][tables["collectives"]["operation"] == "allreduce"]
    for found in models.to_dict("records"):
        gpus, rounds = found["gpus"], {2: 2, 4: 6 if found["algorithm"] == "ring" else 4}
        sent = {"ring": 2 * (gpus - 1) / gpus, "tree": min(gpus - 1, 2)}[found["algorithm"]]
        measured = allreduces[allreduces["gpus"] == gpus]
        modelled_s = found["latency_s"] + sent * measured["message_bytes"] / found["bandwidth_gb_s"] / 1e9
        errors = modelled_s / measured["time_s"] - 1
        assert [
            found[f"{which}_relative_error"] for which in ("lowest", "highest", "median", "worst")
        ] == pytest.approx([errors.min(), errors.max(), errors.abs().median(), errors.abs().max()])
        per_round_s = (found["latency_s"] - found["base_latency_s"]) / rounds[gpus]
        assert per_round_s >= 0
    assert models.groupby("algorithm")["base_latency_s"].nunique().eq(1).all()


def test_every_weak_series_has_every_law(tables: Mapping[str, pd.DataFrame]) -> None:
    laws = tables["laws"]
    assert set(laws["law"]) == {"Amdahl", "Gustafson", "USL"}
    assert laws.groupby(["strategy", "batch_per_gpu"]).ngroups == 6
    usl = laws[laws["law"] == "USL"]
    assert usl["statement"].str.contains("cannot be tested here").all()


@pytest.mark.parametrize("kind", [CollectivesCell, CommunicationCell])
def test_without_some_records_the_other_figures_stand(tables: Mapping[str, pd.DataFrame], kind: type[AnyCell]) -> None:
    data = collected(STUDY)
    left = {cell: record for cell, record in data.records.items() if not isinstance(cell, kind)}
    built = build_tables(STUDY, replace(data, records=left))
    pd.testing.assert_frame_equal(built["times"], tables["times"])
    pd.testing.assert_frame_equal(built["speedup"], tables["speedup"])
    assert len(built["missing"]) == len(data.records) - len(left)
    missing = {"collectives": "isolated_step_s", "communication": "profiler_step_s"}[kind.kind]
    assert built["communication"][missing].isna().all()
    assert built["communication"]["communication_s"].notna().all()


def test_without_the_networks_facts_there_is_no_forecast() -> None:
    built = build_tables(STUDY, replace(collected(STUDY), network=None))
    assert built["forecast"].empty
    assert built["times"]["mfu"].isna().all()
    assert built["communication"]["profiler_step_s"].notna().all()


def test_out_of_memory_is_a_result_without_estimates() -> None:
    data = collected(STUDY)
    for cell, record in data.records.items():
        if isinstance(cell, CommunicationCell):
            record |= {"status": "oom", "steps": None, "ddp_logger": None, "profile": None}
            record["oom"] = {"rank": 0, "phase": "warm-up", "message": "CUDA out of memory"}
    built = build_tables(STUDY, data)
    assert built["communication"]["training_step_s"].isna().all()
    assert built["steps"].empty
    assert built["missing"].empty


def test_collectives_stand_in_the_environment_of_the_cells_with_the_same_software(
    tables: Mapping[str, pd.DataFrame],
) -> None:
    assert list(tables["environments"]["environment"]) == ["A"]
    data = collected(STUDY)
    for cell, record in data.records.items():
        if isinstance(cell, CollectivesCell):
            record["software"] = {**record["software"], "nccl": "9.9.9"}
    built = build_tables(STUDY, data)
    assert sorted(built["environments"]["environment"]) == ["A", "B"]
    assert built["communication"]["isolated_step_s"].isna().all(), "no figure is borrowed from another environment"


def test_a_profiler_that_changes_the_step_gives_no_bandwidth_and_sees_nothing_hide(
    tables: Mapping[str, pd.DataFrame],
) -> None:
    found = collected(STUDY)
    ddp = Configuration("ddp", 4, 512)
    slowed = {
        cell: _profiled_slower(record) if isinstance(cell, CommunicationCell) and cell.configuration == ddp else record
        for cell, record in found.records.items()
    }
    changed = build_tables(STUDY, replace(found, records=slowed))
    assert row(changed["communication"], **place("ddp", 4, 512))["profiler"] == "distorts"
    assert pd.isna(row(changed["bandwidth"], **place("ddp", 4, 512))["profiler_bandwidth_gb_s"])
    before, after = (row(some["critical_batch"], gpus=4)["profiled"] for some in (tables, changed))
    assert after == before - 1


def _profiled_slower(record: Any) -> Any:
    """The same record, each of its profiled steps 6 % longer than the unprofiled one."""
    slower_s = 1.06 * median(record["steps"]["variants"]["training"]["step_s"])
    blocks = [{**block, "step_s": slower_s} for block in record["profile"]["blocks"]]
    return {**record, "profile": {**record["profile"], "blocks": blocks}}
