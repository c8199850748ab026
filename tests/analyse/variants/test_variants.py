"""variants.csv and one_gpu.csv: the same GPUs, used otherwise, from records whose times are known."""

import math
from typing import Any

import pytest

from dpscale.analyse.tables import build_tables
from dpscale.formulas.figure import Figure
from dpscale.plan.cells import AnyCell, StepCell, VariantCell
from dpscale.plan.plan import plan
from dpscale.plan.study import Study
from dpscale.records.collect import Collected
from dpscale.tables.timing import VariantsRow
from record_factory import collected_of, network_facts, on_gpus, timing_record

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


def measured(study: Study = STUDY, runs: int = 3, **times: float) -> Collected:
    """Return the study with the records of `written`."""
    return collected_of(written(study, runs, **times))


def written(study: Study = STUDY, runs: int = 3, **times: float) -> dict[AnyCell, dict[str, Any]]:
    """Return every cell's record: a run is a server. `times` are other epoch seconds of one GPU."""
    records: dict[AnyCell, dict[str, Any]] = {}
    for cell in (*plan(study).timing, *plan(study).variants):
        assert isinstance(cell, StepCell)
        if cell.run <= runs:
            name = name_of(cell)
            settings = cell.settings if isinstance(cell, VariantCell) else study.settings
            seconds = epoch_s(cell) * times.get(name, ONE_S[name]) / ONE_S[name]
            record = timing_record(cell, settings, [seconds])  # type: ignore[arg-type]
            record["preparation_s"] = PREPARATION_S if name == "graph" else None
            records[cell] = on_gpus(record, *(f"GPU-{cell.run}-{number}" for number in range(cell.gpus)))
    return records


Place = tuple[str, int, int]  # variant, GPUs, batch per GPU


def variants(collected: Collected) -> dict[Place, VariantsRow]:
    return {(row.variant, row.gpus, row.batch_per_gpu): row for row in build_tables(STUDY, collected).variants}


@pytest.fixture(scope="module")
def table() -> dict[Place, VariantsRow]:
    return variants(measured())


def is_near(figure: Figure, value: float, rel: float | None = None) -> bool:
    return figure.value == pytest.approx(value, rel=rel)


def test_a_variant_is_compared_with_the_study_on_as_many_gpus_and_with_itself_on_one(
    table: dict[Place, VariantsRow],
) -> None:
    graph, half = table["graph", 2, 32], table["half", 1, 128]
    assert is_near(table["graph", 1, 32].faster, 4) and is_near(graph.faster, 4 * 0.6 / 0.5) and is_near(half.faster, 2)
    assert is_near(graph.speedup, 2) and is_near(graph.base_speedup, 1 / 0.6) and is_near(graph.alone_faster, 4)
    assert not (table["base", 2, 32].faster.is_known or table["graph", 1, 32].speedup.is_known)
    assert (graph.changes, half.changes) == ("cuda_graph=True", "precision=bfloat16")


def test_a_variant_that_changes_nothing_but_the_scope_is_the_study_itself_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Loading at one batch alone: its rows stand among the study's own, and it is no variant."""
    monkeypatch.setitem(ONE_S, "loading", 10.0)
    monkeypatch.setitem(SHARE, "loading", 0.8)
    monkeypatch.setitem(OF_CELL, "loading", (1.0, 1.0, 1.0))
    loading = {"scopes": ["end_to_end"], "batch_per_gpu": [32]}
    study = Study({**STUDY.values, "variants": {"loading": loading, "half": STUDY.values["variants"]["half"]}})
    tables = build_tables(study, measured(study))
    assert {row.variant for row in tables.variants} == {"base", "half"}
    assert {row.gpus for row in tables.times if row.scope == "end_to_end"} == {1, 2}
    (speedup,) = [row.speedup for row in tables.speedup if row.scope == "end_to_end"]
    assert is_near(speedup, 1 / 0.8)
    on_two = next(row for row in tables.scopes if row.gpus == 2)
    assert is_near(on_two.loader_s, 0.8 * 10 - 0.6 * 8, rel=0.01)
    # With another setting beside the scope it is a variant.
    study = Study({**STUDY.values, "variants": {"loading": {**loading, "loader_workers": 4}}})
    tables = build_tables(study, measured(study))
    assert "loading" in {row.variant for row in tables.variants}
    assert {row.scope for row in tables.times} == {"compute"}


def test_what_is_as_long_on_every_server_has_not_the_spread_of_what_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step in a graph, beside an eager one that servers make longer or shorter by a tenth."""
    monkeypatch.setitem(OF_CELL, "graph", (1.001 / 0.9, 1.0, 0.999 / 1.1))
    rows = variants(measured())
    base, graph = rows["base", 1, 32], rows["graph", 1, 32]
    assert graph.epoch_s.high - graph.epoch_s.low < 0.006 * graph.epoch_s.value
    assert graph.faster_units == 3
    for end, opposite in ((graph.faster.low, base.epoch_s.low), (graph.faster.high, base.epoch_s.high)):
        assert end == pytest.approx(opposite / graph.epoch_s.value, rel=1e-3)


def test_what_is_prepared_pays_after_so_many_whole_epochs(table: dict[Place, VariantsRow]) -> None:
    graph, half = table["graph", 1, 32], table["half", 1, 32]
    assert is_near(graph.preparation_s, PREPARATION_S) and is_near(graph.saved_s, 6, 0.01)
    assert (graph.pays, graph.pays_from_epochs.value) == ("yes", 5) and graph.pays_from_epochs.holds(5)
    assert half.pays == "" and not half.pays_from_epochs.is_known


@pytest.mark.parametrize(
    ("changes", "pays", "epochs"),
    [
        ({"graph": 16.0}, "never", math.nan),
        ({"graph": 7.999}, "undecided", None),
        ({"runs": 1}, "undecided", 6),  # 29 s over 5.4 s
    ],
)
def test_what_saves_nothing_never_pays_and_what_no_interval_tells_is_undecided(
    changes: dict[str, Any], pays: str, epochs: float | None
) -> None:
    row = variants(measured(**changes))["graph", 1, 32]
    assert row.pays == pays
    assert math.isnan(row.pays_from_epochs.high)
    assert epochs is None or row.pays_from_epochs.value == pytest.approx(epochs, nan_ok=True)
    assert row.saved_s.holds(0) == (changes == {"graph": 7.999})


def test_mfu_is_by_the_rate_of_every_runs_own_gpu() -> None:
    """Servers are as different in their rates as in their times: shares have no spread from them."""
    records: dict[AnyCell, Any] = {}
    for cell, record in written().items():
        assert isinstance(cell, StepCell)
        rate = 1 / OF_SERVER[cell.run]
        precision, product = ("bfloat16", 8e14) if name_of(cell) == "half" else ("tf32", 4e14)
        chip = {"precision": precision, "matrix_flop_per_s": product * rate}
        records[cell] = {**record, "chip": chip}
    facts = network_facts(STUDY.settings)
    table = variants(collected_of(records, facts))
    half = table["half", 1, 128]
    for row in (half, table["base", 1, 128]):
        compute_s = facts["flop_per_image"]["forward_backward"] / row.matrix_flop_per_s.value
        assert is_near(row.mfu_measured, row.images_per_s.value * compute_s, 1e-4)
    assert half.mfu_measured.high - half.mfu_measured.low < 1e-6


def test_one_gpu_stands_beside_more_with_every_variant() -> None:
    base, graph = build_tables(STUDY, measured()).one_gpu
    assert [(row.other_variant, row.gpus, row.batch_per_gpu, row.variant, row.as_fast) for row in (base, graph)] == [
        ("base", 2, 32, "graph", "holds"), ("graph", 2, 32, "graph", "does not"),
    ]  # fmt: skip
    assert is_near(base.ratio, 8 * 0.6 / 2) and is_near(graph.ratio, 0.5)


def test_every_run_of_every_variant_has_a_row_and_the_studys_own_stay_apart() -> None:
    runs = build_tables(STUDY, measured()).runs
    assert len(runs) == len(plan(STUDY).timing) + len(plan(STUDY).variants)
    base, graph = ({row.epoch_s for row in runs if (row.variant, row.gpus) == (name, 1)} for name in ("", "graph"))
    assert min(base) > 3 * max(graph)
