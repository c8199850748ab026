"""Rows of the memory of a training step."""

from dpscale.tables.column import MB, PERCENT, VARIANT, column
from dpscale.tables.row import OfConfiguration


class MemoryRow(OfConfiguration):
    """Memory of a step on the device that needs most: what its tensors add up to, what formulas expect, and what
    torch's allocator holds."""

    variant: str = VARIANT.shown
    weights_bytes: float = column("Weights", "Weights and buffers on the device.", MB).shown
    gradients_bytes: float = column("Gradients", "Between two steps.", MB).shown
    optimiser_bytes: float = column("Optimiser", "What the optimiser keeps from step to step.", MB).shown
    expected_bytes: float = column(
        "These three, expected", "K·s of weights and their buffers, K·s of gradients, K·s of momenta; or shares.", MB
    ).shown
    off: float = column("Off", "These three over what is expected, less 1.", PERCENT, digits=2).shown
    saved_bytes: float = column(
        "Activations",
        "What a forward pass saves for its backward pass, each piece of memory once. Those of dp are not seen.",
        MB,
    ).shown
    held_bytes: float = column(
        "Held between steps", "By the allocator, with gradients: these three, and the buckets of ddp.", MB
    ).shown
    activations_bytes: float = column(
        "Forward pass adds", "What the allocator holds more when the backward pass begins.", MB
    ).shown
    peak_bytes: float = column("Peak of a step", "Most bytes that the allocator held in a step.", MB).shown

    @property
    def together_bytes(self) -> float:
        """The bytes of all tensors that are counted."""
        return self.weights_bytes + self.gradients_bytes + self.optimiser_bytes + self.saved_bytes
