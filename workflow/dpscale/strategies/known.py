"""All strategies. To add a strategy: its folder, and its row here. Code that does not know a strategy raises; none is
ever taken for another."""

from collections.abc import Iterator, Mapping

from dpscale.errors import StrategyError
from dpscale.strategies import ddp, ddp_flat, ddp_naive, dp, fsdp, single, zero1
from dpscale.strategies.strategy import Strategy

# In the order in which people read them: the last one that was measured speaks for a study.
_STRATEGIES = (
    single.STRATEGY,
    dp.STRATEGY,
    fsdp.STRATEGY,
    zero1.STRATEGY,
    ddp_naive.STRATEGY,
    ddp_flat.STRATEGY,
    ddp.STRATEGY,
)
STRATEGIES: Mapping[str, Strategy] = {row.name: row for row in _STRATEGIES}

# The baseline of every speedup.
BASELINE = single.STRATEGY.name


def strategy(name: str) -> Strategy:
    """Return the strategy of this name. Raises StrategyError where there is none."""
    if name not in STRATEGIES:
        raise StrategyError(f"there is no strategy {name}: known are {', '.join(STRATEGIES)}")
    return STRATEGIES[name]


def parallel_strategies() -> Iterator[str]:
    """Return the names of the strategies that train on several GPUs."""
    return (name for name, row in STRATEGIES.items() if row.is_parallel)
