"""How far a study is: the state of each of its cells. Free of torch, and quick."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from dpscale.plan.cells import AnyCell
from dpscale.plan.plan import Plan
from dpscale.plan.study import Study
from dpscale.records.collect import examine
from dpscale.records.failures import find_dataset_failure, find_failure, without_private
from dpscale.records.files import Record
from dpscale.records.versions import VERSIONS

# States of a cell. All but the first are measured by the next run.
DONE, OLDER, MISSING, FAILED, UNFINISHED, REJECTED = (
    "done", "older version", "missing", "failed", "unfinished", "rejected",
)  # fmt: skip
STATES = (DONE, OLDER, MISSING, FAILED, UNFINISHED, REJECTED)


@dataclass(frozen=True)
class CellState:
    """A cell, one of STATES, why it has that state, and its record where there is one."""

    cell: AnyCell
    state: str
    reason: str
    record: Record | None = None

    @property
    def is_to_be_measured(self) -> bool:
        return self.state != DONE


def cell_states(study: Study, planned: Plan, results: Path) -> Iterator[CellState]:
    """The state of every cell of the plan, under the folder `results`. Reads every record once."""
    return states_of(study, planned.all_cells, results)


def states_of(study: Study, cells: Iterable[AnyCell], results: Path) -> Iterator[CellState]:
    """The state of each of these cells, under the folder `results`."""
    without_dataset = find_dataset_failure(results)
    for cell, record, problem in examine(results, cells, study.settings, older_too=True):
        if record is not None:
            current, measured = VERSIONS[cell.kind].current, record["measurement_version"]
            older = f"measured by version {measured}, this dpscale measures {current}"
            yield CellState(cell, DONE, "", record) if measured == current else CellState(cell, OLDER, older, record)
        elif problem:
            yield CellState(cell, REJECTED, without_private(problem))
        elif failure := find_failure(results, cell) or (without_dataset if cell.needs_images else None):
            yield CellState(cell, failure.state, failure.reason)
        else:
            yield CellState(cell, MISSING, "no record yet")
