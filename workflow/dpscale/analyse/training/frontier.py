"""Accuracy against cost: what every arm's training takes and what it ends with, and which arms no other one beats."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from operator import attrgetter

from dpscale.analyse.training.results import ArmResults, Results
from dpscale.formulas.figure import UNKNOWN, Figure
from dpscale.formulas.frontier import Trade, is_pareto_best, is_surely_beaten
from dpscale.formulas.statistics import mean_with_t_interval
from dpscale.tables.training import FrontierRow
from dpscale.vocabulary.states import BEATEN, BEST, UNDECIDED


def frontier_rows(results: Results) -> Iterator[FrontierRow]:
    """A row for every arm of which every seed came to its last epoch. Arms are held against those of their own
    environment."""
    complete = [result for result in results if result.is_complete]
    for environment in sorted({result.environment for result in complete}):
        rows = [_row(result) for result in complete if result.environment == environment]
        for row in rows:
            yield replace(
                row,
                by_time=_verdict(row, rows, "training_s"),
                by_gpu_s=_verdict(row, rows, "gpu_s"),
                by_energy=_verdict(row, rows, "energy_j"),
            )


def _row(result: ArmResults) -> FrontierRow:
    def cost(of_epoch: str) -> Figure:
        totals = result.totals(of_epoch)
        return mean_with_t_interval(totals) if totals else UNKNOWN

    return FrontierRow(
        **result.place,
        seeds=len(result.records),
        test_accuracy=mean_with_t_interval(result.last("test_accuracy")),
        training_s=cost("epoch_s"),
        gpu_s=cost("gpu_s"),
        energy_j=cost("energy_j"),
    )


def _verdict(row: FrontierRow, rows: Sequence[FrontierRow], column: str) -> str:
    """`best` where no other arm beats it by means, `beaten` where the intervals of both cost and accuracy carry it,
    undecided between the two; nothing where the cost is not known."""
    cost = attrgetter(column)
    if not cost(row).is_known:
        return ""
    own, *known = (Trade(cost(one), one.test_accuracy) for one in (row, *rows) if cost(one).is_known)
    if is_pareto_best(own, known):
        return BEST
    return BEATEN if is_surely_beaten(own, known) else UNDECIDED
