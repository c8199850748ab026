"""torch's fully_shard (FSDP2): a process per GPU, each with a share of the weights, gradients and momenta. The weights
of a unit are gathered before its forward pass and again before its backward pass, and its gradient is scattered."""

from dpscale.strategies.strategy import ALONE, WHOLE, Message, NetworkFacts, Strategy

# Between `together` and the whole step: no GPU sends anything; and weights stay gathered after the forward pass.
NO_COMMUNICATION, GATHERED_ONCE = "no_communication", "gathered_once"


def _messages(network: NetworkFacts) -> list[Message]:
    """Padding left out. Older facts do not have its units: nothing is then known of single messages."""
    operations = ("all_gather", "all_gather", "reduce_scatter")
    return [(operation, size) for operation in operations for size in network.fsdp_unit_bytes]


STRATEGY = Strategy(
    name="fsdp",
    label="FullyShardedDataParallel",
    colour=("#A0447F", "#E39CC9"),
    has_process_per_gpu=True,
    all_ranks_send_alike=True,
    is_sharded=True,
    messages_of_step=_messages,
    bytes_sent=lambda gpus, network: 3 * (gpus - 1) / gpus * network.gradient_bytes,
    adds={
        (ALONE, "together"): "contention",
        ("together", NO_COMMUNICATION): "FSDP's host work, copies",
        (NO_COMMUNICATION, GATHERED_ONCE): "all-gather, reduce-scatter",
        (GATHERED_ONCE, WHOLE): "second all-gather",
    },
    not_with={
        "compile": "the hooks that gather its weights run between the layers of every step",
        "cuda_graph": "its gathered weights have new memory in every step",
        "fused_optimiser": "torch has no fused SGD of shards",
        "memory_format": "torch's fully_shard takes contiguous weights alone",
    },
)
