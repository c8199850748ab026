"""The tiles and what to do, in words: data that make every sentence true, and data that make it false."""

from typing import Any

import pytest
from page_tables import around, from_csv, h200, key, study, tables

from dpscale.analyse import advice as problems
from dpscale.present.advice import advices, tiles
from dpscale.present.page import render
from dpscale.present.words import Terms

GPU = Terms(device="GPU", several_environments=False, synthetic=False)
SERIES = {"strategy": "ddp", "gpus": 4, "environment": "A"}
PLACE = key("ddp", 4, 512)


def row(problem: str, saving: float = 0.5, **more: Any) -> dict[str, Any]:
    times = {**around("used_s", 2.0), **around("better_s", 1.0)}
    return {**PLACE, "problem": problem, "saves": "epoch time", **times, **around("saving", saving, 0.1), **more}


def shown(*rows: dict[str, Any]) -> list[tuple[str, str, str]]:
    found = advices({"advice": from_csv("advice", list(rows))}, SERIES, GPU)
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
            row(problems.LOADING, scope="end_to_end", loader_processes=8),
            "Load images faster: more loader workers, or images in the memory of the GPU",
            "An epoch takes 1.00 s without loading in place of 2.00 s by 8 processes at batch 512 per GPU, "
            "with loading.",
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
                saves="training time",
            ),
            "For a large batch, train as recipe in place of plain",
            "It ends at 75.0 % in place of 40.0 %; small, the baseline, ends at 67.0 %. Training takes "
            "1.00 s in place of 2.00 s. Best of 80 trials, chosen on test accuracy.",
        ),
    ],
)  # fmt: skip
def test_every_problem_has_its_words(of: dict[str, Any], what: str, evidence: str) -> None:
    ((found_what, found_evidence, saving),) = shown(of)
    assert (found_what, found_evidence) == (what, evidence)
    noun = {"device-seconds": "GPU-seconds"}.get(of["saves"], of["saves"])
    assert saving == f"50 % [45, 55] of the {noun}"


def test_a_recipe_that_was_not_searched_and_loaders_that_are_not_known_are_not_told() -> None:
    ((_, evidence, _),) = shown(row(problems.RECIPE, used="small", better="recipe", without_remedies="plain"))
    assert "trials" not in evidence
    ((_, evidence, _),) = shown(row(problems.LOADING, scope="end_to_end"))
    assert "processes" not in evidence


def test_a_saving_without_an_interval_says_so() -> None:
    ((*_, saving),) = shown(row(problems.STRATEGY, saving_low=None, saving_high=None))
    assert saving == "about 50 % (no interval) of the epoch time"


def test_advice_for_other_devices_is_not_told() -> None:
    assert shown(row(problems.STRATEGY, gpus=2), row(problems.BATCH, strategy="dp", used_batch_per_gpu=32)) == []
    assert advices({"advice": from_csv("advice", [row(problems.STRATEGY)])}, None, GPU) == []


def answer(**more: Any) -> dict[str, Any]:
    figures = {"speedup": 3.2, "end_to_end_speedup": 2.0, "efficiency": 0.8, "gpu_s_over_one": 1.25, "mfu": 0.1}
    known = {name: part for column, value in figures.items() for name, part in around(column, value).items()}
    return {**PLACE, **known, "energy_over_one": 1.5, **more}


def tiles_of(**more: Any) -> dict[str, tuple[str, str]]:
    found = tiles({"answer": from_csv("answer", [answer(**more)])}, SERIES, GPU)
    return {tile.name: (tile.figure, tile.details) for tile in found}


def test_tiles_have_the_figures_of_the_answer() -> None:
    assert tiles_of() == {
        "Speedup on 4 GPUs": (
            "3.20×", "[3.17, 3.23] without loading, ddp, batch 512 per GPU; with loading 2.00× [1.98, 2.02]",
        ),
        "Efficiency": ("80.0 %", "[79.2, 80.8] of what 4 GPUs could do"),
        "Price of an epoch": ("1.25×", "[1.24, 1.26] the GPU-seconds of 1 GPU; 1.50× its joules"),
        "Share of the chip (MFU)": ("10.00 %", "[9.90, 10.10] of its peak FLOP/s"),
    }  # fmt: skip


def test_tiles_leave_out_what_is_not_known() -> None:
    found = tiles_of(end_to_end_speedup=None, energy_over_one=None, mfu=None)
    assert "with loading" not in found["Speedup on 4 GPUs"][1]
    assert "joules" not in found["Price of an epoch"][1]
    assert found["Share of the chip (MFU)"] == ("not known", "peak of this chip or work of an image not known")
    assert "[3.17, 3.23] with loading" in tiles_of(scope="end_to_end")["Speedup on 4 GPUs"][1]
    assert tiles({"answer": from_csv("answer", [answer(gpus=2)])}, SERIES, GPU) == []


@pytest.mark.slow
def test_the_page_has_what_to_do_linked_to_its_evidence() -> None:
    page = render(study(), h200())
    (listed,) = [part.split("</ol>")[0] for part in page.split('<ol class="advice">')[1:]]
    assert "Use ddp in place of dp" in listed and 'href="#speedup"' in listed
    assert page.count('<dl class="tiles"') == 1
    nothing = render(study(), tables())
    assert "Nothing that was measured shows what to do otherwise." in nothing
    assert '<dl class="tiles"' not in nothing
