"""Search for recipes: which arms deserve a place in a study.

\b
    python workflow/search_recipe.py --dataset results/default/dataset --out trials.jsonl \\
        --global-batch 128 --global-batch 2048 --trials 32 --minutes 9 --processes 4

Every trial trains an arm for five epochs with one seed, on one GPU, in bfloat16 and channels-last, because that is
quick; on a CPU in float32, as bfloat16 is slow on most. It trains on nine tenths of the training images; its score is
the accuracy on the others after the last epoch. Test images take no part. Every global batch gets equally many trials,
in turns: a baseline that was searched less than what is compared with it is no fair one. The first trials are drawn
from SPACE; the later ones change a few keys of one of the best.

Every trial is a line of --out, and a search with the same --out continues from those lines. At the end the best arm of
every batch is printed as a study file has it, b128-tuned for global batch 128. The best of many trials looks better
than it is: the worth of an arm is measured by a study that trains it with several seeds.
"""

import json
import math
import multiprocessing
import os
import random
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.queues import Queue
from pathlib import Path
from typing import Any

import click
import yaml

from dpscale.errors import StudyError
from dpscale.measure.data.arrays import read_manifest
from dpscale.plan.study import Study

EPOCHS = 5
# One of so many training images is held out: 5,000 of CIFAR-10's.
HELD_OUT_SHARE = 10
SEED = 1
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
# The same for every batch. Rates suit global batches from 128 (the low ends) to 8,192 (the high ends).
SPACE: dict[str, dict[str, Between | OneOf]] = {
    "nesterov": {**COMMON, "learning_rate": Between(0.02, 3), "momentum": OneOf((0.8, 0.85, 0.9, 0.95))},
    "lars": {
        **COMMON,
        "learning_rate": Between(0.05, 2),
        "trust_coefficient": Between(0.005, 0.2),
        "momentum": OneOf((0.8, 0.85, 0.9, 0.95)),
    },
    "lamb": {**COMMON, "learning_rate": Between(0.001, 0.1)},
}


def propose(trials: list[dict[str, Any]], chance: random.Random) -> Arm:
    """The next arm to try of a global batch, which is none of its `trials` so far: drawn, or one of the best with a few
    changed keys."""
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
    """Accuracy after the last epoch on the images that were held out; 0 for one that diverged."""
    return 0.0 if trial["diverged"] else float(trial["validation_accuracy"][-1])


def read_trials(out: Path, global_batch: int | None = None) -> list[dict[str, Any]]:
    """The trials so far, all or those of a global batch. Raises StudyError where they were scored on test images."""
    trials = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    if any("validation_accuracy" not in trial for trial in trials):
        raise StudyError(f"{out}: holds trials that were scored on test images. Choose another file")
    return [trial for trial in trials if global_batch in (None, trial["global_batch"])]


def train(arm: Arm, global_batch: int, dataset: Path) -> dict[str, Any]:
    """Train `arm` and score it on what is held out. Raises StudyError where its keys contradict each other."""
    import torch

    from dpscale.measure.data.augmentation import DeviceImages
    from dpscale.measure.watch.hardware import visible_gpus
    from dpscale.measure.worker.checkpoint import Checkpoint
    from dpscale.measure.worker.training import Trained, TrainingWorker

    class TrialWorker(TrainingWorker):
        def read_images(self) -> dict[str, DeviceImages]:
            """All but the test images, which must not take part in a choice."""
            return {name: images for name, images in super().read_images().items() if name != "test"}

        def save(self, checkpoint: Checkpoint, trained: Trained) -> None:
            """Nothing is kept: an interrupted trial begins anew."""

    started = time.monotonic()
    manifest = read_manifest(dataset)
    whole = {
        **on_one_gpu(global_batch),
        "epochs": EPOCHS,
        "validation_images": manifest["images"] // HELD_OUT_SHARE,
        **arm,
    }
    on_gpu = visible_gpus() > 0
    study = Study(
        {
            "study": "search",
            "device": "cuda" if on_gpu else "cpu",
            "precision": "bfloat16" if on_gpu else "float32",
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
            "seed": SEED,
            "dataset": str(dataset),
            "checkpoint": f"{folder}/checkpoint",
            "folder": folder,
            "timeout_s": math.inf,
        }
        worker = TrialWorker(job, 0)
        worker.prepare()
        worker.measure()
    torch.cuda.empty_cache()  # other processes may need it for their trials
    return {
        "arm": arm,
        "global_batch": global_batch,
        "images": manifest["sha256"],
        "held_out": {"images": worker.settings.validation_images, "checksum": worker.validation_checksum},
        "diverged": worker.diverged,
        "training_accuracy": [epoch["training_accuracy"] for epoch in worker.epochs],
        "validation_accuracy": [epoch["validation_accuracy"] for epoch in worker.epochs],
        "trial_s": round(time.monotonic() - started, 2),
    }


def on_one_gpu(global_batch: int) -> Arm:
    """Where trials train."""
    return {"strategy": "single", "gpus": 1, "batch_per_gpu": global_batch}


def take_gpu(gpus: "Queue[str]") -> None:
    """Let this process use the next of the GPUs. Done before torch is loaded."""
    os.environ["CUDA_VISIBLE_DEVICES"] = gpus.get()


def allowed_gpus() -> list[str]:
    """The GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them; one empty name where there is none."""
    if "CUDA_VISIBLE_DEVICES" in os.environ:
        return os.environ["CUDA_VISIBLE_DEVICES"].split(",")
    from dpscale.measure.watch.hardware import visible_gpus

    return ",".join(map(str, range(visible_gpus()))).split(",")


def try_next(place: tuple[int, int], dataset: Path, out: Path, until: float) -> None:
    """Run one more trial, the n-th of a global batch, given those that stand in `out`, and write it there.

    Nothing once the time is over.
    """
    global_batch, number = place
    chance = random.Random(f"trial {number} of {global_batch}")  # trials that run at the same time draw differently
    while time.time() <= until:
        try:
            trial = train(propose(read_trials(out, global_batch), chance), global_batch, dataset)
        except StudyError:  # keys that contradict each other: the next proposal
            continue
        with out.open("a") as lines:  # by this process, so that its next trial knows of it
            lines.write(json.dumps(trial) + "\n")
        print(f"{time.strftime('%H:%M:%S')} {scored(trial)} {describe(trial)}", flush=True)
        return


def to_do(global_batches: Sequence[int], wanted: int, out: Path) -> list[tuple[int, int]]:
    """The missing trials, as batch and number, in turns: at any time all batches have nearly equally many."""
    standing = {batch: len(read_trials(out, batch)) for batch in global_batches}
    return [(batch, number) for number in range(wanted) for batch in global_batches if number >= standing[batch]]


def search(
    missing: Sequence[tuple[int, int]], dataset: Path, out: Path, until: float, gpus: Sequence[str], processes: int
) -> None:
    """Run the `missing` trials until the time is over, several at a time."""
    if not missing or time.time() > until:
        return
    context = multiprocessing.get_context("spawn")
    places: Queue[str] = context.Queue()
    for number in range(processes):
        places.put(gpus[number % len(gpus)])
    with context.Pool(processes, initializer=take_gpu, initargs=(places,)) as pool:
        pool.map(partial(try_next, dataset=dataset, out=out, until=until), missing, chunksize=1)
        pool.close()  # each process ends by itself: one that passes over SIGTERM would be waited for without end
        pool.join()


def scored(trial: dict[str, Any]) -> str:
    return f"{trial['global_batch']:>6} {accuracy(trial):.4f} in {trial['trial_s']:.1f} s:"


def describe(trial: dict[str, Any]) -> str:
    return ", ".join(f"{key}: {json.dumps(value)}" for key, value in sorted(trial["arm"].items()))


def as_arm(trials: list[dict[str, Any]]) -> str:
    """The best of a global batch's trials as an arm of a study file, with how it was found."""
    best = max(trials, key=accuracy)
    batch = best["global_batch"]
    tuned = {"trials": len(trials), "chosen_on": "validation"}
    return yaml.safe_dump({f"b{batch}-tuned": {**on_one_gpu(batch), **best["arm"], "tuned": tuned}}, sort_keys=False)


@click.command(help=__doc__)
@click.option(
    "--global-batch",
    "global_batches",
    type=click.IntRange(min=1),
    multiple=True,
    required=True,
    help="Images per step. Give it once for every batch that will be compared, the baseline's among them.",
)
@click.option(
    "--dataset",
    type=click.Path(path_type=Path, exists=True),
    required=True,
    help="Folder that `dpscale dataset` wrote.",
)
@click.option("--trials", type=click.IntRange(min=1), required=True, help="Trials of every global batch, old ones too.")
@click.option(
    "--minutes", type=float, required=True, help="When to start no more trials. Those that run then are finished."
)
@click.option(
    "--processes", type=int, default=1, show_default=True, help="Trials at the same time, over all GPUs here."
)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="File of the trials, as lines of JSON.")
def main(
    global_batches: tuple[int, ...], dataset: Path, trials: int, minutes: float, processes: int, out: Path
) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    until = time.time() + minutes * 60
    try:
        search(to_do(global_batches, trials, out), dataset, out, until, allowed_gpus(), processes)
    except StudyError as error:
        raise click.ClickException(str(error)) from error
    for batch in global_batches:
        found = read_trials(out, batch)
        print(
            f"\nGlobal batch {batch:,}: {len(found)} of {trials} trials, "
            f"{sum(trial['trial_s'] for trial in found):.0f} s."
        )
        for trial in sorted(found, key=accuracy, reverse=True)[:BEST]:
            print(f"{scored(trial)} {describe(trial)}")
        if found:
            print(as_arm(found))
    if to_do(global_batches, trials, out):
        print("The time is over: the same command goes on. Compare arms only after equally many trials.")


if __name__ == "__main__":
    main()
