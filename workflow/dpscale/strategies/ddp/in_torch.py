"""DistributedDataParallel in torch: its wrapper and the rungs of its step."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any

from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.debugging_hooks import noop_hook
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook, bf16_compress_hook
from torch.nn.parallel import DistributedDataParallel

from dpscale.measure.workload.batches import Batch, Step, first
from dpscale.schemas.settings import StepSettings, TimingSettings, WholeStepSettings
from dpscale.strategies.ddp import ONE_NODE
from dpscale.strategies.in_torch import Devices, Steps, StepVariant, alone
from dpscale.strategies.strategy import ALONE, WHOLE

# In its first ten steps DDP waits for the device, to read its own clocks, and it builds its buckets anew in the second
# one. These steps are counted whatever their size, so they are small.
SETTLES_STEPS = 12
SETTLES_IMAGES = 8


def wrap(network: nn.Module, devices: Devices, settings: StepSettings) -> nn.Module:
    if isinstance(settings, TimingSettings) and settings.ddp_reducer == "copies":
        from dpscale.strategies.ddp.copies import CopiedGradients  # torch's symmetric memory, which a CPU does without

        return CopiedGradients(network, devices[0])
    # Named only where it is not torch's default: newer versions warn of the name.
    without_buffers = partial(DistributedDataParallel, broadcast_buffers=False)
    distribute = DistributedDataParallel if settings.ddp_broadcast_buffers else without_buffers
    parallel = distribute(
        network,
        device_ids=list(devices) or None,
        bucket_cap_mb=settings.ddp_bucket_mb or None,
        gradient_as_bucket_view=settings.ddp_gradient_as_bucket_view,
    )
    if isinstance(settings, WholeStepSettings) and settings.ddp_gradient_dtype == "bfloat16":
        parallel.register_comm_hook(None, bf16_compress_hook)
    return parallel


def rungs(steps: Steps) -> dict[str, StepVariant]:
    """Return the rungs: each does what the rung before it does, and one thing more. `allreduce_hook` stands beside
    them."""
    variants = {ALONE: alone(steps)}
    if steps.nodes > 1 and steps.gpus_here > 1:
        # Every GPU of the first node trains a plain network of its own. All other nodes wait.
        variants[ONE_NODE] = replace(steps.plain, batches=steps.own_batches if steps.rank < steps.gpus_here else ())
    return variants | {
        # Every GPU trains a plain network of its own, and nothing is shared.
        "together": steps.plain,
        # Within `no_sync`: no buckets, and after the first step no broadcast of buffers.
        "no_sync": settled(steps, synchronised=False),
        # A hook that does nothing: buckets are filled, and not reduced.
        "no_op_hook": settled(steps, noop_hook),
        # An allreduce that is called from Python as that hook is: its control.
        "allreduce_hook": settled(steps, allreduce_hook),
        WHOLE: settled(steps),
    }


def settled(steps: Steps, hook: Callable[..., Any] | None = None, synchronised: bool = True) -> StepVariant:
    """Return DDP after its first steps, with a communication hook, or with its steps within `no_sync`."""
    variant = steps.whole_step()
    if hook is not None:
        variant.network.register_comm_hook(None, hook)  # type: ignore[operator]
    if not synchronised:
        variant = replace(variant, step=_within(variant.network.no_sync, variant.step))  # type: ignore[arg-type]
    return settle(steps, variant)


def settle(steps: Steps, variant: StepVariant) -> StepVariant:
    """Return a variant with DDP after its first steps."""
    small = first(steps.full_batches[0], SETTLES_IMAGES)
    for _ in range(SETTLES_STEPS):
        variant.step(small)
    return variant


def _within(context: Callable[[], AbstractContextManager[Any]], step: Step) -> Step:
    def wrapped(batch: Batch) -> None:
        with context():
            step(batch)

    return wrapped


def bucket_bytes(network: DistributedDataParallel) -> list[int]:
    """Return the bytes of DDP's buckets, as it built them anew after its first step, in the order it reduces them.

    Its own log says so (`_get_ddp_logging_data`), after a few steps; until then there are none.
    """
    sizes = str(network._get_ddp_logging_data().get("rebuilt_bucket_sizes", ""))
    return [int(size) for size in sizes.split(",") if size.strip()]
