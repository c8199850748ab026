"""A diagnosis in words: every figure with its interval, and sentences that are true of the record."""

import re
from typing import Any

import pytest

from diagnosis_factory import HEALTHY, diagnosis_record
from dpscale.analyse.answer.causes import FoundCause, Remedy
from dpscale.analyse.answer.diagnosis import diagnose
from dpscale.analyse.diagnosis.script import diagnose_script
from dpscale.formulas.figure import Figure
from dpscale.present.diagnosis.page import DiagnosisWords, render, text, told, told_cause
from dpscale.present.text.numbers import measured
from dpscale.tables.column import MILLISECONDS
from dpscale.vocabulary.causes import CAUSES, REMEDIES
from script_factory import process, script_record

SLOW = {"loader": 40.0, "end_to_end": 41.0, "end_to_end_more": 21.5}


def made(**changed: Any) -> tuple[dict[str, Any], DiagnosisWords, str]:
    """A record, its answer in words, and as a terminal shows it."""
    settings = {name: changed.pop(name) for name in ("device", "alone_ms") if name in changed}
    parts = {name: changed.pop(name) for name in list(changed) if isinstance(changed[name], dict)}
    record = diagnosis_record({**HEALTHY, **changed}, **settings, **parts)
    record["settings"] |= parts.get("settings", {})
    diagnosis = diagnose(record)
    return record, told(diagnosis, record), text(diagnosis, record)


def test_the_first_sentence_names_the_first_reason_and_those_after_it() -> None:
    assert made()[1].short.startswith(
        "Nothing wrong. A step takes 10.40 ms [10.40, 10.41]; it is 96.15 % [96.15, 96.15] efficient. What part of the "
        "GPU it uses is not known."
    )
    slow = made(**SLOW)[1].short
    assert "The largest reason: slow loader, 74.9" in slow
    both = made(**SLOW, alone_graph=9.0, launches={"same_command": [7]})[1].short
    assert "The largest reason: started more than once, 50.0 % of the step. Then: slow loader." in both


def test_a_step_that_is_not_efficient_without_a_cause_is_not_called_right() -> None:
    short = made(training=30.0, end_to_end=30.1, together=29.0, no_op_hook=29.1)[1].short
    assert "No cause stands out: see where the time goes. A step takes 30.1" in short
    assert "Nothing wrong" not in short


def test_a_reason_has_evidence_a_change_and_savings_side_by_side() -> None:
    _, answer, shown = made(**SLOW)
    (reason,) = answer.reasons
    assert reason.change == CAUSES["slow_loader"].change
    assert any(line.startswith("the loader alone: 40.0") for line in reason.evidence)
    assert "loader workers per process: 2" in reason.evidence
    (saving,) = reason.savings
    assert re.match(r"4 loader workers per process: predicted 2[01]\.\d+ ms .*, measured 19\.\d+ ms", saving)
    assert "1. slow loader: costs 30.7" in shown
    assert f"What to change: {reason.change}" in shown


def test_what_was_not_tried_is_called_so() -> None:
    _, answer, _ = made(launches={"same_command": [7]})
    assert answer.reasons[0].savings[0].endswith("not tried")
    assert "other processes of the same command: 1" in answer.reasons[0].evidence


def test_what_was_tried_without_a_cause_has_a_place_of_its_own() -> None:
    record, answer, shown = made(bfloat16=6.3)
    assert re.fullmatch(r"computing in bfloat16: measured 4\.00\d? ms .*", answer.tried[0])
    assert answer.tried[0] in shown
    assert answer.tried[0] in render(diagnose(record), record)
    assert "Tried as well" not in made()[2] + render(diagnose(diagnosis_record(HEALTHY)), record)


def test_smaller_costs_stand_in_one_place_with_their_notes() -> None:
    seen = [{"file": "/mine.py", "line": 7, "code": "loss.item()", "calls": 2}]
    record = diagnosis_record({**HEALTHY, "alone_unsynchronised": 9.9})
    record["synchronisations"] = seen
    shown = text(diagnose(record), record)
    assert "hidden synchronisation: 0.100 ms" in shown.replace("0.1000", "0.100")
    assert "/mine.py, line 7: loss.item() (2 in a step)" in shown
    even = dict.fromkeys(("together", "no_op_hook", "training", "end_to_end", "end_to_end_more"), 10.0)
    record = diagnosis_record({**even, "loader": 1.0})
    assert "Smaller, or not told from nothing:" not in text(diagnose(record), record)


def test_other_processes_on_the_slow_gpu_are_named() -> None:
    slow = {"alone_ms": (10.0, 25.0), "together": 25.0, "no_op_hook": 25.1, "training": 25.2, "end_to_end": 25.3}
    _, answer, _ = made(**slow)
    assert answer.reasons[0].notes == ["device 1 is the slow one"]
    record, *_ = made(**slow)
    record["sensors"]["before"][1] = {
        **record["sensors"]["before"][1], "other_processes": [{"pid": 77, "memory_bytes": 5}],
    }  # fmt: skip
    reason = told(diagnose(record), record).reasons[0]
    assert reason.notes == ["device 1 is the slow one", "other processes on it: 77"]


@pytest.mark.parametrize(
    ("device", "held", "title"),
    [
        ("cuda", False, "cifar_resnet18: ddp on 2 GPUs, batch 32 per GPU"),
        ("cpu", True, "cifar_resnet18: ddp on 2 workers, batch 32 per worker, the global batch held"),
    ],
)
def test_the_title_says_what_was_asked(device: str, held: bool, title: str) -> None:
    assert made(device=device, cell={"global_batch_held": held})[1].title == title


def test_a_user_s_file_is_named() -> None:
    assert made(settings={"workload": "train/mine.py"})[1].title.startswith("train/mine.py: ddp")


def test_the_page_needs_no_other_file_and_says_the_same() -> None:
    record, answer, _ = made(**SLOW)
    page = render(diagnose(record), record)
    shown = " ".join(re.sub(r"<[^>]+>", " ", page.split("</style>")[1]).split())
    assert answer.short in shown
    assert answer.reasons[0].savings[0] in shown
    assert "://" not in page
    assert "<script" not in page
    assert render(diagnose(diagnosis_record(HEALTHY)), record).count('<section id="reason-') == 0


def test_every_remedy_has_words() -> None:
    of_variants = {"captured_variant": "compile", "graph_variant": "graph", "strategy": "ddp", "gpus": 2}
    for words in REMEDIES.values():
        assert words.format(device="GPU", devices="GPUs", loader_workers=2, batch_per_gpu=8, **of_variants)


@pytest.mark.parametrize(("saved_ms", "said"), [(18.0, "; it shortens other parts of the step too"), (2.0, "")])
def test_a_saving_beyond_its_cause_says_why(saved_ms: float, said: str) -> None:
    remedy = Remedy("larger_batch", None, Figure(saved_ms / 1e3), {"batch_per_gpu": 256})
    found = FoundCause(CAUSES["small_batch"], Figure(0.003), Figure(0.1), [], [remedy])
    (saving,) = told_cause(found, "GPU").savings
    assert saving == f"a batch of 256 per GPU: measured {measured(saved_ms / 1e3, MILLISECONDS)}{said}"


def test_a_script_begins_with_its_speedup_the_reason_its_line_and_the_code_to_write() -> None:
    pauses = [{"seconds": 6.0, "after_step": 9 * n, "what": "checkpoint", "file": "t.py", "line": 8, "code": "save()"}
              for n in range(4)]  # fmt: skip
    record = script_record(process(0, gaps=pauses), process(1), one=[process(0, 1, {"as_it_is": 7.0})])
    shown = text(diagnose_script(record), record)
    assert shown.startswith(
        "torchrun --nproc-per-node 2 train.py\n\n2 workers are 1.35 times as fast as 1 (95 % interval: 1.35, 1.35). "
        "The largest reason: checkpoints, 24.0"
    )
    assert "of the step (t.py, line 8: save())." in shown
    assert f"      {CAUSES['checkpoint'].code}\n   Saves: a step that has none of it: predicted 12" in shown
    page = render(diagnose_script(record), record)
    assert CAUSES["checkpoint"].code in page
    assert "Hooks lengthen a step by" in page


def test_the_part_of_a_gpu_that_is_used_is_said_beside_nothing_wrong() -> None:
    gpu = {"device": "cuda", "device_model": "NVIDIA H100 80GB HBM3", "backend": None, "flops_per_step": 13.4e9}
    record = script_record(process(0, 1, {"as_it_is": 10.0, "batch_kept": 9.9}, **gpu))
    short = told(diagnose_script(record), record).short
    assert short.startswith("Nothing wrong. A step takes 10.00 ms")
    assert "It uses 1.99" in short
