"""DataParallel in torch: its wrapper and the rungs of its step."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DataParallel

from dpscale.measure.workload.batches import Batch, Step, shares, to_device
from dpscale.schemas.settings import StepSettings
from dpscale.strategies.in_torch import Devices, Steps, StepVariant, alone
from dpscale.strategies.strategy import ALONE, WHOLE


def wrap(network: nn.Module, devices: Devices, settings: StepSettings) -> nn.Module:
    return DataParallel(network, device_ids=list(devices))


def rungs(steps: Steps) -> dict[str, StepVariant]:
    """Return the rungs: each does what the rung before it does, and one thing more."""
    first = alone(steps)  # its weights are those of all
    replicas = PersistentReplicas(steps.build_network(), steps.devices)
    persistent = steps.variant(replicas, steps.full_batches)
    return {
        ALONE: first,
        "threads": threads(steps, replicas, persistent),
        # The same, and images and outputs move as in DataParallel. Still without copies of the weights, and without
        # the sum of gradients.
        "scattered": replace(persistent, step=until_all_devices_are_done(steps, persistent.step)),
        WHOLE: steps.whole_step(),
    }


def threads(steps: Steps, replicas: "PersistentReplicas", persistent: StepVariant) -> StepVariant:
    """Return a step with a thread per GPU, each with a replica that stays. Nothing is moved between GPUs.

    The first GPU does in every step what it does in `alone`: copy from the host, forward, backward, update. All others
    have their images already, and do forward and backward: their gradients stay with them, and their weights as they
    are, since in DataParallel's step only the first GPU updates weights.
    """
    _, *shares_elsewhere = zip(shares(steps.full_batches[0], len(steps.devices)), steps.devices, strict=True)
    kept = [to_device(share, device, steps.memory_format) for share, device in shares_elsewhere]
    optimiser = persistent.optimiser
    update = steps.update_of(replicas, optimiser)

    def step(batch: Batch) -> None:
        batch = to_device(batch, steps.device, steps.memory_format)
        optimiser.zero_grad()
        update.backward(replicas.losses_apart(steps.workload.loss, [batch, *kept]))
        update.step()

    return replace(persistent, step=until_all_devices_are_done(steps, step), batches=steps.own_batches)


def until_all_devices_are_done(steps: Steps, step: Step) -> Step:
    """Return `step`, whose end on the first device waits for all others, as where gradients are added up there."""

    def waiting(batch: Batch) -> None:
        step(batch)
        for device in steps.devices[1:]:
            torch.cuda.current_stream(steps.device).wait_stream(torch.cuda.current_stream(device))

    return waiting


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
        """Return the loss of every replica, of the batch on its device; a thread drives each."""
        replicas = self.replicate(self.module, self.device_ids)
        functions: list[Any] = [partial(loss, replica) for replica in replicas]
        losses: list[Tensor] = self.parallel_apply(functions, [(batch,) for batch in batches], [{} for _ in batches])
        return losses
