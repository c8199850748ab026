"""How much of DDP's communication its backward pass hides (Li et al. VLDB 2020). Seconds.

The allreduces of the buckets run one after the other, each as fast as alone, and slow no computation down. Gradients
are ready at the same share of the backward pass as in the network's facts.
"""

from collections.abc import Callable
from dataclasses import dataclass

from dpscale.strategies.strategy import Facts

# Share of the backward pass in the work of a step where nothing counted it: a layer's gradients, of weights and of
# inputs, cost about its forward pass each.
BACKWARD_SHARE = 2 / 3


@dataclass(frozen=True)
class Buckets:
    """DDP's buckets in the order in which they become ready.

    `ready_share` is the share of the backward pass after which a bucket's gradients are all there: increasing, the last
    one 1. `backward_share` is the share of t(1,b) that is the backward pass.
    """

    sizes_bytes: tuple[int, ...]
    ready_share: tuple[float, ...]
    backward_share: float

    @classmethod
    def of(cls, network: Facts) -> "Buckets":
        flop, buckets = network["flop_per_image"], network["ddp_buckets"]
        return cls(
            tuple(bucket["bytes"] for bucket in buckets),
            tuple(bucket["ready_share"] for bucket in buckets),
            BACKWARD_SHARE if flop is None else 1 - flop["forward"] / flop["forward_backward"],
        )

    def exposed_s(self, single_s: float, allreduce: Callable[[int], float]) -> float:
        """Time from the end of backward to the end of the last allreduce, given t(1,b) and seconds by message size.

        A bucket's allreduce starts when its gradients are ready and the one before has ended. The last bucket is ready
        only when backward ends, so at least its own time is exposed.
        """
        backward_s, end_s = self.backward_share * single_s, 0.0
        for share, size in zip(self.ready_share, self.sizes_bytes, strict=True):
            end_s = max(end_s, share * backward_s) + allreduce(size)
        return end_s - backward_s
