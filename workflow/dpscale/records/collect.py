"""The records of a study: the state of each of its cells, which records answer them, and what is wrong with others."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import asdict

from dpscale.errors import RecordError
from dpscale.plan.cells import AnyCell
from dpscale.plan.study import NETWORK_FACTS
from dpscale.records import VERSIONS
from dpscale.records.facts import NetworkRecord
from dpscale.records.failures import Failure, find_dataset_failure, find_failure
from dpscale.records.files import read_record, record_in
from dpscale.records.files_of_runs import FilesOfRuns
from dpscale.records.kinds import RECORDS, Record
from dpscale.records.redaction import without_private
from dpscale.schemas.settings import NetworkSettings, TimingSettings

# States of a cell. All but the first are measured by the next run.
DONE, OLDER, MISSING, FAILED, UNFINISHED, REJECTED = STATES = (
    "done", "older version", "missing", "failed", "unfinished", "rejected",
)  # fmt: skip


def differences(record: Record, cell: AnyCell, study: TimingSettings, *, older_too: bool = False) -> list[str]:
    """Return the reasons why a valid record is not the result of `cell` in a study with these settings.

    With `older_too`, records of older versions of the measurement pass where tables can still read them.
    """
    version, measured = VERSIONS[cell.kind], record.measurement_version
    is_older = older_too and measured != version.current and version.reads(measured)
    problems = _unequal(asdict(record.cell), cell.coordinates)
    wanted = cell.settings_under(study)
    if record.settings != wanted:
        problems += _unequal(record.settings.to_json(), wanted.to_json())
    if measured != version.current and not is_older:
        problems.insert(0, f"measurement_version is {measured}, this dpscale measures {version.current}")
    return problems


def _unequal(measured: Mapping[str, object], wanted: Mapping[str, object]) -> list[str]:
    return [
        f"{key} is {measured.get(key, 'not there')}, the study says {wanted[key]}"
        for key in wanted
        if key not in measured or measured[key] != wanted[key]
    ]


def examine(
    results: Path,
    cells: Iterable[AnyCell],
    study: TimingSettings,
    *,
    older_too: bool = False,
    files_of_runs: FilesOfRuns | None = None,
) -> Iterator[tuple[AnyCell, Record | None, str]]:
    """Every cell with its record under the folder `results`, or with None and what is wrong with the file there.

    A record that is damaged, or that was measured under other settings, is never returned. One of an older version is
    returned only with `older_too` (see `differences`). The last item is empty where the record is good, and where there
    is no file. `files_of_runs` are those of the folder, where they were read before.
    """
    files_of_runs = files_of_runs or FilesOfRuns(results)
    for cell in cells:
        of_run = files_of_runs.find(cell)
        path = of_run.file if of_run else results / cell.path
        kind = RECORDS[cell.kind]
        try:
            record = record_in(kind, of_run.line, path) if of_run else read_record(kind, path)
        except RecordError as error:
            yield cell, None, str(error) if path.exists() else ""
            continue
        reasons = differences(record, cell, study, older_too=older_too)
        if reasons:
            yield cell, None, f"{path}: {'; '.join(reasons)}"
        else:
            yield cell, record, ""


def paths_of_own_files(results: Path, cells: Iterable[AnyCell], study: TimingSettings) -> list[str]:
    """Where records have files of their own, or are to get them: of all cells that no file of a run answers."""
    cells, files_of_runs = list(cells), FilesOfRuns(results)
    examined = examine(results, filter(files_of_runs.find, cells), study, files_of_runs=files_of_runs)
    answered = {cell for cell, record, _ in examined if record is not None}
    return [cell.path for cell in cells if cell not in answered]


@dataclass(frozen=True)
class CellState:
    """A cell, one of STATES, why it has that state, its record where there is one, and how it failed where it did."""

    cell: AnyCell
    state: str
    reason: str
    record: Record | None = None
    failure: Failure | None = None

    @property
    def is_to_be_measured(self) -> bool:
        return self.state != DONE


def states_of(cells: Iterable[AnyCell], study: TimingSettings, results: Path) -> Iterator[CellState]:
    """The state of each of these cells, under the folder `results`. Reads every record once."""
    without_dataset = find_dataset_failure(results)
    for cell, record, problem in examine(results, cells, study, older_too=True):
        if record is not None:
            current, measured = VERSIONS[cell.kind].current, record.measurement_version
            older = f"measured by version {measured}, this dpscale measures {current}"
            yield CellState(cell, DONE, "", record) if measured == current else CellState(cell, OLDER, older, record)
        elif problem:
            yield CellState(cell, REJECTED, without_private(problem))
        elif failure := find_failure(results, cell) or (without_dataset if cell.needs_images else None):
            yield CellState(cell, failure.state, failure.reason, failure=failure)
        else:
            yield CellState(cell, MISSING, "no record yet")


@dataclass(frozen=True)
class Collected:
    """The records of a study: those that answer its cells, what is wrong with the files that do not, how cells
    that failed ended, and the facts of its network; None where they were not made, or what is wrong with their file."""

    records: dict[AnyCell, Record]
    rejected: dict[AnyCell, str]
    failures: dict[AnyCell, Failure]
    network: NetworkRecord | None = None
    network_problem: str = ""


def collect(results: Path, cells: Iterable[AnyCell], study: TimingSettings) -> Collected:
    """All records that answer `cells`, also those of older versions, and what is known of the cells that have none."""
    states = list(states_of(cells, study, results))
    network, problem = examine_network(results, study)
    return Collected(
        {state.cell: state.record for state in states if state.record is not None},
        {state.cell: state.reason for state in states if state.state == REJECTED},
        {state.cell: state.failure for state in states if state.failure is not None},
        network,
        problem,
    )


def examine_network(results: Path, settings: NetworkSettings) -> tuple[NetworkRecord | None, str]:
    """Return the facts of the study's network; or None and what is wrong with the file, empty where there is none."""
    path = results / NETWORK_FACTS
    try:
        facts = read_record(NetworkRecord, path)
    except RecordError as error:
        return None, str(error) if path.exists() else ""
    return (facts, "") if settings.same_network(facts.settings) else (None, f"{path}: is of another network")
