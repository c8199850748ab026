"""torch's DataParallel: one process, a thread per GPU. The first GPU copies its weights to all others in every step,
sends them their images, and adds up their gradients."""

from dpscale.strategies.strategy import ALONE, WHOLE, Message, NetworkFacts, Strategy, ring_allreduce_bytes

_ONE_PROCESS = "threads of one process drive all its GPUs, with new copies of the network in every step"


def _messages(network: NetworkFacts) -> list[Message]:
    return [
        *(("broadcast", size) for size in network.dp_broadcast_bytes),
        *(("reduce", size) for size in network.dp_reduce_bytes),
    ]


STRATEGY = Strategy(
    name="dp",
    label="DataParallel",
    colour=("#B34700", "#FF9E4A"),
    needs_cuda=True,
    sends_inputs=True,
    messages_of_step=_messages,
    # What a ring would send, so that its bandwidth stands beside DDP's: docs/method.md says what it sends.
    bytes_sent=lambda gpus, network, exchange: exchange.accumulate * ring_allreduce_bytes(gpus, network.gradient_bytes),
    adds={
        (ALONE, "threads"): "threads, contention",
        ("threads", "scattered"): "inputs, outputs",
        ("scattered", WHOLE): "replicate, reduce",
    },
    not_with=dict.fromkeys(("cuda_graph", "compile"), _ONE_PROCESS),
)
