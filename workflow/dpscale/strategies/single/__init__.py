"""One GPU, the baseline of every speedup."""

from dpscale.strategies.strategy import Strategy

STRATEGY = Strategy(
    name="single",
    label="one GPU",
    colour=("#0072B2", "#56B4E9"),
    is_parallel=False,
    messages_of_step=lambda network: [],
)
