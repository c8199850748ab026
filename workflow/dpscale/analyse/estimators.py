"""Communication of a step estimated independently of subtraction: E2 to E5 of docs/method.md. Times are s per step.

A record is a block: it has one figure, the median of its rounds, blocks or repeats, and spread is over records.
"""

from bisect import bisect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

from dpscale.analyse.blocks import run_name
from dpscale.formulas.figure import Figure
from dpscale.formulas.scaling import IMAGE_BYTES, LOGITS_BYTES
from dpscale.formulas.statistics import Scale, derive_in_blocks, estimate_of_runs
from dpscale.records.files import Record
from dpscale.strategies.known import strategy

Message = tuple[str, int]  # operation, bytes

# Where a profiled step is longer than the same step without the profiler by more than this, its shares say nothing.
DISTORTED = 0.05


@dataclass(frozen=True)
class Links:
    """What collectives records say of a number of GPUs: seconds of every collective, and of copies between GPUs."""

    collectives: Mapping[Message, Figure]
    peer_copies: Mapping[tuple[int, int], tuple[int, Figure]]  # (source, target): bytes, seconds


def links_of(records: Sequence[Record], label: str) -> Links:
    """The medians over repeats. Those for which the GPUs could not be held long enough count only where all are so."""
    timed: dict[Message, dict[str, Sequence[float]]] = {}
    copied: dict[tuple[int, int], dict[str, Sequence[float]]] = {}
    sizes: dict[tuple[int, int], int] = {}
    for record in records:
        for result in record["collectives"]:
            of_runs = timed.setdefault((result["operation"], result["bytes"]), {})
            of_runs[run_name(record)] = held_s(result) or result["seconds"]
        for copy in record["peer_copies"]:
            pair = copy["source"], copy["target"]
            copied.setdefault(pair, {})[run_name(record)] = copy["seconds"]
            sizes[pair] = copy["bytes"]
    return Links(
        {message: estimate_of_runs(runs, f"{message} {label}") for message, runs in timed.items()},
        {pair: (sizes[pair], estimate_of_runs(runs, f"copy {pair} {label}")) for pair, runs in copied.items()},
    )


def held_s(result: Mapping[str, Any]) -> list[float]:
    """The timings of a collective before which all calls were queued, as far as that is known: version 1 did not look,
    and on a CPU there is no queue."""
    held = result.get("held") or [True] * len(result["seconds"])
    return [seconds for seconds, was_held in zip(result["seconds"], held, strict=True) if was_held]


def from_steps(records: Sequence[Record], label: str) -> dict[str, Figure]:
    """What communication records say, by the names of the columns of communication.csv; those that exist.

    Ablation (E2) subtracts within a round, so that what drifts from round to round hits both sides. Both of its steps
    call a hook in Python; version 1 has no such control, and takes the whole step. The profiler's times (E3) are means
    over the devices: which of them waits for which, and so communicates longer, is chance. Of ddp, whose devices all
    send alike, they are also given for the device that waited least: transfer, and little else.
    """
    complete = [record for record in records if record["status"] == "ok"]
    quantities: dict[str, tuple[Callable[[Record], list[float] | None], Scale]] = {
        "training_step_s": (lambda record: _step_s(record, "training"), "log"),
        "ablation_step_s": (lambda record: _difference_s(record, _control(record), "no_op_hook"), "linear"),
        "no_sync_step_s": (lambda record: _difference_s(record, "training", "no_sync"), "linear"),
        "profiled_step_s": (profiled_step_s, "log"),
        "profiler_step_s": (lambda record: _profiled(record, _mean_communication_s), "linear"),
        "profiler_exposed_step_s": (lambda record: _profiled(record, _mean_exposed_s), "linear"),
        "profiler_least_step_s": (lambda record: _of_least_waiting(record, _communication_s), "linear"),
        "profiler_least_exposed_step_s": (lambda record: _of_least_waiting(record, exposed_s), "linear"),
        "logger_step_s": (lambda record: _logged(record, "communication_s"), "linear"),
        "logger_exposed_step_s": (lambda record: _logged(record, "exposed_s"), "linear"),
    }
    found = {}
    for name, (values_of, scale) in quantities.items():
        runs = {run_name(record): values for record in complete if (values := values_of(record)) is not None}
        if runs:
            found[name] = estimate_of_runs(runs, f"{name} {label}", scale)
    return found


def is_distorted(record: Record) -> bool:
    """Whether the profiler made the step longer by more than `DISTORTED`. Profiling skews the ranks, and what one then
    waits for another lies inside NCCL's kernels."""
    return median(profiled_step_s(record) or [0.0]) > (1 + DISTORTED) * unprofiled_step_s(record)


def has_artefacts(record: Record) -> bool:
    """Whether the profiler shows more exposed communication on a device than there is room for in the step."""
    return any(
        device["exposed_s"] > _room_s(record, device)
        for block in (record["profile"] or {"blocks": []})["blocks"]
        for device in block["devices"]
    )


def exposed_s(record: Record, device: Mapping[str, Any]) -> float:
    """Exposed communication of a device by the profiler, at most what there is room for in the step."""
    return float(min(device["exposed_s"], _room_s(record, device)))


def _room_s(record: Record, device: Mapping[str, Any]) -> float:
    """What the step, unprofiled, has beside the device's compute."""
    compute_s = sum(phase["compute_s"] for phase in device["phases"].values())
    return max(0.0, unprofiled_step_s(record) - float(compute_s))


def unprofiled_step_s(record: Record) -> float:
    """The median of a record's whole step."""
    return float(median(record["steps"]["variants"]["training"]["step_s"]))


def isolated_step_s(
    name: str, gpus: int, batch_per_gpu: int, network: Mapping[str, Any], links: Links
) -> Figure | None:
    """E5, the floor: a step's messages of the strategy `name`, one after the other, with nothing else running.

    None where one was not timed, nor a smaller and a larger one of its operation, between which it is interpolated.

    DDP broadcasts its buffers and reduces its buckets; DataParallel scatters images, broadcasts parameters and buffers,
    gathers outputs, and reduces gradients, all from or to its first GPU.
    """
    row = strategy(name)
    parts = [collective_s(links, message) for message in row.messages_of_step(network)]
    if row.sends_inputs:
        sent_bytes, returned_bytes = bytes_per_image(network)
        for other in range(1, gpus):
            parts.append(_copy_s(links, (0, other), batch_per_gpu * sent_bytes))
            parts.append(_copy_s(links, (other, 0), batch_per_gpu * returned_bytes))
    known = [part for part in parts if part is not None]
    if not known or len(known) < len(parts):
        return None
    return derive_in_blocks(lambda *seconds: sum(seconds), *known, scale="log", label=f"E5 {name} {gpus}")


def bytes_per_image(network: Mapping[str, Any]) -> tuple[int, int]:
    """What a network is called with and what it returns, per image; older facts are of the built-in one."""
    return network.get("input_bytes_per_image", IMAGE_BYTES), network.get("output_bytes_per_image", LOGITS_BYTES)


def collective_s(links: Links, message: Message) -> Figure | None:
    """A collective's time alone. Between two sizes that were timed it grows with the bytes, from one to the other: a
    latency, and a time per byte."""
    if message in links.collectives:
        return links.collectives[message]
    operation, message_bytes = message
    sizes = sorted(size for name, size in links.collectives if name == operation)
    place = bisect(sizes, message_bytes)
    if not 0 < place < len(sizes):
        return None
    smaller, larger = sizes[place - 1 : place + 1]
    share = (message_bytes - smaller) / (larger - smaller)
    return derive_in_blocks(
        lambda less_s, more_s: less_s + share * (more_s - less_s),
        links.collectives[operation, smaller],
        links.collectives[operation, larger],
        scale="log",
        label=f"{message}",
    )


def _copy_s(links: Links, pair: tuple[int, int], message_bytes: int) -> Figure | None:
    """A copy at the bandwidth that was measured with a large one."""
    if pair not in links.peer_copies:
        return None
    measured_bytes, seconds = links.peer_copies[pair]
    return derive_in_blocks(
        lambda measured_s: measured_s * message_bytes / measured_bytes, seconds, scale="log", label=f"copy {pair}"
    )


def _step_s(record: Record, variant: str) -> list[float] | None:
    blocks = record["steps"]["variants"].get(variant)
    return None if blocks is None else list(blocks["step_s"])


def _difference_s(record: Record, whole: str, without: str) -> list[float] | None:
    """In every round."""
    wholes, others = _step_s(record, whole), _step_s(record, without)
    if wholes is None or others is None:
        return None
    return [whole_s - without_s for whole_s, without_s in zip(wholes, others, strict=True)]


def _control(record: Record) -> str:
    return "allreduce_hook" if "allreduce_hook" in record["steps"]["variants"] else "training"


def profiled_step_s(record: Record) -> list[float] | None:
    """The steps of profiled blocks."""
    return None if record["profile"] is None else [block["step_s"] for block in record["profile"]["blocks"]]


Block = Mapping[str, Any]


def _profiled(record: Record, value: Callable[[Record, Block], float]) -> list[float] | None:
    return None if record["profile"] is None else [value(record, block) for block in record["profile"]["blocks"]]


def _mean_communication_s(record: Record, block: Block) -> float:
    return fmean(_communication_s(record, device) for device in block["devices"])


def _mean_exposed_s(record: Record, block: Block) -> float:
    return fmean(exposed_s(record, device) for device in block["devices"])


def _of_least_waiting(record: Record, value: Callable[[Record, Mapping[str, Any]], float]) -> list[float] | None:
    """A time of the device that communicated least in every block: the last one to an allreduce does not wait."""
    if not strategy(record["cell"]["strategy"]).all_ranks_send_alike:
        return None

    def least(of: Record, block: Block) -> float:
        return value(of, min(block["devices"], key=lambda device: _communication_s(of, device)))

    return _profiled(record, least)


def _communication_s(_: Record, device: Mapping[str, Any]) -> float:
    return float(device["communication_s"])


def _logged(record: Record, name: str) -> list[float] | None:
    return None if record["ddp_logger"] is None else list(record["ddp_logger"][name])
