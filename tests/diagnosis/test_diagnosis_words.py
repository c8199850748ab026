"""A diagnosis in words: every figure with its interval, and sentences that are true of the record."""

import re
from typing import Any

from dpscale.diagnosis.diagnose import diagnose_script
from dpscale.diagnosis.page import DiagnosisWords, render, text, told
from dpscale.vocabulary.causes import CAUSES
from script_factory import HEALTHY, process, script_record

ONE = {"world_size": 1, "strategy": "single"}


def made(**changed: Any) -> tuple[DiagnosisWords, str, str]:
    """The answer about two ranks in words, as a terminal shows it, and as a page."""
    steps = {**HEALTHY, **changed.pop("steps_ms", {})}
    record = script_record(*(process(rank, steps_ms=steps, **changed) for rank in range(2)))
    diagnosis = diagnose_script(record)
    return told(diagnosis, record), text(diagnosis, record), render(diagnosis, record)


SLOW: dict[str, Any] = {"loading_ms": 30.0, "steps_ms": {"as_it_is": 41.0, "no_allreduce": 40.9, "gc_off": 41.0}}


def test_the_first_sentence_names_the_first_reason_and_those_after_it() -> None:
    assert made()[0].short.startswith("Nothing wrong. A step takes 10.40 ms [10.40, 10.41]; it is 97.12 % ")
    assert "The largest reason: slow loader, 74.8" in made(**SLOW)[0].short
    both = made(**SLOW, **ONE)[0].short
    assert "The largest reason: started more than once, 50.00 %" in both
    assert "of the step. Then: slow loader." in both


def test_a_step_that_is_not_efficient_without_a_cause_is_not_called_right() -> None:
    steps = {"as_it_is": 30.0, "batch_kept": 29.9}
    ranks = (process(rank, steps_ms=steps, strategy="other") for rank in range(2))
    record = script_record(*ranks, one=[process(0, 1, {"as_it_is": 10.0})])
    assert "No cause stands out: see where the time goes. A step takes 30.0" in text(diagnose_script(record), record)


def test_a_reason_has_evidence_a_change_and_savings_side_by_side() -> None:
    answer, shown, page = made(**SLOW)
    (reason,) = answer.reasons
    assert reason.change == CAUSES["slow_loader"].on("worker").change
    assert any(line.startswith("the step as it is: 41.0") for line in reason.evidence)
    assert "loader workers per process: 2" in reason.evidence
    (saving,) = reason.savings
    assert re.match(r"batches that are there in time: measured 30\.\d+ ms", saving)
    assert "1. slow loader: costs 30.7" in shown
    assert f"What to change: {reason.change}" in shown
    in_page = " ".join(re.sub(r"<[^>]+>", " ", page.split("</style>")[1]).split())
    assert answer.short in in_page
    assert saving in in_page
    assert "://" not in page
    assert "<script" not in page
    assert made()[2].count('<section id="reason-') == 0


def test_what_was_tried_without_a_cause_has_a_place_of_its_own() -> None:
    answer, shown, page = made(steps_ms={"autocast_bfloat16": 6.4})
    assert re.fullmatch(r"computing in bfloat16: measured 4\.00\d? ms .*", answer.tried[0])
    assert answer.tried[0] in shown
    assert answer.tried[0] in page
    assert "Tried as well" not in "".join(made()[1:])


def test_smaller_costs_stand_in_one_place_with_their_notes() -> None:
    line = {"file": "/mine.py", "line": 7, "code": "loss.item()"}
    _, shown, _ = made(steps_ms={"no_waiting": 9.9}, waits=[line])
    assert "Smaller, or not told from nothing:" in shown
    assert re.search(r"hidden synchronisation: 0\.50\d* ms .*\(/mine.py, line 7: loss.item\(\)\)", shown)


def test_a_script_begins_with_its_speedup_the_reason_its_line_and_the_code_to_write() -> None:
    pauses = [{"seconds": 6.0, "after_step": 9 * n, "what": "checkpoint", "file": "t.py", "line": 8, "code": "save()"}
              for n in range(4)]  # fmt: skip
    record = script_record(process(0, gaps=pauses), process(1), one=[process(0, 1, {"as_it_is": [7.0, 7.0, 400.0]})])
    shown = text(diagnose_script(record), record)
    assert shown.startswith(
        "torchrun --nproc-per-node 2 train.py\n\n2 workers are 1.35 times as fast as 1 between pauses "
        "(95 % interval: 1.35, 1.35). The largest reason: checkpoints, 24.0"
    )
    assert "of the time (t.py, line 8: save()). A step takes 10.40 ms [10.40, 10.41] between pauses; it is" in shown
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


def test_a_reason_without_a_cost_is_not_called_the_largest() -> None:
    ranks = [process(rank, steps_ms={"as_it_is": 10.4, "batch_kept": 4.4}, loading_ms=6.0) for rank in range(2)]
    short = told(diagnose_script(script_record(*ranks, other_cores=15.0)), script_record(*ranks)).short
    assert "First: other work on the machine. What that costs was not measured." in short
    assert "The largest reason that was measured: slow loader, " in short
