"""The tables of communication: estimated in five ways side by side, as bandwidth, alone, and as parts of a step."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np

from dpscale.analyse.blocks import Timed
from dpscale.analyse.estimators import (
    Links,
    bytes_per_image,
    from_steps,
    has_artefacts,
    held_s,
    is_distorted,
    isolated_step_s,
    links_of,
)
from dpscale.analyse.ladder import ladder_rows
from dpscale.analyse.points import Comparison, Points, Row, figures
from dpscale.analyse.row_figures import figure_of, known_columns
from dpscale.analyse.runs import servers_used
from dpscale.formulas import scaling
from dpscale.formulas.figure import Figure, ratio
from dpscale.formulas.statistics import derive_in_blocks, repeatability
from dpscale.plan.cells import AnyCell, CollectivesCell, CommunicationCell, Configuration
from dpscale.plan.study import Study
from dpscale.records.collect import Collected
from dpscale.records.files import Record
from dpscale.strategies.known import STRATEGIES, strategy
from dpscale.vocabulary.states import ARTEFACT, DISTORTED, NOT_RESOLVABLE, WHOLE_STEP

PARTS = ("compute_s", "communication_s", "copy_s", "idle_s")
# The trace counts in nanoseconds: what is below them is left over from adding up.
TRACE_DIGITS = 9

Place = tuple[Configuration, str]  # and the letter of the environment


@dataclass(frozen=True)
class Measurements:
    """What was measured of communication itself, by place."""

    steps: Mapping[Place, Sequence[Record]]
    links: Mapping[tuple[int, str], Links]
    collectives: Mapping[tuple[int, str], Sequence[Record]]
    network: Mapping[str, Any] | None

    def nodes(self, gpus: int, letter: str) -> int:
        """Nodes that so many GPUs filled when their collectives were timed."""
        return int(self.collectives[gpus, letter][0]["cell"].get("nodes", 1))

    @classmethod
    def of(cls, collected: Collected, environments: Mapping[AnyCell, str]) -> "Measurements":
        steps: dict[Place, list[Record]] = defaultdict(list)
        collectives: dict[tuple[int, str], list[Record]] = defaultdict(list)
        for cell, record in collected.records.items():
            if isinstance(cell, CommunicationCell):
                steps[cell.configuration, environments[cell]].append(record)
            elif isinstance(cell, CollectivesCell):
                collectives[cell.gpus, environments[cell]].append(record)
        links = {(gpus, letter): links_of(group, f"{gpus} {letter}") for (gpus, letter), group in collectives.items()}
        return cls(steps, links, collectives, collected.network)


Estimates = Mapping[str, Figure]  # E1 to E5 of a point, by the names of their columns; those that exist


def estimates(compared: Comparison, measured: Measurements) -> Estimates:
    """Every estimate of a point's communication that was measured or can be inferred."""
    configuration, letter = compared.point.configuration, compared.point.environment or ""
    found = from_steps(measured.steps.get((configuration, letter), ()), f"{configuration} {letter}")
    if compared.blocks:
        found["communication_step_s"] = compared.communication_step
    links = measured.links.get((configuration.gpus, letter))
    if links and measured.network:
        isolated = isolated_step_s(
            configuration.strategy, configuration.gpus, configuration.batch_per_gpu, measured.network, links
        )
        if isolated:
            found["isolated_step_s"] = isolated
    return found


def communication_row(compared: Comparison, found: Estimates, measured: Measurements) -> Row:
    """E1 of an epoch, and every estimate of a step.

    Times are arithmetic means over blocks here, so that compute and communication add up to the epoch.
    """
    profiler = profiler_state(compared, measured)
    if not compared.blocks:
        return {**compared.row, **figures(found), "profiler": profiler}
    gpus = compared.point.configuration.gpus
    epoch_s, baseline_s = (fmean(timed.epoch_s for timed in side) for side in _sides(compared))
    step_s, baseline_step_s = (fmean(timed.step_s for timed in side) for side in _sides(compared))
    return {
        **compared.row,
        **figures({**found, "communication_s": compared.communication}),
        "profiler": profiler,
        "epoch_s": epoch_s,
        "compute_s": scaling.compute_s(baseline_s, gpus),
        "communication_share": compared.communication.value / epoch_s,
        "step_s": step_s,
        "baseline_step_s": baseline_step_s,
    }


def _sides(compared: Comparison) -> tuple[list[Timed], list[Timed]]:
    """What the blocks hold of N GPUs, and of one alone."""
    return [block.parallel for block in compared.blocks], [block.baseline for block in compared.blocks]


def profiler_state(compared: Comparison, measured: Measurements) -> str | None:
    """What is to be said of the profiler's figures of a point in one word; none where there are none."""
    point = compared.point
    return _state_of(measured.steps.get((point.configuration, point.environment or ""), ()))


def _state_of(records: Sequence[Record]) -> str | None:
    profiled = [record for record in records if record["profile"]]
    if not profiled:
        return None
    if any(map(is_distorted, profiled)):
        return DISTORTED
    return ARTEFACT if any(map(has_artefacts, profiled)) else "ok"


def ladders(measured: Measurements, points: Points) -> Iterator[Row]:
    """The ladder of every configuration, and its parts of the timing cell's step."""
    for (configuration, letter), records in sorted(measured.steps.items()):
        point = points.get((configuration, "compute", letter))
        yield from ladder_rows(configuration, letter, records, point.step.value if point and point.step else None)


def bandwidth_row(study: Study, compared: Comparison, found: Estimates, measured: Measurements) -> Row:
    """The bandwidth that E1 implies, the one that the profiler's time implies, and the measured one."""
    if not compared.blocks:
        return compared.row
    configuration, inferred = compared.point.configuration, compared.communication
    network = next(record["network"] for record in compared.point.records if record["network"])
    gradient_bytes = network["gradient_bytes"]
    bytes_per_step = strategy(configuration.strategy).sent_bytes(configuration.gpus, network)
    steps = scaling.steps_per_epoch(study.epoch_images, configuration.gpus, configuration.batch_per_gpu)
    row = {
        **compared.row,
        "parameters": network["parameters"],
        "allreduce_bytes_per_step": bytes_per_step,
        "steps_per_epoch": steps,
        "allreduce_bytes_per_epoch": bytes_per_step * steps,
        "gradient_bytes": gradient_bytes,
    }
    known = {"communication_s": inferred}
    if strategy(configuration.strategy).sends_inputs and measured.network:
        images_bytes = configuration.batch_per_gpu * sum(bytes_per_image(measured.network))
        buffer_bytes = measured.network["buffer_bytes"]
        root = scaling.root_link_bytes(configuration.gpus, images_bytes, gradient_bytes, buffer_bytes)
        row["root_link_bytes_per_step"] = root
    bus = _bus_bandwidth(compared, measured, gradient_bytes)
    if bus:
        known["bus_bandwidth_gb_s"] = bus
    row |= figures(known)
    # Where all ranks send alike, one that communicates longer waits for another.
    alike = strategy(configuration.strategy).all_ranks_send_alike
    profiled = found.get("profiler_least_step_s" if alike else "profiler_step_s")
    if profiled and profiled.value > 0 and profiler_state(compared, measured) == "ok":
        row |= _inverted("profiler_bandwidth_gb_s", profiled, lambda s: scaling.bandwidth_gb_s(bytes_per_step, 1, s))
    if not scaling.resolvable(inferred):
        reason = "; ".join(filter(None, [_why_not_resolvable(inferred), compared.row["reason"]]))
        return {**row, "status": NOT_RESOLVABLE, "reason": reason, **_at_least(inferred, bytes_per_step, steps)}
    row |= _inverted("bandwidth_gb_s", inferred, lambda s: scaling.bandwidth_gb_s(bytes_per_step, steps, s))
    if bus:
        row |= known_columns(
            "utilisation", ratio(figure_of(row, "bandwidth_gb_s"), figure_of(row, "bus_bandwidth_gb_s"))
        )
    return row


def _at_least(inferred: Figure, bytes_per_step: float, steps: int) -> Row:
    """What follows where the communication time may be zero: its longest gives the least bandwidth. Nothing follows
    from a time that is below zero for certain, nor from a range."""
    longest_s = inferred.interval[1]
    if not inferred.has_interval or longest_s <= 0:
        return {}
    return {"bandwidth_gb_s_at_least": scaling.bandwidth_gb_s(bytes_per_step, steps, longest_s)}


def _bus_bandwidth(compared: Comparison, measured: Measurements, gradient_bytes: int) -> Figure | None:
    """Of an allreduce of the whole gradient between as many GPUs, alone."""
    configuration, letter = compared.point.configuration, compared.point.environment or ""
    links = measured.links.get((configuration.gpus, letter))
    seconds = links.collectives.get(("allreduce", gradient_bytes)) if links else None
    if seconds is None:
        return None
    return derive_in_blocks(
        lambda s: scaling.bus_bandwidth_gb_s("allreduce", configuration.gpus, gradient_bytes, s), seconds, scale="log"
    )


def _inverted(name: str, seconds: Figure, formula: Any) -> Row:
    """A figure that falls with a time: the longest time is its low end. Draws near or below zero seconds must not be
    divided by."""
    low, high = seconds.interval
    return {name: formula(seconds.value), f"{name}_low": formula(high), f"{name}_high": formula(low)}


def _why_not_resolvable(inferred: Figure) -> str:
    low, high = inferred.interval
    if not (inferred.has_interval or inferred.is_range):
        return "the communication time has no interval: one block"
    if inferred.is_range:
        return f"the communication time has no interval: two blocks, {low:.3g} and {high:.3g} s"
    if high < 0:
        return f"communication time {inferred.value:.3g} s [{low:.3g}, {high:.3g}] is below zero"
    return f"communication time {inferred.value:.3g} s [{low:.3g}, {high:.3g}] is not above zero for certain"


def collectives_rows(measured: Measurements, servers: Mapping[str, int]) -> Iterator[Row]:
    """A row for every collective and size, and for every pair of GPUs; `servers` as `runs.servers_of` numbers them."""
    uses = _uses(measured.network)
    for (gpus, letter), records in measured.collectives.items():
        links = measured.links[gpus, letter]
        timings = _timings(records)
        shared = {"environment": letter, "servers": len(servers_used(records, servers))}
        for (operation, message_bytes), seconds in links.collectives.items():
            yield {
                **_collective(operation, gpus, message_bytes, seconds, timings[operation, message_bytes]),
                **shared,
                "nodes": measured.nodes(gpus, letter),
                "use": uses.get((operation, message_bytes)),
                "not_held": _not_held(records, operation, message_bytes),
            }
        for (source, target), (copied_bytes, seconds) in links.peer_copies.items():
            yield {
                **_collective("peer_copy", gpus, copied_bytes, seconds, timings[source, target]),
                **shared,
                "nodes": 1,
                "source": source,
                "target": target,
            }


def _collective(operation: str, gpus: int, message_bytes: int, seconds: Figure, runs: Sequence[Sequence[float]]) -> Row:
    def bus(s: float) -> float:
        return scaling.bus_bandwidth_gb_s(operation, gpus, message_bytes, s)

    timings = [timing for run in runs for timing in run]
    return {
        "operation": operation,
        "gpus": gpus,
        "message_bytes": message_bytes,
        "n": len(timings),
        "runs": len(runs),
        **figures({"time_s": seconds, "bus_bandwidth_gb_s": derive_in_blocks(bus, seconds, scale="log")}),
        "repeatability": repeatability(runs),
        "time_s_min": min(timings),
        "time_s_p95": float(np.quantile(timings, 0.95)),
        "algorithm_bandwidth_gb_s": scaling.algorithm_bandwidth_gb_s(message_bytes, seconds.value),
    }


def _timings(records: Iterable[Record]) -> dict[tuple[Any, Any], list[Sequence[float]]]:
    """Of every collective and size, and of every pair of GPUs, the timings of every run."""
    timings: dict[tuple[Any, Any], list[Sequence[float]]] = defaultdict(list)
    for record in records:
        for result in record["collectives"]:
            timings[result["operation"], result["bytes"]].append(result["seconds"])
        for copy in record["peer_copies"]:
            timings[copy["source"], copy["target"]].append(copy["seconds"])
    return timings


def _not_held(records: Sequence[Record], operation: str, message_bytes: int) -> int:
    """How many timings may hold the launch of their calls, since the GPUs could not be held back long enough."""
    results = [result for record in records for result in record["collectives"]]
    return sum(
        len(result["seconds"]) - len(held_s(result))
        for result in results
        if (result["operation"], result["bytes"]) == (operation, message_bytes)
    )


def _uses(network: Mapping[str, Any] | None) -> dict[tuple[str, int], str]:
    """What the network needs a message of this size for."""
    if network is None:
        return {}
    uses: dict[tuple[str, int], list[str]] = defaultdict(list)
    uses["allreduce", network["gradient_bytes"]].append("whole gradient")
    for row in STRATEGIES.values():
        numbers: dict[str, int] = defaultdict(int)
        for operation, size in row.messages_of_step(network):
            numbers[operation] += 1
            uses[operation, size].append(f"{row.message_names[operation]} {numbers[operation]}")
    return {message: ", ".join(names) for message, names in uses.items()}


def steps_rows(measured: Measurements) -> Iterator[Row]:
    """Where the time of every device went, by phase, and for the whole step."""
    for (configuration, letter), records in sorted(measured.steps.items()):
        blocks = [block for record in records if record["profile"] for block in record["profile"]["blocks"]]
        for number in range(len(blocks[0]["devices"]) if blocks else 0):
            place = {
                "strategy": configuration.strategy,
                "gpus": configuration.gpus,
                "batch_per_gpu": configuration.batch_per_gpu,
                "global_batch": configuration.global_batch,
                "environment": letter,
                "profiler": _state_of(records),
                "n": len(blocks),
            }
            for row in _device_rows([block["devices"][number] for block in blocks]):
                yield {**place, **row}


def _device_rows(blocks: Sequence[Mapping[str, Any]]) -> Iterator[Row]:
    """The parts of the block with the median step, which sum up to it, between the least and the most of all blocks."""
    middle = sorted(blocks, key=lambda block: block["step_s"])[len(blocks) // 2]
    device = middle["device"]
    for phase in middle["phases"]:
        of_phase = [block["phases"].get(phase, dict.fromkeys(PARTS, 0.0)) for block in blocks]
        yield {"device": device, "phase": phase, **_parts(middle["phases"][phase], of_phase)}
    totals = [{part: sum(phase[part] for phase in block["phases"].values()) for part in PARTS} for block in blocks]
    total = totals[blocks.index(middle)]
    parts_s = sum(total.values())
    yield {
        "device": device,
        "phase": WHOLE_STEP,
        **_parts(total, totals),
        "hidden_communication_s": round(middle["communication_s"] - middle["exposed_s"], TRACE_DIGITS),
        "parts_s": parts_s,
        "step_s": middle["step_s"],
        "step_s_low": min(block["step_s"] for block in blocks),
        "step_s_high": max(block["step_s"] for block in blocks),
        "difference": parts_s / middle["step_s"] - 1,
    }


def _parts(middle: Mapping[str, float], blocks: Sequence[Mapping[str, float]]) -> Row:
    row: Row = {}
    for part in PARTS:
        values = [block[part] for block in blocks]
        row |= {part: middle[part], f"{part}_low": min(values), f"{part}_high": max(values)}
    return row
