"""Every setting that can change a number, stated once.

A field of one of these classes is a setting: its type, default, help and limits, and its place in the study file. From
that follow the study's schema, the options of the command line, the `settings` of a record, what `dpscale compare`
refuses, and which cells are measured again: those whose class has the field. A record that does not name a setting was
measured before the setting existed, and has its default.
"""

import shlex
from collections.abc import Mapping
from dataclasses import MISSING, Field, asdict, dataclass, field, fields
from functools import cache, reduce
from operator import getitem
from pathlib import Path
from typing import Any, Self, get_args, get_origin, get_type_hints

from dpscale.strategies.known import STRATEGIES

# Where the settings of an arm stand in the study file, below `training.arms.<arm>`, and those of a variant.
ARM = ("training", "arms", "<arm>")
VARIANT = ("variants", "<variant>")

# The workload where no file of a user is named; and the name of a network and of samples that come from such a file.
BUILT_IN = "built-in"
OF_FILE = "workload"
NO_CHECKSUM = "none"
# Settings that are gone, with the one value that records name: what was measured with another is of no use.
GONE: Mapping[str, object] = {
    "batch_growth_epochs": [],
    "batch_growth_factor": 2,
    "step_epochs": [],
    "step_factor": 0.1,
    "warmup_start": 0,
    "validation_images": 0,
}

# A JSON Schema, or a node of one.
JsonSchema = dict[str, Any]
JsonValues = Mapping[str, Any]  # values of a file that people write, or of a record, as YAML or JSON holds them

_JSON_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string"}


def setting(
    path: str,
    help: str,
    default: Any = MISSING,
    *,
    arm_may_set: bool = False,
    variant_may_set: bool = False,
    **limits: Any,
) -> Any:
    """A setting at the dotted `path` of the study file; `limits` are further keys of its JSON Schema.

    An arm of the training `arm_may_set` its own value in place of the study's, and so may a variant.
    """
    place = {
        "path": tuple(path.split(".")),
        "help": help,
        "limits": limits,
        "arm_may_set": arm_may_set,
        "variant_may_set": variant_may_set,
    }
    return field(default=default, metadata=place)


def step_setting(path: str, help: str, default: Any, **limits: Any) -> Any:
    """A setting of a step, of which every arm and every variant may set its own value."""
    return setting(path, help, default, arm_may_set=True, variant_may_set=True, **limits)


def arm_setting(help: str, default: Any = MISSING, **limits: Any) -> Any:
    """A setting that every arm of the training has for itself; its name is its key."""
    return setting(".".join(ARM), help, default, **limits)


def sample_of(workload: str) -> str:
    """Return the word for an item of a workload's dataset: an image of the built-in one, a sample of a file's."""
    return "image" if workload == BUILT_IN else "sample"


def from_home(path: str) -> str:
    """Return a path with `~` for the user's home folder, whose name is in no record."""
    home = str(Path.home())
    return f"~{path.removeprefix(home)}" if path.startswith(f"{home}/") else path


@dataclass(frozen=True, kw_only=True)
class NetworkSettings:
    """Settings of the network's own facts. Every further kind of measurement depends on more of the study."""

    network: str = setting(
        "network.name",
        "cifar_resnet18 is the ResNet-18 for 32x32 images, and cifar_resnet50 torchvision's ResNet-50 with the same "
        "first layers; workload is that of a workload's file, and is what a study with one has.",
        "cifar_resnet18",
        variant_may_set=True,
        enum=["cifar_resnet18", "cifar_resnet50", OF_FILE],
    )
    width: int = setting(
        "network.width", "Channels of the first stage of cifar_resnet18.", 64, variant_may_set=True, minimum=1
    )
    workload: str = setting(
        "workload",
        "What is trained: built-in classifies images with the network of network.name; otherwise a Python file with "
        "the functions network, dataset and loss. The file is run with your rights.",
        BUILT_IN,
        pattern=rf"^({BUILT_IN}|.+\.py)$",
    )
    workload_sha256: str = setting(
        "workload_sha256",
        "SHA-256 that the workload's file must have; none takes the file as it is. A study fills it in.",
        NO_CHECKSUM,
        pattern=f"^({NO_CHECKSUM}|[0-9a-f]{{64}})$",
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "workload", from_home(self.workload))

    @classmethod
    def of(cls, study: JsonValues) -> Self:
        """Return the settings in a complete (validated, defaults filled in) study mapping."""
        return cls.from_json({name: reduce(getitem, cls.path_of(name), study) for name in cls.names()})

    @classmethod
    def from_json(cls, values: JsonValues) -> Self:
        """Return the settings in a record; one that it does not name has its default. Lists become tuples."""
        named = {name: values[name] for name in cls.names() if name in values}
        lists = {name: tuple(value) for name, value in named.items() if isinstance(value, list)}
        return cls(**(named | lists))

    @classmethod
    @cache
    def names(cls) -> tuple[str, ...]:
        return tuple(item.name for item in fields(cls))

    @classmethod
    @cache
    def types(cls) -> Mapping[str, type]:
        """The type of every setting. Python works them out anew each time that it is asked."""
        return get_type_hints(cls)

    @classmethod
    def path_of(cls, name: str) -> tuple[str, ...]:
        """Return the place of the setting `name` in the study file."""
        path: tuple[str, ...] = _field(cls, name).metadata["path"]
        return (*path, name) if path == ARM else path

    @classmethod
    def schema_of(cls, name: str) -> JsonSchema:
        """Return the JSON Schema of the setting `name`."""
        stated, annotation = _field(cls, name), cls.types()[name]
        limits = dict(stated.metadata["limits"])
        schema: JsonSchema = {"type": _JSON_TYPES.get(annotation, "array")}
        if get_origin(annotation) is tuple:
            items = {"type": _JSON_TYPES[get_args(annotation)[0]], **limits.pop("items", {})}
            schema |= {"uniqueItems": True, "items": items}
        if stated.default is not MISSING:
            schema["default"] = list(stated.default) if isinstance(stated.default, tuple) else stated.default
        return {**schema, **limits, "description": stated.metadata["help"]}

    def is_default(self, name: str) -> bool:
        """Return whether the setting `name` has its default."""
        return bool(getattr(self, name) == _field(type(self), name).default)

    def to_json(self) -> dict[str, object]:
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    def same_network(self, recorded: "NetworkSettings") -> bool:
        """Return whether the settings of a record are of this network."""
        return all(getattr(self, name) == getattr(recorded, name) for name in NetworkSettings.names())

    def options(self) -> str:
        """Return the settings as options of the commands of `dpscale`."""
        words = []
        for name in self.names():
            value = getattr(self, name)
            for item in value if isinstance(value, tuple) else [value]:
                words += [f"--{name.replace('_', '-')}", shlex.quote(str(item))]
        return " ".join(words)


@dataclass(frozen=True, kw_only=True)
class CollectivesSettings(NetworkSettings):
    """Settings of collectives, whose messages are as large as the network makes them."""

    device: str = setting(
        "device",
        "Where workers compute. On cpu a worker is one process with one thread, and dp does not exist.",
        "cuda",
        enum=["cuda", "cpu"],
    )


@dataclass(frozen=True, kw_only=True)
class StepSettings(CollectivesSettings):
    """Settings of a training step, beside strategy, GPUs and batch."""

    precision: str = step_setting(
        "precision",
        "float32 leaves TF32 convolutions as torch has them by default; float32-strict turns TF32 off; bfloat16 is "
        "autocast; bfloat16-pure keeps weights, batch-norm statistics, gradients and momentum in bfloat16 too; float16 "
        "is autocast with torch's GradScaler, for GPUs without bfloat16 (V100, T4, RTX 8000).",
        "float32",
        enum=["float32", "float32-strict", "bfloat16", "bfloat16-pure", "float16"],
    )
    checkpoint_activations: str = step_setting(
        "checkpoint_activations",
        "Which parts keep their input alone for the backward pass, and compute forward once more there: none, or "
        "blocks, every stage of a ResNet and every block of a transformer. Less memory for more time.",
        "none",
        enum=["none", "blocks"],
    )
    memory_format: str = step_setting(
        "memory_format",
        "Layout of images and weights.",
        "contiguous",
        enum=["contiguous", "channels_last"],
    )
    compile: str = step_setting(
        "compile",
        "torch.compile of the network. by-unit compiles every stage or block by itself, so that its gradients are "
        "there before those of the next.",
        "none",
        enum=["none", "default", "by-unit"],
    )
    cuda_graph: bool = step_setting(
        "cuda_graph",
        "Is a whole step (forward, backward, allreduce, update) captured once in a CUDA graph and replayed. A smaller "
        "last step of an epoch runs without it. An arm of the training needs fused_optimiser for it.",
        False,
    )
    cudnn_benchmark: bool = step_setting(
        "cudnn_benchmark",
        "Does cuDNN choose the algorithms of convolutions by trying them out: in the first steps, dp in every step.",
        False,
    )
    learning_rate: float = setting(
        "optimiser.learning_rate", "Learning rate.", 0.1, arm_may_set=True, exclusiveMinimum=0
    )
    momentum: float = setting("optimiser.momentum", "Momentum.", 0.9, arm_may_set=True, minimum=0, exclusiveMaximum=1)
    weight_decay: float = setting("optimiser.weight_decay", "Weight decay.", 0.0005, arm_may_set=True, minimum=0)
    fused_optimiser: bool = step_setting(
        "optimiser.fused",
        "Does one kernel update all weights: torch's fused SGD.",
        False,
    )
    ddp_bucket_mb: float = step_setting(
        "ddp.bucket_mb",
        "MiB of gradients that ddp reduces at once. 0 is torch's own layout: 1 MiB first, then 25. With 25 the first "
        "bucket has 25 too.",
        0,
        minimum=0,
    )
    ddp_gradient_as_bucket_view: bool = step_setting(
        "ddp.gradient_as_bucket_view",
        "Do ddp's gradients lie in its buckets, uncopied.",
        False,
    )
    ddp_broadcast_buffers: bool = step_setting(
        "ddp.broadcast_buffers",
        "Does ddp send rank 0's batch-norm statistics to all before every forward pass.",
        True,
    )
    dataset_source: str = setting(
        "dataset.source",
        "cifar10 is torchvision's; imagefolder has train/<class>/ and test/<class>/; synthetic is noise of the same "
        "shape; workload is the dataset of a workload's file, and is what a study with one has.",
        "cifar10",
        enum=["cifar10", "imagefolder", "synthetic", OF_FILE],
    )
    epoch_images: int = setting(
        "dataset.images", "Training images (samples of a workload's file) in an epoch (D).", 50000, minimum=1
    )


@dataclass(frozen=True, kw_only=True)
class WholeStepSettings(StepSettings):
    """Settings of a step that is not taken apart."""

    ddp_gradient_dtype: str = step_setting(
        "ddp.gradient_dtype",
        "What ddp's allreduce adds up. bfloat16 halves the bytes, by torch's hook bf16_compress_hook.",
        "float32",
        enum=["float32", "bfloat16"],
    )
    accumulate: int = step_setting(
        "accumulate",
        "Micro-batches that a GPU's batch is cut into: a forward and a backward pass each, and one update. Gradients "
        "are exchanged in the last one alone; but dp does all its copies, and fsdp gathers its weights, for each.",
        1,
        minimum=1,
    )
    fsdp_reshard_after_forward: bool = step_setting(
        "fsdp.reshard_after_forward",
        "Does fsdp give back the weights that it has gathered, and gather them again for the backward pass "
        "(FULL_SHARD); or keep them until then (SHARD_GRAD_OP).",
        True,
    )
    fsdp_replicas: int = step_setting(
        "fsdp.replicas",
        "How often fsdp's weights exist. With 2, half of the GPUs share them, and so does the other half "
        "(HYBRID_SHARD); gradients are then added up between the halves too.",
        1,
        minimum=1,
    )


@dataclass(frozen=True, kw_only=True)
class TimingSettings(WholeStepSettings):
    """Settings of a timing cell, beside its coordinates."""

    ddp_reducer: str = setting(
        "ddp.reducer",
        "Who averages ddp's gradients: torch, by its reducer; or, on the GPUs of one server, copies from GPU to GPU, "
        "which leave multiprocessors to the training. With copies every weight needs a gradient. They are for "
        "cuda_graph: without a graph their many calls took longer than the reducer (docs/results.md).",
        "torch",
        enum=["torch", "copies"],
        variant_may_set=True,
    )
    scopes: tuple[str, ...] = setting(
        "scopes",
        "What the clock contains. compute is copy, forward, backward and update, with the epoch's batches already in "
        "(pinned) host memory; end_to_end adds the DataLoader.",
        ("compute", "end_to_end"),
        variant_may_set=True,
        minItems=1,
        items={"enum": ["compute", "end_to_end"]},
    )
    warmup_epochs: int = setting(
        "epochs.warmup", "Epochs of every scope that run before its first timed one, never reported.", 1, minimum=1
    )
    timed_epochs: int = setting(
        "epochs.timed",
        "Timed epochs per scope, always as many. Runs differ by more than the epochs of a run: more runs say more.",
        2,
        minimum=1,
    )
    baseline: str = setting(
        "baseline",
        "Where the one-GPU time of a speedup comes from. in_job: every dp and ddp cell also times the plain module on "
        "its first GPU, before and after. own_cells: from cells of single on its server alone, which costs less "
        "and compares hours and servers.",
        "in_job",
        enum=["in_job", "own_cells"],
    )
    loader_workers: int = setting(
        "dataset.loader_workers",
        "DataLoader processes of every training process.",
        2,
        minimum=0,
        variant_may_set=True,
    )
    batch_memory_gb: float = setting(
        "dataset.batch_memory_gb",
        "GB (10^9 bytes) of host memory, of every training process, for the batches of a workload's file in compute. "
        "Where an epoch needs more, as many different batches as fit are used in turn.",
        2,
        exclusiveMinimum=0,
    )
    images_on: str = setting(
        "images_on",
        "Where the images lie before a step. host: in pinned memory, copied inside the clock. device: in GPU memory; "
        "end_to_end then augments them there, without a DataLoader.",
        "host",
        enum=["host", "device"],
        variant_may_set=True,
    )


@dataclass(frozen=True, kw_only=True)
class TrainingSettings(WholeStepSettings):
    """Settings of an arm of the training, beside its seed: a step's and the arm's own."""

    strategy: str = arm_setting("How it trains.", enum=list(STRATEGIES))
    gpus: int = arm_setting("GPUs (on cpu: worker processes).", minimum=1)
    batch_per_gpu: int = arm_setting("Images per GPU and step.", minimum=1)
    epochs: int = arm_setting("Epochs of the training.", 5, minimum=1)
    optimiser: str = arm_setting(
        "SGD with momentum, the same with Nesterov's momentum, LARS (You et al. 2017) or LAMB (You et al. 2020).",
        "sgd",
        enum=["sgd", "nesterov", "lars", "lamb"],
    )
    learning_rate_scaling: str = arm_setting(
        "What the learning rate is multiplied with, of the global batch over 128.",
        "none",
        enum=["none", "linear", "square_root"],
    )
    warmup_epochs: float = arm_setting("Epochs in which the rate rises linearly; fractions count.", 0, minimum=0)
    schedule: str = arm_setting(
        "The rate after the warm-up. constant keeps it; cosine and one_cycle bring it to zero at the end, one_cycle on "
        "a straight line.",
        "constant",
        enum=["constant", "cosine", "one_cycle"],
    )
    trust_coefficient: float = arm_setting("Of LARS.", 0.001, exclusiveMinimum=0)
    label_smoothing: float = arm_setting(
        "Share of the target spread over all classes.", 0, minimum=0, exclusiveMaximum=1
    )
    weight_decay_on_norm_and_bias: bool = arm_setting("Do batch-norm and biases decay too.", True)
    bias_rate_factor: float = arm_setting("Learning rate of biases over that of all others.", 1, exclusiveMinimum=0)
    zero_init_residual: bool = arm_setting("Does every residual branch start at zero (Goyal et al. 2017).", False)
    averaging_decay: float = arm_setting(
        "Decay per step of an exponential average of the weights, which is what is tested. 0 averages none.",
        0,
        minimum=0,
        exclusiveMaximum=1,
    )
    sync_batch_norm: bool = arm_setting("Do the workers of ddp share batch-norm's statistics.", False)
    gradient_clipping: float = arm_setting("Largest norm of the whole gradient. 0 clips none.", 0, minimum=0)
    set_epoch: bool = arm_setting("Is the sampler told the epoch. Without it every epoch has the same order.", True)

    @classmethod
    def of_arm(cls, study: JsonValues, arm: JsonValues) -> Self:
        """Return the settings of an `arm` in a complete study mapping; those that it leaves out are the study's."""
        settings_of_study = WholeStepSettings.of(study).to_json()
        without_momentum = {"momentum": 0} if arm["optimiser"] == "lamb" else {}
        return cls.from_json({**settings_of_study, **without_momentum, **arm})

    @property
    def global_batch(self) -> int:
        """Images per step, over all GPUs."""
        return self.gpus * self.batch_per_gpu


# By kind of record.
SETTINGS: Mapping[str, type[NetworkSettings]] = {
    "network": NetworkSettings,
    "collectives": CollectivesSettings,
    "communication": StepSettings,
    "timing": TimingSettings,
    "training": TrainingSettings,
}


def study_settings_schemas() -> dict[tuple[str, ...], JsonSchema]:
    """Return the JSON Schema of every setting by its path in the study file, those of an arm included."""
    schemas = {
        kind.path_of(name): kind.schema_of(name) for kind in (TimingSettings, TrainingSettings) for name in kind.names()
    }
    return {
        **schemas,
        **{(*ARM, name): schema for name, schema in arm_schemas().items()},
        **{(*VARIANT, name): _instead_of_the_studys(TimingSettings, name) for name in variant_settings()},
    }


def variant_settings() -> list[str]:
    """Return the names of the settings that a variant can have of its own."""
    return [name for name in TimingSettings.names() if _field(TimingSettings, name).metadata["variant_may_set"]]


def arm_schemas() -> dict[str, JsonSchema]:
    """Return the JSON Schema of every setting that an arm can have; one without a default is otherwise the study's."""
    schemas = {}
    for name in TrainingSettings.names():
        path, schema = TrainingSettings.path_of(name), TrainingSettings.schema_of(name)
        if path[:-1] == ARM:
            schemas[name] = schema
        elif _field(TrainingSettings, name).metadata["arm_may_set"]:
            schemas[name] = _instead_of_the_studys(TrainingSettings, name)
    return schemas


def _instead_of_the_studys(settings: type[NetworkSettings], name: str) -> JsonSchema:
    """Return the schema of a setting that stands in place of the study's."""
    schema = settings.schema_of(name)
    schema.pop("default", None)
    instead = f"{schema['description']} Without it {'.'.join(settings.path_of(name))}."
    return {**schema, "description": instead}


def required_of_arm() -> list[str]:
    """Return the keys that every arm must have."""
    return [item.name for item in fields(TrainingSettings) if item.default is MISSING]


def _field(settings: type[NetworkSettings], name: str) -> Field[Any]:
    return settings.__dataclass_fields__[name]
