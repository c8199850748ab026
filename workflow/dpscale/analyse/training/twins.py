"""Trainings beside their slow twins: whether a faster step reaches the same test accuracy, and in what time.

Two arms are twins where every setting is the same but those of speed: the ones that a variant may have, such as the
precision, compilation and a CUDA graph. The slow one has these as the study has them.
"""

from collections.abc import Iterator

from dpscale.analyse.training.results import OF_SPEED, ArmResults, Results
from dpscale.formulas.statistics import ratio_of_blocks
from dpscale.plan.study import Study
from dpscale.schemas.settings import TrainingSettings
from dpscale.tables.training import TwinsRow

# What decides what is learnt, but for rounding.
MATHEMATICS = sorted(set(TrainingSettings.names()) - set(OF_SPEED))


def twin_rows(study: Study, results: Results) -> Iterator[TwinsRow]:
    """A row for every arm that has a slow twin in its environment, where all seeds of both came to their last epoch."""
    complete = [result for result in results if result.is_complete]
    for fast in complete:
        for slow in complete:
            if fast.environment == slow.environment and _are_twins(study, fast, slow):
                yield TwinsRow(
                    **fast.place,
                    twin=slow.arm,
                    pairs=len(fast.pairs_with(slow)),
                    twin_accuracy_difference=fast.difference_from(slow, "test_accuracy"),
                    twin_time_ratio=ratio_of_blocks(fast.totals("epoch_s"), slow.totals("epoch_s")),
                )


def _are_twins(study: Study, fast: ArmResults, slow: ArmResults) -> bool:
    is_plain = all(getattr(slow.settings, name) == getattr(study.settings, name) for name in OF_SPEED)
    return is_plain and fast.arm != slow.arm and fast.is_like(slow, MATHEMATICS)
