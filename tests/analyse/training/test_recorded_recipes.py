"""The search for recipes that is on record, and what its best recipes are worth: docs/results.md has the numbers."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import scipy  # its tests of means load when they are first used

from dpscale.formulas.figure import Figure, multiplied
from dpscale.plan.study import Study
from dpscale.tables.training import TrainingSummaryRow
from json_records import read_json
from recorded import in_documents, recorded_tables

BATCHES = (128, 2048)
STUDIES = ("recorded-h200-4", "config")


@pytest.fixture(scope="module")
def summary(root: Path) -> Mapping[str, TrainingSummaryRow]:
    """By arm."""
    return {row.arm: row for row in recorded_tables(root, "recorded-h200-4").training_summary}


def percents(figure: Figure) -> Figure:
    return multiplied(figure, 100)


def trials(root: Path, batch: int) -> list[dict[str, Any]]:
    lines = (root / "results/recorded-h200-4/recipe-search/search.jsonl").read_text().splitlines()
    return [trial for trial in map(json.loads, lines) if trial["global_batch"] == batch]


def accuracy(trial: Mapping[str, Any]) -> float:
    """Return the accuracy after the last epoch on images that were held out; 0 of a trial that diverged."""
    return 0.0 if trial["diverged"] else float(trial["validation_accuracy"][-1])


@pytest.mark.parametrize("batch", BATCHES)
def test_the_search_of_either_batch_was_the_same(root: Path, batch: int) -> None:
    found = trials(root, batch)
    recipes = {json.dumps(trial["arm"], sort_keys=True) for trial in found}
    assert len(found) == len(recipes) == len(trials(root, BATCHES[0]))
    assert {(trial["held_out"]["images"], trial["images"]) for trial in found} == {(5_000, found[0]["images"])}


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("name", STUDIES)
def test_the_tuned_arms_are_the_best_trials(root: Path, name: str, batch: int) -> None:
    study = Study.read(root / f"config/{name}.yaml")
    arm, settings = f"b{batch}-tuned", study.arms[f"b{batch}-tuned"]
    best = max(trials(root, batch), key=accuracy)["arm"]
    assert {key: getattr(settings, key) for key in best} == best
    assert settings.global_batch == batch
    assert study["training"]["arms"][arm]["tuned"] == {"trials": len(trials(root, batch)), "chosen_on": "validation"}


def test_tuned_is_compared_with_tuned(root: Path, summary: Mapping[str, TrainingSummaryRow]) -> None:
    """By another implementation of Welch's interval, from the records themselves."""
    assert summary["b2048-tuned"].compared_with == "b128-tuned"
    difference = percents(summary["b2048-tuned"].test_accuracy_difference)
    last = {
        batch: [
            100 * read_json("training", path)["epochs"][-1]["test_accuracy"]
            for path in sorted((root / f"results/recorded-h200-4/training/b{batch}-tuned").glob("seed-*.json"))
        ]
        for batch in BATCHES
    }
    interval = scipy.stats.ttest_ind(last[2048], last[128], equal_var=False).confidence_interval()
    assert (difference.low, difference.high) == pytest.approx((interval.low, interval.high))
    assert difference.is_below(0)


def test_the_results_has_what_recipes_are_worth(root: Path, summary: Mapping[str, TrainingSummaryRow]) -> None:
    text = (root / "docs/results.md").read_text()
    rows = re.findall(r"^\| ([\d,]+) \| ([\d.]+ \[[^|]+\]) \| ([\d.]+ \[[^|]+\]) \|$", text, re.M)
    told = {int(batch.replace(",", "")): rest for batch, *rest in rows}
    for batch in BATCHES:
        arms = [summary[arm].test_accuracy for arm in (f"b{batch}", f"b{batch}-tuned")]
        assert told[batch] == [in_documents(percents(accuracy), 1) for accuracy in arms]
    row, said = summary["b2048-tuned"], " ".join(text.split())
    lower = row.test_accuracy_difference.map(lambda value: -100 * value)
    assert f"the larger batch ends {lower.value:.1f} points [{lower.low:.1f}, {lower.high:.1f}] lower" in said
    tuned, small, large = (summary[arm].test_accuracy.value for arm in ("b2048-tuned", "b128", "b2048"))
    assert tuned - large > small - large


def test_the_results_has_what_bfloat16_costs(root: Path) -> None:
    tables, text = recorded_tables(root, "recorded-bfloat16", "bfloat16"), (root / "docs/results.md").read_text()
    arms = {row.arm: row for row in tables.training_summary}
    for arm, what in {"bf16-sent": "gradients sent in bfloat16", "bf16-kept": "weights kept in bfloat16"}.items():
        told = in_documents(percents(arms[arm].test_accuracy_difference), 2)
        assert f"| {what} | {told} |" in text
        assert arms[arm].compared_with == "autocast"
        assert not arms[arm].test_accuracy_difference.is_below(0)
    ended = percents(arms["autocast"].test_accuracy)
    assert f"autocast ends at {ended.value:.1f} % [{ended.low:.1f}, {ended.high:.1f}]" in " ".join(text.split())
