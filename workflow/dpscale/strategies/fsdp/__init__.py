"""torch's fully_shard (FSDP2): a process per GPU, each with a share of the weights, gradients and momenta. The weights
of a unit are gathered before its forward pass and again before its backward pass, and its gradient is scattered."""

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

# Beside the ladder: no GPU sends anything. Between `together` and the whole step: gradients alone are sent, and weights
# stay gathered for good; and weights stay gathered after the forward pass.
NO_COMMUNICATION, KEPT_WHOLE, GATHERED_ONCE = "no_communication", "kept_whole", "gathered_once"


def _messages(network: NetworkFacts) -> list[Message]:
    """Padding left out. Older facts do not have its units: nothing is then known of single messages."""
    operations = ("all_gather", "all_gather", "reduce_scatter")
    return [(operation, size) for operation in operations for size in network.fsdp_unit_bytes]


def _bytes_sent(gpus: int, network: NetworkSize, exchange: Exchange) -> float:
    """For every micro-batch an all-gather before the forward pass, and one before the backward pass where weights were
    resharded; for the last one a reduce-scatter: all between the GPUs that share a replica. And an allreduce of every
    share between replicas."""
    sharers = gpus // exchange.fsdp_replicas
    gathers = exchange.accumulate * (2 if exchange.fsdp_reshard_after_forward else 1)
    between_sharers = (gathers + 1) * (sharers - 1) / sharers * network.gradient_bytes
    return between_sharers + ring_allreduce_bytes(exchange.fsdp_replicas, network.gradient_bytes) / sharers


STRATEGY = Strategy(
    name="fsdp",
    label="FullyShardedDataParallel",
    colour=("#A0447F", "#E39CC9"),
    has_process_per_gpu=True,
    all_ranks_send_alike=True,
    shards=frozenset({"weights", "gradients", "optimiser"}),
    own_settings="fsdp",
    messages_of_step=_messages,
    bytes_sent=_bytes_sent,
    adds={
        (ALONE, "together"): "contention",
        ("together", KEPT_WHOLE): "FSDP's host work, reduce-scatter",
        (KEPT_WHOLE, GATHERED_ONCE): "first all-gather, its copies",
        (GATHERED_ONCE, WHOLE): "second all-gather, its copies",
    },
    silent=NO_COMMUNICATION,
    controls=frozenset({NO_COMMUNICATION}),
    not_with={
        "compile": "the hooks that gather its weights run between the layers of every step",
        "cuda_graph": "its gathered weights have new memory in every step",
        "fused_optimiser": "torch has no fused SGD of shards",
        "memory_format": "torch's fully_shard takes contiguous weights alone",
    },
)
