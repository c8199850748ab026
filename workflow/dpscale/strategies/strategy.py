"""What there is to know of a strategy without torch: how it uses GPUs, what it sends, and how it is shown."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from dpscale.errors import StrategyError
from dpscale.strategies.facts import NetworkFacts, NetworkSize

# A collective of a step: its operation, and its size in bytes.
Message = tuple[str, int]

# The first rung of every ladder, and the last one: the whole step.
ALONE, WHOLE = "alone", "training"


@dataclass(frozen=True, kw_only=True)
class Strategy:
    """How a strategy uses GPUs, what it sends, and how it is shown."""

    name: str
    label: str
    colour: tuple[str, str]
    """On a light and on a dark page."""
    is_parallel: bool = True
    """Whether it trains on several GPUs; otherwise on exactly one."""
    has_process_per_gpu: bool = False
    """Otherwise one process drives all of its GPUs, and takes the global batch in a step."""
    needs_cuda: bool = False
    sends_inputs: bool = False
    """Whether its first GPU sends images to the others and gets their outputs, in every step."""
    all_ranks_send_alike: bool = False
    """Whether every GPU sends as much: one that communicates longer than another then waits for it."""
    is_sharded: bool = False
    """Whether every GPU keeps but its share of the weights: memory is then what it is for."""
    messages_of_step: Callable[[NetworkFacts], list[Message]]
    """The collectives of one step, by the network's facts."""
    message_names: Mapping[str, str] = field(default_factory=dict)
    """By operation: what one of its messages is called, with whose it is."""
    bytes_sent: Callable[[int, NetworkSize], float] | None = None
    """What a GPU sends per step, of the number of GPUs and the network's facts; None where that is not known."""
    adds: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """What a rung adds to the one before it. A rung is a variant of the step, by its name in records."""
    controls: frozenset[str] = frozenset()
    """What is timed with the rungs and stands on no ladder."""
    not_with: Mapping[str, str] = field(default_factory=dict)
    """Settings that it cannot have but as they are by default, each with the reason."""

    def processes(self, gpus: int) -> int:
        """Processes that train on `gpus` GPUs together."""
        return gpus if self.has_process_per_gpu else 1

    def allows(self, gpus: int) -> bool:
        """Whether it can train on so many GPUs."""
        return (gpus > 1) == self.is_parallel

    @property
    def gpus_allowed(self) -> str:
        """For error messages: `1`, or `more than 1`."""
        return "more than 1" if self.is_parallel else "1"

    def sent_bytes(self, gpus: int, network: NetworkSize) -> float:
        """Bytes that each of the GPUs sends per step: what its bandwidth is of. Raises StrategyError where it is not
        known what it sends."""
        if self.bytes_sent is None:
            raise StrategyError(f"{self.name} has no bytes that a GPU sends per step: it has no bandwidth")
        return self.bytes_sent(gpus, network)

    def added(self, before: str, rung: str) -> str:
        """What `rung` adds to the rung `before`, in a few words; its name, where that is not known."""
        return self.adds.get((before, rung), rung)
