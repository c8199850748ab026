"""The ways to train on several GPUs: plain data. Whoever needs to know something of a strategy looks here.

To add one: a row here, its wrapper in `measure/model/parallel.py`, and what it can be taken apart into in
`measure/worker/communication.py`. Whatever does not know a strategy raises; none is ever taken for another.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from dpscale.errors import StrategyError


@dataclass(frozen=True)
class Strategy:
    """How a strategy uses GPUs, and how it is shown."""

    name: str
    label: str
    is_parallel: bool
    """Whether it trains on several GPUs; otherwise on exactly one."""
    has_process_per_gpu: bool
    """Otherwise one process drives all of its GPUs, and takes the global batch in a step."""
    needs_cuda: bool
    sends_inputs: bool
    """Whether its first GPU sends images to the others and gets their outputs, in every step."""
    all_ranks_send_alike: bool
    """Whether every GPU sends as much: one that communicates longer than another then waits for it."""
    message_name: str
    """What one of its messages is called, with whose it is."""
    messages: tuple[tuple[str, str], ...]
    """Its collectives in a step: operation, and the key of the network's facts that has their sizes in bytes."""
    colour: tuple[str, str]
    """On a light and on a dark page."""
    buffers_name: str = ""
    """What its broadcasts are called, where they are of buffers alone."""

    def processes(self, gpus: int) -> int:
        """Processes that train on `gpus` GPUs together."""
        return gpus if self.has_process_per_gpu else 1

    def allows(self, gpus: int) -> bool:
        """Whether it can train on so many GPUs."""
        return (gpus > 1) == self.is_parallel

    def messages_of_step(self, network: Mapping[str, Any]) -> list[tuple[str, int]]:
        """The collectives of one step as operation and bytes, by the `network`'s facts. Older facts do not have DDP's
        broadcasts: its buffers are then one message."""
        network = {"ddp_broadcast_bytes": [network["buffer_bytes"]], **network}
        return [
            (operation, int(size["bytes"] if isinstance(size, Mapping) else size))
            for operation, key in self.messages
            for size in network[key]
        ]

    def name_of_message(self, operation: str) -> str:
        """What a message is called that is sent by `operation`."""
        return (operation == "broadcast" and self.buffers_name) or self.message_name

    @property
    def gpus_allowed(self) -> str:
        """For error messages: `1`, or `more than 1`."""
        return "more than 1" if self.is_parallel else "1"


_ROWS = (
    Strategy(
        name="single",
        label="one GPU",
        is_parallel=False,
        has_process_per_gpu=False,
        needs_cuda=False,
        sends_inputs=False,
        all_ranks_send_alike=False,
        message_name="",
        messages=(),
        colour=("#0072B2", "#56B4E9"),
    ),
    Strategy(
        name="dp",
        label="DataParallel",
        is_parallel=True,
        has_process_per_gpu=False,
        needs_cuda=True,
        sends_inputs=True,
        all_ranks_send_alike=False,
        message_name="DataParallel's chunk",
        messages=(("broadcast", "dp_broadcast_bytes"), ("reduce", "dp_reduce_bytes")),
        colour=("#B34700", "#FF9E4A"),
    ),
    Strategy(
        name="ddp",
        label="DistributedDataParallel",
        is_parallel=True,
        has_process_per_gpu=True,
        needs_cuda=False,
        sends_inputs=False,
        all_ranks_send_alike=True,
        message_name="DDP's bucket",
        messages=(("broadcast", "ddp_broadcast_bytes"), ("allreduce", "ddp_buckets")),
        colour=("#007A5A", "#3ECFA3"),
        buffers_name="DDP's buffers",
    ),
)

# In the order in which people read them.
STRATEGIES: Mapping[str, Strategy] = MappingProxyType({row.name: row for row in _ROWS})

# The baseline of every speedup.
BASELINE = "single"


def strategy(name: str) -> Strategy:
    """The strategy of this name. Raises StrategyError where there is none."""
    if name not in STRATEGIES:
        raise StrategyError(f"there is no strategy {name}: known are {', '.join(STRATEGIES)}")
    return STRATEGIES[name]


def parallel_strategies() -> Iterator[str]:
    """The names of those that train on several GPUs."""
    return (name for name, row in STRATEGIES.items() if row.is_parallel)
