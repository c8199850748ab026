"""Where records were measured: in which environment, and on which server.

Records of one environment alone are pooled and compared. That is the same GPU model, CPU model and type of link, the
same software that computes and communicates, the same variables that steer it, the same images, and, of every kind, one
version of the measurement. Servers are the units of every interval.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from string import ascii_uppercase
from typing import TypeVar

from msgspec.structs import replace

from dpscale.formulas import OnServer
from dpscale.plan.cells import AnyCell
from dpscale.records import VERSIONS
from dpscale.records.kinds import GpuLink, Record
from dpscale.tables.column import SOFTWARE
from dpscale.tables.study import EnvironmentsRow

# NVML numbers the versions of NVLink without gaps (nvml.h, NVML_NVLINK_VERSION_*).
NVLINK_VERSIONS = {1: "1.0", 2: "2.0", 3: "2.2", 4: "3.0", 5: "3.1", 6: "4.0", 7: "5.0", 8: "6.0"}
# Variables that change what libraries do, and so numbers: all of NCCL's, and the one that takes TF32 away or forces it.
_NCCL, _TF32 = "NCCL_", "NVIDIA_TF32_OVERRIDE"

C = TypeVar("C", bound=AnyCell)
K = TypeVar("K")
R = TypeVar("R", bound=Record)

Description = tuple[str, ...]


def places(record: Record) -> list[str]:
    """Return the UUIDs of the GPUs that measured a record, in order; its host where there are none."""
    uuids = [gpu.uuid for gpu in record.hardware.gpus if gpu.uuid]
    return uuids or [record.hardware.host]


@dataclass
class _Environment:
    """Records that may be pooled. `images` is their checksum, `nccl` are the variables of NCCL, and `links` the types
    between so many GPUs."""

    description: Description
    images: str
    nccl: str | None
    links: dict[int, frozenset[str]] = field(default_factory=dict)
    places: set[str] = field(default_factory=set)
    cells: list[AnyCell] = field(default_factory=list)

    def admits(self, record: Record, description: Description) -> bool:
        """Whether a record is like these in all that both have. Collectives move no images, one GPU has no links and
        no use for NCCL."""
        return (
            self.description == description
            and _images(record) in ("", self.images)
            and (None in (self.nccl, _nccl(record)) or self.nccl == _nccl(record))
            and self._links_agree(len(record.hardware.gpus), _links(record))
        )

    def _links_agree(self, gpus: int, links: frozenset[str]) -> bool:
        """Whether links agree: as many GPUs have the same types, more GPUs have those of fewer and perhaps others."""
        return not links or all(
            links == earlier if number == gpus else links >= earlier if number < gpus else links <= earlier
            for number, earlier in self.links.items()
        )

    def add(self, cell: AnyCell, record: Record) -> None:
        self.cells.append(cell)
        self.places.update(places(record))
        if self.nccl is None:
            self.nccl = _nccl(record)
        if links := _links(record):
            self.links.setdefault(len(record.hardware.gpus), links)


def environments_of(records: Mapping[AnyCell, Record]) -> dict[str, list[AnyCell]]:
    """The cells of every environment, by its letter; A is the one that was measured first.

    A record that lacks a property, such as links or images, is of an environment that is like it in everything else:
    of the one that has its GPU, otherwise of the first. Records with most properties come first, so that others find
    the environments that these make.
    """
    newest: dict[str, int] = {}
    for record in records.values():
        newest[record.kind] = max(record.measurement_version, newest.get(record.kind, 0))
    environments: list[_Environment] = []
    for cell, record in sorted(records.items(), key=lambda item: (_lacks(item[1]), item[1].started_at)):
        version = record.measurement_version
        older = "" if version == newest[record.kind] else str(version)
        description = (*_describe(record, _variables(record, _TF32)).values(), older)
        alike = [environment for environment in environments if environment.admits(record, description)]
        if not alike:
            alike = [_Environment(description, _images(record), _nccl(record))]
            environments += alike
        with_its_gpus = (environment for environment in alike if environment.places.intersection(places(record)))
        next(with_its_gpus, alike[0]).add(cell, record)

    def first_measured(environment: _Environment) -> tuple[bool, str]:
        return min((not _images(records[cell]), records[cell].started_at) for cell in environment.cells)

    ordered = enumerate(sorted(environments, key=first_measured))
    return {_letter(number): environment.cells for number, environment in ordered}


def _lacks(record: Record) -> tuple[bool, bool, bool]:
    return not _images(record), _nccl(record) is None, not _links(record)


def _images(record: Record) -> str:
    """Return the checksum of its images; empty for a measurement without images."""
    return record.dataset.sha256 if record.dataset else ""


def _links(record: Record) -> frozenset[str]:
    """The types of the links between its GPUs that are known."""
    return frozenset(_describe_link(link) for link in record.hardware.links if link.kind)


def environment_rows(
    records: Mapping[AnyCell, Record], environments: Mapping[str, Sequence[AnyCell]]
) -> Iterator[EnvironmentsRow]:
    """A row for every environment: what it is, and where it was found."""
    for letter, cells in environments.items():
        group = [records[cell] for cell in cells]
        yield EnvironmentsRow(
            environment=letter,
            dataset_sha256=next(filter(None, map(_images, group)), ""),
            **_describe(group[0], _variables(group[0], _NCCL, _TF32)),
            links=joined(_describe_link(link) for record in group for link in record.hardware.links),
            cpu_cores=joined(str(record.hardware.cpu_cores) for record in group),
            hosts=joined(host for record in group for host in hosts(record)),
            records=len(group),
            measurement_versions=joined(map(_version, group)),
            older_measurements=joined(
                _version(record) for record in group if record.measurement_version != VERSIONS[record.kind].current
            ),
        )


def _version(record: Record) -> str:
    return f"{record.kind} {record.measurement_version}"


def joined(texts: Iterable[str | None]) -> str:
    """All different texts in one."""
    return "; ".join(sorted({text for text in texts if text}))


def _describe(record: Record, variables: Sequence[str]) -> dict[str, str]:
    """Return the columns that records of one environment share, but for images and links. Nodes that differ are an
    environment of their own, which says so."""
    differences = [f"nodes differ in {difference}" for difference in record.nodes_differ]
    return {
        "device_model": record.hardware.device_model,
        "cpu_model": record.hardware.cpu_model or "",
        **{name: getattr(record.software, name) or "" for name in SOFTWARE},
        "variables": "; ".join([*variables, *differences]),
    }


def hosts(record: Record) -> list[str]:
    """The hosts of all nodes."""
    return [hardware.host for hardware in record.node_hardware]


def _variables(record: Record, *prefixes: str) -> list[str]:
    variables = record.provenance.environment
    return [f"{name}={value}" for name, value in sorted(variables.items()) if name.startswith(prefixes)]


def _nccl(record: Record) -> str | None:
    """NCCL's variables; None on one GPU, where it has nothing to do."""
    if len(record.hardware.gpus) == 1 and not record.nodes:
        return None
    return "; ".join(_variables(record, _NCCL))


def _letter(number: int) -> str:
    """A ... Z, AA, AB ... for 0, 1, 2 ..."""
    before, last = divmod(number, 26)
    return (_letter(before - 1) if before else "") + ascii_uppercase[last]


def _describe_link(link: GpuLink) -> str:
    if link.kind != "NVLink":
        return " ".join(filter(None, (link.kind or "link unknown", link.topology)))
    if link.nvlink_version is None:
        return "NVLink (details hidden)"
    through = " through a switch" if link.via_switch else ""
    return f"{link.nvlink_links} links of NVLink {NVLINK_VERSIONS.get(link.nvlink_version, '?')}{through}"


def placed(records: Mapping[AnyCell, Record], environments: Mapping[str, Sequence[AnyCell]]) -> dict[AnyCell, Record]:
    """Return the records with their `environment`, by its letter, and their `block`: the run on its server. The seed of
    a training is its run."""
    letters = {cell: letter for letter, cells in environments.items() for cell in cells}
    servers = servers_of(records.values())
    return {
        cell: replace(
            record,
            environment=letters[cell],
            block=OnServer(f"run {record.run}", servers[places(record)[0]]),
        )
        for cell, record in records.items()
    }


def by_place(
    records: Mapping[AnyCell, Record], cell_kind: type[C], record_kind: type[R], coordinate: Callable[[C], K]
) -> dict[tuple[K, str], list[R]]:
    """Return the records of a kind of cell by a coordinate of the cell and the environment."""
    records_by_place: dict[tuple[K, str], list[R]] = defaultdict(list)
    for cell, record in records.items():
        if isinstance(cell, cell_kind) and isinstance(record, record_kind):
            records_by_place[coordinate(cell), record.environment].append(record)
    return records_by_place


def servers_of(records: Iterable[Record]) -> dict[str, int]:
    """Return the number of the server of every GPU (of every host without GPUs), in the order of first use.

    GPUs that a record used together are of one server. Hosts may all have one name.
    """
    places_by_server: dict[str, set[str]] = {}
    for record in sorted(records, key=lambda record: record.started_at):
        together = set(places(record)).union(*(places_by_server.get(place, set()) for place in places(record)))
        places_by_server |= dict.fromkeys(together, together)
    numbers: dict[int, int] = {}
    return {place: numbers.setdefault(id(server), len(numbers) + 1) for place, server in places_by_server.items()}
