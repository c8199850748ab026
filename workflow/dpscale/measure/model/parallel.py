"""The strategies as wrappers of torch, by their names in `dpscale.vocabulary.strategies`."""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DataParallel, DistributedDataParallel

from dpscale.errors import StrategyError

Devices = Sequence[torch.device]

WRAPPERS: Mapping[str, Callable[[nn.Module, Devices], nn.Module]] = {
    "single": lambda network, devices: network,
    "dp": lambda network, devices: DataParallel(network, device_ids=list(devices)),
    "ddp": lambda network, devices: DistributedDataParallel(network, device_ids=list(devices) or None),
}


def parallelise(network: nn.Module, strategy: str, devices: Devices) -> nn.Module:
    """`network`, which lies on the first of this process's `devices`, as `strategy` trains it.

    A strategy with a process per GPU needs an initialised process group. On a CPU `devices` is empty. Raises
    StrategyError where the strategy has no wrapper.
    """
    if strategy not in WRAPPERS:
        raise StrategyError(f"{strategy} has no wrapper in {__name__}")
    return WRAPPERS[strategy](network, devices)


def bucket_bytes(network: DistributedDataParallel) -> list[int]:
    """Bytes of the buckets that DDP reduces, as it built them anew after its first step, in the order it reduces them.

    Its own log says so (`_get_ddp_logging_data`), after a few steps; until then there are none.
    """
    sizes = str(network._get_ddp_logging_data().get("rebuilt_bucket_sizes", ""))
    return [int(size) for size in sizes.split(",") if size.strip()]


class PersistentReplicas(DataParallel[nn.Module]):
    """DataParallel without replication and without the sum of gradients: every device has a replica that stays.

    The replica of the first device is the network itself. The others' gradients stay with them, and are those of the
    last step alone, as in DataParallel; nothing updates their weights.
    """

    def __init__(self, network: nn.Module, devices: Devices):
        super().__init__(network, device_ids=list(devices))
        # In a tuple: a list of modules would make their parameters this module's own.
        self._replicas = (network, *(deepcopy(network).to(device) for device in devices[1:]))

    def replicate(self, module: nn.Module, device_ids: Sequence[int | torch.device]) -> list[Any]:
        for replica in self._replicas[1:]:
            replica.zero_grad()
        return list(self._replicas)

    def apply_apart(self, images: Sequence[Tensor]) -> list[Tensor]:
        """The outputs of all replicas, each on its device, from `images` that are on them; a thread drives each."""
        replicas = self.replicate(self.module, self.device_ids)
        outputs: list[Tensor] = self.parallel_apply(replicas, [(share,) for share in images], [{} for _ in images])
        return outputs
