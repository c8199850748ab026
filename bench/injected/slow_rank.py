"""The second rank does the work of every step three times, as a device of a third of the speed would take for it."""

import torch.distributed as dist
from healthy import Batch, dataset, network
from healthy import loss as loss_of_one_pass
from torch import Tensor, nn

__all__ = ["dataset", "loss", "network"]

PASSES = 3


def loss(network: nn.Module, batch: Batch) -> Tensor:
    passes = PASSES if dist.get_rank() == 1 else 1
    return sum((loss_of_one_pass(network, batch) for _ in range(passes - 1)), loss_of_one_pass(network, batch)) / passes
