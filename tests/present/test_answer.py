"""What the first screen says of studies that differ in one thing, through their records and the real tables."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from page_tables import GPU
from syrupy.assertion import SnapshotAssertion

from cases import cases
from dpscale.analyse.answer import advice as problems
from dpscale.analyse.answer.answer import Answer, answer_json, answer_of
from dpscale.analyse.tables import build_tables
from dpscale.plan.cells import AnyCell, TimingCell
from dpscale.plan.plan import answer_batch, plan
from dpscale.plan.study import Study
from dpscale.present.findings.answer import FirstScreen, first_screen, reason
from dpscale.present.text.words import Terms
from dpscale.records.files import JsonRecord
from dpscale.schemas.validation import violations
from dpscale.tables.answer import AdviceRow, CausesRow
from dpscale.tables.tables import Tables
from record_factory import collected_of, on_server, timing_record
from rows import key, known

VALUES: Mapping[str, Any] = cases(__file__, "study")
ALONE_S = 8.0
# The speedups of every run by number of GPUs, or by strategy, number of GPUs and batch.
Gains = Mapping[Any, Sequence[float]]
# What a study is; the snapshot has what is then said of it.
CASES: Mapping[str, Mapping[str, Any]] = cases(__file__, "screens")
FAST: Gains = CASES["worth it"]["gains"]


def answered_tables(gains: Gains, loaded: Gains | None = None, one_server: bool = False, **values: Any) -> Tables:
    """The tables of a study in which one GPU takes `ALONE_S`. Runs are on servers of their own."""
    study = Study({**VALUES, **({"scopes": ["compute", "end_to_end"]} if loaded else {}), **values})
    records: dict[AnyCell, JsonRecord] = {}
    for cell in plan(study.on_any_machine()).timing:
        baselines = {cell.configuration.batch_per_gpu: ([ALONE_S] * 2, [ALONE_S] * 2)} if cell.gpus > 1 else None
        epochs_s = [epoch_s_of(cell, gains), epoch_s_of(cell, gains if loaded is None else loaded)]
        if None in epochs_s:
            continue
        in_memory, with_loading = (
            timing_record(cell, study.settings, [epoch_s] * 2, baselines) for epoch_s in epochs_s if epoch_s
        )
        if loaded is not None:
            in_memory["scopes"]["end_to_end"] = with_loading["scopes"]["end_to_end"]
        server = 0 if one_server else cell.run
        records[cell] = on_server(in_memory, server, host=f"node{server}")
    return build_tables(study, collected_of(records))


def epoch_s_of(cell: TimingCell, gains: Gains) -> float | None:
    """None where the run was not made."""
    if cell.gpus == 1:
        return ALONE_S
    point = cell.configuration
    place = f"{point.strategy} {point.gpus} {point.batch_per_gpu}"
    speedups = gains.get(place) or gains.get(point.gpus, ())
    return ALONE_S / speedups[cell.run - 1] if cell.run <= len(speedups) else None


def screen_of(tables: Tables, device: str = "cuda") -> FirstScreen:
    return first_screen(answer_of(tables), Terms.of(Study({**VALUES, "device": device}).values, tables))


@pytest.mark.parametrize("case", CASES)
def test_the_first_screen_says_what_the_data_call_for(case: str, snapshot: SnapshotAssertion) -> None:
    assert screen_of(answered_tables(**CASES[case])).on_terminal == snapshot


def test_twice_as_many_is_arithmetic_on_what_was_measured() -> None:
    two, four = answer_of(answered_tables(FAST)).several
    efficiencies = [row.efficiency.value for row in (two, four)]
    assert four.twice_if_level == pytest.approx(8 * efficiencies[1])
    assert four.twice_if_growing == pytest.approx(8 * (efficiencies[1] - (efficiencies[0] - efficiencies[1])))
    assert two.twice_if_growing == pytest.approx(4 * (2 * efficiencies[0] - 1)), "one alone loses nothing"


@pytest.mark.parametrize(("batches", "fixed", "batch"), cases(__file__, "batches"))
def test_the_batch_of_the_answer_is_fixed_before_the_data(batches: Any, fixed: int | None, batch: int) -> None:
    study = Study({"study": "s", "batch_per_gpu": batches, "answer": {"batch_per_gpu": fixed}})
    assert answer_batch(study) == batch


def test_workers_are_no_gpus(snapshot: SnapshotAssertion) -> None:
    on_terminal = screen_of(answered_tables({2: FAST[2]}, gpus=[1, 2]), device="cpu").on_terminal
    assert on_terminal == snapshot
    assert "GPU" not in on_terminal.replace("no measure of GPUs", "")


REASONS: Mapping[str, Mapping[str, Any]] = cases(__file__, "reasons")


@pytest.mark.parametrize("case", REASONS)
def test_why_not_more(case: str, snapshot: SnapshotAssertion) -> None:
    row = {"gpus": 4, "scope": "compute", **known("whole_s", 0.02), **REASONS[case]}
    assert reason(CausesRow.read(row), GPU) == snapshot


@pytest.mark.parametrize(
    ("case", "kind"),
    [("worth it", "interval"), ("two machines", "two machines"), ("nothing measured", None)],
)
def test_the_answer_for_machines_has_its_schema(case: str, kind: str | None) -> None:
    answer = answer_of(answered_tables(**CASES[case]))
    written = json.loads(answer_json(answer, ["A sentence."]))
    assert not violations("answer", written)
    assert [row["gpus"] for row in written["devices"]] == [row.gpus for row in answer.rows]
    speedup = written["devices"][1]["speedup"]
    assert (speedup and speedup["kind"]) == kind


def advice_row(problem: str, **more: Any) -> AdviceRow:
    saving = {**known("saving", 0.5, 0.1), **known("saving_gpu_s", 0.8, 0.1)}
    return AdviceRow.read({**key("ddp", 4, 512), "problem": problem, "used_s": 2.0, "better_s": 1.0, **saving, **more})


@pytest.mark.parametrize(
    "row",
    [
        advice_row(problems.FEWER),
        advice_row(problems.STRATEGY, used="dp", better="ddp"),
        advice_row(problems.BATCH, used="512", better="2048"),
        advice_row(problems.VARIANT, better="graph", on_gpus=1, saving_low=None, saving_high=None),
        advice_row(problems.ONE_GPU, used="base", better="graph"),
    ],
    ids=lambda row: row.problem,
)
def test_what_to_do(row: AdviceRow, snapshot: SnapshotAssertion) -> None:
    (advice,) = first_screen(Answer([], None, [row], 0), GPU).to_do
    assert advice == snapshot
