"""The assignment's tables in their familiar form, all strategies in one table: to read, to copy and to hand in.

Table 1: time and speedup. Table 2: computation and communication time. Table 3: bandwidth and its utilisation. And what
large batches end at. Every table has one row per strategy and batch; a word stands where there is no number.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from dpscale.formulas.figure import Figure
from dpscale.present.handin import sentences
from dpscale.present.handin.sheet import AT_LEAST, RowGroup, Sheet
from dpscale.present.text.numbers import brief, plain, whole
from dpscale.present.text.words import Terms, capitalised, dates, in_order, listed, ok, on_nodes, scope, state
from dpscale.strategies.known import BASELINE
from dpscale.tables.column import Column
from dpscale.tables.communication import BandwidthRow, CommunicationRow, LadderRow
from dpscale.tables.study import EnvironmentsRow, RecordsRow
from dpscale.tables.tables import Tables
from dpscale.tables.timing import SpeedupRow, TimesRow
from dpscale.tables.training import TrainingSummaryRow
from dpscale.vocabulary.states import NOT_PLANNED, NOT_RESOLVABLE

_BATCHES_SHOWN = 24
_NUMBERS_SHOWN = 6
_NOT_MEASURED = "not measured"
# Of the strategies, this one has no allreduce, and the tables of an assignment give it the bandwidth of one.
_WITHOUT_ALLREDUCE = "dp"

Timed = TimesRow | SpeedupRow | CommunicationRow | BandwidthRow


class _InEnvironment(Protocol):
    @property
    def environment(self) -> str: ...


E = TypeVar("E", bound=_InEnvironment)
T = TypeVar("T", TimesRow, SpeedupRow, CommunicationRow, BandwidthRow)


def sheets(tables: Tables, terms: Terms) -> list[Sheet]:
    """The tables of every environment that has results on several devices."""
    found = []
    for environment, strategies in _places(tables.times, tables.training_summary).items():
        times, communication = _in(environment, tables.times), _in(environment, tables.communication)
        made = (
            _times_and_speedup(times, _in(environment, tables.speedup), communication, strategies, terms),
            _computation_and_communication(times, communication, _in(environment, tables.ladder), strategies, terms),
            _bandwidth(times, _in(environment, tables.bandwidth), strategies, terms),
            _large_batches(_in(environment, tables.training_summary), strategies, terms),
        )
        where = terms.in_environment(environment)
        suffix = f"-{environment}".lower() if where else ""
        note = _note(_in(environment, tables.environments), _in(environment, tables.records), terms)
        found += [
            replace(sheet, id=f"{sheet.id}{suffix}", title=f"{sheet.title}{where}", note=note)
            for sheet in made
            if sheet
        ]
    return found


def _places(times: Iterable[TimesRow], trained: Iterable[TrainingSummaryRow]) -> dict[str, list[str]]:
    """By environment, the strategies with results on several devices there."""
    places: dict[str, dict[str, None]] = {}
    rows: list[TimesRow | TrainingSummaryRow] = [*ok(in_order(times)), *ok(trained)]
    for row in rows:
        if row.gpus > 1:
            places.setdefault(row.environment, {})[row.strategy] = None
    return {environment: list(strategies) for environment, strategies in places.items()}


def _in(environment: str, rows: Iterable[E]) -> list[E]:
    """The rows of an environment, and those without a record, which have none and belong to each."""
    return [row for row in rows if row.environment in ("", environment)]


def _note(environments: Iterable[EnvironmentsRow], records: Sequence[RecordsRow], terms: Terms) -> str:
    """What measured, and when: a copy is read without its page."""
    models = sorted({row.device_model for row in environments if row.device_model})
    synthetic = "Synthetic images. " if terms.synthetic else ""
    on = f" on {listed(models)}" if models else ""
    return f"{synthetic}{capitalised(dates(records))}{on}."


def _times_and_speedup(
    times: Sequence[TimesRow],
    speedup: Sequence[SpeedupRow],
    communication: Sequence[CommunicationRow],
    strategies: Sequence[str],
    terms: Terms,
) -> Sheet | None:
    """Of the compute scope, or of the first there is."""
    first = min((row.scope for row in times), default="compute")
    weak = [row for row in speedup if row.scope == first and row.scaling == "weak"]
    timed = [row for row in times if row.scope == first]
    drawn = {
        strategy: [
            _drawn("time", TimesRow.column("epoch_s"), timed, BASELINE, strategy),
            _drawn("speedup", SpeedupRow.column("speedup"), weak, strategy),
        ]
        for strategy in strategies
    }
    sheet = Sheet(
        "table-1",
        "Table 1: time and speedup",
        f"Epoch time T(N,b), s, and speedup T(1,b) / T(N,b), ×, {scope(first)}",
        explanations=sentences.of_speedup(speedup, communication, times, first, terms),
    )
    return _by_batch(sheet, times, drawn, terms)


def _computation_and_communication(
    times: Sequence[TimesRow],
    communication: Sequence[CommunicationRow],
    ladder: Sequence[LadderRow],
    strategies: Sequence[str],
    terms: Terms,
) -> Sheet | None:
    drawn = {
        strategy: [
            _drawn("computation", CommunicationRow.column("compute_s"), communication, strategy),
            _drawn("communication", CommunicationRow.column("communication_s"), communication, strategy),
        ]
        for strategy in strategies
    }
    sheet = Sheet(
        "table-2",
        "Table 2: computation and communication time",
        "Of an epoch, inferred: computation T(1,b)/N, s, and communication T(N,b) − T(1,b)/N, s, compute scope",
        explanations=sentences.of_communication(communication, ladder, terms),
    )
    return _by_batch(sheet, times, drawn, terms)


def _bandwidth(
    times: Sequence[TimesRow], bandwidth: Sequence[BandwidthRow], strategies: Sequence[str], terms: Terms
) -> Sheet | None:
    drawn = {
        strategy: [
            _drawn("bandwidth", BandwidthRow.column("bandwidth_gb_s"), bandwidth, strategy),
            _drawn("utilisation", BandwidthRow.column("utilisation"), bandwidth, strategy),
        ]
        for strategy in strategies
    }
    sheet = Sheet(
        "table-3",
        "Table 3: bandwidth utilisation",
        "Bytes of a ring allreduce over the communication time, GB/s (1 GB is 10⁹ bytes), and that over the measured "
        "bus bandwidth, %, compute scope",
        explanations=sentences.of_bandwidth(bandwidth, terms),
    )
    remark = " DataParallel runs no allreduce: its figure is for comparison only."
    return _by_batch(sheet, times, drawn, terms, remark if _WITHOUT_ALLREDUCE in strategies else "")


@dataclass(frozen=True)
class _Drawn:
    """A quantity of a strategy that has a column for every number of devices: what stands in these columns, and what
    the assignment calls it."""

    name: str
    heading: str
    cells: Mapping[tuple[int, int], str]
    """By devices and batch."""
    is_decided: bool
    """Whether any cell was measured; that it tells no bandwidth is a result too."""
    has_range: bool


def _drawn(name: str, column: Column, rows: Iterable[T], *strategies: str) -> _Drawn:
    mine = [row for row in rows if row.strategy in strategies]
    return _Drawn(
        name,
        f"{name}, {column.unit.shown}",
        {(row.gpus, row.batch_per_gpu): _cell(row, column) for row in mine},
        any(row.status in ("ok", NOT_RESOLVABLE) for row in mine),
        any(_figure(row, column).is_range for row in mine),
    )


def _by_batch(
    sheet: Sheet, times: Sequence[TimesRow], drawn: Mapping[str, Sequence[_Drawn]], terms: Terms, remark: str = ""
) -> Sheet | None:
    """One row for every strategy and batch that one device was to be timed with, as the others are compared with it."""
    batches = sorted({row.batch_per_gpu for row in times if row.strategy == BASELINE})
    decided = {strategy: ways for strategy, ways in drawn.items() if any(way.is_decided for way in ways)}
    if not batches or not decided:
        return None
    measured = [way for ways in decided.values() for way in ways]
    numbers = sorted({gpus for way in measured for gpus, _ in way.cells})
    headings = {way.name: way.heading for way in measured}
    columns = {
        (gpus, name): f"{terms.count(gpus)}{_nodes(times, gpus)}: {heading}"
        for gpus in numbers[:_NUMBERS_SHOWN]
        for name, heading in headings.items()
        if any(gpus == other for way in measured if way.name == name for other, _ in way.cells)
    }
    groups = []
    for strategy, ways in decided.items():
        cells = {(gpus, way.name, batch): cell for way in ways for (gpus, batch), cell in way.cells.items()}
        rows = [
            [f"{batch:,}", *(cells.get((*column, batch), NOT_PLANNED) for column in columns)]
            for batch in batches[:_BATCHES_SHOWN]
        ]
        groups.append(RowGroup(strategy, rows))
    ranges = ", in parentheses ranges of two runs" if any(way.has_range for way in measured) else ""
    left_out = ""
    if len(batches) > _BATCHES_SHOWN or len(numbers) > _NUMBERS_SHOWN:
        left_out = f". The first of {len(batches):,} batches and {len(numbers):,} numbers of {terms.devices}"
    return replace(
        sheet,
        caption=f"{sheet.caption}; in brackets 95 % intervals{ranges}{left_out}.{remark}",
        columns=[f"Batch per {terms.device}", *columns.values()],
        groups=groups,
    )


def _nodes(times: Iterable[TimesRow], gpus: int) -> str:
    return on_nodes(row.nodes for row in times if row.gpus == gpus)


def _figure(row: Timed | TrainingSummaryRow, column: Column) -> Figure:
    found = getattr(row, column.name)
    return found if isinstance(found, Figure) else Figure(found)


def _cell(row: Timed | TrainingSummaryRow, column: Column) -> str:
    """The number, with its interval where the table has one; otherwise the state that is the reason for none."""
    figure = _figure(row, column)
    if figure.is_known:
        return brief(figure, column.unit)
    at_least = Figure(row.bandwidth_gb_s_at_least) if isinstance(row, BandwidthRow) else Figure()
    if column.name == "bandwidth_gb_s" and at_least.is_known:
        return f"{AT_LEAST} {plain(at_least.value, 3)}"
    return _NOT_MEASURED if row.status == "ok" else state(row.status)


def _large_batches(summary: Sequence[TrainingSummaryRow], strategies: Sequence[str], terms: Terms) -> Sheet | None:
    """The strategies' arms without remedies below the baseline."""
    plain_arms = [row for row in summary if not row.is_baseline and not row.remedies and row.strategy in strategies]
    baselines = [row for row in summary if row.is_baseline]
    if not ok(plain_arms):
        return None
    by_size = sorted(plain_arms, key=lambda row: row.global_batch)
    groups = [
        RowGroup(f"{of}{strategy}", [_arm(row) for row in rows if row.strategy == strategy])
        for of, rows, named in (
            ("baseline: ", baselines, sorted({row.strategy for row in baselines})),
            ("", by_size, strategies),
        )
        for strategy in named
    ]
    return Sheet(
        "large-batches",
        "Large batches",
        "Mean cross-entropy of training, accuracy of training and on the test images, %, after the epoch named; the "
        "baseline first; 95 % t intervals over seeds in brackets.",
        ["Arm", "Global batch", terms.heading, "Epoch", "Seeds", *(end.heading for end in _ENDS)],
        [group for group in groups if group.rows],
    )


_ENDS = [TrainingSummaryRow.column(name) for name in ("training_loss", "training_accuracy", "test_accuracy")]


def _arm(row: TrainingSummaryRow) -> list[str]:
    counts = (row.global_batch, row.gpus, row.epochs, row.seeds)
    return [row.arm, *map(whole, counts), *(_cell(row, end) for end in _ENDS)]
