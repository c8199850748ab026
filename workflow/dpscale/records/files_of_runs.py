"""Records of a run in one file, as recorded studies keep them: `cells/run-3.jsonl` has a line for every record that a
run leaves in a file of its own, `cells/<strategy>/gpus-<n>/batch-<b>/run-3.json`. A line is the record, and says
itself which cell it is of."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from dpscale.errors import RecordError
from dpscale.plan.cells import AnyCell
from dpscale.regular_files import read_bytes

Coordinates = dict[str, str | int]
_Key = tuple[str, frozenset[tuple[str, str | int]]]


class _OfCell(msgspec.Struct):
    kind: str
    cell: Coordinates


def files_of_runs(results: Path) -> list[Path]:
    """Return the files under a folder of results that hold the records of a run, or of a seed."""
    return sorted(file for name in ("run-*", "seed-*") for file in results.glob(f"*/{name}.jsonl"))


def lines_of(file: Path) -> Iterator[bytes]:
    """Return the records in the file of a run. Raises RecordError where it cannot be read."""
    try:
        yield from filter(None, read_bytes(file).split(b"\n"))
    except OSError as error:
        raise RecordError(f"{file}: cannot be read: {error.strerror}") from error


class RecordOfRun(NamedTuple):
    """A record, and the file of a run that it is a line of."""

    file: Path
    line: bytes


class FilesOfRuns:
    """The records in all files of runs under a folder of results, by the cell that they are of. A file of the cell's
    own goes before them: it was measured later."""

    def __init__(self, results: Path) -> None:
        self._results = results
        self._records: dict[_Key, RecordOfRun] = {}
        for file in files_of_runs(results):
            for number, line in enumerate(lines_of(file), start=1):
                try:
                    named = msgspec.json.decode(line, type=_OfCell)
                except (msgspec.MsgspecError, ValueError, RecursionError) as error:
                    raise RecordError(f"{file}: line {number} is damaged: {error}") from error
                self._records[_key(named.kind, named.cell)] = RecordOfRun(file, line)

    def find(self, cell: AnyCell) -> RecordOfRun | None:
        """Return the record of a cell that has no file of its own; None where no run's file has it."""
        if not self._records:
            return None
        record = self._records.get(_key(cell.kind, cell.coordinates))
        return None if record and (self._results / cell.path).exists() else record


def _key(kind: str, coordinates: Coordinates) -> _Key:
    return kind, frozenset(coordinates.items())
