"""A collectives cell: what the links between a number of GPUs can do when nothing else runs. Free of torch."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dpscale.errors import MeasurementError
from dpscale.measure.cell import Run, measure
from dpscale.record import Record, read_record
from dpscale.study import CollectivesCell, CollectivesSettings

SMALLEST_BYTES = 4 * 2**10
LARGEST_BYTES = {"cuda": 2**30, "cpu": 64 * 2**20}
FACTOR = 4
OPERATIONS = ("allreduce", "broadcast", "reduce", "reduce_scatter", "all_gather")


def measure_collectives(cell: CollectivesCell, settings: CollectivesSettings, network_facts: Path, run: Run) -> Record:
    """Time every collective over a series of sizes, and at the sizes that the network of `network_facts` needs; write
    the record. Raises RecordError or MeasurementError; there is then no record.
    """
    if cell.gpus < 2:
        raise MeasurementError("a collective needs at least 2 GPUs (workers)")
    facts = read_record("network", network_facts)
    if not settings.same_network(facts["settings"]):
        raise MeasurementError(f"{network_facts}: is of another network. Make it with: dpscale network")
    job = {"gpus": cell.gpus, "messages": messages(facts, settings.device)}
    return measure("dpscale.measure.collectives_worker", cell, settings, job, cell.gpus, cell.gpus, run)


def messages(network: Mapping[str, Any], device: str) -> list[tuple[str, int]]:
    """Which collectives to time, at how many bytes: a series of sizes for all of them, and the network's own.

    DDP reduces buckets; DataParallel broadcasts and reduces chunks; the whole gradient is what one message would be.
    """
    sizes = [SMALLEST_BYTES]
    while sizes[-1] * FACTOR <= LARGEST_BYTES[device]:
        sizes.append(sizes[-1] * FACTOR)
    wanted = {(operation, size) for operation in OPERATIONS for size in sizes}
    wanted |= {("allreduce", bucket["bytes"]) for bucket in network["ddp_buckets"]}
    wanted |= {("allreduce", network["gradient_bytes"])}
    wanted |= {("broadcast", size) for size in network["dp_broadcast_bytes"]}
    wanted |= {("reduce", size) for size in network["dp_reduce_bytes"]}
    return sorted(wanted)
