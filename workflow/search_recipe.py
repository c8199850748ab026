"""Search for a recipe of large batches: which arms deserve a place in a study.

    python workflow/search_recipe.py --global-batch 2048 --minutes 10 --dataset results/default/dataset --out a.jsonl

Every trial trains an arm for five epochs with one seed, on one GPU and in bfloat16, because that is quick. The first
trials are drawn from SPACE; the later ones change a few keys of one of the best. Every trial is a line of --out, and a
search with the same --out continues from those lines. The best of many trials looks better than it is: the worth of an
arm is measured by a study that trains it with several seeds.
"""

import json
import math
import multiprocessing
import os
import random
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from dpscale.errors import StudyError
from dpscale.measure.data.arrays import read_manifest
from dpscale.measure.worker.hardware import visible_gpus
from dpscale.plan.study import Study

EPOCHS = 5
# Trials per optimiser that are drawn before the best ones are changed.
DRAWN = 8
# How many of the best trials are changed, and the probability that a key of theirs is.
BEST = 5
CHANGED = 0.25
# Standard deviation of the logarithm of a changed value.
NEARBY = 0.4

Arm = dict[str, Any]


@dataclass(frozen=True)
class Between:
    """A value drawn evenly on a logarithmic scale, with two digits."""

    low: float
    high: float

    def __call__(self, chance: random.Random) -> float:
        return _two_digits(math.exp(chance.uniform(math.log(self.low), math.log(self.high))))

    def near(self, value: float, chance: random.Random) -> float:
        """A value near another one. It may lie beyond the ends."""
        return _two_digits(value * math.exp(chance.gauss(0, NEARBY)))


@dataclass(frozen=True)
class OneOf:
    """One of some values. A value that is listed twice is drawn twice as often."""

    values: tuple[Any, ...]

    def __call__(self, chance: random.Random) -> Any:
        return chance.choice(self.values)

    def near(self, value: Any, chance: random.Random) -> Any:
        """Any of the values: no two of them are near each other."""
        return self(chance)


def _two_digits(value: float) -> float:
    return float(f"{value:.2g}")


COMMON: dict[str, Between | OneOf] = {
    "schedule": OneOf(("one_cycle", "cosine")),
    "warmup_epochs": OneOf((0.25, 0.5, 1, 1.5, 2)),
    "label_smoothing": OneOf((0, 0.1, 0.2)),
    "weight_decay": OneOf((0.0, 5e-4, 2e-3, 5e-3)),
    "weight_decay_on_norm_and_bias": OneOf((True, False)),
    "bias_rate_factor": OneOf((1, 4, 16, 64)),
    "zero_init_residual": OneOf((True, False)),
    "averaging_decay": OneOf((0, 0.8, 0.9)),
    "gradient_clipping": OneOf((0, 0, 1, 5)),
}
SPACE: dict[str, dict[str, Between | OneOf]] = {
    "nesterov": {**COMMON, "learning_rate": Between(0.1, 3), "momentum": OneOf((0.8, 0.85, 0.9, 0.95))},
    "lars": {
        **COMMON,
        "learning_rate": Between(0.05, 2),
        "trust_coefficient": Between(0.005, 0.2),
        "momentum": OneOf((0.8, 0.85, 0.9, 0.95)),
    },
    "lamb": {**COMMON, "learning_rate": Between(0.005, 0.1)},
}


def propose(trials: list[dict[str, Any]], chance: random.Random) -> Arm:
    """The next arm to try, which is none of the `trials` so far: drawn, or one of the best with a few changed keys."""
    tried = [trial["arm"] for trial in trials]
    while (arm := _next_arm(trials, chance)) in tried:
        pass
    return arm


def _next_arm(trials: list[dict[str, Any]], chance: random.Random) -> Arm:
    if len(trials) < DRAWN * len(SPACE):
        optimiser = list(SPACE)[len(trials) % len(SPACE)]
        return {"optimiser": optimiser, **{key: draw(chance) for key, draw in SPACE[optimiser].items()}}
    parent: Arm = chance.choice(sorted(trials, key=accuracy, reverse=True)[:BEST])["arm"]
    space = SPACE[parent["optimiser"]]
    changed = [key for key in space if chance.random() < CHANGED] or [chance.choice(list(space))]
    return {**parent, **{key: space[key].near(parent[key], chance) for key in changed}}


def accuracy(trial: dict[str, Any]) -> float:
    """Test accuracy after the last epoch; 0 for one that diverged."""
    return 0.0 if trial["diverged"] else float(trial["test_accuracy"][-1])


def read_trials(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []


def train(arm: Arm, global_batch: int, dataset: Path) -> dict[str, Any]:
    """Train `arm` with seed 1. Raises StudyError where its keys contradict each other."""
    from dpscale.measure.worker.training import TrainingWorker

    device = "cuda" if visible_gpus() else "cpu"
    manifest = read_manifest(dataset)
    whole = {"strategy": "single", "gpus": 1, "batch_per_gpu": global_batch, "epochs": EPOCHS, **arm}
    study = Study(
        {
            "study": "search",
            "device": device,
            "precision": "bfloat16",
            "memory_format": "channels_last",
            "dataset": {"source": manifest["source"], "images": manifest["images"]},
            "training": {"arms": {"candidate": whole}},
        }
    )
    with tempfile.TemporaryDirectory() as folder:
        job = {
            "configuration": ["single", 1, global_batch],
            "settings": study.arms["candidate"].to_json(),
            "arm": "candidate",
            "seed": 1,
            "dataset": str(dataset),
            "checkpoint": f"{folder}/checkpoint",
            "folder": folder,
            "timeout_s": math.inf,
        }
        worker = TrainingWorker(job, 0)
        worker.prepare()
        worker.measure()
    epochs = worker.epochs
    return {
        "arm": arm,
        "global_batch": global_batch,
        "diverged": worker.diverged,
        "training_accuracy": [epoch["training_accuracy"] for epoch in epochs],
        "test_accuracy": [epoch["test_accuracy"] for epoch in epochs],
    }


def search(number: int, gpu: str, global_batch: int, dataset: Path, until: float, out: Path) -> None:
    """Try arms one after the other until the time is over. Other processes do the same at the same time."""
    os.environ["CUDA_VISIBLE_DEVICES"] = gpu
    chance = random.Random(f"{number} of {global_batch} after {len(read_trials(out))}")
    while True:
        try:
            trial = train(propose(read_trials(out), chance), global_batch, dataset)
        except StudyError:  # keys that contradict each other: the next proposal
            continue
        with out.open("a") as lines:
            lines.write(json.dumps(trial) + "\n")
        print(f"{time.strftime('%H:%M:%S')} {accuracy(trial):.3f} {describe(trial)}", flush=True)
        if time.time() > until:
            return


def describe(trial: dict[str, Any]) -> str:
    return ", ".join(f"{key}: {json.dumps(value)}" for key, value in sorted(trial["arm"].items()))


@click.command(help=__doc__)
@click.option("--global-batch", type=int, required=True, help="Images per step.")
@click.option(
    "--dataset",
    type=click.Path(path_type=Path, exists=True),
    required=True,
    help="Folder that `dpscale dataset` wrote.",
)
@click.option(
    "--minutes", type=float, required=True, help="How long to search. Trials that run at that time are finished."
)
@click.option(
    "--processes", type=int, default=1, show_default=True, help="Trials at the same time, over all GPUs here."
)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="File of the trials, as lines of JSON.")
def main(global_batch: int, dataset: Path, minutes: float, processes: int, out: Path) -> None:
    gpus = os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(visible_gpus())))).split(",")
    until = time.time() + minutes * 60
    out.parent.mkdir(parents=True, exist_ok=True)
    context = multiprocessing.get_context("spawn")
    searches = [
        context.Process(target=search, args=(number, gpus[number % len(gpus)], global_batch, dataset, until, out))
        for number in range(processes)
    ]
    for process in searches:
        process.start()
    for process in searches:
        process.join()
    if any(process.exitcode for process in searches):
        sys.exit("a search has failed; see its traceback above")
    trials = sorted(read_trials(out), key=accuracy, reverse=True)
    print(f"\nThe best of {len(trials)} trials:")
    for trial in trials[:BEST]:
        print(f"{accuracy(trial):.3f} {describe(trial)}")


if __name__ == "__main__":
    main()
