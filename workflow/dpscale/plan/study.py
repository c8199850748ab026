"""A study file, validated, with every default filled in, and the checksum of its workload's file. Free of torch."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from dpscale.errors import StudyError, WorkloadError
from dpscale.regular_files import read_bytes
from dpscale.schemas.settings import (
    BUILT_IN,
    NO_CHECKSUM,
    OF_FILE,
    JsonValues,
    NetworkSettings,
    StepSettings,
    TimingSettings,
    TrainingSettings,
    from_home,
    variant_settings,
)
from dpscale.schemas.validation import load_schema, read_yaml, violations, with_defaults
from dpscale.strategies.known import STRATEGIES, strategy

# Where other results stand, relative to the study's.
STUDY_FILE = "study.json"
DATASET_MANIFEST = "dataset/manifest.json"
NETWORK_FACTS = "network.json"
MISSING_TABLE = "tables/missing.csv"
# The name of the study's own settings beside its variants.
BASE = "base"

# Steps are taken apart as torch runs them by default. No rung would explain what else a timing cell's step has.
_NOT_TAKEN_APART = {
    "cuda_graph": "a captured step cannot be taken apart",
    "images_on": "steps are taken apart with images on the host",
    "ddp_reducer": "steps are taken apart with torch's reducer",
    "ddp_gradient_dtype": "steps are taken apart with float32 gradients",
    "accumulate": "steps are taken apart with their batch as one",
    "fsdp_reshard_after_forward": "steps of fsdp are taken apart as FULL_SHARD",
    "fsdp_replicas": "steps of fsdp are taken apart as FULL_SHARD",
}


class Study:
    """A validated study with every default filled in.

    Raises StudyError when `values` violates the schema or contradicts itself; `source` names the file in it.
    """

    def __init__(self, values: JsonValues, source: str = "study"):
        problems = violations("study", values)
        if problems:
            raise StudyError(f"{source}: " + "; ".join(problems) + ". See config/README.md for every key.")
        try:
            values = study_of_its_file(values)
        except WorkloadError as error:
            raise StudyError(f"{source}: {error}") from error
        self.values = with_defaults(load_schema("study"), values)
        self.source = source
        self.settings = TimingSettings.of(self.values)
        if problem := next(_contradictions(self), None):
            raise StudyError(f"{source}: {problem}")

    @classmethod
    def read(cls, path: Path) -> "Study":
        """Read a study from a YAML or JSON file. Raises StudyError, also where the file cannot be read."""
        return cls(read_yaml(path, StudyError), source=str(path))

    def __getitem__(self, key: str) -> Any:
        return self.values[key]

    @property
    def name(self) -> str:
        return str(self.values["study"])

    @property
    def results(self) -> Path:
        """The folder of the study's results, relative to the project's."""
        return Path("results", self.name)

    @property
    def page(self) -> Path:
        """The rendered page, relative to the project's folder."""
        return Path("report", f"{self.name}.html")

    def audit_page(self, page: Path) -> Path | None:
        """Return the page of other people's figures, `<study>-audit.html` beside `page`; None without any."""
        return page.with_stem(f"{page.stem}-audit") if self["published"] else None

    @property
    def epoch_images(self) -> int:
        """Images in an epoch, D."""
        return int(self.values["dataset"]["images"])

    def nodes_of(self, gpus: int) -> int:
        """Return the fewest nodes that have so many GPUs."""
        per_node = self["gpus_per_node"]
        return 1 if per_node is None else -(-gpus // int(per_node))

    @property
    def most_gpus(self) -> int:
        """GPUs of the largest cell."""
        variants = [gpus for changes in self["variants"].values() for gpus in changes.get("gpus", ())]
        return int(max(*self["gpus"], *variants, *(arm.gpus for arm in self.arms.values()), 1))

    @cached_property
    def arms(self) -> dict[str, TrainingSettings]:
        """The settings of every arm of the training, by name, in the order of the study file."""
        return {
            name: TrainingSettings.of_arm(self.values, arm) for name, arm in self.values["training"]["arms"].items()
        }

    @cached_property
    def variants(self) -> dict[str, "Study"]:
        """Every variant by name as a study of its own: timing cells alone, under its settings."""
        return {name: self._variant(name, changes) for name, changes in self.values["variants"].items()}

    def _variant(self, name: str, changes: JsonValues) -> "Study":
        """Return a variant as a study. Raises StudyError where its settings make no sense together."""
        values: dict[str, Any] = json.loads(json.dumps(self.values))
        values |= {"strong_scaling_global_batch": [], "variants": {}, "published": []}
        values |= {"training": {"arms": {}}, "communication": {"runs": 0}}
        for key, value in changes.items():
            *groups, last = self.settings.path_of(key) if key in variant_settings() else (key,)
            place = values
            for group in groups:
                place = place[group]
            place[last] = value
        # Strategies and GPUs that the variant leaves out are the study's, as far as they go with those that it names.
        if "strategies" not in changes:
            values["strategies"] = [
                row
                for row in self["strategies"]
                if not _changes_another(row, changes) and any(map(strategy(row).allows, values["gpus"]))
            ]
        if "gpus" not in changes:
            rows = [strategy(row) for row in values["strategies"]]
            values["gpus"] = [gpus for gpus in self["gpus"] if any(row.allows(gpus) for row in rows)]
        return Study(values, f"{self.source}: variants.{name}")

    def on_any_machine(self) -> "Study":
        """Return this study without the limits of this machine's GPUs and nodes."""
        return self.changed(gpus_available=None, nodes_available=None)

    def changed(self, **values: Any) -> "Study":
        """Return this study with other values of some keys."""
        return Study({**self.values, **values}, self.source)

    def to_json(self) -> str:
        """Return the complete study as one line of JSON, with sorted keys."""
        return json.dumps(self.values, sort_keys=True)


def _changes_another(name: str, changes: JsonValues) -> bool:
    """Return whether a variant changes settings of other strategies alone, so that the strategy `name` is as before."""
    of_other_strategies = {row.own_settings for row in STRATEGIES.values()} - {"", strategy(name).own_settings}
    return strategy(name).is_parallel and any(key.split("_")[0] in of_other_strategies for key in changes)


def _contradictions(study: Study) -> Iterator[str]:
    """Yield what is wrong with a study beyond what its schema says, as `key: problem`."""
    paths = {"dataset.root": [study["dataset"]["root"]], "workload": [study.settings.workload]}
    for key, named in {**paths, "published": study["published"]}.items():
        for path in named:
            if "{" in path or "}" in path:
                yield f"{key}: {path} has braces, which Snakemake takes for wildcards; rename it"
    for gpus in study["gpus"]:
        if not any(strategy(name).allows(gpus) for name in study["strategies"]):
            needed = " or ".join(name for name, row in STRATEGIES.items() if row.allows(gpus))
            yield f"gpus: {gpus} needs the strategy {needed}, which strategies lacks"
    for name in study["strategies"]:
        if not any(strategy(name).allows(gpus) for gpus in study["gpus"]):
            yield f"strategies: {name} needs a number of GPUs in gpus that is {strategy(name).gpus_allowed}"
    for global_batch in study["strong_scaling_global_batch"]:
        for gpus in study["gpus"]:
            if global_batch % gpus:
                yield f"strong_scaling_global_batch: {global_batch} does not divide by {gpus} GPUs"
    if contradictory := contradiction(study.settings):
        key, problem = contradictory
        yield f"{'.'.join(study.settings.path_of(key))}: {problem}"
    if study["communication"]["runs"] and study.settings.precision == "bfloat16-pure":
        yield "precision: steps are taken apart with float32 weights; set communication.runs to 0"
    for name, why in _NOT_TAKEN_APART.items():
        if study["communication"]["runs"] and not study.settings.is_default(name):
            yield f"{'.'.join(study.settings.path_of(name))}: {why}; set communication.runs to 0"
    if BASE in study.variants:
        yield f"variants.{BASE}: is what tables call the study's own settings; choose another name"
    for name, arm in study.arms.items():
        if contradictory := contradiction(arm):
            yield f"training.arms.{name}.{': '.join(contradictory)}"
    baseline = study["training"]["baseline"]
    if baseline is not None and baseline not in study.arms:
        yield f"training.baseline: there is no arm {baseline}"


Settings = TypeVar("Settings", bound=NetworkSettings)


def checksum(path: Path) -> str:
    """Return the SHA-256 of a workload's file in hexadecimal digits. Raises WorkloadError where it cannot be read."""
    try:
        return hashlib.sha256(read_bytes(path.expanduser())).hexdigest()
    except OSError as error:
        why = "there is no such file" if isinstance(error, FileNotFoundError) else f"cannot be read: {error.strerror}"
        raise WorkloadError(
            f"workload: {path}: {why}. Name a Python file, from the folder that the study runs in"
        ) from error


def of_its_file(settings: Settings) -> Settings:
    """Return settings with what follows from the file of a workload: its checksum, and where network and samples come
    from. Raises WorkloadError where it cannot be read, or is not the file that the settings were made for."""
    if settings.workload == BUILT_IN:
        return settings
    sha256 = checksum(Path(settings.workload))
    if settings.workload_sha256 not in (NO_CHECKSUM, sha256):
        raise WorkloadError(
            f"workload: {settings.workload}: has changed since this was planned: its checksum is {sha256}, not "
            f"{settings.workload_sha256}. Start the run again"
        )
    settings = replace(settings, network=OF_FILE, workload_sha256=sha256)
    return replace(settings, dataset_source=OF_FILE) if isinstance(settings, StepSettings) else settings


def study_of_its_file(values: JsonValues) -> JsonValues:
    """Return the values of a study with what follows from the workload's file, where it names one.

    A checksum that stands there already is kept: tables and page need no file. Raises WorkloadError where the file
    cannot be read, or where it is not said how many samples an epoch has.
    """
    path = values.get("workload", BUILT_IN)
    if path == BUILT_IN:
        return dict(values)
    dataset = values.get("dataset", {})
    if "images" not in dataset:
        raise WorkloadError(f"dataset.images: say how many samples of {path} an epoch has")
    stated = values.get("workload_sha256", NO_CHECKSUM)
    return {
        **values,
        "workload": from_home(path),
        "workload_sha256": checksum(Path(path)) if stated == NO_CHECKSUM else stated,
        "network": {"name": OF_FILE, **values.get("network", {})},
        "dataset": {"source": OF_FILE, **dataset},
    }


# A setting, and what is wrong with it.
Contradiction = tuple[str, str]


def contradiction(settings: NetworkSettings) -> Contradiction | None:
    """Return a setting that keeps these settings from being measured, and what is wrong with it; None without one."""
    return next(_contradictions_of(settings), None)


def _contradictions_of(settings: NetworkSettings) -> Iterator[Contradiction]:
    yield from _of_workload(settings)
    if isinstance(settings, StepSettings):
        yield from _of_step(settings)
    if isinstance(settings, TimingSettings):
        yield from _of_timing(settings)
    if isinstance(settings, TrainingSettings):
        yield from _of_arm(settings)


def _of_step(settings: StepSettings) -> Iterator[Contradiction]:
    if settings.device == "cpu" and settings.cuda_graph:
        yield "cuda_graph", "a CUDA graph needs CUDA GPUs"
    if settings.precision == "float16":
        why = "does not go with float16: torch's GradScaler looks at every gradient before it lets the update be made"
        if settings.cuda_graph:
            yield "cuda_graph", why
        if settings.fused_optimiser:
            yield "fused_optimiser", why


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
    if settings.network != "cifar_resnet18" and not settings.is_default("width"):
        yield "width", f"is that of cifar_resnet18: with {settings.network} leave this key out"
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
        if settings.accumulate > 1:
            yield "ddp_reducer", "copies sends gradients in every backward pass: leave accumulate out"


def _of_arm(arm: TrainingSettings) -> Iterator[Contradiction]:
    row = strategy(arm.strategy)
    if not row.allows(arm.gpus):
        yield "gpus", f"{arm.gpus} does not go with {arm.strategy}, which has {row.gpus_allowed}"
    if row.shards:
        yield "strategy", f"{arm.strategy} has no arms: a training needs whole weights and momenta. Use ddp"
    if arm.sync_batch_norm and not row.has_process_per_gpu:
        yield "sync_batch_norm", f"{arm.strategy} has no process group to share statistics in: it needs ddp"
    if arm.schedule == "one_cycle" and not 0 < arm.warmup_epochs < arm.epochs:
        yield "schedule", "one_cycle rises and falls: warmup_epochs must lie between 0 and epochs"
    if arm.optimiser in ("lars", "lamb") and arm.fused_optimiser:
        yield "fused_optimiser", f"torch has no fused {arm.optimiser}"
    if arm.cuda_graph and not arm.fused_optimiser:
        yield "cuda_graph", "needs fused_optimiser: only there can the learning rate change within a graph"
    if arm.cuda_graph and arm.sync_batch_norm:
        yield "cuda_graph", "does not go with sync_batch_norm"
