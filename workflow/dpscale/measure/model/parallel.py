"""The strategies as wrappers of torch, by their names in `dpscale.vocabulary.strategies`."""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import nn
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

    Its own log says so (`_get_ddp_logging_data`).
    """
    sizes = str(network._get_ddp_logging_data()["rebuilt_bucket_sizes"])
    return [int(size) for size in sizes.split(",") if size.strip()]
