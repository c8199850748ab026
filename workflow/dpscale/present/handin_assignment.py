"""The assignment's Tables 1 to 3: time and speedup, computation and communication, bandwidth and utilisation; and what
they say: a formula with the printed numbers, the trend, the cause, and what to mind.

All strategies are in one table, and a word stands where there is no number. A table has three forms: rows by batch
beside columns for every number of devices, as a page shows it, one configuration per row, and the assignment's own, as
they are handed in. Which rows speak beside a table is decided here; the words are in template/handin.txt.j2.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, NamedTuple, Self, TypeVar

from dpscale.analyse.answer import COMPUTE, of_configuration
from dpscale.analyse.answer.claims import (
    BANDWIDTH_TREND,
    BELOW_THE_LINKS,
    COMMUNICATION_TREND,
    FALLS,
    RISES,
    SPEEDUP_TREND,
    STRONG_BESIDE_WEAK,
    Trend,
    strong_beside_weak,
)
from dpscale.errors import TableError
from dpscale.formulas.figure import Figure
from dpscale.present.findings.answer import reason
from dpscale.present.text.numbers import ABSENT, Printed, at_least, recomputable, whole
from dpscale.present.text.sentences import Paragraphs, paragraphs
from dpscale.present.text.table import ShownColumn, ShownTable
from dpscale.present.text.words import Terms, capitalised, headline, in_order, joined, ok, rank, scope, state
from dpscale.strategies.known import BASELINE
from dpscale.strategies.strategy import ring_allreduce_bytes
from dpscale.tables.answer import CausesRow
from dpscale.tables.column import PLAIN, Unit
from dpscale.tables.communication import BandwidthRow, CommunicationRow, LadderRow
from dpscale.tables.row import AGAIN, OfConfiguration, grouped
from dpscale.tables.tables import Tables
from dpscale.tables.timing import SpeedupRow, TimesRow
from dpscale.vocabulary.states import BORROWED, NOT_PLANNED, NOT_RESOLVABLE, OTHER_RUNS, STATES

P = TypeVar("P", bound=OfConfiguration)
T = TypeVar("T", SpeedupRow, CommunicationRow, BandwidthRow)


class AssignmentRows(NamedTuple):
    """In the order in which people read them."""

    times: Sequence[TimesRow]
    speedup: Sequence[SpeedupRow]
    communication: Sequence[CommunicationRow]
    bandwidth: Sequence[BandwidthRow]
    ladder: Sequence[LadderRow]
    causes: Sequence[CausesRow]

    @classmethod
    def of(cls, tables: Tables) -> Self:
        rows: Any = (in_order(getattr(tables, name)) for name in cls._fields)
        return cls(*rows)

    def where(self, keep: Callable[[Any], bool]) -> Self:
        """These of them alone."""
        kept: Any = (list(filter(keep, rows)) for rows in self)
        return type(self)(*kept)

    def in_environment(self, letter: str) -> Self:
        """With those that were not measured: they are of none, and belong to each."""
        return self.where(lambda row: row.environment in ("", letter))


def of_speedup(rows: AssignmentRows, scope: str, terms: Terms) -> Paragraphs:
    """Return the sentences beside Table 1."""
    speaking = headline(ok(row for row in rows.speedup if row.scaling == "weak" and row.scope == scope))
    if not speaking:
        return {}
    row = _example(speaking)
    series = _series(speaking, row)
    causes = of_configuration(rows.causes, series[0])
    in_scope = [row for row in rows.speedup if row.scope == scope]
    pair = max(strong_beside_weak(in_scope), key=lambda strong_and_weak: _size(strong_and_weak[0]), default=None)
    return paragraphs(
        "handin",
        "speedup",
        terms,
        row=row,
        ends=_ends(speaking, SPEEDUP_TREND),
        per_step=_paid_per_step(rows, series) if scope == COMPUTE else None,
        reasons=[
            reason(cause, terms, f"at batch {whole(cause.batch_per_gpu)}")
            for cause in causes
            if (cause.scope, cause.order) == (series[0].scope, 0)
        ],
        strong_and_weak=pair,
        surely=next((side for side, claim in STRONG_BESIDE_WEAK.items() if pair and claim.surely(pair)), ""),
        without_loading=scope == COMPUTE,
    )


def of_communication(rows: AssignmentRows, terms: Terms) -> Paragraphs:
    """Return the sentences beside Table 2."""
    speaking = headline(ok(rows.communication))
    if not speaking:
        return {}
    row = _example(speaking)
    weak = (timed for timed in rows.speedup if (timed.scaling, timed.scope) == ("weak", COMPUTE))
    timed = next(iter(of_configuration(weak, row)), None)
    if timed is None:
        raise TableError(f"speedup.csv has no row for {terms.point(row)}, as communication.csv has. {AGAIN}")
    smallest = _series(speaking, row)[0]
    return paragraphs(
        "handin",
        "communication",
        terms,
        row=row,
        timed=timed,
        ends=_ends(speaking, COMMUNICATION_TREND),
        smallest=smallest,
        rung=largest_rung(of_configuration(rows.ladder, smallest)),
    )


def of_bandwidth(bandwidth: Iterable[BandwidthRow], terms: Terms) -> Paragraphs:
    """Return the sentences beside Table 3."""
    speaking = [row for row in ok(headline(bandwidth)) if row.bandwidth_gb_s.is_known]
    if not speaking:
        return {}
    row, ends = _example(speaking), _ends(speaking, BANDWIDTH_TREND)
    return paragraphs("handin", "bandwidth", terms, row=row, ends=ends, is_below_links=BELOW_THE_LINKS.surely(row))


def largest_rung(ladder: Iterable[LadderRow]) -> LadderRow | None:
    """Return the change that adds most to a step, if there is any."""
    rungs = (rung for rung in ladder if rung.order > 0 and rung.difference_s.is_known)
    return max(rungs, key=lambda rung: rung.difference_s.value, default=None)


def _example(rows: Sequence[P]) -> P:
    """Return the row of the largest batch, of the most devices and the last strategy."""
    return max(rows, key=_size)


def _size(row: OfConfiguration) -> tuple[int, int, int]:
    return row.gpus, rank(row.strategy), row.batch_per_gpu


def _series(rows: Iterable[P], like: OfConfiguration) -> list[P]:
    """Return the rows of the same strategy and devices, by batch."""
    series = (row for row in rows if (row.strategy, row.gpus) == (like.strategy, like.gpus))
    return sorted(series, key=lambda row: row.batch_per_gpu)


def _ends(rows: Sequence[T], trend: Trend[T]) -> Iterator[tuple[T, T, str, Figure, Figure]]:
    """Yield for every strategy on the most devices its smallest and largest batch, how a figure surely goes from one
    to the other, if it does, and both figures."""
    most = max(row.gpus for row in rows)
    for series in grouped((row for row in rows if row.gpus == most), lambda row: row.strategy).values():
        first, last = series[0], series[-1]
        way = trend.way(first, last)
        sure = way if way in (RISES, FALLS) else ""
        yield first, last, sure, getattr(first, trend.figure), getattr(last, trend.figure)


def _paid_per_step(
    rows: AssignmentRows, speedups: Sequence[SpeedupRow]
) -> tuple[CommunicationRow, CommunicationRow, int | None, int | None] | None:
    """Return, where a larger batch scales better, the smallest and the largest with the steps of an epoch: fewer steps,
    each of which costs about as much more."""
    shares = _series(headline(ok(rows.communication)), speedups[0])
    if not shares or SPEEDUP_TREND.way(speedups[0], speedups[-1]) != RISES:
        return None
    first, last = shares[0], shares[-1]
    if not 0 < last.communication_share < first.communication_share:
        return None
    most, fewest = (of_configuration(ok(rows.times), end)[0].steps_per_epoch for end in (first, last))
    return first, last, most, fewest


# Of the strategies, this one has no allreduce, and the tables of an assignment give it the bandwidth of one.
_WITHOUT_ALLREDUCE = "dp"

Timed = TimesRow | SpeedupRow | CommunicationRow | BandwidthRow


class PrintedPlace(NamedTuple):
    """A configuration."""

    strategy: str
    gpus: int
    batch: int


@dataclass(frozen=True)
class Quantity:
    """A column, such as `speedup`: its figures by configuration."""

    name: str
    unit: Unit
    cells: Mapping[PrintedPlace, Printed]
    short: str
    """Its heading in the assignment."""

    @property
    def heading(self) -> str:
        """`time, s`."""
        return f"{self.name}, {self.unit.shown}"

    def shown(self, strategy: str, gpus: int, batch: int) -> str:
        """Return the number of a configuration, or the word for its absence."""
        place = PrintedPlace(strategy if gpus > 1 else BASELINE, gpus, batch)
        cell = self.cells.get(place, Printed(states=(NOT_PLANNED,)))
        return cell.brief if cell.value or cell.low else state_words(cell.states)

    def alone(self, strategy: str, gpus: int, batch: int) -> str:
        """Return the value of a configuration without its ends, or the word for its absence, or a dash."""
        if self.name == "speedup" and gpus == 1:
            at_batch = [cell for place, cell in self.cells.items() if place.batch == batch]
            is_too_large = bool(at_batch) and all("oom" in cell.states for cell in at_batch)
            return state("oom") if is_too_large else "1"
        cell = self.cells.get(PrintedPlace(strategy, gpus, batch), Printed())
        if cell.value:
            return replace(cell, low="", high="").text
        if cell.low or self.name == "utilisation":
            return cell.text
        return state_words(word for word in cell.states if word in STATES) or ABSENT


def state_words(states: Iterable[str]) -> str:
    """Return the words of statuses and kinds: `one machine, OOM`."""
    return ", ".join(dict.fromkeys(map(state, states)))


@dataclass(frozen=True)
class AssignmentTable:
    """A table of the assignment, and what is said beside it."""

    name: str
    title: str
    caption: str
    quantities: Sequence[Quantity]
    paragraphs: Paragraphs

    @property
    def places(self) -> list[PrintedPlace]:
        """The configurations in the order in which people read them."""
        places = {place for quantity in self.quantities for place in quantity.cells}
        return sorted(places, key=lambda place: (rank(place.strategy), place.gpus, place.batch))

    @property
    def has_results(self) -> bool:
        """Whether anything was measured on several devices; that it tells no bandwidth is a result too."""
        cells = [cell for place in self.places if place.gpus > 1 for cell in self.row(place)]
        return any(cell.value or "not resolvable" in cell.states for cell in cells)

    @property
    def not_here(self) -> list[int]:
        """The numbers of devices that no configuration could be measured on, as the machine has fewer."""
        cells = [(place.gpus, cell) for quantity in self.quantities for place, cell in quantity.cells.items()]
        here = {gpus for gpus, cell in cells if cell.states != ("not run",)}
        return sorted({gpus for gpus, _ in cells} - here)

    def row(self, place: PrintedPlace) -> list[Printed]:
        """Return every quantity of a configuration."""
        return [quantity.cells.get(place, Printed()) for quantity in self.quantities]

    def by_configuration(self, terms: Terms) -> ShownTable:
        """Return one row per configuration, with its state in words."""
        rows = []
        for place in self.places:
            cells = self.row(place)
            states = state_words(word for cell in cells for word in cell.states)
            rows.append([place.strategy, str(place.gpus), f"{place.batch:,}", *(cell.brief for cell in cells), states])
        headings = [capitalised(quantity.heading) for quantity in self.quantities]
        return self._table([terms.heading, "Batch", *headings, "State"], rows, terms)

    def by_devices(self, terms: Terms) -> ShownTable:
        """Return the assignment's own layout: rows 1-GPU, 2-GPU and 4-GPU, for each batch a column per quantity. Values
        stand alone there: `by_configuration` has their intervals."""
        batches = sorted({place.batch for place in self.places})
        groups = dict.fromkeys((place.strategy, place.gpus) for place in self.places)
        named = len({strategy for strategy, gpus in groups if gpus > 1}) > 1
        rows = [
            [
                f"{gpus}-{terms.device}{f', {strategy}' if named and gpus > 1 else ''}",
                *(quantity.alone(strategy, gpus, batch) for batch in batches for quantity in self.quantities),
            ]
            for strategy, gpus in groups
        ]
        columns = [ShownColumn[Any]("", is_number=False)]
        for batch in batches:
            columns += [ShownColumn(quantity.short, over=f"Batch {batch:,}") for quantity in self.quantities]
        caption = f"{self.caption}. The appendix has the intervals"
        return ShownTable(self.name, caption, columns, rows, title=self.title, notes=terms.notes_of(rows))

    def by_batch(self, times: Sequence[TimesRow], terms: Terms) -> ShownTable:
        """Return one row per strategy and batch of `times`, with columns for every number of devices here. A batch that
        nobody can run has no row, nor has a strategy whose bandwidth is nowhere resolvable: a note says why."""
        batches = sorted({row.batch_per_gpu for row in times if row.strategy == BASELINE})
        not_here = self.not_here
        numbers = sorted({place.gpus for place in self.places}.difference(not_here))
        columns = [
            (gpus, quantity)
            for gpus in numbers
            for quantity in self.quantities
            if any(place.gpus == gpus for place in quantity.cells)
        ]
        rows = [
            [strategy, f"{batch:,}", *(quantity.shown(strategy, gpus, batch) for gpus, quantity in columns)]
            for strategy in dict.fromkeys(place.strategy for place in self.places if place.gpus > 1)
            for batch in batches
        ]
        headings = [f"{terms.count(gpus)}: {quantity.heading}" for gpus, quantity in columns]
        table = self._table([f"Batch per {terms.device}", *headings], rows, terms)
        shown = [row for row in rows if not _cannot_run(row)]
        unresolved = [
            strategy
            for strategy, of_strategy in grouped(shown, lambda row: row[0]).items()
            if all(words.startswith(state(NOT_RESOLVABLE)) for row in of_strategy for words in row[2:])
        ]
        shown = [row for row in shown if row[0] not in unresolved]
        without = grouped((row for row in rows if _cannot_run(row)), lambda row: row[1])
        reasons = [
            f"batch {batch} ({', '.join(dict.fromkeys(word for row in of_batch for word in row[2:]))})"
            for batch, of_batch in without.items()
        ]
        note = [f"Without a row: {'; '.join(reasons)}."] if reasons else []
        note += [f"Not resolvable at any batch: {', '.join(unresolved)}."] if unresolved else []
        if not_here:
            absent = joined([terms.count(gpus) for gpus in not_here])
            note.append(f"Without a column: {absent}, which this machine does not have.")
        return replace(table, cells=shown, notes=[*note, *table.notes])

    def _table(self, headings: Sequence[str], rows: Sequence[Sequence[str]], terms: Terms) -> ShownTable:
        return ShownTable(
            name=self.name,
            title=self.title,
            caption=self.caption,
            columns=[
                ShownColumn(heading, is_number=heading not in ("Strategy", "State"))
                for heading in ("Strategy", *headings)
            ],
            cells=rows,
            notes=terms.notes_of(rows),
            paragraphs=self.paragraphs,
        ).with_legend()


def _cannot_run(row: Sequence[str]) -> bool:
    """Whether a strategy has no place for a batch, on any number of devices."""
    return {*row[2:]} <= {state(word) for word in ("oom", "capped", "not available")}


def sheets(rows: AssignmentRows, terms: Terms) -> list[ShownTable]:
    """Return the tables of every environment that has results on several devices, as a page shows them."""
    shown = []
    for environment in dict.fromkeys(row.environment for row in ok(rows.times) if row.gpus > 1):
        in_environment = rows.in_environment(environment)
        where = terms.in_environment(environment)
        suffix = f"-{environment}".lower() if where else ""
        for grid in grids(in_environment, terms):
            sheet = grid.by_batch(in_environment.times, terms)
            shown.append(replace(sheet, name=f"{sheet.name}{suffix}", title=f"{sheet.title}{where}"))
    return shown


def _sending_more(rows: Iterable[BandwidthRow]) -> list[str]:
    """Return the strategies whose GPUs send more bytes in a step than those of an allreduce of the gradients."""
    sent = ((row, row.allreduce_bytes_per_step / row.gradient_bytes) for row in rows)
    return sorted({row.strategy for row, times in sent if times > ring_allreduce_bytes(row.gpus, 1)})


def grids(rows: AssignmentRows, terms: Terms) -> list[AssignmentTable]:
    """Return Tables 1 to 3 of an environment, where they have results. Table 1 is of the compute scope, or of the first
    there is."""
    first = min((row.scope for row in rows.times), default="compute")
    timed = [row for row in rows.times if row.scope == first]
    weak = [row for row in rows.speedup if row.scope == first and row.scaling == "weak"]
    has_none = any(row.strategy == _WITHOUT_ALLREDUCE for row in rows.bandwidth)
    remark = ". DataParallel (dp) runs no allreduce: its figure is for comparison only" if has_none else ""
    if sending_more := _sending_more(rows.bandwidth):
        remark += f". {joined(sending_more)} send more than an allreduce does, and their bytes are what they send"
    tables = (
        AssignmentTable(
            "table-1",
            "Table 1: time and speedup",
            f"Epoch time T(N,b), s, and speedup T(1,b) / T(N,b), ×, {scope(first)}",
            [_quantity("time", "Time (s)", "epoch_s", timed), _quantity("speedup", "Speedup", "speedup", weak)],
            of_speedup(rows, first, terms),
        ),
        AssignmentTable(
            "table-2",
            "Table 2: computation and communication time",
            "Of an epoch, inferred: computation T(1,b)/N, s, and communication T(N,b) − T(1,b)/N, s, at the "
            "T(1,b) of the same runs, compute scope",
            [
                _quantity("computation", "Compute (s)", "compute_s", rows.communication),
                _quantity("communication", "Comm (s)", "communication_s", rows.communication),
            ],
            of_communication(rows, terms),
        ),
        AssignmentTable(
            "table-3",
            "Table 3: bandwidth utilisation",
            "Bytes of a ring allreduce over the communication time, GB/s (1 GB is 10⁹ bytes), and that over the "
            f"measured bus bandwidth, %, at the T(1,b) of the same runs, compute scope{remark}",
            [
                _quantity("bandwidth", "GB/s", "bandwidth_gb_s", rows.bandwidth),
                _quantity("utilisation", "%", "utilisation", rows.bandwidth),
            ],
            of_bandwidth(rows.bandwidth, terms),
        ),
    )
    return [table for table in tables if table.has_results]


def _quantity(name: str, short: str, column: str, rows: Sequence[Timed]) -> Quantity:
    unit = type(rows[0]).column(column).unit if rows else PLAIN
    cells = {PrintedPlace(row.strategy, row.gpus, row.batch_per_gpu): _cell(row, column, unit) for row in rows}
    return Quantity(name, unit, cells, short)


def _cell(row: Timed, column: str, unit: Unit) -> Printed:
    value, states = getattr(row, column), _states(row)
    figure = value if isinstance(value, Figure) else Figure(value)
    if isinstance(row, BandwidthRow) and not figure.is_known:
        if column == "utilisation" and row.bandwidth_gb_s.is_known:
            return Printed(states=(*states, "no bus bandwidth"))
        if column == "bandwidth_gb_s" and isfinite(row.bandwidth_gb_s_at_least):
            return Printed(low=at_least(row.bandwidth_gb_s_at_least), states=states)
    if not figure.is_known:  # nothing is there that could be of other runs
        states = tuple(word for word in states if word not in (OTHER_RUNS, BORROWED))
    return recomputable(figure, unit, *states)


def _states(row: Timed) -> tuple[str, ...]:
    states = {
        row.status: row.status != "ok",
        OTHER_RUNS: getattr(row, "other_runs", None),
        BORROWED: getattr(row, "borrowed_from", None),
    }
    return tuple(word for word, holds in states.items() if holds)
