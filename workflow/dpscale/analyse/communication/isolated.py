"""E5, the floor of communication: a step's messages one after the other, with nothing else running."""

from bisect import bisect
from collections.abc import Sequence

from dpscale.formulas.figure import UNKNOWN, Figure, derive_in_blocks, multiplied
from dpscale.plan.cells import Configuration
from dpscale.strategies.facts import NetworkFacts
from dpscale.strategies.known import strategy
from dpscale.strategies.strategy import Message
from dpscale.tables.communication import CollectivesRow


def isolated_step_s(configuration: Configuration, network: NetworkFacts, timed: Sequence[CollectivesRow]) -> Figure:
    """In s, from the rows that were `timed` between as many GPUs.

    Not known where a message was not timed, nor a smaller and a larger one of its operation, between which it is
    interpolated.

    DDP broadcasts its buffers and reduces its buckets; DataParallel scatters images, broadcasts parameters and buffers,
    gathers outputs, and reduces gradients, all from or to its first GPU.
    """
    row = strategy(configuration.strategy)
    parts = [message_s(message, timed) for message in row.messages_of_step(network)]
    if row.sends_inputs:
        sent, returned = (configuration.batch_per_gpu * size for size in network.bytes_per_image)
        for gpu in range(1, configuration.gpus):
            parts += [_copy_s(0, gpu, sent, timed), _copy_s(gpu, 0, returned, timed)]
    if not parts or not all(seconds.is_known for seconds in parts):
        return UNKNOWN
    return derive_in_blocks(lambda *seconds: sum(seconds), *parts)


def message_s(message: Message, timed: Sequence[CollectivesRow]) -> Figure:
    """A collective's time alone. Between two sizes that were timed it grows with the bytes, from one to the other: a
    latency, and a time per byte. Beyond them it is not known."""
    operation, size = message
    by_size = {row.message_bytes: row.time_s for row in timed if row.operation == operation}
    if size in by_size:
        return by_size[size]
    sizes = sorted(by_size)
    place = bisect(sizes, size)
    if not 0 < place < len(sizes):
        return UNKNOWN
    smaller, larger = sizes[place - 1 : place + 1]
    share = (size - smaller) / (larger - smaller)
    return derive_in_blocks(
        lambda less_s, more_s: less_s + share * (more_s - less_s), by_size[smaller], by_size[larger]
    )


def _copy_s(source: int, target: int, size: int, timed: Sequence[CollectivesRow]) -> Figure:
    """A copy at the bandwidth that was measured with a large one."""
    copies = (row for row in timed if (row.source, row.target) == (source, target))
    return next((multiplied(row.time_s, size / row.message_bytes) for row in copies), UNKNOWN)
