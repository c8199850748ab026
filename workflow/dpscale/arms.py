"""The arms of a study's training: what each trains with, and which combinations make no sense. Pure, without torch."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from dpscale.schema import load_schema

# The global batch that learning rates are given for, METHOD's baseline: scaling multiplies by what is above it.
REFERENCE_BATCH = 128

# Keys that say how another one is meant: without that they would change nothing.
_DEPENDENT_KEYS = {
    "warmup_start": ("warmup_epochs", "only a warm-up has a starting point"),
    "step_epochs": ("schedule", "only the schedule step has them"),
    "step_factor": ("schedule", "only the schedule step has one"),
    "trust_coefficient": ("optimiser", "only lars has one"),
    "batch_growth_factor": ("batch_growth_epochs", "the batch never grows: batch_growth_epochs is empty"),
}


@dataclass(frozen=True)
class Arm:
    """The keys of one arm. Learning rate, momentum and weight decay, which a study has for all, are not among them."""

    strategy: str
    gpus: int
    batch_per_gpu: int
    epochs: int
    optimiser: str
    learning_rate_scaling: str
    warmup_epochs: float
    warmup_start: float
    schedule: str
    step_epochs: tuple[float, ...]
    step_factor: float
    trust_coefficient: float
    label_smoothing: float
    batch_growth_epochs: tuple[int, ...]
    batch_growth_factor: int
    weight_decay_on_norm_and_bias: bool
    bias_rate_factor: float
    zero_init_residual: bool
    averaging_decay: float
    sync_batch_norm: bool
    gradient_clipping: float
    set_epoch: bool

    @property
    def global_batch(self) -> int:
        """Images per step in the first epoch, over all GPUs."""
        return self.gpus * self.batch_per_gpu

    @property
    def last_global_batch(self) -> int:
        """Images per step in the last epoch, over all GPUs."""
        return self.global_batch * int(self.batch_growth_factor ** len(self.batch_growth_epochs))

    def contradictions(self, epoch_images: int, momentum: float) -> Iterator[tuple[str, str]]:
        """The keys that do not go with the others, each with what is wrong, for an epoch of `epoch_images` images."""
        if (self.strategy == "single") != (self.gpus == 1):
            yield "gpus", f"{self.gpus} does not go with {self.strategy}: single has 1, dp and ddp more"
        yield from self._schedule_contradictions()
        yield from self._optimiser_contradictions(momentum)
        yield from self._growth_contradictions(epoch_images)
        if self.sync_batch_norm and self.strategy != "ddp":
            yield "sync_batch_norm", f"{self.strategy} has no process group to share statistics in: it needs ddp"
        yield from self._idle_keys()

    def _schedule_contradictions(self) -> Iterator[tuple[str, str]]:
        if self.warmup_epochs > self.epochs:
            yield "warmup_epochs", f"{self.warmup_epochs:g} is longer than the training, {self.epochs} epochs"
        if self.schedule == "one_cycle" and not 0 < self.warmup_epochs < self.epochs:
            yield "schedule", "one_cycle rises and falls: warmup_epochs must lie between 0 and epochs"
        if self.schedule == "step" and not self.step_epochs:
            yield "schedule", "step needs step_epochs"
        if any(not self.warmup_epochs <= epoch < self.epochs for epoch in self.step_epochs):
            yield "step_epochs", "must lie after the warm-up and before the end of the training"

    def _optimiser_contradictions(self, momentum: float) -> Iterator[tuple[str, str]]:
        if self.optimiser == "lamb" and momentum:
            yield "momentum", "lamb has none: its moments are Adam's"
        if self.optimiser == "nesterov" and not momentum:
            yield "momentum", "nesterov needs one above 0"

    def _growth_contradictions(self, epoch_images: int) -> Iterator[tuple[str, str]]:
        if any(later <= earlier for earlier, later in pairwise(self.batch_growth_epochs)):
            yield "batch_growth_epochs", "must be in ascending order"
        if any(epoch >= self.epochs for epoch in self.batch_growth_epochs):
            yield "batch_growth_epochs", f"must lie before the end of the training, {self.epochs} epochs"
        if self.batch_growth_epochs and self.last_global_batch > epoch_images:
            yield (
                "batch_growth_epochs",
                f"grows the global batch to {self.last_global_batch}, past the dataset's {epoch_images} images",
            )

    def _idle_keys(self) -> Iterator[tuple[str, str]]:
        in_use = {
            "warmup_epochs": self.warmup_epochs > 0,
            "schedule": self.schedule == "step",
            "optimiser": self.optimiser == "lars",
            "batch_growth_epochs": bool(self.batch_growth_epochs),
        }
        known = arm_schema()["properties"]
        for key, (needs, problem) in _DEPENDENT_KEYS.items():
            default = known[key]["default"]
            value = getattr(self, key)
            if not in_use[needs] and value != (tuple(default) if isinstance(default, list) else default):
                yield key, problem


def arm_schema() -> dict[str, dict[str, dict[str, object]]]:
    """What the study's schema says of an arm."""
    schema: dict[str, dict[str, dict[str, object]]] = load_schema("study")["properties"]["training"]["properties"][
        "arms"
    ]["additionalProperties"]
    return schema
