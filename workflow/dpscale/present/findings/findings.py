"""Findings: what the tables of a study make true, each a sentence with its numbers, or "".

"Surely" is what the 95 % intervals carry: "surely slower" is an interval that lies wholly below 1. "Probably" is said
of values that no interval carries.
"""

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

from dpscale.analyse.answer.claims import (
    BELOW_BASELINE,
    COMMUNICATION,
    PROBABLY_COMMUNICATION,
    PROBABLY_SLOWER,
    PROBABLY_STRATEGIES,
    REMEDY_HARMS,
    REMEDY_HELPS,
    REMEDY_LEVEL,
    SEARCH_COSTS,
    SLOWER,
    STRATEGIES,
    Claim,
)
from dpscale.present.text.numbers import estimate
from dpscale.present.text.words import Terms, headline, in_order, listed, ok, out_of, scope
from dpscale.strategies.known import BASELINE
from dpscale.tables.column import MILLISECONDS, MULTIPLES, POINTS
from dpscale.tables.communication import CommunicationRow
from dpscale.tables.row import Row, grouped
from dpscale.tables.tables import Tables
from dpscale.tables.timing import SpeedupRow, StrategyPairsRow, VariantsRow
from dpscale.tables.training import TrainingSummaryRow


def findings(tables: Tables, terms: Terms) -> dict[str, list[str]]:
    """Return the findings that these tables make true, by the section of the page that they stand in."""
    by_section = {
        "speedup": [more_devices_slower(tables.speedup, terms), strong_scaling(tables.speedup, terms)],
        "times": strategies_compared(tables.strategy_pairs),
        "communication": [communication_takes_time(tables.communication)],
        "variants": search_in_every_step(tables.variants, terms),
        "training": findings_of_training(tables.training_summary, terms),
    }
    return {section: list(filter(None, sentences)) for section, sentences in by_section.items()}


def more_devices_slower(rows: Sequence[SpeedupRow], terms: Terms) -> str:
    """Say in how many configurations of a weak series more devices are slower than one."""
    number = _surely_in(rows, SLOWER, PROBABLY_SLOWER, "comparison")
    more = "With and without data loading, more" if len({row.scope for row in headline(ok(rows))}) > 1 else "More"
    return number and f"{more} {terms.devices} are surely slower than 1 {terms.device} in {number}."


def strong_scaling(speedup: Iterable[SpeedupRow], terms: Terms) -> str:
    """Say what the most devices gain at the largest global batch, without loading where that was measured."""
    strong = in_order(row for row in headline(ok(speedup)) if row.scaling == "strong")
    if not strong:
        return ""
    row = [row for row in strong if row.scope == strong[0].scope][-1]
    return (
        f"With the global batch held at {row.global_batch:,} (strong scaling, {scope(row.scope)}), "
        f"{terms.count(row.gpus)} with {row.strategy} are {estimate(row.speedup, MULTIPLES)} times as fast as 1."
    )


def strategies_compared(rows: Iterable[StrategyPairsRow]) -> list[str]:
    """Say where the later strategy of the table is faster without loading, and where it is slower."""
    pairs = grouped(rows, lambda row: (row.strategy, row.other_strategy)).items()
    sentences = []
    for ((strategy, second), compared), (outcome, claim) in product(pairs, STRATEGIES.items()):
        number = _surely_in(compared, claim, PROBABLY_STRATEGIES[outcome], "comparison")
        sentences.append(number and f"{strategy} is surely {outcome} than {second} without loading in {number}.")
    return sentences


def communication_takes_time(rows: Sequence[CommunicationRow]) -> str:
    """Say in how many configurations communication takes time."""
    number = _surely_in(rows, COMMUNICATION, PROBABLY_COMMUNICATION, "configuration")
    return number and f"Communication time is surely above zero in {number}."


def search_in_every_step(rows: Sequence[VariantsRow], terms: Terms) -> list[str]:
    """Say how much longer cuDNN's search makes a step of DataParallel, and how much one of a single device."""
    sentences = []
    for row in SEARCH_COSTS.of(rows).holding:
        on_one = (single for single in rows if single.strategy == BASELINE and _conditions(single) == _conditions(row))
        beside = "".join(f", and one of 1 {terms.device} by {_longer(single)}" for single in on_one)
        sentences.append(
            f"cudnn_benchmark makes a step of {terms.point(row)} longer by {_longer(row)}{beside}. DataParallel starts "
            "new threads in every step, and in each of them cuDNN searches again."
        )
    return sentences


def _conditions(row: VariantsRow) -> tuple[str, int, str, str]:
    return row.variant, row.batch_per_gpu, row.scope, row.environment


def _longer(row: VariantsRow) -> str:
    return estimate(row.longer_step_s, MILLISECONDS, with_unit=True)


def _surely_in(rows: Sequence[Row], sure: Claim[Any], probable: Claim[Any], noun: str) -> str:
    """`6 of 28 comparisons, probably in 5 more, and not in 17`; "" where it is sure in none."""
    surely, probably = sure.of(rows), probable.of(rows)
    if not surely.number:
        return ""
    neither = probably.of - surely.number - probably.number
    more = f", probably in {probably.number:,} more" * bool(probably.number)
    return f"{out_of(surely.number, probably.of, noun)}{more}" + f", and not in {neither:,}" * bool(neither)


Arms = Sequence[TrainingSummaryRow]


def findings_of_training(arms: Arms, terms: Terms) -> list[str]:
    """Name the arms that lose accuracy by a larger batch alone, and what remedies do; nothing of arms that were trained
    on noise."""
    if terms.synthetic:
        return []
    named = (
        ("A larger batch without a remedy loses test accuracy", _losing(arms), "test_accuracy_difference"),
        ("Remedies help", REMEDY_HELPS.of(arms).holding, "test_accuracy_gain"),
        ("Remedies show no difference with these seeds", REMEDY_LEVEL.of(arms).holding, "test_accuracy_gain"),
        ("Remedies harm", REMEDY_HARMS.of(arms).holding, "test_accuracy_gain"),
    )
    return [
        f"{words}: {listed([_arm(row, figure, terms) for row in holding])}."
        for words, holding, figure in named
        if holding
    ]


def _losing(arms: Arms) -> Arms:
    """Return the arms of a larger batch than the baseline's, and of nothing else, that are less accurate."""
    batches = {(row.arm, row.environment): row.global_batch for row in arms if row.is_baseline}
    losing = []
    for row in BELOW_BASELINE.of(arms).holding:
        batch = batches.get((row.compared_with, row.environment))
        if batch is not None and row.global_batch > batch and not row.remedies and not row.lacks:
            losing.append(row)
    return losing


def _arm(row: TrainingSummaryRow, figure: str, terms: Terms) -> str:
    """`b2048-linear (−8 points [−20, 4])`."""
    return f"{row.arm}{terms.environment(row)} ({estimate(getattr(row, figure), POINTS, with_unit=True)})"
