"""How large a network is."""

from torch import nn


def network_size(network: nn.Module) -> dict[str, int]:
    """Trainable parameters, K, and the bytes of all their gradients, K*s."""
    trainable = [parameter for parameter in network.parameters() if parameter.requires_grad]
    return {
        "parameters": sum(parameter.numel() for parameter in trainable),
        "gradient_bytes": sum(parameter.nbytes for parameter in trainable),
    }
