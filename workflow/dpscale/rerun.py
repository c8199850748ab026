"""Which results in a study's folder are not of this study, so that they are made again and nothing else is.

Torch-free and quick: this runs whenever the Snakefile is read.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from dpscale.errors import RecordError
from dpscale.record import collect, read_record, set_aside
from dpscale.study import Plan, Study


@dataclass(frozen=True)
class Outdated:
    """Paths of files to be made again; `records` of them are measurements, kept under a new name."""

    records: tuple[Path, ...] = ()
    others: tuple[Path, ...] = ()
    reasons: tuple[str, ...] = ()

    @cached_property
    def paths(self) -> frozenset[str]:
        return frozenset(str(path) for path in (*self.records, *self.others))

    def set_aside(self) -> Iterator[Path]:
        """Rename every outdated record that is still there, one at a time, giving its new path."""
        for path in self.records:
            if path.exists():
                yield set_aside(path)


def find_outdated(study: Study, planned: Plan, results: Path) -> Outdated:
    """What stands under the folder `results` but was not made for `study`: records, dataset, resolved study."""
    collected = collect(results, planned.cells, study.settings)
    return Outdated(
        records=tuple(results / cell.path for cell in collected.rejected),
        others=(*_outdated_study(study, results), *_outdated_dataset(study, results)),
        reasons=tuple(collected.rejected.values()),
    )


def _outdated_study(study: Study, results: Path) -> Iterator[Path]:
    path = results / "study.json"
    try:
        if json.loads(path.read_text()) != study.values:
            yield path
    except FileNotFoundError:
        return
    except (OSError, ValueError):
        yield path


def _outdated_dataset(study: Study, results: Path) -> Iterator[Path]:
    path = results / "dataset" / "manifest.json"
    if not path.exists():
        return
    try:
        manifest = read_record("dataset", path)
    except RecordError:
        yield path
        return
    if any(manifest[key] != study["dataset"][key] for key in ("source", "root", "images")):
        yield path
