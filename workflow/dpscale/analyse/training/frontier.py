"""Accuracy against time: what every arm's training costs and what it ends with, and which arms no other one beats."""

from collections.abc import Iterator, Sequence

from dpscale.analyse.points import Row
from dpscale.analyse.training.results import ArmResults, Results, columns_of, sum_over_epochs
from dpscale.formulas.frontier import Trade, pareto_best, surely_beaten
from dpscale.formulas.statistics import mean_with_t_interval
from dpscale.vocabulary.states import BEATEN, BEST, UNDECIDED

GAIN = "test_accuracy"
# What an arm costs: the column, what of an epoch it is the sum of, and the column that says how it stands by this cost.
COSTS = (("training_s", "epoch_s", "by_time"), ("gpu_s", "gpu_s", "by_gpu_s"), ("energy_j", "energy_j", "by_energy"))


def frontier_rows(results: Results) -> Iterator[Row]:
    """A row for every arm of which every seed came to its last epoch. Arms are held against those of their own
    environment."""
    complete = [result for result in results.values() if result.records and result.is_complete]
    for environment in sorted({result.environment for result in complete}):
        rows = [_row(result) for result in complete if result.environment == environment]
        for cost, _, verdict in COSTS:
            _judge(rows, cost, verdict)
        yield from rows


def _row(result: ArmResults) -> Row:
    row = {**result.keys, "seeds": len(result.records), **columns_of(GAIN, mean_with_t_interval(result.last(GAIN)))}
    for cost, of_epoch, _ in COSTS:
        costs = [sum_over_epochs(record, of_epoch) for record in result.records]
        known = [total for total in costs if total is not None]
        if len(known) == len(costs):
            row |= columns_of(cost, mean_with_t_interval(known))
    return row


def _judge(rows: Sequence[Row], cost: str, verdict: str) -> None:
    """Say of every row that has this cost whether another one beats it: `best` where none does by means, `beaten` where
    the intervals of both cost and accuracy carry it, undecided between the two."""
    known = [row for row in rows if cost in row]
    trades = [_trade(row, cost) for row in known]
    for row, is_best, is_beaten in zip(known, pareto_best(trades), surely_beaten(trades), strict=True):
        row[verdict] = BEST if is_best else BEATEN if is_beaten else UNDECIDED


def _trade(row: Row, cost: str) -> Trade:
    return Trade(
        cost=row[cost],
        gain=row[GAIN],
        cost_low=row[f"{cost}_low"],
        cost_high=row[f"{cost}_high"],
        gain_low=row[f"{GAIN}_low"],
        gain_high=row[f"{GAIN}_high"],
    )
