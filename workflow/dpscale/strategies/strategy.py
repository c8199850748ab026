"""A strategy without torch: how it uses GPUs, what it sends, and how it is shown."""

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
    """Its colour on a light and on a dark page."""
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
    """Whether every GPU keeps its share of the weights alone: it is then used to save memory."""
    messages_of_step: Callable[[NetworkFacts], list[Message]]
    """The collectives of one step, by the network's facts."""
    message_names: Mapping[str, str] = field(default_factory=dict)
    """The name of a message, by operation, with the strategy's."""
    bytes_sent: Callable[[int, NetworkSize], float] | None = None
    """The bytes that a GPU sends per step, from the number of GPUs and the network's facts; None if not known."""
    adds: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """The work that a rung adds to the rung before it. A rung is a variant of the step, by its name in records."""
    controls: frozenset[str] = frozenset()
    """Variants that are timed with the rungs and stand on no ladder."""
    not_with: Mapping[str, str] = field(default_factory=dict)
    """Settings that must have their default, each with the reason."""

    def processes(self, gpus: int) -> int:
        """Return the number of processes that train on `gpus` GPUs together."""
        return gpus if self.has_process_per_gpu else 1

    def allows(self, gpus: int) -> bool:
        """Return whether it can train on so many GPUs."""
        return (gpus > 1) == self.is_parallel

    @property
    def gpus_allowed(self) -> str:
        """The allowed numbers of GPUs in words: `1`, or `more than 1`."""
        return "more than 1" if self.is_parallel else "1"

    def sent_bytes(self, gpus: int, network: NetworkSize) -> float:
        """Return the bytes that each of the GPUs sends per step, from which its bandwidth follows. Raises StrategyError
        where they are not known."""
        if self.bytes_sent is None:
            raise StrategyError(f"{self.name} has no bytes that a GPU sends per step: it has no bandwidth")
        return self.bytes_sent(gpus, network)

    def added(self, before: str, rung: str) -> str:
        """Return what `rung` adds to the rung `before`, in a few words; its name, where that is not known."""
        return self.adds.get((before, rung), rung)
