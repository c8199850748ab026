"""torch's DistributedDataParallel: a process per GPU, and an allreduce of the gradient, bucket by bucket, while the
backward pass still runs."""

from dpscale.strategies.strategy import (
    ALONE,
    WHOLE,
    Exchange,
    Message,
    NetworkFacts,
    NetworkSize,
    Strategy,
    ring_allreduce_bytes,
)

# The rung that exists on several nodes of several GPUs.
ONE_NODE = "one_node"


def bytes_sent(gpus: int, network: NetworkSize, exchange: Exchange) -> float:
    """Return the bytes of an allreduce of the gradient in the type that it is sent in."""
    is_halved = exchange.ddp_gradient_dtype == "bfloat16"
    return ring_allreduce_bytes(gpus, network.gradient_bytes) / (2 if is_halved else 1)


def messages(network: NetworkFacts) -> list[Message]:
    """Older facts do not have its broadcasts: its buffers are then one message."""
    broadcasts = [network.buffer_bytes] if network.ddp_broadcast_bytes is None else network.ddp_broadcast_bytes
    return [
        *(("broadcast", size) for size in broadcasts),
        *(("allreduce", bucket.bytes) for bucket in network.ddp_buckets),
    ]


STRATEGY = Strategy(
    name="ddp",
    label="DistributedDataParallel",
    colour=("#007A5A", "#3ECFA3"),
    has_process_per_gpu=True,
    all_ranks_send_alike=True,
    own_settings="ddp",
    messages_of_step=messages,
    bytes_sent=bytes_sent,
    adds={
        (ALONE, "together"): "contention",
        (ALONE, ONE_NODE): "contention",
        (ONE_NODE, "together"): "other nodes",
        ("together", "no_sync"): "DDP's host work",
        ("no_sync", "no_op_hook"): "buckets, buffers",
        ("no_op_hook", WHOLE): "allreduce, waiting",
    },
    silent="no_op_hook",
    controls=frozenset({"allreduce_hook"}),
)
