"""Trainings beside their slow twins: whether a faster step reaches the same test accuracy, and in what time.

Two arms are twins where every setting is the same but those of speed: the ones that a variant may have, such as the
precision, compilation and a CUDA graph. The slow one has these as the study has them.
"""

from collections.abc import Iterator

from dpscale.analyse.points import Row
from dpscale.analyse.training.results import (
    OF_SPEED,
    ArmResults,
    Results,
    columns_of,
    difference_of_arms,
    sum_over_epochs,
)
from dpscale.formulas.statistics import ratio_of_blocks
from dpscale.plan.study import Study
from dpscale.schemas.settings import TrainingSettings


def twin_rows(study: Study, results: Results) -> Iterator[Row]:
    """A row for every arm that has a slow twin in its environment, where all seeds of both came to their last epoch."""
    for fast in results.values():
        for slow in results.values():
            complete = fast.records and slow.records and fast.is_complete and slow.is_complete
            if complete and fast.environment == slow.environment and _are_twins(study, fast, slow):
                yield _row(fast, slow)


def _are_twins(study: Study, fast: ArmResults, slow: ArmResults) -> bool:
    is_plain = all(getattr(slow.settings, name) == getattr(study.settings, name) for name in OF_SPEED)
    return is_plain and fast.arm != slow.arm and _mathematics(fast) == _mathematics(slow)


def _mathematics(result: ArmResults) -> Row:
    """What decides what is learnt, but for rounding."""
    names = set(TrainingSettings.names()) - set(OF_SPEED)
    return {name: getattr(result.settings, name) for name in sorted(names)}


def _row(fast: ArmResults, slow: ArmResults) -> Row:
    difference = difference_of_arms(fast, slow, "test_accuracy")
    return {
        **fast.keys,
        "twin": slow.arm,
        "pairs": len(fast.pairs_with(slow)),
        **columns_of("twin_accuracy_difference", difference),
        **columns_of("twin_time_ratio", ratio_of_blocks(_training_s(fast), _training_s(slow))),
    }


def _training_s(result: ArmResults) -> list[float]:
    """Seconds of all epochs together, seed by seed; every record has those of its epochs."""
    return [total for record in result.finished if (total := sum_over_epochs(record, "epoch_s")) is not None]
