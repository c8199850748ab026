"""The strategies as wrappers of torch, by their names in `dpscale.strategies.known`."""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook
from torch.nn.parallel import DataParallel, DistributedDataParallel

from dpscale.errors import StrategyError
from dpscale.schemas.settings import StepSettings, TimingSettings

Devices = Sequence[torch.device]


@dataclass(frozen=True)
class Exchange:
    """How ddp exchanges gradients and buffers; torch's defaults first. Other strategies take no notice of it."""

    bucket_mb: float = 0
    gradient_as_bucket_view: bool = False
    broadcast_buffers: bool = True
    gradient_dtype: str = "float32"

    @classmethod
    def of(cls, settings: StepSettings) -> "Exchange":
        """Those of a cell. Only timing cells can choose the type of the gradients."""
        return cls(
            settings.ddp_bucket_mb,
            settings.ddp_gradient_as_bucket_view,
            settings.ddp_broadcast_buffers,
            settings.ddp_gradient_dtype if isinstance(settings, TimingSettings) else cls.gradient_dtype,
        )


def _ddp(network: nn.Module, devices: Devices, exchange: Exchange) -> nn.Module:
    # Named only where it is not torch's default: newer versions warn of the name.
    without_buffers: dict[str, Any] = {} if exchange.broadcast_buffers else {"broadcast_buffers": False}
    parallel = DistributedDataParallel(
        network,
        device_ids=list(devices) or None,
        bucket_cap_mb=exchange.bucket_mb or None,
        gradient_as_bucket_view=exchange.gradient_as_bucket_view,
        **without_buffers,
    )
    if exchange.gradient_dtype == "bfloat16":
        parallel.register_comm_hook(None, bf16_compress_hook)
    return parallel


WRAPPERS: Mapping[str, Callable[[nn.Module, Devices, Exchange], nn.Module]] = {
    "single": lambda network, devices, exchange: network,
    "dp": lambda network, devices, exchange: DataParallel(network, device_ids=list(devices)),
    "ddp": _ddp,
}


def parallelise(network: nn.Module, strategy: str, devices: Devices, exchange: Exchange | None = None) -> nn.Module:
    """`network`, which lies on the first of this process's `devices`, as `strategy` trains it.

    A strategy with a process per GPU needs an initialised process group. On a CPU `devices` is empty. Raises
    StrategyError where the strategy has no wrapper.
    """
    if strategy not in WRAPPERS:
        raise StrategyError(f"{strategy} has no wrapper in {__name__}")
    return WRAPPERS[strategy](network, devices, exchange or Exchange())


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

    def losses_apart(self, loss: Callable[[nn.Module, Any], Tensor], batches: Sequence[Any]) -> list[Tensor]:
        """The loss of every replica, each on its device, of batches that are on them; a thread drives each."""
        replicas = self.replicate(self.module, self.device_ids)
        functions: list[Any] = [partial(loss, replica) for replica in replicas]
        losses: list[Tensor] = self.parallel_apply(functions, [(batch,) for batch in batches], [{} for _ in batches])
        return losses
