"""ZeRO, stage 1, in torch: its wrapper, its optimiser and the rungs of its step."""

from inspect import signature

from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.optim import Optimizer

from dpscale.schemas.settings import StepSettings
from dpscale.strategies.ddp import in_torch as ddp
from dpscale.strategies.in_torch import Devices, Steps, StepVariant, alone
from dpscale.strategies.strategy import ALONE, WHOLE


def wrap(network: nn.Module, devices: Devices, settings: StepSettings) -> nn.Module:
    parallel = ddp.wrap(network, devices, settings)
    parallel.distributed_optimiser = sharded  # type: ignore[assignment]
    return parallel


def sharded(optimiser: Optimizer) -> Optimizer:
    """Return an optimiser as `optimiser`, whose state for every weight is on one rank alone."""
    groups = [dict(group) for group in optimiser.param_groups]  # with every option of each
    parameters = signature(type(optimiser)).parameters
    options = {name: value for name, value in optimiser.defaults.items() if name in parameters}
    return ZeroRedundancyOptimizer(groups, optimizer_class=type(optimiser), **options)


def rungs(steps: Steps) -> dict[str, StepVariant]:
    """Return the rungs: each does what the rung before it does, and one thing more."""
    parallel = ddp.wrap(steps.build_network(), steps.devices, steps.settings)
    return {
        ALONE: alone(steps),
        "together": steps.plain,
        "ddp": ddp.settle(steps, steps.variant(parallel, steps.full_batches)),
        WHOLE: ddp.settle(steps, steps.whole_step()),
    }
