"""Data parallelism with one message: all gradients are copied into one tensor when the backward pass has ended, and one
allreduce sends it."""

from dpscale.strategies.strategy import ALONE, WHOLE, Strategy, ring_allreduce_bytes

STRATEGY = Strategy(
    name="ddp-flat",
    label="DDP, one allreduce",
    colour=("#5B4BB3", "#A79BEA"),
    has_process_per_gpu=True,
    all_ranks_send_alike=True,
    messages_of_step=lambda network: [("allreduce", network.gradient_bytes)],
    bytes_sent=lambda gpus, network, _: ring_allreduce_bytes(gpus, network.gradient_bytes),
    adds={(ALONE, "together"): "contention", ("together", WHOLE): "copies, one allreduce, waiting"},
    not_with={"cuda_graph": "it is timed as lectures have it, launched by the host"},
)
