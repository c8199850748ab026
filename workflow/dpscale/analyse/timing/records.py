"""What was measured by which record, what is missing and why, and what measuring took."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from math import nan
from operator import attrgetter

from dpscale.analyse.timing.environments import hosts, joined
from dpscale.plan.cells import AnyCell
from dpscale.records.collect import Collected
from dpscale.records.kinds import Gpu, Record, TimingRecord, Watched
from dpscale.records.progress import gpu_seconds
from dpscale.tables.row import grouped
from dpscale.tables.study import AbsencesRow, MissingRow, OriginsRow, RecordsRow
from dpscale.tables.timing import TimesRow

# So much of a GPU's UUID tells it from others: `GPU-6589fe08`.
UUID_CHARACTERS = 12
# Why a cell is missing that was never tried.
NO_RECORD = "no record yet"
# What records of one origin have in common.
ORIGIN = ("kind", "environment", "host", "git_commit", "git_dirty", "dataset_source")
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
    epochs = list(_watched(record))
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
        started_at=record.started_at,
        finished_at=record.finished_at,
        gpu_s=gpu_seconds(cell, record),
        host=joined(hosts(record)),
        git_commit=provenance.git_commit or "",
        git_dirty=provenance.git_dirty,
        job_id=str(provenance.job_id or ""),
        gpu_uuids=joined(gpu.uuid for gpu in gpus),
        slowed_s=max(slowed.values(), default=nan),
        slowed_by=joined(policy for (_, policy), seconds in slowed.items() if seconds > 0),
        hot_devices=joined(_hot_devices(gpus, epochs)),
        other_processes=max(other_processes, default=None),
        dataset_source=record.dataset.source if record.dataset else "",
        synthetic=record.dataset.synthetic if record.dataset else None,
    )


def _watched(record: Record) -> Iterator[Watched]:
    """Yield what was watched during the record's timed epochs, those of its baseline too. Version 1 has none of it."""
    if not isinstance(record, TimingRecord):
        return
    scopes = [*record.scopes.values()]
    for baseline in record.alone or ():
        scopes += [scope for halves in baseline.scopes.values() for scope in halves.measured]
    for scope in scopes:
        yield from scope.watched


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


def origins_rows(records: Iterable[RecordsRow]) -> Iterator[OriginsRow]:
    """How many records there are of a kind, by what measured them."""
    for origin, group in grouped(records, attrgetter(*ORIGIN)).items():
        yield OriginsRow(
            **dict(zip(ORIGIN, origin, strict=True)),
            records=len(group),
            first=min(row.started_at for row in group),
            last=max(row.finished_at for row in group),
            jobs=joined(row.job_id for row in group),
            disturbed=sum(bool(row.other_processes) for row in group),
        )


def absences_rows(times: Iterable[TimesRow]) -> list[AbsencesRow]:
    """Return every state but `ok` with its reason, and of how many configurations it is, the most frequent first."""
    states = (((row.status, row.reason), tuple(row.point.values())) for row in times if row.status != "ok")
    counted = Counter(state for state, _ in dict.fromkeys(states))
    return [
        AbsencesRow(status=status, reason=reason, configurations=number)
        for (status, reason), number in counted.most_common()
    ]
