"""The tiles and what to do, in words: data that make every sentence true, and data that make it false."""

from typing import Any

import pytest
from page_tables import GPU, around, bare_page, key, plain_page

from dpscale.analyse.answer import advice as problems
from dpscale.analyse.answer.series import Series, of_series
from dpscale.present.findings.advice import advices
from dpscale.tables.answer import AdviceRow

SERIES = Series("ddp", 4, "A")
PLACE = key("ddp", 4, 512)


def row(problem: str, saving: float = 0.5, **more: Any) -> dict[str, Any]:
    times = {**around("used_s", 2.0), **around("better_s", 1.0)}
    return {**PLACE, "problem": problem, "saves": "epoch time", **times, **around("saving", saving, 0.1), **more}


def shown(*rows: dict[str, Any]) -> list[tuple[str, str, str]]:
    found = advices(of_series(map(AdviceRow.read, rows), SERIES), GPU)
    return [(one.what, one.evidence, one.saving) for one in found]


@pytest.mark.parametrize(
    ("of", "what", "evidence"),
    [
        (
            row(problems.STRATEGY, used="dp", better="ddp"),
            "Use ddp in place of dp",
            "An epoch takes 1.00 s in place of 2.00 s at batch 512 per GPU, without loading.",
        ),
        (
            row(problems.BATCH, used_batch_per_gpu=32),
            "Use a batch of 512 per GPU in place of 32, where accuracy allows it",
            "An epoch takes 1.00 s in place of 2.00 s on 4 GPUs, without loading.",
        ),
        (
            row(problems.VARIANT, used="base", better="graph", on_gpus=1),
            "Use the settings of graph on every GPU",
            "An epoch takes 1.00 s in place of 2.00 s on 1 GPU at batch 512 per GPU, without loading.",
        ),
        (
            row(problems.ONE_GPU, used="base", better="graph", on_gpus=1, saves="device-seconds"),
            "Use 1 GPU with graph in place of 4 GPUs with base",
            "An epoch takes 1.00 s in place of 2.00 s at batch 512 per GPU, without loading.",
        ),
        (
            row(
                problems.RECIPE, used="small", better="recipe", without_remedies="plain", without_accuracy=0.4,
                used_accuracy=0.67, better_accuracy=0.75, tuned_trials=80, tuned_on="test accuracy",
                saves="training time", on_gpus=1, used_gpu_s=2.0, better_gpu_s=4.0,
            ),
            "For a large batch, train as recipe in place of plain",
            "It ends at 75.0 % in place of 40.0 %; small, the baseline, ends at 67.0 %. Training takes "
            "1.00 s on 4 GPUs, that of the baseline 2.00 s on 1 GPU: 4.00 s and 2.00 s of GPU "
            "time. Best of 80 trials, chosen on test accuracy.",
        ),
    ],
)  # fmt: skip
def test_every_problem_has_its_words(of: dict[str, Any], what: str, evidence: str) -> None:
    ((found_what, found_evidence, saving),) = shown(of)
    assert (found_what, found_evidence) == (what, evidence)
    noun = {"device-seconds": "GPU-seconds", "training time": "training time of small"}.get(of["saves"], of["saves"])
    assert saving == f"50 % [45, 55] of the {noun}"


def test_a_recipe_that_was_not_searched_has_no_trials() -> None:
    ((_, evidence, _),) = shown(
        row(problems.RECIPE, used="small", better="recipe", without_remedies="plain", on_gpus=1)
    )
    assert "trials" not in evidence


def test_a_saving_without_an_interval_says_so() -> None:
    ((*_, saving),) = shown(row(problems.STRATEGY, saving_low=None, saving_high=None))
    assert saving == "about 50 % (no interval) of the epoch time"


def test_advice_for_other_devices_is_not_told() -> None:
    assert shown(row(problems.STRATEGY, gpus=2), row(problems.BATCH, strategy="dp", used_batch_per_gpu=32)) == []
    assert of_series([AdviceRow.read(row(problems.STRATEGY))], None) == []


@pytest.mark.slow
def test_the_page_has_what_to_do_linked_to_its_evidence() -> None:
    page = plain_page()
    (listed,) = [part.split("</ol>")[0] for part in page.split('<ol class="advice">')[1:]]
    assert "Use ddp in place of dp" in listed and 'href="#speedup"' in listed
    assert 'id="table-causes"' in page
    nothing = bare_page()
    assert "Nothing that was measured shows what to do otherwise." in nothing
    assert 'id="table-causes"' not in nothing
