"""The record of a diagnosis: its times by probe, and the answer that it gives (docs/method.md, "Diagnosis")."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from dpscale.analyse.answer.causes import FoundCause, Remedy, causes_of, is_efficient
from dpscale.analyse.answer.probes import Cores, Launches, Link, Probes, in_rounds, minus, of_rounds
from dpscale.formulas.figure import UNKNOWN, Figure
from dpscale.formulas.scaling import bus_bandwidth_gb_s
from dpscale.formulas.statistics import median_of_blocks
from dpscale.records.files import Record
from dpscale.vocabulary.causes import NOTHING, Cause

# Larger batches and graphs are timed on the first device.
_OF_FIRST = ("alone_reference", "alone_large", "alone_graph", "alone_unsynchronised")


@dataclass(frozen=True)
class StepPart:
    """A part of the whole step: the time that `probe` takes longer than the one before it, or all of the first."""

    probe: str
    seconds: Figure


@dataclass(frozen=True)
class Diagnosis:
    """The answer: reasons in their order, smaller costs in theirs, and where the time of a step goes.

    `efficiency` is the step of the fastest device alone over the whole step, both of one batch per device. `tried` is
    what was changed for no cause: it can pay without one.
    """

    reasons: Sequence[FoundCause]
    smaller: Sequence[FoundCause]
    parts: Sequence[StepPart]
    whole_s: Figure
    efficiency: Figure
    tried: Sequence[Remedy]
    speedup: Figure = UNKNOWN
    chip_share: Figure = UNKNOWN
    slowed: Figure = UNKNOWN
    cautions: Sequence[str] = ()

    @property
    def is_efficient(self) -> bool:
        """Whether several devices lose no more than what is not named as a reason."""
        return is_efficient(self.efficiency)

    @property
    def first(self) -> Cause:
        """The first reason; `nothing` where there is none."""
        return self.reasons[0].cause if self.reasons else NOTHING


def diagnose(record: Record) -> Diagnosis:
    """The answer that the record of a diagnosis gives."""
    probes = probes_of(record)
    found = causes_of(probes)
    whole = probes[probes.whole]
    # Without any cost of using several devices: alone, at the batch that one device had before there were more.
    ideal = probes["alone_reference" if probes.has("alone_reference") else "fastest"]
    return Diagnosis(
        [one for one in found if one.is_reason],
        [one for one in found if not one.is_reason],
        list(_parts(probes)),
        whole,
        in_rounds(lambda alone, whole: alone / whole, ideal, whole),
        list(_tried(probes)),
    )


def probes_of(record: Record) -> Probes:
    """The times of a record, round by round."""
    cell, probes, link = record["cell"], record["probes"], record["link"]
    times = _steps(record)
    in_memory = next(name for name in ("dp", "training", "alone") if name in times)
    cores, launches = record["cores"], record["launches"]
    readings = record["sensors"]["before"]
    return Probes(
        times=times | dict(_beside_steps(record)),
        whole="end_to_end" if "end_to_end" in times else in_memory,
        in_memory=in_memory,
        devices=cell["gpus"],
        batch=cell["batch_per_gpu"],
        on_gpu=record["settings"]["device"] == "cuda",
        keeps_global_batch="alone_reference" in times,
        batches={name: timed["batch_per_gpu"] for name, timed in probes.items()},
        workers={name: timed["loader_workers"] for name, timed in probes.items() if "loader_workers" in timed}
        | {"end_to_end": cell["loader_workers"]},
        steps_per_epoch=record["steps_per_epoch"],
        link=_link(record) if link else None,
        cores=Cores(float(min(cores["usable"], cores["quota"] or cores["usable"])), cores["busy_share"]),
        launches=Launches(len(launches["same_command"]), launches["processes_of_launcher"] or 1),
        alone_by_device=_by_device(record, "alone"),
        together_by_device=_by_device(record, "together") if "together" in probes else (),
        others_on={
            device: [process["pid"] for process in reading["other_processes"] or ()]
            for device, reading in enumerate(readings)
        },
        waits_at=[
            f"{seen['file']}, line {seen['line']}: {seen['code']} ({seen['calls']} in a step)"
            for seen in record["synchronisations"]
        ],
    )


def _steps(record: Record) -> dict[str, Figure]:
    """Of a probe at another batch: the time that a batch of the diagnosis takes in it. The slowest rank's, unless it
    was timed on the first."""
    probes, batch = record["probes"], record["cell"]["batch_per_gpu"]
    found = {}
    for name, timed in probes.items():
        seconds = [ranks[0] for ranks in timed["rank_step_s"]] if name in _OF_FIRST else timed["step_s"]
        found[_named(name, probes)] = of_rounds([value * (batch / timed["batch_per_gpu"]) for value in seconds])
    alone = _by_device(record, "alone")
    fastest, slowest = (choose(alone, key=lambda figure: figure.value) for choose in (min, max))
    return {**found, "first": alone[0], "fastest": fastest, "slowest": slowest}


def _named(name: str, probes: Any) -> str:
    """A step of several devices at a larger batch is called after the plain step at the same one."""
    if name != "training_scaled":
        return name
    held = "alone_reference" in probes and probes["alone_reference"]["batch_per_gpu"] == probes[name]["batch_per_gpu"]
    return "training_reference" if held else "training_large"


def _by_device(record: Record, name: str) -> list[Figure]:
    ranks = zip(*record["probes"][name]["rank_step_s"], strict=True)
    return [of_rounds(seconds) for seconds in ranks]


def _beside_steps(record: Record) -> Iterator[tuple[str, Figure]]:
    """What has rounds of its own, or none."""
    if "start_s" in record["probes"].get("end_to_end", {}):
        yield "start", of_rounds(record["probes"]["end_to_end"]["start_s"])
    if record["allreduce"]:
        yield "allreduce", median_of_blocks(record["allreduce"]["seconds"])
        yield "conversion", Figure(median(record["allreduce"]["conversion_s"]))


def _link(record: Record) -> Link:
    """With the bus bandwidth of the allreduce of a large message (docs/method.md, "Bandwidth")."""
    link, timed, devices = record["link"], record["link"]["allreduce"], record["cell"]["gpus"]
    bus = [bus_bandwidth_gb_s("allreduce", devices, timed["bytes"], seconds) for seconds in timed["seconds"]]
    copies = median_of_blocks(link["copy_gb_s"])
    return Link(record["allreduce"]["bytes"], median_of_blocks(bus), copies, link["nominal_gb_s"])


def _tried(probes: Probes) -> Iterator[Remedy]:
    """What computing in bfloat16 and pinned memory save of the whole step."""
    for name, slow, fast in (
        ("bfloat16", probes.in_memory, "bfloat16"),
        ("pinned_memory", "end_to_end_unpinned", "end_to_end"),
    ):
        if probes.has(slow, fast):
            yield Remedy(name, None, minus(probes[slow], probes[fast]))


def _parts(probes: Probes) -> Iterator[StepPart]:
    """From the fastest device alone to all that the training does, each less the one before."""
    before = probes["fastest"]
    yield StepPart("fastest", before)
    several = ("slowest",) if probes.devices > 1 else ()
    for name in (*several, "together", "no_op_hook", "training", "dp", "end_to_end"):
        if probes.has(name):
            yield StepPart(name, minus(probes[name], before))
            before = probes[name]
