"""Which results of a study are to be made: those that are missing, and those that are not of this study.

Whether a record is of a cell, and of a version that still counts, is decided in `records.collect.differences`.

Free of torch, and quick: this runs whenever the Snakefile is read.
"""

import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from dpscale.errors import RecordError, StudyError
from dpscale.plan.plan import Plan
from dpscale.plan.study import DATASET_MANIFEST, MISSING_TABLE, NETWORK_FACTS, STUDY_FILE, Study
from dpscale.records.collect import examine, examine_network
from dpscale.records.facts import DatasetManifest
from dpscale.records.files import read_record, set_aside
from dpscale.regular_files import read_bytes
from dpscale.schemas.settings import from_home


@dataclass(frozen=True)
class Outdated:
    """Paths of files that are to be made. Rejected records are measurements, so they are kept under a new name."""

    missing_records: tuple[Path, ...] = ()
    rejected_records: tuple[Path, ...] = ()
    other_files: tuple[Path, ...] = ()
    reasons: tuple[str, ...] = ()

    @cached_property
    def paths(self) -> frozenset[str]:
        return frozenset(str(path) for path in (*self.missing_records, *self.rejected_records, *self.other_files))

    def set_aside(self, measured: Collection[str]) -> Iterator[Path]:
        """Rename every rejected record that is about to be `measured` again, one at a time, giving its new path."""
        for path in self.rejected_records:
            if str(path) in measured and path.exists():
                yield set_aside(path)


def find_outdated(study: Study, planned: Plan, results: Path, also: Iterable[Path] = ()) -> Outdated:
    """Return the files that are missing under the folder `results`, or that were not made for `study`; and `also`."""
    missing, rejected, reasons = [], [], []
    for cell, record, problem in examine(results, planned.all_cells, study.settings):
        if problem:
            rejected.append(results / cell.path)
            reasons.append(problem)
        elif record is None:
            missing.append(results / cell.path)
    other_files = (
        *_outdated_study(study, results),
        *_outdated_dataset(study, results),
        # A file that is not there is made anyway.
        *([results / NETWORK_FACTS] if examine_network(results, study.settings)[1] else []),
        *also,
        *_partial_tables(results),
    )
    return Outdated(tuple(missing), tuple(rejected), other_files, tuple(reasons))


def _outdated_study(study: Study, results: Path) -> Iterator[Path]:
    path = results / STUDY_FILE
    try:
        # With its defaults: a setting that was added after the file was written makes no other study of it.
        if Study(json.loads(read_bytes(path))).values != study.values:
            yield path
    except FileNotFoundError:
        return
    except (OSError, ValueError, RecursionError, StudyError):
        yield path


def _partial_tables(results: Path) -> Iterator[Path]:
    """Tables that list missing cells were made for a partial page: file times do not show that."""
    path = results / MISSING_TABLE
    try:
        lines = read_bytes(path).splitlines()
    except OSError:
        return
    if len(lines) > 1:
        yield path


def _outdated_dataset(study: Study, results: Path) -> Iterator[Path]:
    path = results / DATASET_MANIFEST
    if not path.exists():
        return
    try:
        manifest = read_record(DatasetManifest, path)
    except RecordError:
        yield path
        return
    wanted = study["dataset"]
    is_elsewhere = not manifest.synthetic and Path(from_home(manifest.root)) != Path(from_home(wanted["root"]))
    if is_elsewhere or (manifest.source, manifest.images) != (wanted["source"], wanted["images"]):
        yield path
