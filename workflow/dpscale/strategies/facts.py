"""Facts of a network that strategies and formulas need: sizes, work, and the messages of its training."""

from typing import Annotated

from msgspec import Meta, Struct

# A float32 image of 3 x 32 x 32, and its 10 logits.
IMAGE_BYTES = 3 * 32 * 32 * 4
LOGITS_BYTES = 10 * 4

Bytes = Annotated[int, Meta(ge=1)]
Messages = Annotated[list[Bytes], Meta(min_length=1)]


class FlopPerImage(Struct, frozen=True, forbid_unknown_fields=True):
    """Floating point operations of one image (sample). A multiplication with its addition is two."""

    forward: int
    forward_backward: int


class Bucket(Struct, frozen=True, forbid_unknown_fields=True):
    """A bucket of DDP."""

    bytes: int
    # Share of the backward pass's work that is done when the bucket's last gradient is there.
    ready_share: Annotated[float, Meta(ge=0, le=1)]


class NetworkSize(Struct, frozen=True, forbid_unknown_fields=True):
    """How large the network is."""

    parameters: int  # Trainable parameters, K.
    gradient_bytes: int  # Bytes of all their gradients, K*s.


# The first facts have no traffic, no inputs and outputs (they are of the built-in network), and no units of FSDP. Their
# `ddp_broadcast_bytes` is None: DDP's buffers are then taken for one message.
class NetworkFacts(NetworkSize, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Facts of a network that are known without measuring. Messages are in the order in which they are sent."""

    tensors: int  # Tensors that hold the parameters.
    buffer_bytes: int  # Bytes of the buffers (statistics of batch normalisation).
    flop_per_image: FlopPerImage | None  # By torch's counter. None where it cannot count them.
    input_bytes_per_image: Annotated[int, Meta(ge=0)] = IMAGE_BYTES  # Of the arguments that the network is called with.
    output_bytes_per_image: Annotated[int, Meta(ge=0)] = LOGITS_BYTES  # Of the values that it returns.
    # Numbers that a training step reads or writes in the GPU's memory per image when it goes layer by layer.
    traffic_elements_per_image: int | None = None
    dp_broadcast_bytes: Messages  # Chunks in which DataParallel broadcasts parameters and buffers.
    dp_reduce_bytes: Messages  # Chunks in which DataParallel adds up gradients.
    ddp_broadcast_bytes: list[Bytes] | None = None  # Pieces in which DDP broadcasts buffers before every forward pass.
    # DDP's buckets, after it has built them anew, in the order in which they are reduced.
    ddp_buckets: Annotated[list[Bucket], Meta(min_length=1)]
    fsdp_unit_bytes: list[Bytes] = []  # Weights that FSDP gathers as one, the network's own before its units'.

    @property
    def bytes_per_image(self) -> tuple[int, int]:
        """Bytes of the network's input and of its output, which DataParallel moves."""
        return self.input_bytes_per_image, self.output_bytes_per_image
