"""variants.csv and one_gpu.csv: the same GPUs, used otherwise, from records whose times are known."""

import math
from collections.abc import Mapping
from dataclasses import replace
from statistics import stdev
from typing import Any

import pandas as pd
import pytest

import variant_study
from dpscale.analyse.claims import has_interval
from dpscale.analyse.tables import build_tables
from dpscale.formulas import limits
from dpscale.plan.cells import AnyCell, StepCell, VariantCell
from dpscale.plan.plan import plan
from dpscale.plan.study import Study
from dpscale.present import words
from dpscale.records.collect import Collected
from record_factory import network_facts, on_chip, on_gpus, timing_record

STUDY = Study(
    {
        "study": "s",
        "gpus": [1, 2],
        "strategies": ["single", "ddp"],
        "batch_per_gpu": [32, 128],
        "scopes": ["compute"],
        "baseline": "own_cells",
        "runs": 3,
        "communication": {"runs": 0},
        "variants": {
            "graph": {"cuda_graph": True, "batch_per_gpu": [32]},
            "half": {"precision": "bfloat16", "gpus": [1]},
        },
    }
)
# Epoch seconds of one GPU; two take 0.6 of it under the study's own settings, and half in a graph.
ONE_S = {"base": 8.0, "graph": 2.0, "half": 4.0}
SHARE = {"base": 0.6, "graph": 0.5}
# Servers differ by a tenth, and what a variant's cell adds to its server's time by a thousandth.
OF_SERVER = {1: 0.9, 2: 1.0, 3: 1.1}
PREPARATION_S = 29.0
OF_CELL = {"base": (1.0, 1.001, 0.999), "graph": (1.001, 0.999, 1.0), "half": (1.0, 1.0, 1.0)}


def name_of(cell: StepCell) -> str:
    return cell.variant if isinstance(cell, VariantCell) else "base"


def epoch_s(cell: StepCell) -> float:
    name = name_of(cell)
    return ONE_S[name] * OF_SERVER[cell.run] * OF_CELL[name][cell.run - 1] * (1 if cell.gpus == 1 else SHARE[name])


def measured(
    study: Study = STUDY, without: str = "", runs: int = 3, elsewhere: bool = False, **times: float
) -> Collected:
    """Every cell's record: a run is a server. `times` are other epoch seconds of one GPU; `elsewhere` no variant was
    measured on a GPU that base used."""
    records: dict[AnyCell, Any] = {}
    for cell in (*plan(study).timing, *plan(study).variants):
        assert isinstance(cell, StepCell)
        name = name_of(cell)
        if name == without or cell.run > runs:
            continue
        settings = cell.settings if isinstance(cell, VariantCell) else study.settings
        seconds = epoch_s(cell) * times.get(name, ONE_S[name]) / ONE_S[name]
        record = timing_record(cell, settings, [seconds])  # type: ignore[arg-type]
        server = f"GPU-{'other-' if elsewhere and name != 'base' else ''}{cell.run}"
        record = on_gpus(record, *(f"{server}-{number}" for number in range(cell.gpus)))
        records[cell] = {**record, "preparation_s": PREPARATION_S if name == "graph" else None}
    return Collected(records, {}, {})


def variants(found: Collected, study: Study = STUDY) -> Any:
    table = build_tables(study, found)["variants"]
    return table.set_index(["variant", "gpus", "batch_per_gpu"]).sort_index()


def one_gpu(found: Collected, study: Study = STUDY) -> Any:
    return build_tables(study, found)["one_gpu"].set_index(["other_variant", "gpus", "batch_per_gpu"]).sort_index()


def row(table: Any, place: tuple[Any, ...]) -> Mapping[str, Any]:
    """A row as claims and page see it: with None for what is missing."""
    (found,) = words.rows(table.loc[[place]].reset_index())
    return found


def test_a_variant_is_compared_with_the_studys_own_settings_on_as_many_gpus() -> None:
    table = variants(measured())
    assert table.loc[("graph", 1, 32), "faster"] == pytest.approx(4)
    assert table.loc[("graph", 2, 32), "faster"] == pytest.approx(4 * 0.6 / 0.5)
    assert table.loc[("half", 1, 128), "faster"] == pytest.approx(2)
    assert table.loc[("graph", 1, 32), "faster_low"] < 4 < table.loc[("graph", 1, 32), "faster_high"]
    assert table.loc["base", "faster"].isna().all()


def test_the_comparison_is_in_blocks_so_that_servers_drop_out() -> None:
    """Servers differ by 20 %, the ratio of one server by 0.2 %."""
    in_blocks, apart = (row(variants(measured(elsewhere=where)), ("graph", 1, 32)) for where in (False, True))
    assert (in_blocks["faster_blocks"], apart["faster_blocks"]) == (3, 0)
    assert in_blocks["faster"] == pytest.approx(apart["faster"])
    width, wide = (found["faster_high"] - found["faster_low"] for found in (in_blocks, apart))
    assert width < 0.02 * in_blocks["faster"]
    assert wide > 20 * width


def test_speedup_is_over_one_gpu_of_the_same_variant() -> None:
    table = variants(measured())
    assert table.loc[("base", 2, 32), "speedup"] == pytest.approx(1 / 0.6)
    assert table.loc[("graph", 2, 32), "speedup"] == pytest.approx(2)
    assert table.loc[("graph", 2, 32), "base_speedup"] == pytest.approx(1 / 0.6)
    assert table.loc[("graph", 2, 32), "alone_faster"] == pytest.approx(4)
    assert pd.isna(table.loc[("graph", 1, 32), "speedup"])


def test_what_is_prepared_pays_after_so_many_whole_epochs() -> None:
    table = variants(measured())
    graph = table.loc[("graph", 1, 32)]
    assert graph["preparation_s"] == pytest.approx(PREPARATION_S)
    assert graph["saved_s"] == pytest.approx(6, rel=1e-3)
    assert graph["pays_from_epochs"] == 5
    assert graph["pays_from_epochs_low"] <= 5 <= graph["pays_from_epochs_high"]
    assert graph["pays"] == "yes"
    assert pd.isna(table.loc[("half", 1, 32), "pays_from_epochs"])
    assert pd.isna(table.loc[("half", 1, 32), "pays"])


@pytest.mark.parametrize(("saved_s", "epochs"), [(3.0, 10), (2.9, 11), (30.0 / 7, 7), (40.0, 1)])
def test_epochs_are_rounded_up_and_a_whole_number_is_none_more(saved_s: float, epochs: int) -> None:
    same = dict.fromkeys(OF_CELL, (1.0, 1.0, 1.0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("test_variants.OF_CELL", same)
        patch.setattr("test_variants.OF_SERVER", dict.fromkeys((1, 2, 3), 1.0))
        patch.setattr("test_variants.PREPARATION_S", 30.0)
        patch.setattr("test_variants.ONE_S", {"base": 50.0, "graph": 50.0 - saved_s, "half": 4.0})
        table = variants(measured())
    assert table.loc[("graph", 1, 32), "pays_from_epochs"] == epochs


def test_what_runs_differ_by_is_set_against_base() -> None:
    """Servers are a tenth apart for both; a graph that takes the host out leaves what its cells add."""
    table = variants(measured())
    deviation = stdev(math.log(OF_SERVER[run] * OF_CELL["base"][run - 1]) for run in OF_SERVER)
    assert table.loc[("base", 1, 32), "run_deviation"] == pytest.approx(deviation)
    half = row(table, ("half", 1, 32))
    assert half["deviation_ratio"] == pytest.approx(1, rel=0.02)
    assert half["deviation_ratio_low"] < 0.2 < 5 < half["deviation_ratio_high"]
    assert table.loc["base", "deviation_ratio"].isna().all()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("test_variants.OF_CELL", {**OF_CELL, "graph": (1 / 0.9, 1.001, 1 / 1.1)})
        graph = row(variants(measured()), ("graph", 1, 32))
    assert graph["run_deviation"] == pytest.approx(0.001 / math.sqrt(3), rel=0.01)
    assert graph["deviation_ratio"] == pytest.approx(graph["run_deviation"] / deviation)
    assert graph["deviation_ratio_high"] < 0.1


def test_runs_on_one_server_are_not_set_against_those_on_several() -> None:
    found = measured()
    for cell, record in found.records.items():
        if isinstance(cell, VariantCell) and cell.variant == "graph":
            record["hardware"]["gpus"] = found.records[replace(cell, run=1)]["hardware"]["gpus"]
    assert not words.is_known(row(variants(found), ("graph", 1, 32))["deviation_ratio"])
    assert words.is_known(row(variants(found), ("half", 1, 32))["deviation_ratio"])


def test_what_two_runs_differ_by_is_compared_with_nothing() -> None:
    one, two = (row(variants(measured(runs=runs)), ("graph", 1, 32)) for runs in (1, 2))
    assert two["run_deviation"] == pytest.approx(math.log(1.0 / 0.9) / math.sqrt(2), rel=0.05)
    assert not words.is_known(one["run_deviation"])
    assert not words.is_known(two["deviation_ratio"])


def test_what_saves_nothing_never_pays() -> None:
    slower = variants(measured(graph=8.8)).loc[("graph", 1, 32)]
    assert slower["pays"] == "never"
    assert pd.isna(slower["pays_from_epochs"])


def test_whether_it_pays_is_undecided_where_the_interval_cannot_tell() -> None:
    alike = variants(measured(graph=7.999)).loc[("graph", 1, 32)]
    assert alike["saved_s_low"] < 0 < alike["saved_s_high"]
    assert alike["pays"] == "undecided"
    single = variants(measured(runs=1)).loc[("graph", 1, 32)]
    assert single["pays"] == "undecided"
    assert single["pays_from_epochs"] == 6  # 29 s over 5.4 s
    assert pd.isna(single["pays_from_epochs_high"])


def test_one_run_has_no_interval_and_two_have_a_range() -> None:
    one, two = (row(variants(measured(runs=runs)), ("graph", 2, 32)) for runs in (1, 2))
    shown = ("step_s", "images_per_s", "epoch_s", "gpu_s", "energy_j", "speedup", "faster", "saved_s")
    for name in shown:
        assert not words.is_known(one[f"{name}_low"]), name
        assert not has_interval(two, name), name
        assert name in two["ranges"].split("; "), name


def test_gpu_seconds_and_joules_are_those_of_all_gpus() -> None:
    table = variants(measured())
    alone, both = (table.loc[("graph", gpus, 32)] for gpus in (1, 2))
    assert alone["gpu_s"] == pytest.approx(alone["epoch_s"])
    assert both["gpu_s"] == pytest.approx(2 * both["epoch_s"])
    assert both["gpu_s_high"] == pytest.approx(2 * both["epoch_s_high"])
    assert alone["energy_j"] == pytest.approx(100)


@pytest.mark.parametrize("energy_j", [0.0, -1.0])
def test_a_counter_that_did_not_rise_tells_no_energy(energy_j: float) -> None:
    found = measured()
    for record in found.records.values():
        record["scopes"]["compute"]["energy_j"] = [energy_j]
    assert variants(found)["energy_j_low"].isna().all()


def test_the_fastest_is_named_per_place() -> None:
    table = variants(measured())
    assert set(table[table["is_fastest"]].index) == {
        ("graph", 1, 32), ("half", 1, 128), ("graph", 2, 32),
    }  # fmt: skip


def test_rows_are_where_variants_are_measured() -> None:
    table = variants(measured())
    assert set(table.index) == {
        ("base", 1, 32), ("base", 2, 32), ("base", 1, 128), ("graph", 1, 32), ("graph", 2, 32), ("half", 1, 32),
        ("half", 1, 128),
    }  # fmt: skip


def test_a_variant_without_a_record_says_so() -> None:
    table = variants(measured(without="half"))
    assert set(table.loc["half", "status"]) == {"missing"}
    assert table.loc["half", "faster"].isna().all()
    assert table.loc["half", "is_fastest"].isna().all()
    assert table.loc[("graph", 1, 32), "faster"] == pytest.approx(4)


def test_without_base_there_is_no_comparison() -> None:
    table = variants(measured(without="base"))
    assert table["faster"].isna().all()
    assert table.loc[("graph", 2, 32), "speedup"] == pytest.approx(2)
    assert pd.isna(table.loc[("graph", 2, 32), "base_speedup"])


def test_a_study_without_variants_has_no_rows() -> None:
    plain = Study({**STUDY.values, "variants": {}})
    found = measured(plain)
    for name in ("variants", "one_gpu", "kernels"):
        assert build_tables(plain, found)[name].empty


def test_mfu_and_limits_are_by_the_rates_of_every_runs_own_gpu() -> None:
    """Servers are as different in their rates as in their times: shares of the limit have no spread from them."""
    found = measured()
    facts = {**network_facts(STUDY.settings), "traffic_elements_per_image": 7e6}
    records: dict[AnyCell, Any] = {}
    for cell, record in found.records.items():
        assert isinstance(cell, StepCell)
        rate = 1 / OF_SERVER[cell.run]
        product = 8e14 if name_of(cell) == "half" else 4e14
        records[cell] = on_chip(record, product * rate, 4e12 * rate)
    table = variants(Collected(records, {}, {}, facts))
    half = table.loc[("half", 1, 128)]
    images_per_s, flop = half["images_per_s"], facts["flop_per_image"]["forward_backward"]
    compute_s = flop / half["matrix_flop_per_s"]
    memory_s = (7e6 * 128 * 2 + 8 * 4 * facts["parameters"]) / 128 / half["copy_bytes_per_s"]
    assert half["mfu_measured"] == pytest.approx(images_per_s * compute_s, rel=1e-4)
    assert half["limit_images_per_s"] == pytest.approx(1 / (compute_s + memory_s), rel=1e-4)
    assert half["overlapped_limit_images_per_s"] == pytest.approx(1 / max(compute_s, memory_s), rel=1e-4)
    assert half["limit_share"] == pytest.approx(images_per_s * (compute_s + memory_s), rel=1e-4)
    assert half["limit_share_high"] - half["limit_share_low"] < 1e-6
    assert half["limit_images_per_s_high"] > 1.2 * half["limit_images_per_s_low"]
    one, two = (table.loc[("graph", gpus, 32)] for gpus in (1, 2))
    assert two["limit_images_per_s"] == pytest.approx(2 * one["limit_images_per_s"])
    assert one["limit_share"] == pytest.approx(2 * 0.5 * two["limit_share"], rel=1e-3)


def test_elements_of_float32_are_twice_as_long() -> None:
    assert limits.ELEMENT_BYTES["float32"] == 2 * limits.ELEMENT_BYTES["bfloat16"]
    rows: Any = build_tables(variant_study.study(), variant_study.collected())["variants"]
    rows = rows.set_index(["variant", "gpus", "batch_per_gpu"])
    tf32, bf16 = (rows.loc[(name, 1, 2048)] for name in ("base", "channels_last_bf16"))
    memory_s = [1 / found["limit_images_per_s"] - 1 / found["overlapped_limit_images_per_s"] for found in (tf32, bf16)]
    assert memory_s[0] == pytest.approx(2 * memory_s[1], rel=0.02)


def test_records_without_rates_have_neither_limits_nor_that_mfu() -> None:
    facts = {**network_facts(STUDY.settings), "traffic_elements_per_image": 7e6}
    table = variants(Collected(measured().records, {}, {}, facts))
    assert table["mfu_measured"].isna().all()
    assert table["limit_share"].isna().all()
    assert table["mfu"].notna().all()
    records = {cell: on_chip(record, 4e14, 4e12) for cell, record in measured().records.items()}
    older = variants(Collected(records, {}, {}, network_facts(STUDY.settings)))
    assert older["mfu_measured"].notna().all()
    assert older["limit_share"].isna().all()


def test_one_gpu_stands_beside_more_with_every_variant() -> None:
    table = one_gpu(measured())
    assert set(table.index) == {("base", 2, 32), ("graph", 2, 32)}
    against_base = table.loc[("base", 2, 32)]
    assert against_base["variant"] == "graph"
    assert against_base["ratio"] == pytest.approx(8 * 0.6 / 2)
    assert against_base["as_fast"] == "holds"
    assert table.loc[("graph", 2, 32), "ratio"] == pytest.approx(0.5)
    assert table.loc[("graph", 2, 32), "as_fast"] == "does not"


def test_one_gpu_is_undecided_where_the_interval_cannot_tell() -> None:
    """8 · 0.6 s on two GPUs and 4.8 s on one: the same time."""
    assert one_gpu(measured(graph=4.8, half=9.0)).loc[("base", 2, 32), "as_fast"] == "undecided"
    assert one_gpu(measured(runs=2)).loc[("base", 2, 32), "as_fast"] == "undecided"
    assert one_gpu(measured(runs=1)).loc[("base", 2, 32), "as_fast"] == "undecided"


def test_one_gpu_without_a_record_has_no_row() -> None:
    found = measured()
    alone = {cell: record for cell, record in found.records.items() if cell.gpus != 1}
    assert one_gpu(Collected(alone, {}, {})).empty


def test_a_variant_says_what_it_changes() -> None:
    changes = build_tables(STUDY, measured())["variants"].groupby("variant")["changes"].first()
    assert (changes["graph"], changes["half"]) == ("cuda_graph=True", "precision=bfloat16")
    assert pd.isna(changes["base"])
