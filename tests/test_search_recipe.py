"""The search for a recipe: what it proposes, and a search that is run and gone on with."""

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import search_recipe
from command_line import must
from dpscale.errors import StudyError
from dpscale.plan.study import Study
from search_recipe import BEST, DRAWN, SPACE, OneOf, propose, read_trials


def trial(arm: dict[str, Any], test_accuracy: float | None) -> dict[str, Any]:
    return {"arm": arm, "diverged": test_accuracy is None, "test_accuracy": [test_accuracy]}


def is_valid(arm: dict[str, Any]) -> bool:
    whole = {"strategy": "single", "gpus": 1, "batch_per_gpu": 2048, **arm}
    try:
        Study({"study": "search", "training": {"arms": {"candidate": whole}}})
    except StudyError as error:
        assert "LAMB" not in str(error)
        return False
    return True


@given(st.integers(0, 10_000), st.integers(0, 100))
def test_proposals_are_new_and_of_the_space(seed: int, number: int) -> None:
    """First drawn in turns of the optimisers, then near one of the best, whatever diverged."""
    chance = random.Random(seed)
    trials: list[dict[str, Any]] = []
    for _ in range(number):
        arm = propose(trials, chance)
        assert arm not in [one["arm"] for one in trials]
        space = SPACE[arm["optimiser"]]
        assert set(arm) == {"optimiser", *space}
        assert all(arm[key] in draw.values for key, draw in space.items() if isinstance(draw, OneOf))
        trials.append(trial(arm, chance.choice([None, chance.random()])))
    drawn = [one["arm"]["optimiser"] for one in trials[: DRAWN * len(SPACE)]]
    assert drawn == (list(SPACE) * DRAWN)[: len(drawn)]


def test_later_proposals_change_one_of_the_best() -> None:
    chance = random.Random(1)
    trials: list[dict[str, Any]] = []
    for place in range(DRAWN * len(SPACE)):
        trials.append(trial(propose(trials, chance), place / 100))
    best = [one["arm"] for one in trials[-BEST:]]
    for _ in range(100):
        arm = propose(trials, chance)
        same = max(sum(arm[key] == parent.get(key) for key in arm) for parent in best)
        assert len(arm) / 3 < same < len(arm)


def test_most_proposals_are_arms_that_a_study_takes() -> None:
    chance = random.Random(1)
    trials: list[dict[str, Any]] = []
    for _ in range(60):
        trials.append(trial(propose(trials, chance), 0.5))
    assert sum(is_valid(one["arm"]) for one in trials) > 40


@pytest.mark.processes
def test_a_search_goes_on_from_what_stands(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From nothing with a real training, in processes of its own; then again, where trials stand already."""
    dataset, out = tmp_path / "dataset", tmp_path / "found/trials.jsonl"
    must("dataset", "--source", "synthetic", "--images", 32, "--out", dataset)
    options = ["--global-batch", "16", "--dataset", str(dataset), "--minutes", "0.001", "--out", str(out)]
    search: list[str | Path] = [sys.executable, str(root / "workflow/search_recipe.py"), *options]
    done = subprocess.run(search, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    first = read_trials(out)
    assert first
    assert f"The best of {len(first)} trials:" in done.stdout
    assert all(one["diverged"] or len(one["test_accuracy"]) == 5 for one in first)

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setattr(search_recipe, "train", lambda arm, *_: trial(arm, 0.5))
    search_recipe.search(0, "", 16, dataset, until=0, out=out)
    *before, new = read_trials(out)
    assert before == first
    assert new["arm"] not in [one["arm"] for one in first]
