"""Communication of a step estimated independently of subtraction: E2 to E5 of docs/method.md. Times are s per step."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from dpscale.analyse.blocks import run_name
from dpscale.formulas.scaling import IMAGE_BYTES, LOGITS_BYTES
from dpscale.formulas.statistics import Estimate, Scale, derive, estimate_of_runs
from dpscale.records.files import Record
from dpscale.vocabulary.strategies import strategy

Message = tuple[str, int]  # operation, bytes


@dataclass(frozen=True)
class Links:
    """What collectives records say of a number of GPUs: seconds of every collective, and of copies between GPUs."""

    collectives: Mapping[Message, Estimate]
    peer_copies: Mapping[tuple[int, int], tuple[int, Estimate]]  # (source, target): bytes, seconds


def links_of(records: Sequence[Record], label: str) -> Links:
    """Means over runs of the medians of their repeats."""
    timed: dict[Message, dict[str, Sequence[float]]] = {}
    copied: dict[tuple[int, int], dict[str, Sequence[float]]] = {}
    sizes: dict[tuple[int, int], int] = {}
    for record in records:
        for result in record["collectives"]:
            timed.setdefault((result["operation"], result["bytes"]), {})[run_name(record)] = result["seconds"]
        for copy in record["peer_copies"]:
            pair = copy["source"], copy["target"]
            copied.setdefault(pair, {})[run_name(record)] = copy["seconds"]
            sizes[pair] = copy["bytes"]
    return Links(
        {message: estimate_of_runs(runs, f"{message} {label}") for message, runs in timed.items()},
        {pair: (sizes[pair], estimate_of_runs(runs, f"copy {pair} {label}")) for pair, runs in copied.items()},
    )


def from_steps(records: Sequence[Record], label: str) -> dict[str, Estimate]:
    """What communication records say, by the names of the columns of communication.csv; those that exist.

    Ablation (E2) subtracts within a round, so that what drifts from round to round hits both sides. The profiler's
    times (E3) are means over the devices: which of them waits for which, and so communicates longer, is chance. Of ddp,
    whose devices all send alike, they are also given for the device that waited least: transfer, and little else.
    """
    complete = [record for record in records if record["status"] == "ok"]
    quantities: dict[str, Callable[[Record], list[float] | None]] = {
        "training_step_s": lambda record: _step_s(record, "training"),
        "ablation_step_s": lambda record: _difference_s(record, "no_op_hook"),
        "no_sync_step_s": lambda record: _difference_s(record, "no_sync"),
        "profiled_step_s": lambda record: _of_blocks(record, lambda block: block["step_s"]),
        "profiler_step_s": lambda record: _of_blocks(record, lambda block: _mean(block, "communication_s")),
        "profiler_exposed_step_s": lambda record: _of_blocks(record, lambda block: _mean(block, "exposed_s")),
        "profiler_least_step_s": lambda record: _of_least_waiting(record, "communication_s"),
        "profiler_least_exposed_step_s": lambda record: _of_least_waiting(record, "exposed_s"),
        "logger_step_s": lambda record: _logged(record, "communication_s"),
        "logger_exposed_step_s": lambda record: _logged(record, "exposed_s"),
    }
    found = {}
    for name, values_of in quantities.items():
        runs = {run_name(record): values for record in complete if (values := values_of(record)) is not None}
        if runs:
            scale: Scale = "log" if name in ("training_step_s", "profiled_step_s") else "linear"
            found[name] = estimate_of_runs(runs, f"{name} {label}", scale)
    return found


def isolated_step_s(
    name: str, gpus: int, batch_per_gpu: int, network: Mapping[str, Any], links: Links
) -> Estimate | None:
    """E5, the floor: a step's messages of the strategy `name`, one after the other, with nothing else running.

    None where one was not timed.

    DDP reduces its buckets; DataParallel scatters images, broadcasts parameters and buffers, gathers outputs, and
    reduces gradients, all from or to its first GPU.
    """
    row = strategy(name)
    parts = [links.collectives.get(message) for message in row.messages_of_step(network)]
    if row.sends_inputs:
        for other in range(1, gpus):
            parts.append(_copy_s(links, (0, other), batch_per_gpu * IMAGE_BYTES))
            parts.append(_copy_s(links, (other, 0), batch_per_gpu * LOGITS_BYTES))
    known = [part for part in parts if part is not None]
    return derive(lambda *seconds: sum(seconds), *known) if known and len(known) == len(parts) else None


def _copy_s(links: Links, pair: tuple[int, int], message_bytes: int) -> Estimate | None:
    """A copy at the bandwidth that was measured with a large one."""
    if pair not in links.peer_copies:
        return None
    measured_bytes, seconds = links.peer_copies[pair]
    return derive(lambda measured_s: measured_s * message_bytes / measured_bytes, seconds)


def _step_s(record: Record, variant: str) -> list[float] | None:
    blocks = record["steps"]["variants"].get(variant)
    return None if blocks is None else list(blocks["step_s"])


def _difference_s(record: Record, variant: str) -> list[float] | None:
    without = _step_s(record, variant)
    if without is None:
        return None
    return [one - other for one, other in zip(_step_s(record, "training") or [], without, strict=True)]


def _of_blocks(record: Record, value: Callable[[Mapping[str, Any]], float]) -> list[float] | None:
    return None if record["profile"] is None else [value(block) for block in record["profile"]["blocks"]]


def _mean(block: Mapping[str, Any], name: str) -> float:
    return fmean(device[name] for device in block["devices"])


def _of_least_waiting(record: Record, name: str) -> list[float] | None:
    """A time of the device that communicated least in every block: who comes last to an allreduce waits for nobody."""
    if not strategy(record["cell"]["strategy"]).all_ranks_send_alike:
        return None
    return _of_blocks(record, lambda block: min(block["devices"], key=_communication_s)[name])


def _communication_s(device: Mapping[str, Any]) -> float:
    return float(device["communication_s"])


def _logged(record: Record, name: str) -> list[float] | None:
    return None if record["ddp_logger"] is None else list(record["ddp_logger"][name])
