"""Studies that may be compared: of settings that may differ, of one environment each, and of records of their own.

The same file in two studies says nothing of how they differ, and would make any interval of their ratio too narrow.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from dpscale.analyse.tables import build_tables
from dpscale.analyse.timing.environments import joined
from dpscale.compare.rows import ComparedStudiesRow
from dpscale.errors import ComparisonError
from dpscale.plan.study import Study
from dpscale.present.text.words import Terms
from dpscale.records.collect import Collected
from dpscale.schemas.settings import NetworkSettings
from dpscale.tables.quantities import SOFTWARE
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

    @property
    def terms(self) -> Terms:
        """How it speaks."""
        return Terms.of(self.study.values, self.tables)


@dataclass(frozen=True)
class Differing:
    """A setting that studies, or their arms of the same name, do not share: `precision`, `learning_rate of arm b512`.

    Its values are as people write them, by the names of the studies.
    """

    setting: str
    name: str
    values: Mapping[str, str]


def sides(studies: Mapping[str, Study], records: Sequence[Collected]) -> list[Side]:
    """The studies by their names, with their tables. Raises ComparisonError where two of them share a record."""
    for (one, first), (other, second) in combinations(zip(studies, records, strict=True), 2):
        # When and where it was measured, and every time.
        same = sum(record == second.records.get(cell) for cell, record in first.records.items())
        if same:
            raise ComparisonError(
                f"{other}: {same} of its records stand in {one} too. "
                "The same file in both studies is no evidence of a difference: give each a folder with its own records"
            )
    return [
        Side(name, study, build_tables(study, of)) for (name, study), of in zip(studies.items(), records, strict=True)
    ]


def refuse_other_settings(studies: Mapping[str, Study], may_differ: Collection[str]) -> list[Differing]:
    """The settings in which the studies, by their names, differ as they may.

    Raises ComparisonError, naming those that may not, with the values that they have.
    """
    differing = differing_settings(studies)
    refused = [found for found in differing if found.setting not in may_differ]
    if not refused:
        return differing
    named = "; ".join(f"{found.name} is {' and '.join(dict.fromkeys(found.values.values()))}" for found in refused)
    options = " ".join(dict.fromkeys(f"--differing {found.setting}" for found in refused))
    raise ComparisonError(
        f"the studies differ in settings, so their numbers say nothing of each other: {named}. "
        f"If that is what you compare: {options}"
    )


def differing_settings(studies: Mapping[str, Study]) -> list[Differing]:
    """Every setting that can change a number and that the studies do not share; of the first one's arms, in those that
    have them.

    What an arm takes of its study is not named again.
    """
    of_study = list(_differing({name: study.settings for name, study in studies.items()}))
    said = {(found.setting, *found.values.items()) for found in of_study}
    of_arms = [
        found
        for arm in next(iter(studies.values())).arms
        for found in _differing({name: study.arms[arm] for name, study in studies.items() if arm in study.arms}, arm)
        if (found.setting, *found.values.items()) not in said
    ]
    return [*of_study, *of_arms]


def _differing(settings: Mapping[str, NetworkSettings], arm: str = "") -> Iterator[Differing]:
    for setting in next(iter(settings.values())).names():
        values = {name: _as_written(getattr(of, setting)) for name, of in settings.items()}
        if len(set(values.values())) > 1:
            yield Differing(setting, f"{setting} of arm {arm}" if arm else setting, values)


def _as_written(value: Any) -> str:
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
