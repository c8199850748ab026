"""The search for recipes that is on record, and what its best recipes are worth."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from dpscale.plan.study import Study

BATCHES = (128, 2048)


def trials(root: Path, batch: int) -> list[dict[str, Any]]:
    lines = (root / "results/recorded-h200-4/recipe-search/search.jsonl").read_text().splitlines()
    return [trial for trial in map(json.loads, lines) if trial["global_batch"] == batch]


def accuracy(trial: Mapping[str, Any]) -> float:
    """Return the accuracy after the last epoch on images that were held out; 0 of a trial that diverged."""
    return 0.0 if trial["diverged"] else float(trial["validation_accuracy"][-1])


@pytest.mark.parametrize("batch", BATCHES)
def test_the_tuned_arms_are_the_best_trials_of_searches_that_were_alike(root: Path, batch: int) -> None:
    searched = trials(root, batch)
    assert len({json.dumps(trial["arm"], sort_keys=True) for trial in searched}) == len(trials(root, BATCHES[0]))
    assert {(trial["held_out"]["images"], trial["images"]) for trial in searched} == {(5_000, searched[0]["images"])}
    best = max(searched, key=accuracy)["arm"]
    for name in ("recorded-h200-4", "config"):
        study = Study.read(root / f"config/{name}.yaml")
        settings = study.arms[f"b{batch}-tuned"]
        assert {key: getattr(settings, key) for key in best} == best
        assert settings.global_batch == batch
        tuned = study["training"]["arms"][f"b{batch}-tuned"]["tuned"]
        assert tuned == {"trials": len(searched), "chosen_on": "validation"}
