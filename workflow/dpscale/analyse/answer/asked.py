"""What a study asks of its answer, fixed before the data, and what one more run of it takes and is called."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import nan
from pathlib import Path
from statistics import median

from dpscale.plan.cells import AnyCell, TimingCell, VariantCell
from dpscale.plan.plan import answer_batch
from dpscale.plan.study import Study
from dpscale.records.cost import seconds_of
from dpscale.records.kinds import Record
from dpscale.tables.row import grouped


@dataclass(frozen=True)
class Asked:
    """The terms of a study's answer, fixed before the data, and the cost of one more run.

    The batch per device of the answer; the efficiency from which more devices are worth it; the study's file, as a
    command names it; and the seconds that one more run of all configurations takes, one after the other (NaN where no
    run was measured).
    """

    batch_per_gpu: int = 128
    worth_from: float = 0.7
    study_file: str = ""
    run_s: float = nan

    @classmethod
    def of(cls, study: Study, records: Mapping[AnyCell, Record]) -> "Asked":
        """Return what a study with these records asks."""
        repeated = {cell: record for cell, record in records.items() if _is_repeated(cell, study)}
        by_configuration = grouped(repeated, lambda cell: cell.path.rpartition("/")[0])
        medians = [median(seconds_of(repeated[cell]) for cell in cells) for cells in by_configuration.values()]
        return cls(
            batch_per_gpu=answer_batch(study),
            worth_from=study["answer"]["worth_from"],
            study_file=_named(study.source),
            run_s=sum(medians) if medians else nan,
        )

    def command(self, runs: int) -> str:
        """Return the command that measures so many runs in all: of those, the ones that are missing."""
        return f"make report CONFIG={self.study_file} RUNS={runs}"


def _is_repeated(cell: AnyCell, study: Study) -> bool:
    """Whether the study's `runs` say how often it is measured: what has a number of its own keeps that."""
    if isinstance(cell, VariantCell):
        return "runs" not in study["variants"][cell.variant]
    return isinstance(cell, TimingCell)


def _named(source: str) -> str:
    """Return a study file as commands of the project's folder name it, wherever that is on this machine."""
    path = Path(source)
    return str(Path(path.parent.name, path.name)) if path.is_absolute() else str(path)
