"""ZeRO, stage 1 (Rajbhandari et al. 2020): DistributedDataParallel, and every GPU keeps the optimiser's state of some
weights alone, updates these, and sends them to all others."""

from dpscale.strategies import ddp
from dpscale.strategies.strategy import ALONE, WHOLE, Exchange, Message, NetworkFacts, NetworkSize, Strategy


def _messages(network: NetworkFacts) -> list[Message]:
    """Older facts do not have single weights: nothing is then known of single messages."""
    updates = [("broadcast", size) for size in network.weight_bytes]
    return [*ddp.STRATEGY.messages_of_step(network), *updates] if updates else []


def _bytes_sent(gpus: int, network: NetworkSize, exchange: Exchange) -> float:
    """What ddp sends, and on average a share of the weights to every other GPU."""
    return ddp.bytes_sent(gpus, network, exchange) + (gpus - 1) / gpus * network.gradient_bytes


STRATEGY = Strategy(
    name="zero1",
    label="DDP, optimiser sharded (ZeRO-1)",
    colour=("#5F6B00", "#B9C84B"),
    has_process_per_gpu=True,
    all_ranks_send_alike=True,
    shards=frozenset({"optimiser"}),
    own_settings="ddp",
    messages_of_step=_messages,
    bytes_sent=_bytes_sent,
    adds={
        (ALONE, "together"): "contention",
        ("together", "ddp"): "DDP",
        ("ddp", WHOLE): "update of a share, broadcasts",
    },
    not_with={"cuda_graph": "torch's ZeroRedundancyOptimizer sends weights one by one, launched by the host"},
)
