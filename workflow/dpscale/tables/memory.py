"""Rows of the memory of a training step, and of its work beside what a chip can do."""

from dpscale.formulas.figure import Figure
from dpscale.formulas.scaling import GB
from dpscale.tables.column import (
    GB_PER_S,
    MB,
    PERCENT,
    RESTS_ON,
    TFLOP_PER_S,
    VARIANT,
    Unit,
    column,
)
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
    gathered_bytes: float = column(
        "Gathered weights", "K·s where fsdp keeps whole weights from the forward pass to the backward pass.", MB
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
        states = self.weights_bytes + self.gradients_bytes + self.optimiser_bytes
        return states + self.saved_bytes + self.gathered_bytes


class RooflineRow(OfConfiguration):
    """Roofline of a step on one GPU: arithmetic, bytes moved at most, and the rate that the step reaches beside what
    the GPU's data sheet allows at so many FLOP per byte. Without loading."""

    variant: str = VARIANT.shown
    precision: str = column("Precision", "Of the variant's settings.").shown
    rests_on: str = RESTS_ON
    moved_bytes: float = column("Bytes moved", "What all operators are given, make and write: at most.", MB).shown
    intensity: float = column(
        "Intensity", "FLOP of a step, by torch's counter, over bytes moved: at least.", Unit("FLOP/byte", "FLOP/byte")
    ).shown
    flop_per_s: Figure = column(
        "Rate", "FLOP of a step, what is computed twice included, over t(1,b).", TFLOP_PER_S
    ).shown
    peak_flop_per_s: float = column("Peak", "Of the data sheet, in the precision.", TFLOP_PER_S)
    memory_gb_s: float = column("Memory bandwidth", "Of the data sheet.", GB_PER_S)
    roof_flop_per_s: float = column(
        "Roof", "Peak, or intensity times memory bandwidth where that is less.", TFLOP_PER_S
    ).shown
    roof_share: Figure = column("Share of the roof", "Rate over roof.", PERCENT).shown

    def roof_at(self, intensity: float) -> float:
        """Return the FLOP/s that the GPU can reach at so many FLOP per byte (Williams, Waterman and Patterson 2009)."""
        return min(self.peak_flop_per_s, intensity * self.memory_gb_s * GB)
