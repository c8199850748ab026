"""What was measured, where and by which record, in which environment and on which server; what is missing, and why.

Records of one environment alone are pooled and compared. That is the same GPU model, CPU model and type of link, the
same software that computes and communicates, the same variables that steer it, the same images, and, of every kind, one
version of the measurement. Servers are the units of every interval.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from math import nan
from typing import TypeVar

from msgspec import structs

from dpscale.formulas import OnServer
from dpscale.plan.cells import AnyCell
from dpscale.records.collect import Collected
from dpscale.records.kinds import Gpu, GpuLink, Record, Scope, TimingRecord, Watched
from dpscale.records.progress import gpu_seconds
from dpscale.tables.column import SOFTWARE
from dpscale.tables.study import AbsencesRow, EnvironmentsRow, MissingRow, RecordsRow
from dpscale.tables.timing import TimesRow

# NVML numbers the versions of NVLink without gaps (nvml.h, NVML_NVLINK_VERSION_*).
NVLINK_VERSIONS = {1: "1.0", 2: "2.0", 3: "2.2", 4: "3.0", 5: "3.1", 6: "4.0", 7: "5.0", 8: "6.0"}
# Variables that change what libraries do, and so numbers: all of NCCL's, and the one that takes TF32 away or forces it.
_NCCL, _TF32 = "NCCL_", "NVIDIA_TF32_OVERRIDE"

# So much of a GPU's UUID tells it from others: `GPU-6589fe08`.
UUID_CHARACTERS = 12

C = TypeVar("C", bound=AnyCell)
K = TypeVar("K")
R = TypeVar("R", bound=Record)


def places(record: Record) -> list[str]:
    """Return the UUIDs of the GPUs that measured a record, in order; its host where there are none."""
    uuids = [gpu.uuid for gpu in record.hardware.gpus if gpu.uuid]
    return uuids or [record.hardware.host]


@dataclass
class _Environment:
    """Records that may be pooled, what is known of them, and the GPUs that measured them."""

    traits: dict[str, object] = field(default_factory=dict)
    places: set[str] = field(default_factory=set)
    cells: list[AnyCell] = field(default_factory=list)

    def admits(self, traits: Mapping[str, object]) -> bool:
        """Whether a record with these traits is like the environment's in all that both have."""
        return all(self.traits.get(name, trait) == trait for name, trait in traits.items())


def environments_of(records: Mapping[AnyCell, Record]) -> dict[str, list[AnyCell]]:
    """The cells of every environment, by its letter; A is the one that was measured first.

    A record that lacks a trait, such as links or images, is of an environment that is like it in everything else: of
    the one that has its GPU, otherwise of the first. Records with images come first, then those with NCCL and links, so
    that others find the environments that these make.
    """
    newest: dict[str, int] = {}
    for record in records.values():
        newest[record.kind] = max(record.measurement_version, newest.get(record.kind, 0))
    traits = {cell: _traits(record, newest) for cell, record in records.items()}

    def most_traits_first(cell: AnyCell) -> tuple[bool, int, datetime]:
        return "images" not in traits[cell], -len(traits[cell]), records[cell].started_at

    environments: list[_Environment] = []
    for cell in sorted(records, key=most_traits_first):
        used = set(places(records[cell]))
        alike = [environment for environment in environments if environment.admits(traits[cell])]
        environment = max(alike, key=lambda environment: bool(environment.places & used), default=None)
        if environment is None:
            environment = _Environment()
            environments.append(environment)
        environment.traits |= traits[cell]
        environment.places |= used
        environment.cells.append(cell)

    def first_measured(environment: _Environment) -> tuple[bool, datetime]:
        return min(("images" not in traits[cell], records[cell].started_at) for cell in environment.cells)

    ordered = enumerate(sorted(environments, key=first_measured))
    return {chr(ord("A") + number): environment.cells for number, environment in ordered}


def _traits(record: Record, newest: Mapping[str, int]) -> dict[str, object]:
    """Return what tells a record apart, by name, as far as it has it: collectives move no images, and one GPU has no
    links and no use for NCCL. Links are compared between as many GPUs. `newest` are the versions of the measurement."""
    version, gpus = record.measurement_version, len(record.hardware.gpus)
    traits: dict[str, object] = {
        "description": _describe(record, _variables(record, _TF32)),
        "older version": version if version < newest[record.kind] else None,
    }
    if record.dataset:
        traits["images"] = record.dataset.sha256
    if gpus != 1 or record.nodes:
        traits["NCCL"] = _variables(record, _NCCL)
    if links := {_describe_link(link) for link in record.hardware.links if link.kind}:
        traits[f"links of {gpus} GPUs"] = links
    return traits


def environment_rows(
    records: Mapping[AnyCell, Record], environments: Mapping[str, Sequence[AnyCell]]
) -> Iterator[EnvironmentsRow]:
    """A row for every environment: what it is, and where it was found."""
    for letter, cells in environments.items():
        group = [records[cell] for cell in cells]
        yield EnvironmentsRow(
            environment=letter,
            dataset_sha256=next((record.dataset.sha256 for record in group if record.dataset), ""),
            **_describe(group[0], _variables(group[0], _NCCL, _TF32)),
            links=joined(_describe_link(link) for record in group for link in record.hardware.links),
            cpu_cores=joined(str(record.hardware.cpu_cores) for record in group),
            hosts=joined(host for record in group for host in hosts(record)),
            records=len(group),
            measurement_versions=joined(f"{record.kind} {record.measurement_version}" for record in group),
        )


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
        cell: structs.replace(
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


# Why a cell is missing that was never tried.
NO_RECORD = "no record yet"
# States of cells without a record; the first says most.
STATES_BY_WEIGHT = ("failed", "unfinished", "missing")


def missing_rows(planned: Iterable[AnyCell], collected: Collected) -> list[MissingRow]:
    """The planned cells that have no record, with their state and the reason."""
    return [_missing(cell, collected) for cell in planned if cell not in collected.records]


def _missing(cell: AnyCell, collected: Collected) -> MissingRow:
    row = replace(MissingRow.read(cell.labels), path=cell.path, kind=cell.kind, status="missing", reason=NO_RECORD)
    if failure := collected.failures.get(cell):
        return replace(row, status=failure.state, reason=failure.reason, log=failure.log)
    if cell in collected.rejected:
        return replace(row, reason=f"record not used: {collected.rejected[cell]}")
    return row


def weightiest(missing: Iterable[MissingRow]) -> tuple[str, str]:
    """Return the status and reason that say most of cells without a record: a failure before what was never tried."""
    row = min(missing, key=lambda row: (STATES_BY_WEIGHT.index(row.status), row.reason == NO_RECORD))
    return row.status, row.reason


def record_row(cell: AnyCell, record: Record) -> RecordsRow:
    """When, where and by which commit it was measured, and what disturbed it."""
    readings = [*record.sensors.before, *(record.sensors.after or [])]
    scopes = _scopes(record)
    epochs = [epoch for scope in scopes for epoch in scope.watched]
    other_processes = [len(reading.other_processes) for reading in readings if reading.other_processes is not None]
    other_processes += [epoch.other_processes for epoch in epochs if epoch.other_processes is not None]
    slowed = _slowed(epochs)
    provenance = record.provenance
    gpus = [gpu for hardware in record.node_hardware for gpu in hardware.gpus]
    return replace(
        RecordsRow.read(cell.labels),
        path=cell.path,
        kind=cell.kind,
        status=record.status,
        environment=record.environment,
        started_at=record.started_at.isoformat(),
        finished_at=record.finished_at.isoformat(),
        gpu_s=gpu_seconds(cell, record),
        host=joined(hosts(record)),
        git_commit=provenance.git_commit or "",
        git_dirty=provenance.git_dirty,
        job_id=str(provenance.job_id or ""),
        gpu_uuids=joined(gpu.uuid for gpu in gpus),
        slowed_s=max(slowed.values(), default=nan),
        stalled_s=sum(seconds for scope in scopes for seconds in scope.stalled_s),
        skipped_updates=sum(scope.skipped_updates for scope in scopes),
        hot_devices=joined(_hot_devices(gpus, epochs)),
        other_processes=max(other_processes, default=None),
        dataset_source=record.dataset.source if record.dataset else "",
        synthetic=record.dataset.synthetic if record.dataset else None,
    )


def _scopes(record: Record) -> list[Scope]:
    """Return the record's timed epochs by scope, those of its baseline too."""
    if not isinstance(record, TimingRecord):
        return []
    scopes = [*record.scopes.values()]
    for baseline in record.alone or ():
        scopes += [scope for halves in baseline.scopes.values() for scope in halves.measured]
    return scopes


def _slowed(epochs: Iterable[Watched]) -> dict[tuple[int, str], float]:
    """For how long every GPU's clocks were kept down in these epochs, in s, by the policy that did."""
    slowed: dict[tuple[int, str], float] = defaultdict(float)
    for epoch in epochs:
        for number, gpu in enumerate(epoch.gpus):
            for policy, seconds in (gpu.slowed_s or {}).items():
                slowed[number, policy] += seconds
    return slowed


def _hot_devices(gpus: Sequence[Gpu], epochs: Iterable[Watched]) -> Iterator[str]:
    """The devices, by the beginning of their UUID, of which the driver said in these epochs that heat slows them."""
    for epoch in epochs:
        for gpu, seen in zip(gpus, epoch.gpus, strict=False):  # one device alone is the first
            if gpu.uuid and any("thermal" in reason for reason in seen.clock_event_reasons or ()):
                yield gpu.uuid[:UUID_CHARACTERS]


def absences_rows(times: Iterable[TimesRow]) -> list[AbsencesRow]:
    """Return every state but `ok` with its reason, and of how many configurations it is, the most frequent first."""
    states = (((row.status, row.reason), tuple(row.point.values())) for row in times if row.status != "ok")
    counted = Counter(state for state, _ in dict.fromkeys(states))
    return [
        AbsencesRow(status=status, reason=reason, configurations=number)
        for (status, reason), number in counted.most_common()
    ]
