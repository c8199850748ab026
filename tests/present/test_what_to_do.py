"""The tiles and what to do, in words: data that make every sentence true, and data that make it false."""

from typing import Any

import pytest
from page_tables import GPU, around, bare_page, key, plain_page

from dpscale.analyse.answer import advice as problems
from dpscale.analyse.answer.series import Series, of_series
from dpscale.present.findings.advice import Reason, Why, advices, tiles, why
from dpscale.tables.answer import AdviceRow, AnswerRow, CausesRow
from dpscale.vocabulary.causes import CAUSES

CAUSES_NOT_SEEN = {"started_twice", "too_many_workers", "too_few_cores", "slow_device", "hidden_synchronisation"}
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


def cause_row(cause: str, cost_ms: float | None = 5.0, batch: int = 512, **more: Any) -> dict[str, Any]:
    """Of a step of 20 ms with loading, of which one GPU alone takes 70 %."""
    told = {**key("ddp", 4, batch), "scaling": "weak", "order": 0, "cause": cause, "scope": "end_to_end"}
    figures = {**around("whole_s", 0.02), **around("efficiency", 0.7), "not_seen": "slow_link; too_few_cores"}
    if cost_ms is not None:
        figures |= {**around("cost_s", cost_ms / 1e3, 0.1), **around("share", cost_ms / 20, 0.1)}
    return {**told, **figures, "is_reason": cost_ms is not None, "is_told": cost_ms is not None, **more}


def explained(*rows: dict[str, Any]) -> Why | None:
    return why([CausesRow.read(row) for row in rows], [AnswerRow.read(answer())], GPU)


def why_of(*rows: dict[str, Any]) -> Why:
    found = explained(*rows)
    assert found is not None
    return found


STEP = (
    "At batch 512 per GPU a step takes 20.00 ms [19.80, 20.20] with loading; 1 GPU alone, without loading, takes "
    "70.0 % [69.3, 70.7] of that."
)


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        (cause_row("slow_loader"), f"{STEP} First reason: slow loader."),
        (cause_row("unknown", None), f"{STEP} No cause stands out at this batch."),
        (
            {**cause_row("nothing", None, scope="compute"), **around("efficiency", 0.97)},
            "Nothing wrong at batch 512 per GPU: 97.0 % [96.0, 98.0] efficient, without loading. A step takes 20.00 ms "
            "[19.80, 20.20].",
        ),
        (
            cause_row("heavy_gradients", scope="compute"),
            f"{STEP.replace(', without loading,', '').replace('with loading', 'without loading')} First reason: heavy "
            "gradients.",
        ),
    ],
    ids=["a reason", "none found", "none needed", "no loading"],
)
def test_the_step_of_the_answer_is_told_with_its_first_reason(row: dict[str, Any], sentence: str) -> None:
    assert why_of(row).sentence == sentence


def test_without_a_row_at_the_batch_of_the_answer_nothing_is_told() -> None:
    rows = cause_row("slow_loader", batch=32), cause_row("slow_loader", scaling="strong")
    assert explained(*rows) is None
    assert why([CausesRow.read(row) for row in rows], [], GPU) is None


def test_a_reason_has_its_cost_what_to_change_what_that_saves_and_its_evidence() -> None:
    times: dict[str, Any] = {**around("alone_s", 0.009), **around("alone_large_s", 0.004)}
    saved: dict[str, Any] = {**around("predicted_saving_s", 0.006), **around("saving_s", 0.007)}
    (reason,) = why_of(
        cause_row("small_batch", **times, **saved, remedy="larger_batch", larger_batch_per_gpu=2048)
    ).reasons
    assert reason == Reason(
        "Small batch, launch-bound at batch 512 per GPU",
        "5.00 ms [4.50, 5.50], 25.0 % [22.5, 27.5] of a step",
        CAUSES["small_batch"].change,
        "a batch of 2,048 per GPU: predicted 6.00 ms [5.94, 6.06], measured 7.00 ms [6.93, 7.07]",
        "The plain step on one GPU alone: 9.00 ms [8.91, 9.09]; as many samples in a larger batch on one GPU: "
        "4.000 ms [3.960, 4.040]",
        "speedup",
    )
    (plain,) = why_of(cause_row("slow_loader", loader_workers=2)).reasons
    assert (plain.savings, plain.evidence) == ("", "Loader workers per process: 2")


def test_costs_without_an_interval_say_so() -> None:
    no_share: dict[str, Any] = {"share_low": None, "share_high": None}
    (reason,) = why_of(cause_row("slow_loader", **no_share)).reasons
    assert reason.cost == "5.00 ms [4.50, 5.50], about 25 % of a step"
    (reason,) = why_of(cause_row("slow_loader", **no_share, cost_s_low=None, cost_s_high=None)).reasons
    assert reason.cost == "about 5.00 ms, 25 % of a step (no interval)"


def test_reasons_at_the_batch_of_the_answer_stand_first_then_those_with_an_interval() -> None:
    unsure: dict[str, Any] = {"share_low": None, "share_high": None}
    rows = [
        cause_row("small_batch", 12.0, 32, **unsure), cause_row("data_parallel", 8.0, 128),
        cause_row("heavy_gradients", 9.0, 128), cause_row("slow_loader", 3.0), cause_row("slow_link", is_told=False),
    ]  # fmt: skip
    told = [reason.what.split(" at batch")[0] for reason in why_of(*rows).reasons]
    assert told == ["Slow loader", "Heavy gradients", "DataParallel", "Small batch, launch-bound"]


def test_the_sentence_names_the_reason_that_stands_first() -> None:
    """Also where another one costs more, and has no interval."""
    unsure: dict[str, Any] = {"share_low": None, "share_high": None, "cost_s_low": None, "cost_s_high": None}
    told = why_of(cause_row("heavy_gradients", 9.0, **unsure), cause_row("slow_loader", 3.0, order=1))
    assert told.sentence.endswith("First reason: slow loader.")
    assert told.reasons[0].what.startswith("Slow loader")


def test_what_a_study_does_not_see_is_named() -> None:
    assert why_of(cause_row("slow_loader")).not_seen == (
        "Not seen by this study, but by dpscale diagnose: slow link; too few cores."
    )
    assert why_of(cause_row("slow_loader", not_seen=None)).not_seen == ""


def test_every_cause_that_a_study_finds_has_a_section_with_its_evidence() -> None:
    told = [cause for cause in CAUSES if cause not in CAUSES_NOT_SEEN]
    for cause in told:
        if cause != "batch_not_scaled":  # told as strong scaling
            assert why_of(cause_row(cause)).reasons[0].section in ("speedup", "communication")


def answer(**more: Any) -> dict[str, Any]:
    figures = {
        "speedup": 3.2,
        "end_to_end_speedup": 2.0,
        "efficiency": 0.8,
        "gpu_s_over_one": 1.25,
        "mfu": 0.1,
        "energy_over_one": 1.5,
    }
    known = {name: part for column, value in figures.items() for name, part in around(column, value).items()}
    return {**PLACE, **known, **more}


def tiles_of(**more: Any) -> dict[str, tuple[str, str]]:
    found = tiles(of_series([AnswerRow.read(answer(**more))], SERIES), GPU)
    return {tile.name: (tile.figure, tile.details) for tile in found}


def test_tiles_have_the_figures_of_the_answer() -> None:
    assert tiles_of() == {
        "Speedup on 4 GPUs": (
            "3.20×", "[3.17, 3.23] without loading, ddp, batch 512 per GPU; with loading 2.00× [1.98, 2.02]",
        ),
        "Efficiency": ("80.0 %", "[79.2, 80.8] of what 4 GPUs could do"),
        "Price of an epoch": ("1.25×", "[1.24, 1.26] the GPU-seconds of 1 GPU; 1.50× [1.49, 1.51] its joules"),
        "Share of the chip (MFU)": ("10.00 %", "[9.90, 10.10] of its peak FLOP/s"),
    }  # fmt: skip


def test_tiles_leave_out_what_is_not_known() -> None:
    found = tiles_of(end_to_end_speedup=None, energy_over_one=None, mfu=None)
    assert "with loading" not in found["Speedup on 4 GPUs"][1]
    assert "joules" not in found["Price of an epoch"][1]
    assert found["Share of the chip (MFU)"] == ("not known", "peak of this chip or work of an image not known")
    assert "[3.17, 3.23] with loading" in tiles_of(scope="end_to_end")["Speedup on 4 GPUs"][1]
    assert tiles_of(gpus=2) == {}


@pytest.mark.slow
def test_the_page_has_what_to_do_linked_to_its_evidence() -> None:
    page = plain_page()
    (listed,) = [part.split("</ol>")[0] for part in page.split('<ol class="advice">')[1:]]
    assert "Use ddp in place of dp" in listed and 'href="#speedup"' in listed
    assert "<strong>Slow loader at batch" in listed and CAUSES["slow_loader"].change in listed
    assert "Use a batch of" not in listed, "what a larger batch saves stands with its cause"
    assert "First reason: slow loader." in page and 'id="table-causes"' in page
    assert page.count('<dl class="tiles"') == 1
    nothing = bare_page()
    assert "Nothing that was measured shows what to do otherwise." in nothing
    assert "Not seen by this study" not in nothing and 'id="table-causes"' not in nothing
    assert '<dl class="tiles"' not in nothing
