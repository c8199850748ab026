"""Parts of a network: the stages of a ResNet, the blocks of a transformer, the layers of what has nothing but layers.
Each is compiled by itself, or gathered as one."""

from torch import nn

_LISTS = (nn.ModuleList, nn.ModuleDict)


def units(network: nn.Module, is_whole: bool = True) -> list[nn.Module]:
    """The parts of `network`. All other weights go with the network itself, where layers may share them, as embedding
    and output do."""
    children = [child for child in network.children() if [*child.parameters()]]
    blocks = [child for child in children if [*child.children()]]
    if len(blocks) == 1:
        return units(blocks[0], is_whole and children == blocks)
    if blocks:
        return [part for block in blocks for part in (block.children() if isinstance(block, _LISTS) else [block])]
    return children if is_whole or isinstance(network, (nn.Sequential, *_LISTS)) else [network]
