"""A diagnosis in words: every figure with its interval, and sentences that are true of the record."""

import re
from typing import Any

import pytest

from dpscale.diagnosis.diagnose import diagnose_script, render, text
from dpscale.vocabulary.causes import CAUSES
from script_factory import HEALTHY, process, script_record

GPU = {"device": "cuda", "device_model": "NVIDIA H100 80GB HBM3", "backend": None, "flops_per_step": 13.4e9}
SLOW: dict[str, Any] = {"loading_ms": 30.0, "steps_ms": {
    **HEALTHY, "as_it_is": 41.0, "no_allreduce": 40.9, "gc_off": 41.0}}  # fmt: skip
LINE = {"file": "/mine.py", "line": 7, "code": "loss.item()"}


def made(one: dict[str, Any] | None = None, other_cores: float = 0.0, **changed: Any) -> tuple[str, str]:
    """The answer about two ranks as a terminal shows it, and the text of its page."""
    ranks = [process(rank, **changed) for rank in range(2)]
    record = script_record(*ranks, one=[process(0, 1, one)] if one else [], other_cores=other_cores)
    diagnosis = diagnose_script(record)
    page = render(diagnosis)
    assert "://" not in page and "<script" not in page
    return text(diagnosis), " ".join(re.sub(r"<[^>]+>", " ", page).split())


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({}, "Nothing wrong. A step takes 10.40 ms [10.40, 10.41]; it is 97.12 % "),
        (SLOW, "The largest reason: slow loader, 74.8"),
        ({**SLOW, "switches": {"search_s": 2.0}}, "of the step. Then: search for unused parameters."),
        # Not efficient, and no cause is known.
        ({"steps_ms": {"as_it_is": 30.0, "batch_kept": 29.9}, "strategy": "other", "one": {"as_it_is": 10.0}},
         "No cause stands out: see where the time goes. A step takes 30.0"),
        ({**SLOW, "other_cores": 15.0}, "First: other work on the machine. What that costs was not measured."),
        ({**SLOW, "other_cores": 15.0}, "The largest reason that was measured: slow loader, "),
        ({"one": {"as_it_is": 7.0}, "gaps": [
            {**LINE, "seconds": 6.0, "after_step": 9 * number, "what": "checkpoint"} for number in range(4)]},
         "2 workers are 1.35 times as fast as 1 between pauses (95 % interval: 1.35, 1.35). The largest reason: "
         "checkpoints, 53."),
        (GPU, "It uses 1.92"),
    ],
)  # fmt: skip
def test_the_answer_in_short(changed: dict[str, Any], sentence: str) -> None:
    shown, page = made(**changed)
    assert sentence in shown.splitlines()[2]
    assert sentence in page


def test_a_reason_has_evidence_a_change_and_savings_side_by_side() -> None:
    for answer in made(**SLOW):
        assert answer.count("the step as it is: 41.0") == 1
        assert answer.count("loader workers per process: 2") == 1
        assert answer.count(CAUSES["slow_loader"].on("worker").change) == 1
        assert re.search(r"batches that are there in time: measured 30\.\d+ ms", answer)


def test_smaller_costs_have_their_lines() -> None:
    for answer in made(steps_ms={**HEALTHY, "no_waiting": 9.9}, waits=[LINE]):
        assert re.search(r"hidden synchronisation: 0\.50\d* ms .*/mine.py, line 7: loss.item\(\)", answer)


@pytest.mark.parametrize("other_cores", [0.0, 15.0])
def test_a_speedup_of_too_few_rounds_is_no_verdict(other_cores: float) -> None:
    """Two rounds say nothing of how much rounds differ, nor whether there are causes beside one that is certain."""
    ranks = [process(rank) for rank in range(2)]
    alone = process(0, 1, {"as_it_is": 2.0})
    for of_process in (*ranks, alone):
        of_process["blocks"] = [block for block in of_process["blocks"] if block["round"] < 2]
    answer = text(diagnose_script(script_record(*ranks, one=[alone], other_cores=other_cores)))
    assert "Too few rounds were made to name a cause surely" in answer
    assert "2 workers are about 0.38 times as fast as 1, in too few rounds for an interval." in answer
    assert "is better" not in answer
