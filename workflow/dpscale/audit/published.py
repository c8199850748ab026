"""Figures as others published them: a YAML file, read with the digits that were printed. Pure, and free of torch."""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from dpscale.audit.grids import WORDS
from dpscale.errors import PublishedError, RecordError
from dpscale.formulas.rounded import Number
from dpscale.records.facts import AuditRecord
from dpscale.records.files import read_record
from dpscale.schemas.validation import StrictLoader, read_yaml, violations
from dpscale.tables.row import grouped
from dpscale.vocabulary.chips import Chip, chip_named

# What authors derive from their times, in words, in the order in which one follows from the other.
QUANTITIES: Mapping[str, str] = WORDS["names"]

# Keys of a file that are fields as they stand; others are read below, or kept as they were printed and not audited.
_AS_GIVEN = ("id", "title", "batch", "gpu", "precision")

# Of these, what compares two at the same number of GPUs.
OF_TWO = "versus"

# What else than times these follow from, by what is assumed where it was not given.
_NEEDS = {
    "bandwidth": {"images": "images of an epoch", "network": "network"},
    "images_per_s": {"images": "images of an epoch"},
}

# What the batches of a study's tables are: images of one GPU or of all of them per step; or nobody says.
PER_GPU, GLOBAL, UNSTATED = "per_gpu", "global", "unstated"

# Characters of what is said of a file that cannot be read.
_LONGEST = 120

# Where the audit of a study stands, relative to the results.
AUDIT_PATH = "audit/{id}.json"
# Bandwidths: base and power of their units, and the bytes of each.
POWERS_OF_UNITS = {"GB/s": (10, 9), "MB/s": (10, 6), "GiB/s": (2, 30), "MiB/s": (2, 20)}
UNITS = {unit: float(base**power) for unit, (base, power) in POWERS_OF_UNITS.items()}


def is_telling(quantity: str, gpus: int) -> bool:
    """Whether a figure tells something: one GPU compared with itself proves nothing. Two are compared on any number."""
    return gpus != 1 or quantity == OF_TWO


class Spot(NamedTuple):
    """A cell of a published table."""

    batch_per_gpu: int
    gpus: int

    @property
    def alone(self) -> "Spot":
        """One GPU at this batch."""
        return Spot(self.batch_per_gpu, 1)

    @property
    def devices(self) -> str:
        """`1 GPU`, `2 GPUs`; nobody says how many where there are none."""
        return f"{self.gpus} GPU{'s' if self.gpus > 1 else ''}" if self.gpus else "Row without a number of GPUs"

    def __str__(self) -> str:
        """`batch 32 on 2 GPUs`; `2 GPUs` where no batch is named."""
        return f"batch {self.batch_per_gpu:,} on {self.devices}" if self.batch_per_gpu else self.devices


Printed = Mapping[Spot, Number]


@dataclass(frozen=True, eq=False)
class Published:
    """A study as published. Numbers have the digits that were printed; times are seconds.

    `sha256` is the checksum of its file: an audit names what it is of. `batch` says what the batches of its tables are:
    of one GPU, or of all GPUs together, or unstated. `of_other_runs` are figures that the table says are formed in
    other runs than its times are of. `base_s` are the times of what ratios of two are over. `other_clocks` are further
    sets of epoch times, by name. `assumed` says in words what was not given, by what it is; `left_out` what of the file
    was not understood. `bus_gb_s` are measured bus bandwidths by the number of GPUs. `is_of_epochs` says whether times
    were printed of epochs, not of steps or as rates.
    """

    id: str
    title: str
    sha256: str
    dataset_images: int
    epoch_s: Printed = field(default_factory=dict)
    quantities: Mapping[str, Printed] = field(default_factory=dict)
    of_other_runs: Mapping[str, Printed] = field(default_factory=dict)
    base_s: Printed = field(default_factory=dict)
    parameters_trained: int | None = None
    batch_sweep_s: Printed = field(default_factory=dict)
    bandwidth_unit: str | None = None
    batch: str = UNSTATED
    other_clocks: Mapping[str, Printed] = field(default_factory=dict)
    gpu: str | None = None
    precision: str | None = None
    flop_per_image: float | None = None
    bus_gb_s: Mapping[int, Number] = field(default_factory=dict)
    assumed: Mapping[str, str] = field(default_factory=dict)
    left_out: Sequence[str] = ()
    is_of_epochs: bool = True

    @classmethod
    def read(cls, path: Path) -> "Published":
        """The study in a YAML file. Raises PublishedError with the file and the key where it is not valid."""
        try:
            values = _read(read_yaml(path, PublishedError, _PrintedLoader))
        except PublishedError as error:
            raise PublishedError(f"{path}: {shortened(str(error).removeprefix(f'{path}: '))}") from error
        except RecursionError as error:
            raise PublishedError(f"{path}: is no study: it is nested too deeply") from error
        if problems := violations("published", values):
            more = f", and {len(problems) - 1} more" if len(problems) > 1 else ""
            raise PublishedError(f"{path}: {shortened(problems[0])}{more}. See config/README.md")
        printed = values["published"]
        as_given = {name: values[name] for name in _AS_GIVEN if name in values}
        if "flop_per_image" in values:
            as_given["flop_per_image"] = float(values["flop_per_image"])
        is_assumed = "gpu" in values and "precision" not in values
        return cls(
            **{"batch": PER_GPU, **as_given},
            sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
            dataset_images=int(values["dataset_images"]),
            batch_sweep_s=_table({batch: {1: time} for batch, time in values.get("batch_sweep_s", {}).items()}),
            epoch_s=_table(values.get("epoch_s", {})),
            other_clocks={name: _table(table) for name, table in values.get("other_clocks", {}).items()},
            parameters_trained=int(values.get("networks_mentioned", {}).get("parameters_trained", 0)) or None,
            quantities={name: _table(printed[name]) for name in QUANTITIES if name in printed},
            bandwidth_unit=printed.get("bandwidth", {}).get("unit"),
            assumed={"precision": "float32 arithmetic"} if is_assumed else {},
        )

    def assuming(self, *names: str) -> str:
        """Return `, assuming` and those of the named values that were not given; nothing where all were given."""
        words = " and ".join(self.assumed[name] for name in names if name in self.assumed)
        return f", assuming {words}" if words else ""

    @property
    def times(self) -> Iterator[tuple[str, Spot, Number]]:
        """Every epoch time: the name of its table, its cell, and the seconds."""
        clocks = {f"epoch_s, {name}": table for name, table in self.other_clocks.items()}
        for name, table in {"epoch_s": self.epoch_s, **clocks, "batch_sweep_s": self.batch_sweep_s}.items():
            yield from ((name, *cell) for cell in table.items())

    def global_batch(self, place: Spot) -> int:
        """Images per step over all GPUs."""
        return place.batch_per_gpu * (1 if self.batch == GLOBAL else place.gpus)

    def defines(self, quantity: str) -> bool:
        """Whether a quantity can be computed as defined here: seconds are of an epoch of known images, and bytes of a
        known network."""
        return (self.is_of_epochs or not quantity.endswith("_s")) and not self.missing(quantity)

    def missing(self, quantity: str) -> list[str]:
        """Return what a quantity follows from, beside times, that was not given."""
        return [words for name, words in _NEEDS.get(quantity, {}).items() if name in self.assumed]

    @property
    def chip(self) -> Chip | None:
        """The GPU, where it is named and known."""
        return chip_named(self.gpu) if self.gpu else None

    def figures(self, quantity: str) -> Printed:
        """Return the printed figures of a quantity."""
        return self.quantities.get(quantity, {})

    def several_gpus(self, quantity: str) -> list[tuple[Spot, Number]]:
        """Return the figures of a quantity that tell something: on several GPUs, but for ratios of two."""
        cells = self.figures(quantity).items()
        return [(place, number) for place, number in cells if is_telling(quantity, place.gpus)]

    def is_of_other_runs(self, place: Spot) -> bool:
        """Whether a cell's times say nothing of its figures."""
        return any(place in table for table in self.of_other_runs.values())

    @property
    def places(self) -> list[Spot]:
        """Every cell with a time or with a figure derived from times, in order."""
        return sorted({*self.epoch_s, *(place for table in self.quantities.values() for place in table)})

    @cached_property
    def gpus_by_batch(self) -> Mapping[int, Sequence[int]]:
        """The numbers of GPUs of these cells, ascending."""
        by_batch = grouped(self.places, lambda place: place.batch_per_gpu)
        return {batch: [place.gpus for place in places] for batch, places in by_batch.items()}


def read_all(paths: Iterable[str | Path]) -> dict[Path, Published]:
    """The studies of several files. Raises PublishedError, also where two have the same id."""
    studies: dict[Path, Published] = {}
    for path in map(Path, paths):
        study = Published.read(path)
        if any(study.id == earlier.id for earlier in studies.values()):
            raise PublishedError(f"{path}: id: {study.id} is the id of another file too")
        studies[path] = study
    return studies


def collect_audits(results: Path, published: Sequence[str]) -> list[AuditRecord]:
    """The audits, under the folder `results`, of the published files at these paths.

    Raises RecordError where one is missing or of another version of its file, PublishedError where a file is not valid.
    """
    again = f"Make it again with: dpscale audit config/published/*.yaml --out {(results / AUDIT_PATH).parent}"
    try:
        return [_audit_of(study, results) for study in read_all(published).values()]
    except RecordError as error:
        raise RecordError(f"{error}. {again}") from error


def outdated_audits(published: Sequence[str], results: Path) -> Iterator[Path]:
    """Audits under the folder `results` of another version of their published file: a file that replaces it can be
    older than its audit."""
    for study in read_all(published).values():
        path = results / AUDIT_PATH.format(id=study.id)
        try:
            if path.exists():
                _audit_of(study, results)
        except RecordError:
            yield path


def _audit_of(study: Published, results: Path) -> AuditRecord:
    path = results / AUDIT_PATH.format(id=study.id)
    audit = read_record(AuditRecord, path)
    if audit.sha256 != study.sha256:
        raise RecordError(f"{path}: is of another version of its published file")
    return audit


def shortened(why: str) -> str:
    """Shorten a fault of a file to a line of a terminal."""
    line = " ".join(why.split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"


class _PrintedLoader(StrictLoader):
    """Reads all values as text, so with their digits. What stands for something else is no published figure."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.composer.ComposerError(None, None, "write out what *names stand for", None)
        return super().compose_node(parent, index)


_PrintedLoader.yaml_implicit_resolvers = {}


def _read(value: Any) -> Any:
    """Return the value that a text stands for: 1.40 is a number with two decimals."""
    if isinstance(value, Mapping):
        return {str(key): _read(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_read(item) for item in value]
    if re.fullmatch(r"-?\d{1,15}", str(value)):
        return int(value)
    if re.fullmatch(r"-?\d{1,30}\.\d{0,30}(e[+-]?\d{1,2})?", str(value)):
        return Decimal(value)
    return value == "true" if value in ("true", "false") else value


def _table(rows: Mapping[str, Any]) -> Printed:
    return {
        Spot(int(batch), int(gpus)): Number.of(Decimal(number))
        for batch, row in rows.items()
        if batch != "unit"
        for gpus, number in row.items()
    }
