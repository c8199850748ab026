"""Times as timing records hold them, of every version."""

from collections.abc import Sequence

from dpscale.records.kinds import Scope


def epochs_s(scope: Scope) -> list[float]:
    """Seconds of every timed epoch of a record's scope: what the slowest rank's own clock says.

    That clock stops when the rank's devices are idle. In version 1 `epoch_s` holds the barrier after it too, which is
    no part of an epoch; later versions have the same in both.
    """
    return [max(ranks_s) for ranks_s in scope.rank_epoch_s]


def step_quartiles_s(scope: Scope) -> Sequence[tuple[float, float, float]]:
    """Lower quartile, median and upper quartile of full steps in seconds: of every timed epoch, or, in older records,
    of all epochs together. Empty where a record does not have them."""
    if scope.step_s_quartiles is not None:
        epochs = zip(scope.step_s_quartiles, scope.step_s_median, strict=True)
        return [(lower, middle, upper) for (lower, upper), middle in epochs]
    older = scope.step_s_quantiles
    return [(older.p25, older.median, older.p75)] if older else []
