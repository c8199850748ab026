"""Which settings of an arm make no sense together. Pure, and free of torch."""

from collections.abc import Iterator
from itertools import pairwise

from dpscale.schemas.settings import TrainingSettings
from dpscale.strategies.known import strategy

# The global batch that learning rates are given for, the baseline's: scaling multiplies by what is above it.
REFERENCE_BATCH = 128

# Keys that say how another one is meant: without that they would change nothing.
_DEPENDENT_KEYS = {
    "warmup_start": ("warmup_epochs", "only a warm-up has a starting point"),
    "step_epochs": ("schedule", "only the schedule step has them"),
    "step_factor": ("schedule", "only the schedule step has one"),
    "trust_coefficient": ("optimiser", "only lars has one"),
    "batch_growth_factor": ("batch_growth_epochs", "the batch never grows: batch_growth_epochs is empty"),
}


def arm_contradictions(arm: TrainingSettings) -> Iterator[tuple[str, str]]:
    """The keys that do not go with the others, each with what is wrong."""
    row = strategy(arm.strategy)
    if not row.allows(arm.gpus):
        yield "gpus", f"{arm.gpus} does not go with {arm.strategy}, which has {row.gpus_allowed}"
    if arm.validation_images and arm.global_batch > arm.training_images:
        yield (
            "validation_images",
            f"leaves {arm.training_images} images, no full step of {arm.global_batch}",
        )
    yield from _of_recipe(arm)
    if row.is_sharded:
        yield "strategy", f"{arm.strategy} has no arms: checkpoints and test accuracy need whole weights. Use ddp"
    if arm.sync_batch_norm and not row.has_process_per_gpu:
        yield "sync_batch_norm", f"{arm.strategy} has no process group to share statistics in: it needs ddp"
    yield from _idle_keys(arm)


def _of_recipe(arm: TrainingSettings) -> Iterator[tuple[str, str]]:
    if arm.warmup_epochs > arm.epochs:
        yield "warmup_epochs", f"{arm.warmup_epochs:g} is longer than the training, {arm.epochs} epochs"
    if arm.schedule == "one_cycle" and not 0 < arm.warmup_epochs < arm.epochs:
        yield "schedule", "one_cycle rises and falls: warmup_epochs must lie between 0 and epochs"
    if arm.schedule == "step" and not arm.step_epochs:
        yield "schedule", "step needs step_epochs"
    if any(not arm.warmup_epochs <= epoch < arm.epochs for epoch in arm.step_epochs):
        yield "step_epochs", "must lie after the warm-up and before the end of the training"
    if arm.optimiser == "lamb" and arm.momentum:
        yield "momentum", "lamb has none: its moments are Adam's"
    if arm.optimiser in ("lars", "lamb") and arm.fused_optimiser:
        yield "fused_optimiser", f"torch has no fused {arm.optimiser}"
    if arm.optimiser == "nesterov" and not arm.momentum:
        yield "momentum", "nesterov needs one above 0"
    if any(later <= earlier for earlier, later in pairwise(arm.batch_growth_epochs)):
        yield "batch_growth_epochs", "must be in ascending order"
    if any(epoch >= arm.epochs for epoch in arm.batch_growth_epochs):
        yield "batch_growth_epochs", f"must lie before the end of the training, {arm.epochs} epochs"
    if arm.batch_growth_epochs and arm.last_global_batch > arm.training_images:
        yield (
            "batch_growth_epochs",
            f"grows the global batch to {arm.last_global_batch}, past the dataset's {arm.training_images} images",
        )
    if arm.cuda_graph and not arm.fused_optimiser:
        yield "cuda_graph", "needs fused_optimiser: only there can the learning rate change within a graph"
    if arm.cuda_graph and arm.sync_batch_norm:
        yield "cuda_graph", "does not go with sync_batch_norm"
    for key in ("compile", "cuda_graph"):
        if arm.batch_growth_epochs and getattr(arm, key) != arm.default_of(key):
            yield key, "is for one batch: it does not go with batch_growth_epochs"


def _idle_keys(arm: TrainingSettings) -> Iterator[tuple[str, str]]:
    in_use = {
        "warmup_epochs": arm.warmup_epochs > 0,
        "schedule": arm.schedule == "step",
        "optimiser": arm.optimiser == "lars",
        "batch_growth_epochs": bool(arm.batch_growth_epochs),
    }
    for key, (needs, problem) in _DEPENDENT_KEYS.items():
        if not in_use[needs] and getattr(arm, key) != arm.default_of(key):
            yield key, problem
