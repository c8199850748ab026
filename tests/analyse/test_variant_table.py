"""variants.csv: the same GPUs, used otherwise, from records whose times are known."""

from typing import Any

import pandas as pd
import pytest

from dpscale.analyse.tables import build_tables
from dpscale.plan.cells import AnyCell, TimingCell, VariantCell
from dpscale.plan.plan import plan
from dpscale.plan.study import Study
from dpscale.records.collect import Collected
from record_factory import timing_record

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


def epoch_s(cell: TimingCell | VariantCell) -> float:
    name = cell.variant if isinstance(cell, VariantCell) else "base"
    alike = 1 + 0.001 * cell.run  # runs differ, a cell and its baseline alike
    return ONE_S[name] * alike * (1 if cell.gpus == 1 else SHARE[name])


def collected(*without: str) -> Collected:
    records: dict[AnyCell, Any] = {}
    for cell in plan(STUDY).timing:
        records[cell] = timing_record(cell, STUDY.settings, [epoch_s(cell)])
    for variant in plan(STUDY).variants:
        if variant.variant not in without:
            record = timing_record(variant, variant.settings, [epoch_s(variant)])
            records[variant] = {**record, "preparation_s": 30.0 if variant.variant == "graph" else None}
    return Collected(records, {}, {})


def variants(found: Collected) -> Any:
    return build_tables(STUDY, found)["variants"].set_index(["variant", "gpus", "batch_per_gpu"]).sort_index()


def test_a_variant_is_compared_with_the_studys_own_settings_on_as_many_gpus() -> None:
    table = variants(collected())
    assert table.loc[("graph", 1, 32), "faster"] == pytest.approx(4)
    assert table.loc[("graph", 2, 32), "faster"] == pytest.approx(4 * 0.6 / 0.5)
    assert table.loc[("half", 1, 128), "faster"] == pytest.approx(2)
    assert table.loc[("graph", 1, 32), "faster_low"] < 4 < table.loc[("graph", 1, 32), "faster_high"]
    assert table.loc["base", "faster"].isna().all()


def test_speedup_is_over_one_gpu_of_the_same_variant() -> None:
    table = variants(collected())
    assert table.loc[("base", 2, 32), "speedup"] == pytest.approx(1 / 0.6)
    assert table.loc[("graph", 2, 32), "speedup"] == pytest.approx(2)
    assert pd.isna(table.loc[("graph", 1, 32), "speedup"])


def test_what_is_prepared_pays_after_so_many_epochs() -> None:
    table = variants(collected())
    saved_s = (ONE_S["base"] - ONE_S["graph"]) * 1.002  # of the middle run
    assert table.loc[("graph", 1, 32), "preparation_s"] == 30
    assert table.loc[("graph", 1, 32), "pays_from_epochs"] == pytest.approx(30 / saved_s, rel=1e-3)
    assert pd.isna(table.loc[("half", 1, 32), "pays_from_epochs"])


def test_rows_are_where_variants_are_measured() -> None:
    table = variants(collected())
    assert set(table.index) == {
        ("base", 1, 32), ("base", 2, 32), ("base", 1, 128), ("graph", 1, 32), ("graph", 2, 32), ("half", 1, 32),
        ("half", 1, 128),
    }  # fmt: skip


def test_a_variant_without_a_record_says_so() -> None:
    table = variants(collected("half"))
    assert set(table.loc["half", "status"]) == {"missing"}
    assert table.loc["half", "faster"].isna().all()
    assert table.loc[("graph", 1, 32), "faster"] == pytest.approx(4)


def test_a_study_without_variants_has_no_rows() -> None:
    plain = Study({**STUDY.values, "variants": {}})
    records: dict[AnyCell, Any] = {cell: timing_record(cell, plain.settings, [1.0]) for cell in plan(plain).timing}
    assert build_tables(plain, Collected(records, {}, {}))["variants"].empty
