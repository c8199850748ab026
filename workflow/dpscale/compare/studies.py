"""Studies that may be compared: of settings that may differ, of one environment each, and of records of their own.

The same file in two studies says nothing of how they differ, and would make any interval of their ratio too narrow.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from dpscale.analyse.tables import build_tables
from dpscale.analyse.timing.environments import joined
from dpscale.compare.rows import ComparedStudiesRow
from dpscale.errors import ComparisonError
from dpscale.plan.cells import AnyCell
from dpscale.plan.study import Study
from dpscale.records.collect import Collected
from dpscale.schemas.settings import NetworkSettings
from dpscale.tables.quantities import SOFTWARE
from dpscale.tables.tables import Tables

# What can be the same in two studies.
ENVIRONMENT = ("device_model", "cpu_model", "cpu_cores", "links", *SOFTWARE, "variables", "dataset_sha256")
PROPERTIES = tuple(name for name in ComparedStudiesRow.columns() if name not in ("study", "environment"))


@dataclass(frozen=True)
class Named:
    """A study and its records, under the name that it has beside others."""

    name: str
    study: Study
    collected: Collected


@dataclass(frozen=True)
class Side:
    """A study under the name that it has beside others, and all its tables.

    These are made without its `same_records`, which another of the studies has too.
    """

    name: str
    study: Study
    tables: Tables
    same_records: int = 0


@dataclass(frozen=True)
class Differing:
    """A setting that two studies, or their arms of the same name, do not share."""

    setting: str
    first: Any
    second: Any
    arm: str | None = None

    @property
    def name(self) -> str:
        """`precision`, `learning_rate of arm b512`."""
        return self.setting if self.arm is None else f"{self.setting} of arm {self.arm}"


def sides(studies: Sequence[Named]) -> list[Side]:
    """The studies with their tables, made of the records that no other of them has.

    Raises ComparisonError where a study has no record but those of others.
    """
    same: list[set[AnyCell]] = [set() for _ in studies]
    for (one, first), (other, second) in combinations(enumerate(studies), 2):
        for cell, record in first.collected.records.items():
            if record == second.collected.records.get(cell):  # when and where it was measured, and every time
                same[one].add(cell)
                same[other].add(cell)
    for named, cells in zip(studies, same, strict=True):
        if cells and len(cells) == len(named.collected.records):
            raise ComparisonError(
                f"{named.name}: all of its {len(cells)} records stand in another of the studies too. "
                "The same file in both studies is no evidence of a difference"
            )
    return [_side(named, cells) for named, cells in zip(studies, same, strict=True)]


def _side(named: Named, same: set[AnyCell]) -> Side:
    collected = named.collected
    own = {cell: record for cell, record in collected.records.items() if cell not in same}
    rejected = {**collected.rejected, **dict.fromkeys(same, "the same record is in another study")}
    tables = build_tables(named.study, replace(collected, records=own, rejected=rejected))
    return Side(named.name, named.study, tables, len(same))


def refuse_other_settings(studies: Sequence[Study], may_differ: Collection[str]) -> list[list[Differing]]:
    """The settings in which every study but the first differs from it, as it may.

    Raises ComparisonError, naming those of all studies that may not, with the values that they have.
    """
    first, *others = studies
    differing = [differing_settings(first, other) for other in others]
    refused = [difference for of_one in differing for difference in of_one if difference.setting not in may_differ]
    if not refused:
        return differing
    values: dict[str, dict[str, None]] = {}
    for difference in refused:
        known = values.setdefault(difference.name, {as_written(difference.first): None})
        known[as_written(difference.second)] = None
    named = "; ".join(f"{name} is {' and '.join(found)}" for name, found in values.items())
    options = " ".join(dict.fromkeys(f"--differing {difference.setting}" for difference in refused))
    raise ComparisonError(
        f"the studies differ in settings, so their numbers say nothing of each other: {named}. "
        f"If that is what you compare: {options}"
    )


def differing_settings(first: Study, second: Study) -> list[Differing]:
    """Every setting that can change a number and that the studies do not share; of arms that both have, in both.

    What an arm takes of its study is not named again.
    """
    of_study = list(_differing(first.settings, second.settings))
    of_arms = [
        replace(found, arm=arm)
        for arm in first.arms
        if arm in second.arms
        for found in _differing(first.arms[arm], second.arms[arm])
        if found not in of_study
    ]
    return [*of_study, *of_arms]


def _differing(first: NetworkSettings, second: NetworkSettings) -> Iterator[Differing]:
    for name in first.names():
        found = Differing(name, getattr(first, name), getattr(second, name))
        if found.first != found.second:
            yield found


def as_written(value: Any) -> str:
    """A setting's value as people write it."""
    return "+".join(map(str, value)) if isinstance(value, tuple) else str(value)


def refuse_several_environments(side: Side) -> None:
    """Raises ComparisonError unless the study's tables are of records of exactly one environment."""
    environments = side.tables.environments
    if not environments:
        raise ComparisonError(f"{side.name}: nothing was measured: no record was found. Name its folder with --results")
    if len(environments) > 1:
        varying = [name for name in ENVIRONMENT if len({getattr(found, name) for found in environments}) > 1]
        raise ComparisonError(
            f"{side.name}: its records are of {len(environments)} environments, which are never pooled; they differ in "
            f"{', '.join(varying)}. Name a folder with the records of one with --results"
        )


def study_row(side: Side) -> ComparedStudiesRow:
    """What measured a study of one environment, and when."""
    (environment,), records = side.tables.environments, side.tables.records
    dirty = {record.git_dirty for record in records} - {None}
    return ComparedStudiesRow(
        **vars(environment),
        study=side.name,
        gpus=max(record.gpus or 0 for record in records),
        gpu_uuids=joined(uuid for record in records for uuid in record.gpu_uuids.split("; ")) or "",
        git_commits=joined(record.git_commit[:12] for record in records) or "",
        git_dirty=("yes" if True in dirty else "no") if dirty else "",
        first_started_at=min(filter(None, (record.started_at for record in records)), default=""),
        last_finished_at=max((record.finished_at for record in records), default=""),
        same_records=side.same_records,
        not_used=len(side.tables.rejected) - side.same_records,
    )
