"""The simplest data parallelism: an allreduce of every weight's gradient, one after the other, when the backward pass
has ended."""

from dpscale.strategies.strategy import ALONE, WHOLE, Strategy, ring_allreduce_bytes

STRATEGY = Strategy(
    name="ddp-naive",
    label="DDP, an allreduce per weight",
    colour=("#8A5A00", "#D9A94A"),
    has_process_per_gpu=True,
    all_ranks_send_alike=True,
    # Older facts do not have single weights: nothing is then known of single messages.
    messages_of_step=lambda network: [("allreduce", size) for size in network.weight_bytes],
    bytes_sent=lambda gpus, network, _: ring_allreduce_bytes(gpus, network.gradient_bytes),
    adds={(ALONE, "together"): "contention", ("together", WHOLE): "an allreduce per weight, waiting"},
    not_with={"cuda_graph": "it is timed as lectures have it, launched by the host"},
)
