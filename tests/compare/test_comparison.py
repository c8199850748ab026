"""Several studies: what measured each, the point that all share, and each against the first one as a pair is."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from dpscale.compare.comparison import ComparedStudies, compare
from dpscale.compare.rows import COMPARED_TABLES
from dpscale.compare.studies import Side
from dpscale.plan.cells import AnyCell
from dpscale.tables.tables import written
from dpscale.vocabulary.states import NOT_PLANNED
from rows import picked
from two_studies import out_of_memory, side, slower, small

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


def test_figures_are_each_study_s_own_at_the_largest_point_that_all_share(
    found: ComparedStudies, three: Sequence[Side]
) -> None:
    rows = found.figures
    assert [(row.study, row.strategy, row.gpus, row.batch_per_gpu, row.scope) for row in rows] == [
        (name, *at, 128, "compute") for name in ("first", "h100", "once") for at in (("single", 1), ("ddp", 2))
    ]
    place: dict[str, Any] = {"strategy": "ddp", "gpus": 2, "batch_per_gpu": 128}
    for row, one in zip(picked(rows, strategy="ddp"), three, strict=True):
        (times,), (speedup,) = picked(one.tables.times, **place), picked(one.tables.speedup, scaling="weak", **place)
        assert (row.epoch_s, row.images_per_s) == (times.epoch_s, times.images_per_s)
        assert (row.speedup, row.efficiency) == (speedup.speedup, speedup.efficiency)
        assert row.images_per_s.has_interval == (one.name != "once")


def test_every_study_is_held_against_the_first_one_as_two_studies_are(
    found: ComparedStudies, three: Sequence[Side]
) -> None:
    for other, pair in zip(three[1:], found.pairs, strict=True):
        (alone,) = compare([three[0], other], (), 0.05).pairs
        for name in set(COMPARED_TABLES) - {"studies", "records", "figures"}:
            kind = COMPARED_TABLES[name]
            assert written(kind, pair.table(name)) == written(kind, alone.table(name))
            assert {row["study"] for row in map(kind.flat, pair.table(name))} <= {other.name}


def test_a_batch_with_steps_enough_speaks_before_a_larger_one() -> None:
    sides = []
    for name, change in (("a", None), ("b", slower(1.1)), ("c", slower(1.2))):
        found = side(name, change, small(gpus=[1, 2], strategies=["single", "ddp"]))
        few = [replace(row, is_headline=row.batch_per_gpu < 512 or name == "c") for row in found.tables.times]
        sides.append(replace(found, tables=replace(found.tables, times=few)))
    assert {row.batch_per_gpu for row in compare(sides).figures} == {128}


def test_a_study_that_lacks_one_gpu_at_that_batch_has_no_figure_of_it() -> None:
    changes = [None, slower(1.1), out_of_memory(lambda at: at.strategy == "single")]
    rows = picked(compare([side(str(n), change, small()) for n, change in enumerate(changes)]).figures, study="2")
    assert [(row.strategy, row.status, row.speedup.is_known) for row in rows] == [
        ("single", "oom", False), ("ddp", "ok", False),
    ]  # fmt: skip


def test_a_scope_that_one_study_alone_has_is_not_planned_in_others() -> None:
    both = small(scopes=["compute", "end_to_end"], gpus=[1, 2])
    sides = [side("a", None, both), *(side(name, slower(1.1), small(gpus=[1, 2])) for name in "bc")]
    loading = picked(compare(sides, ("scopes",)).figures, scope="end_to_end")
    assert {(row.study, row.status) for row in loading} == {("a", "ok"), ("b", NOT_PLANNED), ("c", NOT_PLANNED)}


def test_without_a_point_in_common_there_is_no_figure() -> None:
    sides = [side(str(batch), slower(1), small(batch_per_gpu=[batch])) for batch in (32, 128, 512)]
    assert compare(sides).figures == []
