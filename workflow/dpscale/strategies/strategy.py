"""A strategy without torch: how it uses GPUs, what it sends of a network, and how it is shown."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Protocol

from msgspec import Meta, Struct

from dpscale.errors import StrategyError

# A float32 image of 3 x 32 x 32, and its 10 logits.
IMAGE_BYTES = 3 * 32 * 32 * 4
LOGITS_BYTES = 10 * 4

Bytes = Annotated[int, Meta(ge=1)]
Messages = Annotated[list[Bytes], Meta(min_length=1)]


class FlopPerImage(Struct, frozen=True, forbid_unknown_fields=True):
    """Floating point operations of one image (sample). A multiplication with its addition is two."""

    forward: int
    forward_backward: int


class Bucket(Struct, frozen=True):
    """A bucket of DDP."""

    bytes: int


class NetworkSize(Struct, frozen=True, forbid_unknown_fields=True):
    """How large the network is."""

    parameters: int  # Trainable parameters, K.
    gradient_bytes: int  # Bytes of all their gradients, K*s.


# The first facts have no inputs and outputs (they are of the built-in network), and no units of FSDP. Their
# `ddp_broadcast_bytes` is None: DDP's buffers are then taken for one message. Older facts had more, which nobody reads:
# the share of the backward pass that is done when a bucket is full, and the numbers that a step reads and writes.
class NetworkFacts(NetworkSize, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """Facts of a network that are known without measuring. Messages are in the order in which they are sent."""

    tensors: int  # Tensors that hold the parameters.
    buffer_bytes: int  # Bytes of the buffers (statistics of batch normalisation).
    flop_per_image: FlopPerImage | None  # By torch's counter. None where it cannot count them.
    input_bytes_per_image: Annotated[int, Meta(ge=0)] = IMAGE_BYTES  # Of the arguments that the network is called with.
    output_bytes_per_image: Annotated[int, Meta(ge=0)] = LOGITS_BYTES  # Of the values that it returns.
    dp_broadcast_bytes: Messages  # Chunks in which DataParallel broadcasts parameters and buffers.
    dp_reduce_bytes: Messages  # Chunks in which DataParallel adds up gradients.
    ddp_broadcast_bytes: list[Bytes] | None = None  # Pieces in which DDP broadcasts buffers before every forward pass.
    # DDP's buckets, after it has built them anew, in the order in which they are reduced.
    ddp_buckets: Annotated[list[Bucket], Meta(min_length=1)]
    fsdp_unit_bytes: list[Bytes] = []  # Weights that FSDP gathers as one, the network's own before its units'.
    weight_bytes: list[Bytes] = []  # Every weight by itself, as its gradient is sent by ddp-naive.

    @property
    def bytes_per_image(self) -> tuple[int, int]:
        """Bytes of the network's input and of its output, which DataParallel moves."""
        return self.input_bytes_per_image, self.output_bytes_per_image


class Exchange(Protocol):
    """The settings of a study that decide how many bytes a step sends."""

    @property
    def accumulate(self) -> int:
        """Micro-batches of a step."""

    @property
    def ddp_gradient_dtype(self) -> str:
        """What ddp's allreduce adds up."""

    @property
    def fsdp_reshard_after_forward(self) -> bool:
        """Are weights gathered again for the backward pass."""

    @property
    def fsdp_replicas(self) -> int:
        """How many times all weights exist."""


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
    shards: frozenset[str] = frozenset()
    """What every GPU keeps its share of alone, to save memory: weights, gradients, optimiser."""
    own_settings: str = ""
    """How settings begin that are its own: `ddp` or `fsdp`."""
    messages_of_step: Callable[[NetworkFacts], list[Message]]
    """The collectives of one step, by the network's facts."""
    bytes_sent: Callable[[int, NetworkSize, Exchange], float] | None = None
    """The bytes that a GPU sends per step, from the number of GPUs, the network's facts and the settings; None if not
    known."""
    adds: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """The work that a rung adds to the rung before it. A rung is a variant of the step, by its name in records."""
    silent: str = ""
    """The rung that computes all that the whole step does and sends no gradient, where there is one."""
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

    def sent_bytes(self, gpus: int, network: NetworkSize, exchange: Exchange) -> float:
        """Return the bytes that each of the GPUs sends per step, from which its bandwidth follows. Raises StrategyError
        where they are not known."""
        if self.bytes_sent is None:
            raise StrategyError(f"{self.name} has no bytes that a GPU sends per step: it has no bandwidth")
        return self.bytes_sent(gpus, network, exchange)

    def added(self, before: str, rung: str) -> str:
        """Return what `rung` adds to the rung `before`, in a few words; its name, where that is not known."""
        return self.adds.get((before, rung), rung)


def ring_allreduce_bytes(gpus: int, gradient_bytes: int) -> float:
    """Bytes sent per GPU and step, 2 * (N-1)/N * K*s: reduce-scatter then all-gather (Patarasuk and Yuan 2009)."""
    return 2 * (gpus - 1) / gpus * gradient_bytes
