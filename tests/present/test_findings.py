"""Every finding on rows of a recorded study, and on rows that are changed so that it is false or names others.

`test_sentences` has the words.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from page_tables import GPU, empty, h200, place, speedup_row, study, tables

from dpscale.formulas.figure import UNKNOWN, Figure
from dpscale.present.findings.findings import (
    communication_takes_time,
    findings,
    findings_of_training,
    more_devices_slower,
    strategies_compared,
    strong_scaling,
)
from dpscale.present.page import render
from rows import changed, picked

DATA = h200()


def sure(value: float) -> Figure:
    return Figure.of(value, value - abs(value) / 100, value + abs(value) / 100)


DDP, DP = ({"strategy": name, "gpus": 4, "batch_per_gpu": 128} for name in ("ddp", "dp"))
WEAK, MAY_BE_ZERO = picked(DATA.speedup, scaling="weak"), Figure.of(0.1, -0.1, 0.3)
FASTER = changed(WEAK, {}, speedup=sure(1.5))
ALIKE = changed(DATA.strategy_pairs, {}, ratio=1.0, epoch_s=sure(2.0), other_epoch_s=sure(2.0))
TIMED = changed(ALIKE, {**DDP, "scope": "compute"}, ratio=5.0, epoch_s=sure(1.0), other_epoch_s=sure(5.0))
ZERO = changed(DATA.communication, {}, communication_s=MAY_BE_ZERO)
ARMS = [row for row in DATA.training_summary if row.global_batch in (128, 2048)]
LARGE = {"arm": "b2048"}
PLAIN = [row for row in ARMS if row.arm in ("b128", "b2048")]

slower, strong = partial(more_devices_slower, terms=GPU), partial(strong_scaling, terms=GPU)


def trained(arms: Sequence[Any]) -> str:
    return " ".join(findings_of_training(arms, GPU))


# With what is then said, or "" where nothing is.
@pytest.mark.parametrize(
    ("finding", "rows", "said"),
    [
        (slower, FASTER, ""),
        (
            slower,
            changed(changed(FASTER, DP, speedup=sure(0.4)), {**DDP, "scope": "compute"}, speedup=Figure(0.5)),
            "With and without data loading, more GPUs are surely slower than 1 GPU in 2 of 28 comparisons, probably in "
            "1 more, and not in 25.",
        ),
        (strong, WEAK, ""),
        (strategies_compared, ALIKE, ""),
        (strategies_compared, TIMED, "surely faster than dp without loading in 1 of 8 comparisons, and not in 7."),
        (
            strategies_compared,
            changed(TIMED, {**DDP, "gpus": 2}, ratio=0.5, epoch_s=sure(40.0), other_epoch_s=sure(20.0)),
            "ddp is surely slower than dp without loading in 1 of 8 comparisons, and not in 7.",
        ),
        (communication_takes_time, ZERO, ""),
        (trained, changed(PLAIN, LARGE, test_accuracy_difference=MAY_BE_ZERO), ""),
        (trained, changed(PLAIN, LARGE, lacks="set_epoch off"), ""),
        (trained, changed(PLAIN, LARGE, remedies="warmup_epochs 1", test_accuracy_gain=UNKNOWN), ""),
        (trained, changed(PLAIN, LARGE, compared_with="b512"), ""),
        (trained, changed(PLAIN, {}, is_baseline=False), ""),
        (trained, changed(ARMS, {}, test_accuracy_gain=sure(-0.1)), "Remedies harm: b2048-li"),
    ],
)  # fmt: skip
def test_what_is_said_follows_from_the_rows(
    finding: Callable[[Any], str | list[str]], rows: Sequence[Any], said: str
) -> None:
    sentence = "".join(finding(rows))
    assert said in sentence if said else sentence == ""


def test_a_recorded_study_supports_findings_and_epochs_of_few_steps_do_not() -> None:
    said = findings(replace(DATA, strategy_pairs=TIMED), GPU)
    assert [section for section, sentences in said.items() if not sentences] == ["variants"]  # it has none
    assert not any(findings(empty(), GPU).values())
    short = {
        name: changed(getattr(DATA, name), {}, is_headline=False)
        for name in ("speedup", "strategy_pairs", "communication")
    }
    assert [section for section, sentences in findings(replace(DATA, **short), GPU).items() if sentences] == [
        "training"
    ]


def test_nothing_is_said_of_arms_that_were_trained_on_noise() -> None:
    assert findings(DATA, replace(GPU, synthetic=True))["training"] == []


@pytest.mark.slow
def test_intervals_are_counted_once_and_said_on_the_page() -> None:
    """Two speedups, and what one device saves."""
    page = render(study(), tables(speedup=[speedup_row(speedup, 2.0, **place()) for speedup in (0.58, 3.04)]))
    assert "Findings are chosen from 3 intervals of 95 %. Of 100 such intervals, 5 miss" in page
    assert "miss the true value" not in render(study(), tables())
