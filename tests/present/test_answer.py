"""What the first screen says of studies that differ in one thing, through their records and the real tables."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from page_tables import GPU, around

from answered_study import answered_tables, screen_of
from dpscale.analyse.answer.answer import Answer, answer_json, answer_of
from dpscale.formulas.figure import Figure
from dpscale.plan.plan import answer_batch
from dpscale.plan.study import Study
from dpscale.present.findings.answer import first_screen, reason, text
from dpscale.schemas.validation import violations
from dpscale.tables.answer import AnswerRow, CausesRow
from dpscale.tables.study import MissingRow
from dpscale.vocabulary.causes import CAUSES

TWO, FOUR = [1.8, 1.82, 1.78], [3.5, 3.55, 3.45]
FAST = {2: TWO, 4: FOUR}
WITH = "With ddp at batch 128 per GPU,"
SAID_OF_TWO, SAID_OF_FOUR = "2 GPUs are 1.80 times as fast as 1 [1.75, 1.85]", "4 GPUs 3.50 times [3.38, 3.63]"
OF_BOTH = f"{WITH} {SAID_OF_TWO} and {SAID_OF_FOUR}."
BOTH = "Both are worth it: more than 70 % of what the GPUs could give."
THAT = "That is worth it: more than 70 % of what the GPUs could give."
NEVER_ABOUT_2 = (
    "To decide about 2 GPUs would take more than 20 machines: the value is too near the limit for how much machines "
    "differ."
)
COMMAND = "make report CONFIG=study RUNS="
# What a study is, the sentences of the answer, what belongs to it, and what would decide what is not decided.
CASES: Mapping[str, tuple[Any, ...]] = {
    "worth it": ({"gains": FAST}, [OF_BOTH, BOTH], []),
    "nothing faster": (
        {"gains": {2: [0.5, 0.51, 0.49], 4: [0.8, 0.82, 0.78]}},
        [
            f"{WITH} 2 GPUs are 0.50 times as fast as 1 [0.48, 0.53] and 4 GPUs 0.80 times [0.75, 0.85].",
            "Use 1 GPU: more were not faster.",
        ],
        [],
    ),
    "faster, and not worth it": (
        {"gains": {2: [0.8, 0.82, 0.78], 4: [1.5, 1.55, 1.45]}},
        [
            f"{WITH} 2 GPUs are 0.80 times as fast as 1 [0.75, 0.85] and 4 GPUs 1.50 times [1.38, 1.63].",
            "Neither is worth it: less than 70 % of what the GPUs could give.",
        ],
        [],
    ),
    "one outlier run": (
        {"gains": {2: [1.8, 1.82, 0.6], 4: FOUR}},
        [
            f"{WITH} 2 GPUs are 1.25 times as fast as 1 (0.60 to 1.82 on 3 machines) and {SAID_OF_FOUR}.",
            "It is not decided whether 2 GPUs are worth it: 1 of 3 machines gave less than 70 % of what they could "
            "give.",
            "4 GPUs are worth it: more than 70 % of what they could give.",
        ],
        [],
        [NEVER_ABOUT_2],
    ),
    "one machine": (
        {"gains": FAST, "one_server": True},
        [OF_BOTH, BOTH],
        ["All runs on 2 and 4 GPUs are of one machine: another one may differ."],
    ),
    "one run": (
        {"gains": {2: [1.9], 4: [3.87]}},
        [
            f"{WITH} 2 GPUs are 1.90 times as fast as 1 (one run, not confirmed) and 4 GPUs 3.87 times (one run, not "
            "confirmed).",
            "2 and 4 GPUs gave more than 70 % of what the GPUs could give, which is not confirmed.",
        ],
        [],
        [f"To confirm it for 2 and 4 GPUs: at least 2 more runs (about 6 min): {COMMAND}3"],
    ),
    "one run that is slower": (
        {"gains": {2: [0.9]}, "gpus": [1, 2]},
        [
            f"{WITH} 2 GPUs are 0.90 times as fast as 1 (one run, not confirmed).",
            "2 GPUs gave less than 70 % of what the GPUs could give, which is not confirmed.",
            "So far no more GPUs were faster than 1.",
        ],
        [],
        [f"To confirm it for 2 GPUs: at least 2 more runs (about 4 min): {COMMAND}3"],
    ),
    "two machines": (
        {"gains": {2: [1.54, 1.87]}, "gpus": [1, 2]},
        [
            f"{WITH} 2 GPUs are 1.70 times as fast as 1 (1.54 to 1.87 on 2 machines).",
            "2 GPUs are probably worth it: every machine gave, on average over its runs, more than 70 % of what the "
            "GPUs could give.",
        ],
        [],
        [f"To decide about 2 GPUs: a run on at least 3 more machines (about 2 min each). On the next one: {COMMAND}3"],
    ),
    "two machines, one on either side": (
        {"gains": {2: [1.2, 1.87]}, "gpus": [1, 2]},
        [
            f"{WITH} 2 GPUs are 1.50 times as fast as 1 (1.20 to 1.87 on 2 machines).",
            "It is not decided whether 2 GPUs are worth it: 1 of 2 machines gave less than 70 % of what the GPUs could "
            "give.",
        ],
        [],
        [NEVER_ABOUT_2],
    ),
    "two runs of one machine that are too slow": (
        {"gains": {2: [1.05, 1.1]}, "gpus": [1, 2], "one_server": True},
        [
            f"{WITH} 2 GPUs are 1.07 times as fast as 1 (1.05 to 1.10 in 2 runs).",
            "2 GPUs are probably not worth it: every run gave less than 70 % of what the GPUs could give.",
        ],
        ["All runs on 2 GPUs are of one machine: another one may differ."],
        [f"To decide about 2 GPUs: at least 1 more run (about 2 min): {COMMAND}3"],
    ),
    "nothing faster in two runs": (
        {"gains": {2: [0.6, 0.95]}, "gpus": [1, 2], "one_server": True},
        [
            f"{WITH} 2 GPUs are 0.75 times as fast as 1 (0.60 to 0.95 in 2 runs).",
            "2 GPUs are probably not worth it: every run gave less than 70 % of what the GPUs could give.",
            "So far no more GPUs were faster than 1.",
        ],
        ["All runs on 2 GPUs are of one machine: another one may differ."],
        [f"To decide about 2 GPUs: at least 2 more runs (about 4 min): {COMMAND}4"],
    ),
    "three machines, one of them near the limit": (
        {"gains": {2: [1.45, 1.8, 1.82]}, "gpus": [1, 2]},
        [
            f"{WITH} 2 GPUs are 1.68 times as fast as 1 (1.45 to 1.82 on 3 machines).",
            "2 GPUs are probably worth it: every machine gave, on average over its runs, more than 70 % of what the "
            "GPUs could give.",
        ],
        [],
        [f"To decide about 2 GPUs: a run on at least 2 more machines (about 2 min each). On the next one: {COMMAND}4"],
    ),
    "another limit decides": (
        {"gains": {2: [1.45, 1.8, 1.82]}, "gpus": [1, 2], "answer": {"worth_from": 0.5}},
        [
            f"{WITH} 2 GPUs are 1.68 times as fast as 1 [1.22, 2.31].",
            "That is worth it: more than 50 % of what the GPUs could give.",
        ],
        [],
    ),
    "huge variance": (
        {"gains": {2: [0.4, 1.9, 1.2], 4: [1.0, 3.9, 8.0]}},
        [
            f"{WITH} 2 GPUs are 0.97 times as fast as 1 (0.40 to 1.90 on 3 machines) and 4 GPUs 3.15 times (1.00 to "
            "8.00 on 3 machines).",
            "It is not decided whether 2 and 4 GPUs are worth it: 2 of 3 machines with 2 GPUs and 1 of 3 machines "
            "with 4 GPUs gave less than 70 % of what the GPUs could give.",
        ],
        [],
        [
            NEVER_ABOUT_2.replace("2 GPUs", "2 and 4 GPUs")
        ],
    ),
    "above 100 %": (
        {"gains": {2: [2.4, 2.42, 2.38], 4: FOUR}},
        [f"{WITH} 2 GPUs are 2.40 times as fast as 1 [2.35, 2.45] and {SAID_OF_FOUR}.", BOTH],
        ["2 GPUs gave more than 2 times the speed, which is seldom true: look at the time of 1 GPU."],
    ),
    "two scopes that disagree": (
        {"gains": FAST, "loaded": {2: [0.9, 0.91, 0.89], 4: [1.1, 1.12, 1.09]}},
        [OF_BOTH, BOTH],
        [
            "With data loading, 2 GPUs are 0.90 times as fast as 1 [0.88, 0.93] and 4 GPUs 1.10 times [1.07, 1.14]. "
            "Neither is worth it: less than 70 % of what the GPUs could give.",
        ],
    ),
    "two scopes that agree": (
        {"gains": FAST, "loaded": FAST},
        [OF_BOTH, BOTH],
        [f"With data loading, {SAID_OF_TWO} and {SAID_OF_FOUR}."],
    ),
    "4 GPUs without a run": (
        {"gains": {2: TWO}},
        [
            f"{WITH} {SAID_OF_TWO}.",
            THAT,
            "There is no measured speedup of 4 GPUs.",
        ],
        [],
    ),
    "4 GPUs at another batch": (
        {"gains": {("ddp", 2, 128): TWO, ("ddp", 4, 512): FOUR}, "batch_per_gpu": [32, 128, 512]},
        [
            f"{WITH} {SAID_OF_TWO}.",
            "With ddp at batch 512 per GPU, 4 GPUs are 3.50 times as fast as 1 [3.38, 3.63].",
            BOTH,
        ],
        ["Batch 128, which this answer is about, was not measured on 4 GPUs: the nearest one stands for it."],
    ),
    "dp alone": (
        {"gains": {2: TWO}, "strategies": ["single", "dp"], "gpus": [1, 2]},
        [f"{WITH.replace('ddp', 'dp')} {SAID_OF_TWO}.", THAT],
        [],
    ),
    "dp faster than ddp": (
        {
            "gains": {("ddp", 2, 128): [1.5, 1.52, 1.48], ("dp", 2, 128): TWO},
            "strategies": ["single", "dp", "ddp"], "gpus": [1, 2],
        },
        [
            f"{WITH} 2 GPUs are 1.50 times as fast as 1 [1.45, 1.55].",
            THAT,
        ],
        ["dp is faster on 2 GPUs: 1.80 times [1.75, 1.85]."],
    ),
    "few steps": (
        {"gains": {2: TWO}, "gpus": [1, 2], "dataset": {"images": 1000}},
        [f"{WITH} {SAID_OF_TWO}.", THAT],
        ["An epoch on 2 GPUs has fewer than ten full steps, so these times say little."],
    ),
    "nothing measured": (
        {"gains": {}}, ["It is not known what more GPUs give: none was measured beside 1 GPU."], [],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_the_first_screen_says(tmp_path: Path, case: str) -> None:
    given, sentences, notes, *deciding = CASES[case]
    screen = screen_of(answered_tables(tmp_path, **given))
    assert (list(screen.sentences), list(screen.notes)) == (sentences, notes)
    assert [todo.text for todo in screen.deciding] == [text for texts in deciding for text in texts]


def test_what_the_command_measures_beside_these_runs_is_said(tmp_path: Path) -> None:
    """Missing cells of other kinds take time too; those of the runs themselves are in their time."""
    data = answered_tables(tmp_path, gains={2: [1.9]}, gpus=[1, 2])
    said = "The command also measures 2 missing cells of other kinds, in a time of their own."
    rows = [MissingRow(kind="communication", run=run, status="missing") for run in (1, 2)]
    assert said in [todo.text for todo in screen_of(replace(data, missing=rows)).deciding]
    runs = [replace(row, kind="timing") for row in rows]
    assert not any("missing" in todo.text for todo in screen_of(replace(data, missing=runs)).deciding)


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


def test_the_terminal_has_the_table_a_price_and_what_to_do(tmp_path: Path) -> None:
    gains = {("ddp", 2, 128): TWO, ("dp", 2, 128): [0.5, 0.51, 0.49]}
    tables = answered_tables(tmp_path, gains, strategies=["single", "dp", "ddp"], gpus=[1, 2])
    said, _, heading, alone, two, _, *others = text(screen_of(tables, per_gpu_hour=3.6)).splitlines()
    assert said == f"{WITH} {SAID_OF_TWO}. {THAT}"
    assert heading.split()[0] == "GPUs" and heading.endswith("Price per epoch")
    assert alone.split() == ["1", "8.00", "[8.00,", "8.00]", "1.00", "100", "1.00", "–", "0.00800"]
    assert two.endswith("1.80 [1.75, 1.85]           90.0            1.11  worth it          0.00889")
    assert others == [
        "Why not more: On 2 GPUs, a step takes 22.8 ms [22.1, 23.4]. 1 GPU alone takes 90 % of that. We could not find "
        "out what takes the rest.",
    ]
    assert screen_of(tables).section == "steps", "where the time goes, as far as that is known"


AT_96 = around("efficiency", 0.96, 0.01 / 0.96)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"cause": "nothing", **AT_96}, "Less than 10 % is lost: the efficiency on 4 GPUs is 96.0 % [95.0, 97.0]."),
        (
            {"cause": "no_certain_loss", **AT_96},
            "It is not sure that anything is lost. The efficiency on 4 GPUs is 96.0 % [95.0, 97.0].",
        ),
        (
            {"cause": "unknown", "scope": "end_to_end", "efficiency": 0.6},
            "On 4 GPUs, a step with data loading takes 20.0 ms [19.8, 20.2]. 1 GPU alone, with images in memory, takes "
            "60 % of that. We could not find out what takes the rest.",
        ),
        (
            {"cause": "unknown", "efficiency": 0.6, "part": "buckets, buffers", **around("part_s", 0.003)},
            "On 4 GPUs, a step takes 20.0 ms [19.8, 20.2]. 1 GPU alone takes 60 % of that. The largest part of the "
            "rest, by intervention, is buckets, buffers: 3.00 ms [2.97, 3.03].",
        ),
        (
            {"cause": "nothing", "is_by_steps": True, "scope": "end_to_end", **AT_96},
            "Less than 10 % is lost: with data loading, the efficiency on 4 GPUs by the time of steps is 96.0 % "
            "[95.0, 97.0].",
        ),
        (
            {"cause": "data_parallel", "cost_s": 0.005},
            f"DataParallel. {CAUSES['data_parallel'].sentence} "
            "On 4 GPUs, a step takes 20.0 ms [19.8, 20.2]; this costs 5.00 ms.",
        ),
    ],
    ids=["nothing", "not sure", "unknown", "a known part", "by steps", "a cause"],
)
def test_why_not_more(row: dict[str, Any], said: str) -> None:
    found = CausesRow.read({"gpus": 4, "scope": "compute", **around("whole_s", 0.02), **row})
    assert reason(found, GPU) == said


def test_a_cause_says_what_to_change_after_what_was_measured(tmp_path: Path) -> None:
    screen = screen_of(answered_tables(tmp_path, **CASES["two scopes that disagree"][0]))
    assert screen.section == "speedup"
    in_memory, with_loading = screen.reason.split(" With data loading: ")
    assert in_memory.startswith("On 4 GPUs, a step takes") and with_loading.startswith("Slow loader.")
    assert "a step with data loading" in with_loading and "loading" not in in_memory
    assert [(advice.what, advice.saving) for advice in screen.to_do] == [(CAUSES["slow_loader"].change.rstrip("."), "")]


@pytest.mark.parametrize("device", ["GPU", "worker"])
def test_what_to_change_knows_the_device(device: str) -> None:
    row = AnswerRow(
        gpus=2, speedup=Figure.of(1.5, 1.4, 1.6), worth="worth it", limit=1.4, batch_per_gpu=4, asked_batch_per_gpu=4
    )
    of_gradients = CausesRow(cause="heavy_gradients", is_reason=True, gpus=2, scope="compute")
    screen = first_screen(Answer([row], of_gradients, [], 0), replace(GPU, device=device))
    assert [advice.what for advice in screen.to_do] == [CAUSES["heavy_gradients"].on(device).change.rstrip(".")]


@pytest.mark.parametrize("case", ["worth it", "one run", "4 GPUs without a run", "nothing measured"])
def test_the_answer_for_machines_has_its_schema(tmp_path: Path, case: str) -> None:
    answer = answer_of(answered_tables(tmp_path, **CASES[case][0]))
    found = json.loads(answer_json(answer, ["A sentence."]))
    assert not violations("answer", found)
    assert [row["gpus"] for row in found["devices"]] == [row.gpus for row in answer.rows]
    if case == "worth it":
        assert found["devices"][1]["speedup"] == pytest.approx(
            {"value": 1.8, "low": 1.75, "high": 1.85, "kind": "interval", "unit": "1"}, abs=0.005
        )


def test_workers_are_no_gpus(tmp_path: Path) -> None:
    screen = screen_of(answered_tables(tmp_path, {2: TWO}, gpus=[1, 2]), device="cpu")
    assert screen.sentences[0].startswith("With ddp at batch 128 per worker, 2 workers are 1.80 times as fast as 1")
    assert screen.notes[-1] == (
        "Workers share the cores of one machine: another one may differ, and this is no measure of GPUs."
    )


def test_the_terminal_has_the_command_on_a_line_of_its_own(tmp_path: Path) -> None:
    """To be copied."""
    lines = text(screen_of(answered_tables(tmp_path, **CASES["one run"][0]))).splitlines()
    assert f"  {COMMAND}3" in lines
    assert (
        lines[lines.index(f"  {COMMAND}3") - 1] == "To confirm it for 2 and 4 GPUs: at least 2 more runs (about 6 min):"
    )


@pytest.mark.parametrize(
    ("case", "caption"),
    [
        ("worth it", "What every number of GPUs gives. In brackets 95 % intervals."),
        ("two machines", "What every number of GPUs gives. In brackets 95 % intervals. In parentheses the two values."),
        ("one run", "What every number of GPUs gives. In brackets 95 % intervals."),
        ("nothing measured", "What every number of GPUs gives."),
    ],
)
def test_the_caption_explains_what_is_there(tmp_path: Path, case: str, caption: str) -> None:
    screen = screen_of(answered_tables(tmp_path, **CASES[case][0]))
    assert screen.caption == caption
    cells = [cell for row in screen.rows for cell in row]
    assert any("[" in cell for cell in cells) == ("brackets" in caption)
    assert any("(" in cell for cell in cells) == ("parentheses" in caption)


def test_no_first_screen_says_undecided_alone(tmp_path: Path) -> None:
    """Whatever is not decided says what was seen, and what would decide it."""
    for case, (given, *_) in CASES.items():
        answer = answer_of(answered_tables(tmp_path / case.replace(" ", "-"), **given))
        screen = first_screen(answer, GPU)
        for row in answer.several:
            assert bool(screen.deciding) == any(not gain.is_decided for gain in (*answer.several, *answer.loaded))
            if not row.is_decided:
                seen = (
                    "one run"
                    if row.units == 1
                    else f" {'on' if row.unit == 'machine' else 'in'} {row.units} {row.unit}s"
                )
                assert seen in screen.sentence, case
