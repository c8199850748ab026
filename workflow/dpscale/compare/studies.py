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
from dpscale.plan.study import Study
from dpscale.records.collect import Collected
from dpscale.schemas.settings import NetworkSettings
from dpscale.tables.quantities import SOFTWARE
from dpscale.tables.row import grouped
from dpscale.tables.tables import Tables

# What can be the same in two studies.
ENVIRONMENT = ("device_model", "cpu_model", "cpu_cores", "links", *SOFTWARE, "variables", "dataset_sha256")
PROPERTIES = tuple(name for name in ComparedStudiesRow.columns() if name not in ("study", "environment"))


@dataclass(frozen=True)
class Side:
    """A study under the name that it has beside others, and all its tables."""

    name: str
    study: Study
    tables: Tables


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


def sides(names: Sequence[str], studies: Sequence[Study], records: Sequence[Collected]) -> list[Side]:
    """The studies with their tables, under these names. Raises ComparisonError where two of them share a record."""
    for (one, first), (other, second) in combinations(zip(names, records, strict=True), 2):
        # When and where it was measured, and every time.
        same = sum(record == second.records.get(cell) for cell, record in first.records.items())
        if same:
            raise ComparisonError(
                f"{other}: {same} of its records stand in {one} too. "
                "The same file in both studies is no evidence of a difference: give each a folder with its own records"
            )
    return [Side(name, study, build_tables(study, of)) for name, study, of in zip(names, studies, records, strict=True)]


def refuse_other_settings(studies: Sequence[Study], may_differ: Collection[str]) -> list[list[Differing]]:
    """The settings in which every study but the first differs from it, as it may.

    Raises ComparisonError, naming those of all studies that may not, with the values that they have.
    """
    first, *others = studies
    differing = [differing_settings(first, other) for other in others]
    refused = [difference for of_one in differing for difference in of_one if difference.setting not in may_differ]
    if not refused:
        return differing
    values = {
        name: dict.fromkeys(as_written(value) for difference in of for value in (difference.first, difference.second))
        for name, of in grouped(refused, lambda difference: difference.name).items()
    }
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
        not_used=len(side.tables.rejected),
    )
