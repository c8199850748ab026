"""Trainings epoch by epoch: every seed, and the curves over seeds."""

from collections.abc import Iterable, Iterator, Sequence
from math import isfinite, nan
from statistics import fmean

from msgspec.structs import asdict

from dpscale.analyse.training.results import Results
from dpscale.formulas.figure import UNKNOWN, Figure
from dpscale.tables.row import grouped, in_groups
from dpscale.tables.training import (
    TrainingCurvesRow,
    TrainingRow,
    TrainingSummaryRow,
)


def training_rows(results: Results) -> Iterator[TrainingRow]:
    """Every epoch of every arm and seed."""
    for result in results:
        for record in result.records:
            for epoch in record.epochs:
                yield TrainingRow.read({
                    **result.place,
                    **asdict(epoch),
                    "seed": record.cell.seed,
                    "status": "diverged" if epoch.training_loss is None else "ok",
                })  # fmt: skip


def curve_rows(epochs: Iterable[TrainingRow], summary: Iterable[TrainingSummaryRow]) -> Iterator[TrainingCurvesRow]:
    """Every arm's epochs: the mean over seeds between the least and the most."""
    against = {(row.arm, row.environment): row.compared_with for row in summary}
    for (arm, environment), rows in grouped(epochs, lambda row: (row.arm, row.environment)).items():
        for seeds in in_groups(rows, lambda row: row.epoch):
            times = [row.epoch_s for row in seeds if isfinite(row.epoch_s)]
            yield TrainingCurvesRow(
                arm=arm,
                **seeds[0].point,
                compared_with=against.get((arm, environment), ""),
                epoch=seeds[0].epoch,
                seeds=len(seeds),
                diverged=sum(row.status == "diverged" for row in seeds),
                training_loss=_over_seeds([row.training_loss for row in seeds]),
                test_accuracy=_over_seeds([row.test_accuracy for row in seeds]),
                epoch_s=fmean(times) if times else nan,
            )


def _over_seeds(values: Sequence[float]) -> Figure:
    """The mean between the least and the most: no interval, and drawn as a band."""
    known = [value for value in values if isfinite(value)]
    return Figure.of(fmean(known), min(known), max(known)) if known else UNKNOWN
