"""What the first screen says of studies that differ in one thing, through their records and the real tables."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from page_tables import GPU, WORKER, around, key
from syrupy.assertion import SnapshotAssertion

from dpscale.analyse.answer import advice as problems
from dpscale.analyse.answer.answer import Answer, answer_json, answer_of
from dpscale.analyse.tables import build_tables
from dpscale.plan.cells import AnyCell, TimingCell
from dpscale.plan.plan import answer_batch, plan
from dpscale.plan.study import Study
from dpscale.present.findings.answer import FirstScreen, first_screen, reason, text
from dpscale.present.text.words import Terms
from dpscale.records.files import JsonRecord
from dpscale.schemas.validation import violations
from dpscale.tables.answer import AdviceRow, CausesRow
from dpscale.tables.study import MissingRow, RejectedRow
from dpscale.tables.tables import Tables
from dpscale.vocabulary.causes import CAUSES
from record_factory import collected_of, on_gpus, timing_record

# Sentences by their beginnings, or by words that no other one has.
SENTENCES = {
    "worth it": " worth it: more than",
    "not worth it": " worth it: less than",
    "probably": "are probably worth it",
    "probably not": "are probably not worth it",
    "not confirmed": "which is not confirmed",
    "undecided": "It is not decided whether",
    "use one": "Use 1 GPU:",
    "none faster": "So far no more GPUs",
    "unknown": "There is no measured speedup",
    "nothing": "It is not known what more",
    "confirm": "To confirm it for",
    "decide": "To decide about",
    "next machine": "On the next one:",
    "never": "would take more than 20",
    "loading": "With data loading, 2 GPUs",
    "other batch": "the nearest one stands for it",
    "rival": "Use dp, not ddp",
    "one machine": "are of one machine",
    "few steps": "has fewer than ten full steps",
}
VALUES: Mapping[str, Any] = {
    "study": "s", "strategies": ["single", "ddp"], "gpus": [1, 2, 4], "batch_per_gpu": [128], "scopes": ["compute"],
    "runs": 3, "communication": {"runs": 0},
}  # fmt: skip
ALONE_S = 8.0
# The speedups of every run by number of GPUs, or by strategy, number of GPUs and batch.
Gains = Mapping[Any, Sequence[float]]
TWO, FOUR = [1.8, 1.82, 1.78], [3.5, 3.55, 3.45]
FAST = {2: TWO, 4: FOUR}
PAIR: Mapping[str, Any] = {"gpus": [1, 2]}
# What a study is, and the sentences that it calls for, of those above.
CASES: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "worth it": ({"gains": FAST}, "worth it"),
    "nothing faster": ({"gains": {2: [0.5, 0.51, 0.49], 4: [0.8, 0.82, 0.78]}}, "use one"),
    "faster, and not worth it": ({"gains": {2: [0.8, 0.82, 0.78], 4: [1.5, 1.55, 1.45]}}, "not worth it"),
    "one outlier run": ({"gains": {2: [1.8, 1.82, 0.6], 4: FOUR}}, "undecided, worth it, decide, never"),
    "one run": ({"gains": {2: [1.9], 4: [3.87]}}, "not confirmed, confirm"),
    "one run that is slower": ({"gains": {2: [0.9]}, **PAIR}, "not confirmed, none faster, confirm"),
    "two machines": ({"gains": {2: [1.54, 1.87]}, **PAIR}, "probably, decide, next machine"),
    "two machines, one on either side": ({"gains": {2: [1.2, 1.87]}, **PAIR}, "undecided, decide, never"),
    "nothing faster in two runs": (
        {"gains": {2: [0.6, 0.95]}, **PAIR, "one_server": True}, "probably not, none faster, decide, one machine",
    ),
    "another limit decides": (
        {"gains": {2: [1.45, 1.8, 1.82]}, **PAIR, "answer": {"worth_from": 0.5}}, "worth it",
    ),
    "huge variance": ({"gains": {2: [0.4, 1.9, 1.2], 4: [1.0, 3.9, 8.0]}}, "undecided, decide, never"),
    "two scopes that disagree": (
        {"gains": FAST, "loaded": {2: [0.9, 0.91, 0.89], 4: [1.1, 1.12, 1.09]}}, "worth it, loading, not worth it",
    ),
    "two scopes that agree": ({"gains": FAST, "loaded": FAST}, "worth it, loading"),
    "4 GPUs without a run": ({"gains": {2: TWO}}, "worth it, unknown"),
    "4 GPUs at another batch": (
        {"gains": {("ddp", 2, 128): TWO, ("ddp", 4, 512): FOUR}, "batch_per_gpu": [32, 128, 512]},
        "worth it, other batch",
    ),
    "dp faster than ddp": (
        {
            "gains": {("ddp", 2, 128): [1.5, 1.52, 1.48], ("dp", 2, 128): TWO},
            "strategies": ["single", "dp", "ddp"], **PAIR,
        },
        "worth it, rival",
    ),
    "few steps": ({"gains": {2: TWO}, **PAIR, "dataset": {"images": 1000}}, "worth it, few steps"),
    "nothing measured": ({"gains": {}}, "nothing"),
}  # fmt: skip


def answered_tables(gains: Gains, loaded: Gains | None = None, one_server: bool = False, **values: Any) -> Tables:
    """The tables of a study in which one GPU takes `ALONE_S`. Runs are on servers of their own."""
    study = Study({**VALUES, **({"scopes": ["compute", "end_to_end"]} if loaded else {}), **values})
    records: dict[AnyCell, JsonRecord] = {}
    for cell in plan(study.on_any_machine()).timing:
        alone = {cell.configuration.batch_per_gpu: ([ALONE_S] * 2, [ALONE_S] * 2)} if cell.gpus > 1 else None
        epochs_s = [epoch_s_of(cell, gains), epoch_s_of(cell, gains if loaded is None else loaded)]
        if None in epochs_s:
            continue
        in_memory, with_loading = (
            timing_record(cell, study.settings, [epoch_s] * 2, alone) for epoch_s in epochs_s if epoch_s
        )
        if loaded is not None:
            in_memory["scopes"]["end_to_end"] = with_loading["scopes"]["end_to_end"]
        server = 0 if one_server else cell.run
        uuids = [f"GPU-{server}-{device}" for device in range(cell.gpus)]
        records[cell] = on_gpus(in_memory, *uuids, host=f"node{server}")
    return build_tables(study, collected_of(records))


def epoch_s_of(cell: TimingCell, gains: Gains) -> float | None:
    """None where the run was not made."""
    if cell.gpus == 1:
        return ALONE_S
    point = cell.configuration
    speedups = gains.get((point.strategy, point.gpus, point.batch_per_gpu)) or gains.get(point.gpus, ())
    return ALONE_S / speedups[cell.run - 1] if cell.run <= len(speedups) else None


def screen_of(tables: Tables, device: str = "cuda", per_gpu_hour: float | None = None) -> FirstScreen:
    terms = Terms.of(Study({**VALUES, "device": device}).values, tables)
    return first_screen(answer_of(tables, per_gpu_hour), terms)


@pytest.mark.parametrize("case", CASES)
def test_the_first_screen_has_the_sentences_that_the_data_call_for(case: str, snapshot: SnapshotAssertion) -> None:
    given, choices = CASES[case]
    screen = screen_of(answered_tables(**given))
    on_terminal = text(screen)
    assert {name for name, words in SENTENCES.items() if words in on_terminal} == set(choices.split(", "))
    assert on_terminal == snapshot
    cells = " ".join(cell for row in screen.rows for cell in row)
    assert [sign in cells for sign in "[("] == [word in screen.caption for word in ("brackets", "parentheses")]


def test_what_the_command_measures_beside_these_runs_is_said() -> None:
    """Missing cells of other kinds take time too; those of the runs themselves are in their time."""
    data = answered_tables(gains={2: [1.9]}, gpus=[1, 2])
    rows = [MissingRow(kind="communication", run=run, status="missing") for run in (1, 2)]
    assert "2 missing cells of other kinds" in text(screen_of(replace(data, missing=rows)))
    assert "missing" not in text(screen_of(replace(data, missing=[replace(row, kind="timing") for row in rows])))


def test_records_that_could_not_be_used_are_counted() -> None:
    data = answered_tables(gains=FAST)
    assert "1 record could not be used" in text(screen_of(replace(data, rejected=[RejectedRow(path="a.json")])))
    assert "could not be used" not in text(screen_of(data))


@pytest.mark.parametrize(
    ("batches", "fixed", "batch"),
    [
        ([8, 32, 128], None, 32),
        ([64], None, 64),
        ({"start": 32, "factor": 4, "until": "oom"}, None, 128),
        ([8], 16, 16),
    ],
)
def test_the_batch_of_the_answer_is_fixed_before_the_data(batches: Any, fixed: int | None, batch: int) -> None:
    study = Study({"study": "s", "batch_per_gpu": batches, "answer": {"batch_per_gpu": fixed}})
    assert answer_batch(study) == batch


def test_an_epoch_has_a_price_where_an_hour_has_one(snapshot: SnapshotAssertion) -> None:
    screen = screen_of(answered_tables({2: TWO}, **PAIR), per_gpu_hour=3.6)
    assert [row[-1] for row in screen.rows] == ["0.00800", "0.00889"], "8 s on 1 GPU, 4.44 s on 2"
    assert text(screen) == snapshot


def test_workers_are_no_gpus(snapshot: SnapshotAssertion) -> None:
    on_terminal = text(screen_of(answered_tables({2: TWO}, **PAIR), device="cpu"))
    assert on_terminal == snapshot
    assert "GPU" not in on_terminal.replace("no measure of GPUs", "")


AT_96 = around("efficiency", 0.96, 0.01 / 0.96)
REASONS: Mapping[str, Mapping[str, Any]] = {
    "nothing": {"cause": "nothing", **AT_96},
    "nothing, by steps with loading": {"cause": "nothing", "is_by_steps": True, "scope": "end_to_end", **AT_96},
    "not sure": {"cause": "no_certain_loss", **AT_96},
    "unknown with loading": {"cause": "unknown", "scope": "end_to_end", "efficiency": 0.6},
    "unknown but for a part": {
        "cause": "unknown", "efficiency": 0.6, "part": "buckets, buffers", **around("part_s", 0.003),
    },
    "a cause": {"cause": "data_parallel", "cost_s": 0.005},
}  # fmt: skip


@pytest.mark.parametrize("case", REASONS)
def test_why_not_more(case: str, snapshot: SnapshotAssertion) -> None:
    row = {"gpus": 4, "scope": "compute", **around("whole_s", 0.02), **REASONS[case]}
    sentences = reason(CausesRow.read(row), GPU)
    assert sentences == snapshot
    assert ("with data loading" in sentences) == (row["scope"] == "end_to_end")
    assert ("could not find out" in sentences) == (row["cause"] == "unknown" and "part" not in row)


def test_a_cause_says_what_to_change_after_what_was_measured() -> None:
    screen = screen_of(answered_tables(**CASES["two scopes that disagree"][0]))
    assert screen.section == "speedup"
    in_memory, with_loading = screen.reason.split(" With data loading: ")
    assert "loading" not in in_memory and with_loading.startswith("Slow loader.")
    assert [advice.text for advice in screen.to_do] == [CAUSES["slow_loader"].change.rstrip(".")]


def test_what_to_change_knows_the_device() -> None:
    of_gradients = CausesRow(cause="heavy_gradients", is_reason=True, gpus=2, scope="compute")
    screen = first_screen(Answer([], of_gradients, [], 0), WORKER)
    assert [advice.text for advice in screen.to_do] == [CAUSES["heavy_gradients"].on("worker").change.rstrip(".")]


@pytest.mark.parametrize(
    ("case", "kind"),
    [("worth it", "interval"), ("one run", "one run"), ("two machines", "two machines"), ("nothing measured", None)],
)
def test_the_answer_for_machines_has_its_schema(case: str, kind: str | None) -> None:
    answer = answer_of(answered_tables(**CASES[case][0]))
    written = json.loads(answer_json(answer, ["A sentence."]))
    assert not violations("answer", written)
    assert [row["gpus"] for row in written["devices"]] == [row.gpus for row in answer.rows]
    speedup = written["devices"][1]["speedup"]
    assert (speedup and speedup["kind"]) == kind


def advice_row(problem: str, **more: Any) -> AdviceRow:
    saving = {**around("saving", 0.5, 0.1), **around("saving_gpu_s", 0.8, 0.1)}
    return AdviceRow.read({**key("ddp", 4, 512), "problem": problem, "used_s": 2.0, "better_s": 1.0, **saving, **more})


@pytest.mark.parametrize(
    ("row", "section"),
    [
        (advice_row(problems.STRATEGY, used="dp", better="ddp"), "speedup"),
        (advice_row(problems.BATCH, used="512", better="2048"), "times"),
        (advice_row(problems.VARIANT, better="graph", on_gpus=4), "variants"),
        (advice_row(problems.VARIANT, better="graph", on_gpus=1, saving_low=None, saving_high=None), "variants"),
        (advice_row(problems.ONE_GPU, used="base", better="graph"), "variants"),
    ],
    ids=[problems.STRATEGY, problems.BATCH, problems.VARIANT, "variant on fewer", problems.ONE_GPU],
)
def test_what_to_do(row: AdviceRow, section: str, snapshot: SnapshotAssertion) -> None:
    (advice,) = first_screen(Answer([], None, [row], 0), GPU).to_do
    assert advice.text == snapshot
    assert advice.section == section
    assert ("GPU-seconds" in advice.text) == (row.problem == problems.ONE_GPU)
    assert advice.text.startswith("Try") == (row.problem == problems.VARIANT and row.on_gpus != row.gpus)
