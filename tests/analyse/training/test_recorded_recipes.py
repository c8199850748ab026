"""The search for recipes that is on record, and what its best recipes are worth: README.md has the numbers."""

import json
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from scipy.stats import ttest_ind

import search_recipe
from dpscale.plan.study import Study
from dpscale.records.files import read_record
from recorded import recorded_tables, with_interval

BATCHES = (128, 2048)
STUDIES = ("recorded-h200-4", "config")


@pytest.fixture(scope="module")
def summary(root: Path) -> pd.DataFrame:
    return recorded_tables(root, "recorded-h200-4")["training_summary"].set_index("arm")


def percents(summary: pd.DataFrame, arm: str) -> dict[str, float]:
    """Its accuracies in percent, their differences in points."""
    numbers = summary.select_dtypes("number").astype(float).to_dict("index")
    return {str(name): 100 * value for name, value in numbers[arm].items()}


def trials(root: Path, batch: int) -> list[dict[str, Any]]:
    return search_recipe.read_trials(root / "results/recorded-h200-4/recipe-search/search.jsonl", batch)


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
    best = max(trials(root, batch), key=search_recipe.accuracy)["arm"]
    assert {key: getattr(settings, key) for key in best} == best
    assert settings.global_batch == batch
    assert study["training"]["arms"][arm]["tuned"] == {"trials": len(trials(root, batch)), "chosen_on": "validation"}


def test_tuned_is_compared_with_tuned(root: Path, summary: pd.DataFrame) -> None:
    """By another implementation of Welch's interval, from the records themselves."""
    assert summary.loc["b2048-tuned", "compared_with"] == "b128-tuned"
    row = percents(summary, "b2048-tuned")
    last = {
        batch: [
            100 * read_record("training", path)["epochs"][-1]["test_accuracy"]
            for path in sorted((root / f"results/recorded-h200-4/training/b{batch}-tuned").glob("seed-*.json"))
        ]
        for batch in BATCHES
    }
    interval = ttest_ind(last[2048], last[128], equal_var=False).confidence_interval()
    low, high = row["test_accuracy_difference_low"], row["test_accuracy_difference_high"]
    assert (low, high) == pytest.approx((interval.low, interval.high))
    assert high < 0


def test_the_readme_has_what_recipes_are_worth(root: Path, summary: pd.DataFrame) -> None:
    text = (root / "README.md").read_text()
    rows = re.findall(r"^\| ([\d,]+) \| ([\d.]+ \[[^|]+\]) \| ([\d.]+ \[[^|]+\]) \|$", text, re.M)
    told = {int(batch.replace(",", "")): rest for batch, *rest in rows}
    for batch in BATCHES:
        arms = [percents(summary, arm) for arm in (f"b{batch}", f"b{batch}-tuned")]
        assert told[batch] == [with_interval(arm, "test_accuracy", 1) for arm in arms]
    row, said = percents(summary, "b2048-tuned"), " ".join(text.split())
    value, high, low = (-row[f"test_accuracy_difference{end}"] for end in ("", "_low", "_high"))
    assert f"the larger batch ends {value:.1f} points [{low:.1f}, {high:.1f}] lower" in said
    assert f"recovers {row['recovered']:.0f} % [{row['recovered_low']:.0f}, {row['recovered_high']:.0f}]" in said
    untuned = {arm: percents(summary, arm)["test_accuracy"] for arm in ("b128", "b2048")}
    assert row["test_accuracy"] - untuned["b2048"] > untuned["b128"] - untuned["b2048"]
