"""What the differences between the rungs of a step's ladder are: plain data.

A rung is a variant of the step, by its name in communication records; `measure/worker/communication.py` says what each
of them runs. Each does what the one before it does, and one thing more.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

# The first rung of every ladder, and the last one: the whole step.
ALONE, WHOLE = "alone", "training"
# What is timed with the rungs and stands on no ladder: the control of `no_op_hook`.
CONTROLS = frozenset({"allreduce_hook"})


@dataclass(frozen=True)
class Difference:
    """What a rung adds to the one before it: in a few words, and in a sentence."""

    label: str
    definition: str


DIFFERENCES: Mapping[tuple[str, str], Difference] = MappingProxyType({
    ("alone", "together"): Difference(
        "contention", "Every GPU trains, and nothing is shared: the slowest GPU, the host that all use, power."
    ),
    ("alone", "one_node"): Difference(
        "contention", "Every GPU of one node trains, and nothing is shared: its slowest GPU, its host, power."
    ),
    ("one_node", "together"): Difference(
        "other nodes", "The other nodes train too: the slowest GPU of all, and what nodes share, such as storage."
    ),
    ("together", "no_sync"): Difference("DDP's host work", "DDP's wrapper and its hooks on gradients, no buckets."),
    ("no_sync", "no_op_hook"): Difference(
        "buckets, buffers", "Copies into buckets, a hook in Python, and the broadcast of buffers before forward."
    ),
    ("no_op_hook", "training"): Difference(
        "allreduce, waiting", "Exposed allreduce, and waiting in it for the slowest rank."
    ),
    ("alone", "threads"): Difference(
        "threads, contention", "A thread per GPU in one process: its interpreter lock, the host that all use, power."
    ),
    ("threads", "scattered"): Difference("inputs, outputs", "Images and outputs go from and to the first GPU."),
    ("scattered", "training"): Difference(
        "replicate, reduce", "Weights are copied to all GPUs in every step, and gradients added up on the first."
    ),
})  # fmt: skip


def difference(before: str, rung: str) -> Difference:
    """What `rung` adds to the rung `before`; by their names, where that is not known."""
    return DIFFERENCES.get((before, rung)) or Difference(rung, f"{rung} after {before}.")
