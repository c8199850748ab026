"""Settings that make no sense together: of any measurement, and of an arm of the training. Pure, and free of torch."""

from collections.abc import Iterator

from dpscale.schemas.settings import (
    BUILT_IN,
    OF_FILE,
    NetworkSettings,
    StepSettings,
    TimingSettings,
    TrainingSettings,
)
from dpscale.strategies.known import strategy

# The global batch that learning rates are given for, the baseline's: scaling multiplies by what is above it.
REFERENCE_BATCH = 128

# A setting, and what is wrong with it.
Contradiction = tuple[str, str]


def contradiction(settings: NetworkSettings) -> Contradiction | None:
    """Return a setting that keeps these settings from being measured, and what is wrong with it; None without one."""
    return next(_contradictions(settings), None)


def _contradictions(settings: NetworkSettings) -> Iterator[Contradiction]:
    yield from _of_workload(settings)
    if isinstance(settings, StepSettings) and settings.device == "cpu" and settings.cuda_graph:
        yield "cuda_graph", "a CUDA graph needs CUDA GPUs"
    if isinstance(settings, TimingSettings):
        yield from _of_timing(settings)
    if isinstance(settings, TrainingSettings):
        yield from _of_place(settings)
        yield from _of_recipe(settings)
        yield from _of_step(settings)


def _of_workload(settings: NetworkSettings) -> Iterator[Contradiction]:
    is_file = settings.workload != BUILT_IN
    sources = {"network": settings.network}
    if isinstance(settings, StepSettings):
        sources["dataset_source"] = settings.dataset_source
    for name, source in sources.items():
        if is_file and source != OF_FILE:
            yield name, f"{settings.workload} has its own: leave this key out"
        if source == OF_FILE and not is_file:
            yield name, f"{OF_FILE} is that of a file: name the file under workload"
    if is_file and not settings.is_default("width"):
        yield "width", f"{settings.workload} has its own network: leave this key out"
    if is_file and isinstance(settings, TimingSettings) and settings.images_on == "device":
        yield "images_on", "samples of a workload's file lie on the host: only the file knows how they are made"
    if is_file and isinstance(settings, TrainingSettings):
        yield "workload", "arms train the built-in classification of images: a file says nothing of test accuracy"


def _of_timing(settings: TimingSettings) -> Iterator[Contradiction]:
    if settings.device == "cpu" and settings.images_on == "device":
        yield "images_on", "on a CPU there is no memory but the host's"
    if settings.ddp_reducer == "copies":
        if settings.device == "cpu":
            yield "ddp_reducer", "a CPU has no engines that copy between GPUs"
        if settings.ddp_broadcast_buffers:
            yield "ddp_reducer", "copies sends no buffers: set ddp.broadcast_buffers to false too"
        if settings.ddp_gradient_dtype != "float32":
            yield "ddp_reducer", "copies sends gradients as they are: leave ddp.gradient_dtype out"


def _of_place(arm: TrainingSettings) -> Iterator[Contradiction]:
    row = strategy(arm.strategy)
    if not row.allows(arm.gpus):
        yield "gpus", f"{arm.gpus} does not go with {arm.strategy}, which has {row.gpus_allowed}"
    if row.is_sharded:
        yield "strategy", f"{arm.strategy} has no arms: checkpoints and test accuracy need whole weights. Use ddp"
    if arm.sync_batch_norm and not row.has_process_per_gpu:
        yield "sync_batch_norm", f"{arm.strategy} has no process group to share statistics in: it needs ddp"
    if arm.validation_images and arm.global_batch > arm.training_images:
        yield "validation_images", f"leaves {arm.training_images} images, no full step of {arm.global_batch}"


def _of_recipe(arm: TrainingSettings) -> Iterator[Contradiction]:
    if arm.schedule == "one_cycle" and not 0 < arm.warmup_epochs < arm.epochs:
        yield "schedule", "one_cycle rises and falls: warmup_epochs must lie between 0 and epochs"
    if arm.schedule == "step" and not arm.step_epochs:
        yield "schedule", "step needs step_epochs"
    if arm.optimiser in ("lars", "lamb") and arm.fused_optimiser:
        yield "fused_optimiser", f"torch has no fused {arm.optimiser}"
    if arm.batch_growth_epochs and arm.last_global_batch > arm.training_images:
        grown = f"grows the global batch to {arm.last_global_batch}"
        yield "batch_growth_epochs", f"{grown}, past the dataset's {arm.training_images} images"


def _of_step(arm: TrainingSettings) -> Iterator[Contradiction]:
    if arm.cuda_graph and not arm.fused_optimiser:
        yield "cuda_graph", "needs fused_optimiser: only there can the learning rate change within a graph"
    if arm.cuda_graph and arm.sync_batch_norm:
        yield "cuda_graph", "does not go with sync_batch_norm"
    for key in ("compile", "cuda_graph"):
        if arm.batch_growth_epochs and not arm.is_default(key):
            yield key, "is for one batch: it does not go with batch_growth_epochs"
