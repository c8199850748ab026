"""fully_shard in torch: its units, its wrapper and the rungs of its step."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard

from dpscale.errors import StrategyError
from dpscale.schemas.settings import StepSettings, WholeStepSettings
from dpscale.strategies.fsdp import GATHERED_ONCE, KEPT_WHOLE, NO_COMMUNICATION
from dpscale.strategies.in_torch import Devices, Steps, StepVariant, alone
from dpscale.strategies.strategy import ALONE, WHOLE
from dpscale.strategies.units import units


def wrap(network: nn.Module, devices: Devices, settings: StepSettings) -> nn.Module:
    if not isinstance(settings, WholeStepSettings):
        return _sharded(network, _all_ranks(devices))
    mesh = _replicas(devices, settings.fsdp_replicas) if settings.fsdp_replicas > 1 else _all_ranks(devices)
    return _sharded(network, mesh, settings.fsdp_reshard_after_forward)


def rungs(steps: Steps) -> dict[str, StepVariant]:
    """Return the rungs: each does what the rung before it does, and one thing more; but all rungs on all ranks update
    their shards alone, while `together` updates all weights. So does `no_communication`, which stands beside them."""
    kind = steps.device.type
    # A mesh of this rank alone: FSDP with all its hooks and copies.
    this_rank = init_device_mesh(kind, (dist.get_world_size(), 1), mesh_dim_names=("ranks", "own"))["own"]
    once, kept = (_sharded(steps.build_network(), _all_ranks(steps.devices), reshard=False) for _ in range(2))
    # Its steps compute with the weights that the first one gathered; shards are updated all the same.
    kept.set_reshard_after_backward(False)  # type: ignore[operator]
    return {
        ALONE: alone(steps),
        "together": steps.plain,
        NO_COMMUNICATION: steps.variant(_sharded(steps.build_network(), this_rank), steps.full_batches),
        KEPT_WHOLE: steps.variant(kept, steps.full_batches),
        GATHERED_ONCE: steps.variant(once, steps.full_batches),
        WHOLE: steps.whole_step(),
    }


def unit_bytes(network: nn.Module) -> list[int]:
    """Return the bytes of the weights of the network itself and of its units, before they are wrapped."""
    total, *sizes = (sum(weight.nbytes for weight in module.parameters()) for module in (network, *units(network)))
    return [size for size in (total - sum(sizes), *sizes) if size]


def _all_ranks(devices: Devices) -> DeviceMesh:
    return init_device_mesh("cuda" if devices else "cpu", (dist.get_world_size(),))


def _replicas(devices: Devices, replicas: int) -> DeviceMesh:
    """All ranks in rows: those of a row share the weights, and every row has them all (HYBRID_SHARD)."""
    shape = replicas, dist.get_world_size() // replicas
    return init_device_mesh("cuda" if devices else "cpu", shape, mesh_dim_names=("replicate", "shard"))


def _sharded(network: nn.Module, mesh: DeviceMesh, reshard: bool = True) -> nn.Module:
    try:
        for unit in (*units(network), network):
            # Said aloud: by default the network itself stays gathered after its forward pass.
            fully_shard(unit, mesh=mesh, reshard_after_forward=reshard)
    except (AssertionError, NotImplementedError, ValueError) as error:
        raise StrategyError(f"torch's fully_shard cannot wrap this network: {error}") from error
    network.no_sync = partial(_no_sync, network)  # type: ignore[assignment,arg-type]
    return network


@contextmanager
def _no_sync(network: FSDPModule) -> Iterator[None]:
    """Within it gradients are not scattered: every rank holds them whole, and they add up."""
    network.set_requires_gradient_sync(False)
    try:
        yield
    finally:
        network.set_requires_gradient_sync(True)
