"""Several studies: what measured each, the point that all share, and each against the first one as a pair is."""

from collections.abc import Sequence
from typing import Any

import pytest

from dpscale.compare.comparison import ComparedStudies, compare
from dpscale.compare.rows import COMPARED_TABLES
from dpscale.compare.studies import Side
from dpscale.plan.cells import AnyCell
from dpscale.tables.tables import written
from two_studies import side, slower, small

# Whole studies, again and again.
pytestmark = pytest.mark.slow


def on_an_h100(cell: AnyCell, record: dict[str, Any]) -> None:
    slower(1.3)(cell, record)
    record["hardware"] |= {"device_model": "NVIDIA H100", "host": "other"}


@pytest.fixture(scope="module")
def three() -> Sequence[Side]:
    """As it is; of two GPUs at most on another machine; and at other batches, with one run."""
    return [
        side("first", None, small()),
        side("h100", on_an_h100, small(gpus=[1, 2])),
        side("once", slower(2), small(batch_per_gpu=[32, 128], runs=1)),
    ]


@pytest.fixture(scope="module")
def found(three: Sequence[Side]) -> ComparedStudies:
    return compare(three, (), 0.05)


def test_there_is_a_row_per_study_with_its_machine(found: ComparedStudies) -> None:
    rows = found.studies
    assert [(row.study, row.device_model, row.gpus) for row in rows] == [
        ("first", "NVIDIA H200", 4), ("h100", "NVIDIA H100", 2), ("once", "NVIDIA H200", 4),
    ]  # fmt: skip
    assert rows[1].hosts == "other"


def test_figures_are_each_study_s_own_answer(found: ComparedStudies, three: Sequence[Side]) -> None:
    assert [(row.study, row.gpus, row.batch_per_gpu) for row in found.figures] == [
        (one.name, gpus, batch)
        for one, batch, most in zip(three, (512, 512, 128), (4, 2, 4), strict=True)
        for gpus in (1, 2, 4)[:most]
        if gpus <= most
    ]
    for row, own in zip(found.figures, (row for one in three for row in one.tables.answer), strict=True):
        assert (row.epoch_s, row.speedup, row.worth) == (own.epoch_s, own.speedup, own.worth)


def test_every_study_is_held_against_the_first_one_as_two_studies_are(
    found: ComparedStudies, three: Sequence[Side]
) -> None:
    for other, pair in zip(three[1:], found.pairs, strict=True):
        (alone,) = compare([three[0], other], (), 0.05).pairs
        for name in set(COMPARED_TABLES) - {"studies", "records", "figures"}:
            kind = COMPARED_TABLES[name]
            assert written(kind, pair.table(name)) == written(kind, alone.table(name))
            assert {row["study"] for row in map(kind.flat, pair.table(name))} <= {other.name}
