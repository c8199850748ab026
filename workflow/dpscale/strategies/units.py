"""Parts of a network: the stages of a ResNet, the blocks of a transformer, the layers of what has nothing but layers.
Each can be compiled by itself, and its weights gathered or sent as one."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    apply_activation_checkpointing,
    checkpoint_wrapper,
)

_LISTS = (nn.ModuleList, nn.ModuleDict)


def units(network: nn.Module, is_whole: bool = True) -> list[nn.Module]:
    """Return the parts of `network`. All other weights go with the network itself, where layers may share them, as
    embedding and output do."""
    children = [child for child in network.children() if [*child.parameters()]]
    blocks = [child for child in children if [*child.children()]]
    if len(blocks) == 1:
        return units(blocks[0], is_whole and children == blocks)
    if blocks:
        return [unit for block in blocks for unit in (block.children() if isinstance(block, _LISTS) else [block])]
    return children if is_whole or isinstance(network, (nn.Sequential, *_LISTS)) else [network]


def weights_by_unit(network: nn.Module) -> list[list[nn.Parameter]]:
    """Return the trained weights of every unit, and of the network itself; each weight once."""
    trained = [weight for weight in network.parameters() if weight.requires_grad]
    place = {weight: number for number, unit in enumerate(units(network)) for weight in unit.parameters()}
    by_unit: dict[int, list[nn.Parameter]] = {}
    for weight in trained:
        by_unit.setdefault(place.get(weight, -1), []).append(weight)
    return [*by_unit.values()]


def compile_by_unit(network: nn.Module) -> None:
    """Compile every unit of `network` by itself, and what is between them; in place. The gradients of a unit are then
    there as soon as its own backward pass ends, and not when the whole network's does."""
    for unit in units(network):
        unit.forward = _apart(torch.compile(unit.forward, dynamic=False))
    network.compile(dynamic=False)


def checkpoint_by_unit(network: nn.Module) -> None:
    """Let every unit of `network` keep its input alone for the backward pass, and compute forward once more there; in
    place. Batch-norm's running statistics then take in every batch twice."""
    chosen = set(units(network))
    apply_activation_checkpointing(network, checkpoint_wrapper_fn=checkpoint_wrapper, check_fn=chosen.__contains__)


def _apart(compiled: Callable[..., Any]) -> Callable[..., Any]:
    def forward(*inputs: Any, **named: Any) -> Any:
        return compiled(*inputs, **named)

    # Around it the graph breaks: one graph ends before it, and another begins after it.
    apart: Callable[..., Any] = torch.compiler.disable(forward, recursive=False)
    return apart
