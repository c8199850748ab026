"""Studies that are compared: each of one environment and of records of its own, and what they differ in."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from dpscale.analyse.tables import build_tables
from dpscale.errors import ComparisonError
from dpscale.plan.study import Study
from dpscale.present.findings.set_up import CHECKSUM_DIGITS, dates
from dpscale.present.text.words import Terms, text
from dpscale.records.collect import Collected
from dpscale.tables.quantities import SOFTWARE
from dpscale.tables.study import EnvironmentsRow
from dpscale.tables.tables import Tables

_ENVIRONMENT = ("device_model", "cpu_model", "cpu_cores", "links", *SOFTWARE, "variables", "dataset_sha256")


@dataclass(frozen=True)
class ComparedStudy:
    """A study under the name that it has beside others, with all its tables.

    Raises ComparisonError unless these are of exactly one environment.
    """

    name: str
    study: Study
    tables: Tables

    def __post_init__(self) -> None:
        environments = self.tables.environments
        if not environments:
            raise ComparisonError(f"{self.name}: nothing was measured: no record is there. Name its folder: --results")
        if len(environments) > 1:
            varying = [name for name in _ENVIRONMENT if len({getattr(row, name) for row in environments}) > 1]
            raise ComparisonError(
                f"{self.name}: its records are of {len(environments)} environments, which are never pooled; they "
                f"differ in {', '.join(varying)}. Name a folder with the records of one: --results"
            )

    @property
    def environment(self) -> EnvironmentsRow:
        return self.tables.environments[0]

    @property
    def terms(self) -> Terms:
        return Terms.of(self.study.values, self.tables)

    @property
    def description(self) -> str:
        """`2 x NVIDIA H200, torch 2.11.0, CUDA 13.0, measured 2026-11-20`."""
        most = max((row.gpus or 0 for row in self.tables.records), default=0)
        versions = [f"torch {self.environment.torch}", f"CUDA {text(self.environment.cuda)}"]
        return ", ".join([f"{most} x {text(self.environment.device_model)}", *versions, dates(self.tables.records)])

    def _of_environment(self, name: str) -> str:
        value = str(getattr(self.environment, name))
        return text(value[:CHECKSUM_DIGITS] if name == "dataset_sha256" else value)

    def settings_unlike(self, first: "ComparedStudy") -> Iterator[str]:
        """Yield every setting that differs and can change a number: `precision bfloat16 (not float32)`."""
        for name in self.study.settings.names():
            mine, other = (_as_written(getattr(study.settings, name)) for study in (self.study, first.study))
            if mine != other:
                yield f"{name} {mine} (not {other})"

    def environment_unlike(self, first: "ComparedStudy") -> Iterator[str]:
        """Yield every part of the hardware, software and images that differs: `Driver 580.1 (not 570.2)`."""
        for name in (*_ENVIRONMENT, "measurement_versions"):
            mine, other = (study._of_environment(name) for study in (self, first))
            if mine != other:
                yield f"{EnvironmentsRow.column(name).label} {mine} (not {other})"


def _as_written(value: Any) -> str:
    """Return the value of a setting as people write it."""
    return "+".join(map(str, value)) if isinstance(value, tuple) else str(value)


def studies_of(studies: Mapping[str, Study], records: Sequence[Collected]) -> list[ComparedStudy]:
    """Return the studies by their names, with their tables.

    Raises ComparisonError where two of them share a record: it is no evidence of how they differ, and would make any
    interval of their ratio too narrow.
    """
    for (name, first), (other_name, second) in combinations(zip(studies, records, strict=True), 2):
        # Records hold when and where they were measured, and every time.
        shared = sum(record == second.records.get(cell) for cell, record in first.records.items())
        if shared:
            raise ComparisonError(
                f"{other_name}: {shared} of its records stand in {name} too. The same file in both studies is no "
                "evidence of a difference: give each a folder with its own records"
            )
    return [
        ComparedStudy(name, study, build_tables(study, collected))
        for (name, study), collected in zip(studies.items(), records, strict=True)
    ]
