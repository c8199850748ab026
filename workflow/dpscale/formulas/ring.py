"""What a ring of GPUs sends. Free of numpy: a plan knows it too."""


def ring_allreduce_bytes(gpus: int, gradient_bytes: int) -> float:
    """Bytes sent per GPU and step, 2 * (N-1)/N * K*s: reduce-scatter then all-gather (Patarasuk and Yuan 2009)."""
    return 2 * (gpus - 1) / gpus * gradient_bytes
