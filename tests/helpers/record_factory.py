"""Records as cells write them, with the figures that a test is about."""

import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from itertools import permutations
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from dpscale.measure.launch.cells import messages
from dpscale.plan.cells import (
    AnyCell,
    CollectivesCell,
    CommunicationCell,
    Configuration,
    TimingCell,
    TrainingCell,
    VariantCell,
)
from dpscale.records import VERSIONS
from dpscale.records.collect import Collected
from dpscale.records.facts import NetworkRecord
from dpscale.records.files import JsonRecord, decoded, write_record
from dpscale.records.kinds import RECORDS, Record
from dpscale.schemas.settings import CollectivesSettings, NetworkSettings, StepSettings, TimingSettings
from dpscale.strategies.known import BASELINE, STRATEGIES

R = TypeVar("R", bound=Struct)

_MADE_UP: Mapping[str, JsonRecord] = json.loads(Path(__file__).with_name("made_up.json").read_text())
PARAMETERS = _MADE_UP["network"]["parameters"]
# The epochs of one GPU alone at a batch, before and after the parallel ones; None where its memory ran out.
Around = tuple[list[float], list[float]] | None


def made_up(name: str) -> JsonRecord:
    """Return what is the same in all made-up records of a kind, or rows of a file."""
    return deepcopy(_MADE_UP[name])


def timing_record(
    cell: TimingCell | VariantCell,
    settings: TimingSettings,
    epoch_s: list[float] | None,
    alone: Mapping[int, Around] | None = None,
) -> JsonRecord:
    """The record of `cell`; out of memory where `epoch_s` is None. Steps take an equal share of the epoch.

    `alone` holds the baselines of its own by batch; None where it has none.
    """
    out_of_memory = epoch_s is None
    scopes = {} if epoch_s is None else _scopes(cell.configuration, settings, epoch_s)
    return {
        **_of_steps(cell, settings, cell.run, cell.gpus),
        "status": "oom" if out_of_memory else "ok",
        "oom": {"rank": 0, "phase": "warm-up", "message": "CUDA out of memory"} if out_of_memory else None,
        "scopes": scopes,
        "alone": None if alone is None else [_alone(batch, settings, around) for batch, around in alone.items()],
    }


def _alone(batch: int, settings: TimingSettings, around: Around) -> JsonRecord:
    scopes = {}
    if around is not None:
        before, after = (_scopes(Configuration(BASELINE, 1, batch), settings, epoch_s) for epoch_s in around)
        scopes = {scope: {"before": before[scope], "after": after[scope]} for scope in settings.scopes}
    return {"batch_per_gpu": batch, "status": "oom" if around is None else "ok", "scopes": scopes}


def on_server(record: JsonRecord, server: object, host: str = "node1") -> JsonRecord:
    """The record as if it was measured on the first GPUs of a server, as many as it had."""
    hardware = record["hardware"]
    gpus = [{**gpu, "uuid": f"GPU-{server}-{number}"} for number, gpu in enumerate(hardware["gpus"])]
    return {**record, "hardware": {**hardware, "gpus": gpus, "host": host}}


def watched(gpus: int) -> JsonRecord:
    """Return the observations of an epoch in which nothing was wrong."""
    return {"gpus": [made_up("watched gpu")] * gpus, "other_processes": 0}


def where_and_when(run: int, gpus: int) -> JsonRecord:
    """Return the hardware, software and time of a record."""
    devices = [{**made_up("gpu"), "uuid": f"GPU-{index}"} for index in range(gpus)]
    return {
        **made_up("record"),
        "started_at": f"2026-01-01T00:00:{run:02}+00:00",
        "finished_at": f"2026-01-01T00:01:{run:02}+00:00",
        "hardware": {**made_up("hardware"), "gpus": devices},
    }


def _scopes(configuration: Configuration, settings: TimingSettings, epoch_s: list[float]) -> JsonRecord:
    on_gpus = settings.device == "cuda"
    full_steps, smaller = divmod(settings.epoch_images, configuration.global_batch)
    scope = {
        "epoch_s": epoch_s,
        "rank_epoch_s": [[seconds] for seconds in epoch_s],
        "step_s_median": [seconds * configuration.global_batch / settings.epoch_images for seconds in epoch_s],
        "steps_per_epoch": full_steps + (smaller > 0),
        "full_steps_per_epoch": full_steps,
        "peak_memory_bytes": [10**9] * configuration.gpus if on_gpus else None,
        "loader_processes": 0,
    }
    return {
        name: {**scope, "watched": [watched(configuration.gpus if on_gpus else 0) for _ in epoch_s]}
        for name in settings.scopes
    }


def _of_cell(cell: AnyCell, settings: CollectivesSettings, run: int, devices: int) -> JsonRecord:
    """Return the keys of all records."""
    return {
        "kind": cell.kind,
        "measurement_version": VERSIONS[cell.kind].current,
        "status": "ok",
        "cell": cell.coordinates,
        "settings": settings.to_json(),
        **where_and_when(run, devices if settings.device == "cuda" else 0),
    }


def _of_steps(cell: AnyCell, settings: StepSettings, run: int, devices: int) -> JsonRecord:
    """Return the keys of records of training steps."""
    source = settings.dataset_source
    images = {"source": source, "synthetic": source == "synthetic", "images": settings.epoch_images, "sha256": "0" * 64}
    network = {"parameters": PARAMETERS, "gradient_bytes": 4 * PARAMETERS}
    return {**_of_cell(cell, settings, run, devices), "dataset": images, "network": network, "oom": None}


def network_facts(settings: NetworkSettings) -> JsonRecord:
    """The facts of the 32x32 ResNet-18, as `dpscale network` writes them."""
    return {
        "kind": "network",
        "settings": NetworkSettings.from_json(settings.to_json()).to_json(),
        **made_up("network"),
    }


def typed_facts(settings: NetworkSettings, **changes: Any) -> NetworkRecord:
    """Return the network's facts as analysis has them, with changes."""
    return typed(NetworkRecord, {**network_facts(settings), **changes})


def collectives_record(
    cell: CollectivesCell, settings: TimingSettings, latency_s: float = 1e-5, gb_s: float = 250.0
) -> JsonRecord:
    """Collectives on links that a latency and a bandwidth describe exactly, with 1 % of spread between repeats."""
    gpus = cell.gpus

    def timings(operation: str, size: int) -> JsonRecord:
        rounds = {"allreduce": 2 * (gpus - 1), "broadcast": 1, "reduce": 1}.get(operation, gpus - 1)
        sent = size * {"broadcast": 1, "reduce": 1}.get(operation, rounds / gpus)
        seconds = rounds * latency_s + sent / (gb_s * 1e9)
        return {
            "operation": operation, "bytes": size, "calls": 20, "seconds": [seconds * f for f in (0.99, 1.0, 1.01)],
        }  # fmt: skip

    return {
        **_of_cell(cell, CollectivesSettings.from_json(settings.to_json()), cell.run, gpus),
        "collectives": [timings(*sent) for sent in messages(typed_facts(settings), settings.device, STRATEGIES)],
        "peer_copies": [
            {"source": source, "target": target, "bytes": 2**28, "seconds": [0.99e-3, 1e-3, 1.01e-3]}
            for source, target in permutations(range(gpus if settings.device == "cuda" else 0), 2)
        ],
    }


def communication_record(
    cell: CommunicationCell,
    settings: TimingSettings,
    step_s: float,
    communication_s: float,
    exposed_s: float,
) -> JsonRecord:
    """Steps of `step_s` with the rungs of a ladder, of which communication takes `communication_s` on the mean device,
    10 % less on the first and more on the last, and shows as `exposed_s`. Blocks differ by 1 %. The made-up ladder has
    what every rung takes less than the whole step, in exposed communication."""
    configuration = cell.configuration
    gpus = configuration.gpus if settings.device == "cuda" else 0
    spread = (0.99, 1.0, 1.01)
    ladder = made_up("ladder").get(configuration.strategy, {"training": 0.0})

    def blocks(seconds: float) -> JsonRecord:
        rounds = [seconds * f for f in spread]
        return {"step_s": rounds, "rank_block_step_s": [[step] for step in rounds]}

    def device(index: int, f: float) -> JsonRecord:
        waiting = 1 + 0.1 * (2 * index / (gpus - 1) - 1)  # the mean over the devices stays
        return {
            "device": index, "communication_s": communication_s * f * waiting, "exposed_s": exposed_s * f,
            "computing_s": 1.05 * step_s * f, "silent_computing_s": step_s * f,
        }  # fmt: skip

    return {
        **_of_steps(cell, StepSettings.from_json(settings.to_json()), cell.run, configuration.gpus),
        "steps": {
            "block_steps": 10,
            "seed": cell.run,
            "orders": [list(ladder) for _ in spread],
            "variants": {rung: blocks(step_s - less * exposed_s) for rung, less in ladder.items()},
        },
        "profile": {
            "steps": 5,
            "blocks": [{"step_s": step_s * f, "devices": [device(index, f) for index in range(gpus)]} for f in spread],
        } if gpus else None,
    }  # fmt: skip


def training_record(cell: TrainingCell, test_accuracy: Sequence[float | None], epoch_s: float = 2.0) -> JsonRecord:
    """The record of an arm whose test accuracy after every epoch is known; the rest follows from it by simple rules.
    One that diverged ends with None."""
    arm = cell.settings
    steps = -(-arm.epoch_images // arm.global_batch)

    def less(loss: float, accuracy: float | None) -> float | None:
        return None if accuracy is None else loss - accuracy

    def epoch(number: int, accuracy: float | None) -> JsonRecord:
        return {
            "epoch": number, "global_batch": arm.global_batch, "steps": steps, "learning_rate": arm.learning_rate,
            "training_loss": less(2, accuracy), "training_accuracy": accuracy,
            "test_loss": less(2.1, accuracy), "test_accuracy": accuracy,
            "epoch_s": epoch_s, "images_per_s": arm.epoch_images / epoch_s, "gpu_s": epoch_s * arm.gpus,
        }  # fmt: skip

    return {
        **_of_steps(cell, arm, cell.seed, arm.gpus),
        "diverged": None in test_accuracy,
        "epochs": [epoch(number, accuracy) for number, accuracy in enumerate(test_accuracy, 1)],
    }


def any_record(
    cell: AnyCell,
    settings: TimingSettings,
    epoch_s: list[float] | None,
    parts_s: Sequence[float] = (1.0, 0.2, 0.1),
    longer: float = 1.0,
) -> JsonRecord:
    """The record of a cell of any kind. `epoch_s` are those of a timing cell, `parts_s` a step, its communication and
    what shows of it; where no epoch is given, everything takes so many times `longer`."""
    match cell:
        case CollectivesCell():
            return collectives_record(cell, settings, 1e-5 * longer, 250 / longer)
        case CommunicationCell():
            return communication_record(cell, settings, *(part_s * longer for part_s in parts_s))
        case TrainingCell():
            return training_record(cell, [0.6] * cell.settings.epochs)
        case VariantCell():
            return timing_record(cell, cell.settings, epoch_s)
        case TimingCell():
            return timing_record(cell, settings, epoch_s)
    raise TypeError(cell)


def write(results: Path, cell: AnyCell, record: JsonRecord) -> Path:
    path = results / cell.path
    write_record(cell.kind, path, record)
    return path


def typed(kind: type[R], record: JsonRecord) -> R:
    """The record as analysis has it, in an environment and a block where `record` names them."""
    placed = {name: record[name] for name in ("environment", "block") if name in record}
    written = {name: value for name, value in record.items() if name not in placed}
    return replace(decoded(kind, json.dumps(written).encode()), **placed)


def typed_records(records: Mapping[AnyCell, JsonRecord]) -> dict[AnyCell, Record]:
    """The records of cells of any kind, as analysis has them."""
    return {cell: typed(RECORDS[cell.kind], record) for cell, record in records.items()}


def collected_of(records: Mapping[AnyCell, JsonRecord], network: JsonRecord | None = None) -> Collected:
    """A study with these records, and with nothing that failed."""
    return Collected(typed_records(records), {}, {}, typed(NetworkRecord, network) if network else None)
