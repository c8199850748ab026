"""A strategy in torch: how it wraps a network, and the rungs of its step. Every strategy has both in the `in_torch` of
its folder, which is loaded when it is measured."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol

import torch
from torch import nn
from torch.optim import Optimizer

from dpscale.errors import StrategyError
from dpscale.measure.workload.batches import Batch, Step, Workload
from dpscale.measure.workload.update import Update
from dpscale.schemas.settings import StepSettings

Devices = Sequence[torch.device]


@dataclass
class StepVariant:
    """One rung: a variant of the step on this rank. Without batches the rank has nothing to do, and waits."""

    network: nn.Module
    optimiser: Optimizer
    step: Step
    batches: Sequence[Batch]


class Steps(Protocol):
    """A rank that rungs are built on."""

    rank: int
    nodes: int
    gpus_here: int
    device: torch.device
    devices: list[torch.device]
    settings: StepSettings
    memory_format: torch.memory_format
    full_batches: list[Batch]

    @property
    def workload(self) -> Workload:
        """The workload that is trained."""

    @property
    def plain(self) -> StepVariant:
        """The step of the plain network on this rank's first device, with its share of every batch."""

    @property
    def own_batches(self) -> Sequence[Batch]:
        """One GPU's samples of every batch."""

    def whole_step(self) -> StepVariant:
        """The step as its strategy trains."""

    def build_network(self) -> nn.Module:
        """The plain network on this rank's first device."""

    def update_of(self, network: nn.Module, optimiser: Optimizer) -> Update:
        """How a batch changes the weights of a network."""

    def variant(self, network: nn.Module, batches: Sequence[Batch]) -> StepVariant:
        """The training step of a network, whose weights are those of all rungs."""


def alone(steps: Steps) -> StepVariant:
    """The first GPU trains the plain network. All other GPUs wait, without load."""
    return replace(steps.plain, batches=steps.own_batches if steps.rank == 0 else ())


def parallelise(network: nn.Module, strategy: str, devices: Devices, settings: StepSettings) -> nn.Module:
    """Return `network`, which lies on the first of this process's `devices`, as `strategy` trains it with the settings.

    A strategy with a process per GPU needs an initialised process group. On a CPU `devices` is empty. What it returns
    may have `no_sync`, a context in which gradients stay each rank's own and add up; and `distributed_optimiser`, which
    makes the strategy's optimiser of a plain one. Raises StrategyError where the strategy has no wrapper.
    """
    parallel: nn.Module = _function(strategy, "wrap")(network, devices, settings)
    return parallel


def rungs_of(strategy: str, steps: Steps) -> dict[str, StepVariant]:
    """Return the step as it is, and the step without parts of it, as far as `strategy` allows. Raises StrategyError
    where it is not known what a strategy can do without."""
    rungs: dict[str, StepVariant] = _function(strategy, "rungs")(steps)
    return rungs


def _function(strategy: str, name: str) -> Any:
    place = f"dpscale.strategies.{strategy.replace('-', '_')}.in_torch"
    function = getattr(import_module(place), name, None) if find_spec(place) else None
    if function is None:
        raise StrategyError(f"{strategy} has no {name} in {place}")
    return function
