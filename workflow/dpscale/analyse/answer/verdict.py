"""Whether more devices are worth it: what a study asks, fixed before the data; on which side of its limit a speedup
lies, how sure that is, and what would decide it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import log, nan, sqrt
from pathlib import Path
from statistics import median

import numpy as np

from dpscale.analyse.answer.claims import NOT_WORTH_MORE_DEVICES, WORTH_MORE_DEVICES
from dpscale.formulas.figure import Figure, students_factor, units_of
from dpscale.formulas.statistics import FEWEST_UNITS, units_to_decide
from dpscale.plan.cells import AnyCell, TimingCell, VariantCell
from dpscale.plan.plan import answer_batch
from dpscale.plan.study import Study
from dpscale.records.kinds import Record
from dpscale.records.progress import seconds_of
from dpscale.tables.answer import AnswerRow
from dpscale.tables.row import grouped
from dpscale.vocabulary import states
from dpscale.vocabulary.states import MACHINE, NOT_WORTH_IT, RUN, WORTH_IT

DECIDED = (WORTH_IT, NOT_WORTH_IT)


@dataclass(frozen=True)
class Asked:
    """The terms of a study's answer, fixed before the data, and the cost of one more run."""

    batch_per_gpu: int = 128
    """The batch per device of the answer."""
    worth_from: float = 0.7
    """The efficiency from which more devices are worth it."""
    study_file: str = ""
    """The study's file, as a command names it."""
    run_s: float = nan
    """Seconds that one more run of all configurations takes, one after the other; NaN where no run was measured."""

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


@dataclass(frozen=True)
class Units:
    """The machines, or the runs of one machine (`kind`), that a figure is the mean of, and the figure of each."""

    kind: str
    values: tuple[float, ...]

    @classmethod
    def of(cls, figure: Figure) -> "Units":
        """Return the units of a figure that knows its blocks."""
        servers = {block.server for block in figure.blocks}
        return cls(MACHINE if len(servers) > 1 else RUN, tuple(units_of(figure.blocks)))

    def are_above(self, limit: float) -> bool:
        """Whether there are several units, and all are above the limit."""
        return len(self.values) > 1 and min(self.values) > limit

    def are_below(self, limit: float) -> bool:
        """Whether there are several units, and all are below the limit."""
        return len(self.values) > 1 and max(self.values) < limit


def verdict(row: AnswerRow, units: Units) -> str:
    """Return the state that says on which side of the limit the interval lies; otherwise on which side all machines, or
    runs, lie."""
    if WORTH_MORE_DEVICES.surely(row):
        return WORTH_IT
    if NOT_WORTH_MORE_DEVICES.surely(row):
        return NOT_WORTH_IT
    if units.are_above(row.limit):
        return states.PROBABLY
    if units.are_below(row.limit):
        return states.PROBABLY_NOT
    return states.UNDECIDED if len(units.values) > 1 else states.NOT_CONFIRMED


def more_units(speedup: Figure, units: Units, limit: float) -> int | None:
    """Return how many more machines, or runs, would decide what is not decided, if value and spread stay as they were
    seen; None where 20 in all would not. Of a single one the spread is not known: then so many that there is an
    interval."""
    number, spread = len(units.values), _spread(speedup, units)
    if spread is None:
        return max(1, FEWEST_UNITS - number)
    in_all = units_to_decide(log(speedup.value), log(limit), spread, number)
    return None if in_all is None else in_all - number


def _spread(speedup: Figure, units: Units) -> float | None:
    """Return the standard deviation of the logarithms between units; None of fewer than two.

    The interval of two units that borrowed has its ends at exp(+-t(2) * spread / sqrt(2)) times the value: their spread
    is taken from it.
    """
    if speedup.borrowed_from:
        return log(speedup.high / speedup.value) * sqrt(2) / students_factor(2)
    return float(np.log(units.values).std(ddof=1)) if len(units.values) > 1 else None
