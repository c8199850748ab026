"""variants.csv and one_gpu.csv: the same GPUs, used otherwise, from records whose times are known."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from cases import cases
from dpscale.analyse.tables import build_tables
from dpscale.formulas.figure import Figure
from dpscale.plan.cells import AnyCell, StepCell, VariantCell
from dpscale.plan.plan import plan
from dpscale.plan.study import Study
from dpscale.present.findings.findings import findings
from dpscale.present.text.words import Terms
from dpscale.records.collect import Collected
from dpscale.records.files import JsonRecord
from dpscale.tables.timing import VariantsRow
from made_study import records_of
from record_factory import collected_of, network_facts, on_server

STUDY = Study(cases(__file__, "study"))
# Epoch seconds by variant, of one GPU and of two.
Epochs = Mapping[str, Sequence[float]]
EPOCHS_S: Epochs = {"base": (8.0, 4.8), "graph": (2.0, 1.0), "half": (4.0,), "loading": (10.0, 8.0)}
OF_SERVER = {1: 0.9, 2: 1.0, 3: 1.1}
PREPARATION_S = 29.0


def measured(study: Study = STUDY, even: str = "", epochs_s: Epochs = EPOCHS_S) -> Collected:
    """Return the study with the records of `written`."""
    return collected_of(written(study, even, epochs_s))


def written(study: Study = STUDY, even: str = "", epochs_s: Epochs = EPOCHS_S) -> dict[AnyCell, JsonRecord]:
    """Return every cell's record: a run is a server. Servers differ by a tenth, but in a variant that is `even`."""

    def name_of(cell: StepCell) -> str:
        return cell.variant if isinstance(cell, VariantCell) else "base"

    def epoch_s(cell: StepCell) -> list[float]:
        return [epochs_s[name_of(cell)][cell.gpus - 1] * (1.0 if name_of(cell) == even else OF_SERVER[cell.run])]

    def prepared(cell: StepCell, record: JsonRecord) -> JsonRecord:
        return {**on_server(record, cell.run), "preparation_s": PREPARATION_S if name_of(cell) == "graph" else None}

    return records_of(study, prepared, epoch_s)


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
    assert is_near(table["graph", 1, 32].faster, 4) and is_near(graph.faster, 4.8) and is_near(half.faster, 2)
    assert is_near(graph.speedup, 2) and is_near(table["base", 2, 32].speedup, 1 / 0.6)
    assert is_near(graph.preparation_s, PREPARATION_S) and not half.preparation_s.is_known
    assert not (table["base", 2, 32].faster.is_known or table["graph", 1, 32].speedup.is_known)
    assert (graph.changes, half.changes) == ("cuda_graph=True", "precision=bfloat16")


def test_a_variant_that_changes_nothing_but_the_scope_is_the_study_itself_there() -> None:
    """Loading at one batch alone: its rows stand among the study's own, and it is no variant."""
    loading = {"scopes": ["end_to_end"], "batch_per_gpu": [32]}
    study = Study({**STUDY.values, "variants": {"loading": loading, "half": STUDY.values["variants"]["half"]}})
    tables = build_tables(study, measured(study))
    assert {row.variant for row in tables.variants} == {"base", "half"}
    assert {row.gpus for row in tables.times if row.scope == "end_to_end"} == {1, 2}
    (speedup,) = [row.speedup for row in tables.speedup if row.scope == "end_to_end"]
    assert is_near(speedup, 1 / 0.8)
    on_two = next(row for row in tables.scopes if row.gpus == 2)
    assert is_near(on_two.loader_s, 8 - 4.8, rel=0.01)


def test_a_variant_that_changes_no_setting_is_the_study_itself_at_its_batches() -> None:
    """One GPU at a batch that the study does not have."""
    further = {"strategies": ["single"], "gpus": [1], "batch_per_gpu": [512], "runs": 1}
    study = Study({**STUDY.values, "variants": {"further": further}})
    tables = build_tables(study, measured(study, epochs_s={**EPOCHS_S, "further": (3.0,)}))
    assert not tables.variants
    (row,) = [row for row in tables.times if row.batch_per_gpu == 512]
    assert (row.strategy, row.gpus, row.runs) == ("single", 1, 1) and is_near(row.epoch_s, 3 * OF_SERVER[1])


def test_what_is_as_long_on_every_server_has_not_the_spread_of_what_is_not() -> None:
    """A step in a graph, beside an eager one that servers make longer or shorter by a tenth."""
    rows = variants(measured(even="graph"))
    base, graph = rows["base", 1, 32], rows["graph", 1, 32]
    assert graph.faster_units == 3
    for end, opposite in ((graph.faster.low, base.epoch_s.low), (graph.faster.high, base.epoch_s.high)):
        assert end == pytest.approx(opposite / graph.epoch_s.value, rel=1e-3)


def test_mfu_is_by_the_rates_of_every_runs_own_gpu() -> None:
    """Servers are as different in their rates as in their times: MFU has no spread from them."""
    facts = network_facts(STUDY.settings)
    records: dict[AnyCell, Any] = {}
    for cell, record in written().items():
        assert isinstance(cell, StepCell)
        rate = 1 / OF_SERVER[cell.run]
        chip = {"precision": "tf32", "matrix_flop_per_s": 4e14 * rate}
        records[cell] = {**record, "chip": chip}
    table = variants(collected_of(records, facts))
    for name, batch in (("half", 128), ("base", 128), ("graph", 32)):
        row = table[name, 1, batch]
        compute_s = facts["flop_per_image"]["forward_backward"] / row.matrix_flop_per_s.value
        assert is_near(row.mfu_measured, row.images_per_s.value * compute_s, 1e-4)
        assert row.mfu_measured.high - row.mfu_measured.low < 1e-2 * row.mfu_measured.value
    assert is_near(table["graph", 1, 32].mfu_measured, 2 * 0.5 * table["graph", 2, 32].mfu_measured.value, 1e-3)


def test_one_gpu_stands_beside_more_with_every_variant() -> None:
    base, graph = build_tables(STUDY, measured()).one_gpu
    assert [(row.other_variant, row.gpus, row.batch_per_gpu, row.variant) for row in (base, graph)] == [
        ("base", 2, 32, "graph"), ("graph", 2, 32, "graph"),
    ]  # fmt: skip
    assert is_near(base.ratio, 4.8 / 2) and is_near(graph.ratio, 0.5)


def test_every_run_of_every_variant_has_a_row_and_the_studys_own_stay_apart() -> None:
    runs = build_tables(STUDY, measured()).runs
    assert len(runs) == len(plan(STUDY).timing) + len(plan(STUDY).variants)
    base, graph = ({row.epoch_s for row in runs if (row.variant, row.gpus) == (name, 1)} for name in ("", "graph"))
    assert min(base) > 3 * max(graph)


# Epoch seconds of one GPU, of 20 full steps, and of DataParallel on two, of 10: without and with a search.
SEARCHED_S: Epochs = {"base": (4.0, 5.0), "searched": (3.8, 55.0)}


def searched(runs: int = 3, images: int = 640) -> tuple[Study, Collected]:
    """Return a study of two GPUs with DataParallel, and its records under both settings."""
    study = Study({
        **STUDY.values, "strategies": ["single", "dp"], "batch_per_gpu": [32], "runs": runs,
        "dataset": {"images": images}, "variants": {"searched": {"cudnn_benchmark": True}},
    })  # fmt: skip
    return study, measured(study, epochs_s=SEARCHED_S)


def test_what_cudnns_search_costs_dp_is_said_beside_one_gpu() -> None:
    tables = build_tables(*searched())
    rows = {(row.variant, row.gpus): row for row in tables.variants}
    on_two, on_one = rows["searched", 2].longer_step_s, rows["searched", 1].longer_step_s
    assert is_near(on_two, (55 - 5) / 10, 0.02) and on_two.is_above(3) and not rows["base", 2].longer_step_s.is_known
    assert is_near(on_one, (3.8 - 4) / 20, 0.02) and on_one.holds(0)
    (sentence,) = findings(tables, Terms.of(STUDY.values, tables))["variants"]
    assert all(said in sentence for said in ("dp on 2 GPUs", "by 4,983 ms [", "1 GPU by −10 ms ["))


@pytest.mark.parametrize(("runs", "images"), [(1, 640), (3, 320)], ids=["one run", "few full steps"])
def test_nothing_is_said_of_a_search_whose_cost_is_not_sure(runs: int, images: int) -> None:
    tables = build_tables(*searched(runs, images))
    assert findings(tables, Terms.of(STUDY.values, tables))["variants"] == []
