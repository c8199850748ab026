"""Studies compared: epoch times over those of the first study, what else differs, page and lines.

Studies were measured apart, so nothing is paired. A ratio is of geometric means over servers, or over the runs of one,
with Welch's interval of the logarithms. The intervals of all batches of a strategy on so many devices hold at once.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

from dpscale.analyse.tables import build_tables
from dpscale.errors import ComparisonError
from dpscale.formulas.figure import Figure, units_of
from dpscale.formulas.statistics import best_of, ratio_of_blocks
from dpscale.plan.study import Study
from dpscale.present.findings.set_up import CHECKSUM_DIGITS, dates
from dpscale.present.text.html import fill
from dpscale.present.text.numbers import estimate, whole
from dpscale.present.text.table import ShownColumn, ShownTable
from dpscale.present.text.words import Terms, in_order, listed, scope, text
from dpscale.records.collect import Collected
from dpscale.tables.column import MULTIPLES, PERCENT, SECONDS, SOFTWARE
from dpscale.tables.row import grouped
from dpscale.tables.study import EnvironmentsRow
from dpscale.tables.tables import Tables
from dpscale.tables.timing import TimesRow

SLOWER, FASTER, NO_DIFFERENCE, NO_INTERVAL = VERDICTS = "slower", "faster", "no difference shown", "no interval"

_ENVIRONMENT = ("device_model", "cpu_model", "cpu_cores", "links", *SOFTWARE, "variables", "dataset_sha256")
_NAMED = 6


@dataclass(frozen=True)
class ComparedTime:
    """The time of a study in a configuration that the first study has timed too."""

    study: str
    times: TimesRow
    first_epoch_s: Figure
    ratio: Figure
    """Its epoch time over that of the first study."""

    @property
    def as_json(self) -> dict[str, object]:
        """The ratio with its interval, if it has one, where it is of, and the verdict."""
        ends = self.ratio.interval if self.ratio.has_interval else None
        place = {**self.times.point, "scope": self.times.scope}
        return {"study": self.study, **place, "ratio": self.ratio.value, "interval": ends, "verdict": self.verdict}

    @property
    def verdict(self) -> str:
        """The side of one on which the whole interval lies."""
        if not self.ratio.has_interval:
            return NO_INTERVAL
        if self.ratio.is_above(1):
            return SLOWER
        return FASTER if self.ratio.is_below(1) else NO_DIFFERENCE


def compared_times(study: str, times: Sequence[TimesRow], first_times: Sequence[TimesRow]) -> Iterator[ComparedTime]:
    """Yield every time of a study that the first one has too, with 95 % intervals of their ratios that hold for all
    batches of a strategy on so many devices at once."""
    first_epochs = {_place(row): row.epoch_s for row in first_times if row.epoch_s.is_known}
    in_both = [row for row in in_order(times) if row.epoch_s.is_known and _place(row) in first_epochs]
    for group in grouped(in_both, lambda row: _place(row)[:-1]).values():
        pairs = [(row.epoch_s, first_epochs[_place(row)]) for row in group]
        ratios = [ratio_of(*pair) for pair in pairs]
        with_interval = sum(ratio.has_interval for ratio in ratios)
        for row, pair, ratio in zip(group, pairs, ratios, strict=True):
            units = min(len(units_of(epoch_s.blocks)) for epoch_s in pair)
            yield ComparedTime(study, row, pair[1], best_of(ratio, with_interval, units))


def _place(row: TimesRow) -> tuple[str, str, int, int]:
    return row.scope, row.strategy, row.gpus, row.batch_per_gpu


def ratio_of(epoch_s: Figure, first_epoch_s: Figure) -> Figure:
    """Return an epoch time over the first study's, with Welch's interval over the servers of both, or the runs of
    one."""
    ratio = ratio_of_blocks(units_of(epoch_s.blocks), units_of(first_epoch_s.blocks))
    is_one_machine = ratio.has_interval and (epoch_s.is_one_machine or first_epoch_s.is_one_machine)
    return replace(ratio, kind="one machine") if is_one_machine else ratio


@dataclass(frozen=True)
class ComparedStudy:
    """A study under the name that it has beside others, with all its tables.

    Raises ComparisonError unless these are of exactly one environment.
    """

    name: str
    study: Study
    tables: Tables

    def __post_init__(self) -> None:
        if not self.tables.environments:
            raise ComparisonError(f"{self.name}: nothing was measured: no record is there. Name its folder: --results")
        if len(self.tables.environments) > 1:
            raise ComparisonError(
                f"{self.name}: its records are of {len(self.tables.environments)} environments, which are never "
                "pooled. Name a folder with the records of one: --results"
            )

    @property
    def terms(self) -> Terms:
        return Terms.of(self.study.values, self.tables)

    def described(self, first: "ComparedStudy") -> str:
        """Return what was measured and when, and what is not as in the first study: `2 x NVIDIA H200, torch 2.11.0,
        CUDA 13.0, measured 2026-11-20. Unlike plain: precision bfloat16 (not float32).`"""
        most = max((row.gpus or 0 for row in self.tables.records), default=0)
        environment = self.tables.environments[0]
        software = f"torch {environment.torch}, CUDA {text(environment.cuda)}"
        description = f"{most} x {text(environment.device_model)}, {software}, {dates(self.tables.records)}."
        facts_of_first = first.facts()
        differences = [
            f"{name} {fact} (not {facts_of_first[name]})"
            for name, fact in self.facts().items()
            if fact != facts_of_first[name]
        ]
        return f"{description} Unlike {first.name}: {', '.join(differences)}." if differences else description

    def facts(self) -> dict[str, str]:
        """Return every setting that can change a number, and every fact of hardware, software and images."""
        settings = {
            name: "+".join(value) if isinstance(value, list) else str(value)
            for name, value in self.study.settings.to_json().items()
        }
        row = self.tables.environments[0]
        environment = {name: str(getattr(row, name)) for name in (*_ENVIRONMENT, "measurement_versions")}
        environment["dataset_sha256"] = environment["dataset_sha256"][:CHECKSUM_DIGITS]
        return {**settings, **{EnvironmentsRow.column(name).label: text(fact) for name, fact in environment.items()}}


def studies_of(studies: Mapping[str, Study], records: Sequence[Collected]) -> list[ComparedStudy]:
    """Return the studies by their names, with their tables.

    Raises ComparisonError where two of them share a record: it is no evidence of how they differ, and would make any
    interval of their ratio too narrow.
    """
    for (name, first), (second_name, second) in combinations(zip(studies, records, strict=True), 2):
        # Records hold when and where they were measured, and every time.
        if any(record == second.records.get(cell) for cell, record in first.records.items()):
            raise ComparisonError(
                f"{second_name}: records of it stand in {name} too. The same file in both studies is no evidence of a "
                "difference: give each a folder with its own records"
            )
    return [
        ComparedStudy(name, study, build_tables(study, collected))
        for (name, study), collected in zip(studies.items(), records, strict=True)
    ]


@dataclass(frozen=True)
class ComparedStudies:
    """Studies beside the first of them."""

    studies: Sequence[ComparedStudy]

    @property
    def first(self) -> ComparedStudy:
        return self.studies[0]

    @property
    def terms(self) -> Terms:
        """How the studies speak together: of synthetic images, where one of them has such."""
        return max((study.terms for study in self.studies), key=lambda terms: terms.synthetic)

    @cached_property
    def rows(self) -> list[ComparedTime]:
        return [
            row
            for study in self.studies[1:]
            for row in compared_times(study.name, study.tables.times, self.first.tables.times)
        ]

    def verdicts(self) -> Iterator[str]:
        """Yield a sentence for every study but the first: in how many configurations it is slower, and faster."""
        for study in self.studies[1:]:
            counts = Counter(row.verdict for row in self.rows if row.study == study.name)
            tally = ", ".join(f"{verdict} in {counts[verdict]}" for verdict in VERDICTS if counts[verdict])
            in_both = f"of {counts.total():,} configurations in both"
            yield f"{study.name} against {self.first.name}: {tally or 'none'} {in_both}."

    def descriptions(self) -> dict[str, str]:
        """Return what every study is of and what it has unlike the first, by its name."""
        return {study.name: study.described(self.first) for study in self.studies}

    def slower_than(self, limit: float) -> list[ComparedTime]:
        """Return what is slower than the first by more than this share, with its whole interval."""
        return [row for row in self.rows if row.ratio.is_above(1 + limit)]

    def guard(self, limit: float | None) -> list[str]:
        """Return what is slower than is tolerated, and what is undecided; nothing without a limit."""
        if limit is None:
            return []
        slower = [
            f"{self._place(row)} {estimate(row.ratio, MULTIPLES, with_unit=True)}" for row in self.slower_than(limit)
        ]
        undecided = [
            self._place(row)
            for row in self.rows
            if not (row.ratio.is_above(1 + limit) or row.ratio.is_below(1 + limit))
        ]
        return [
            f"Slower by more than {PERCENT.of(limit):g} %: {listed(slower, _NAMED, '; ') or 'none'}.",
            f"Undecided, which is no failure: {listed(undecided, _NAMED, '; ') or 'none'}.",
        ]

    def _place(self, row: ComparedTime) -> str:
        return f"{row.study}, {self.terms.point(row.times)} ({scope(row.times.scope)})"

    def tables(self) -> list[ShownTable]:
        """Return a table per study that has a configuration of the first: both times, and their ratio."""
        columns: list[ShownColumn[ComparedTime]] = [
            ShownColumn("Scope", lambda row: scope(row.times.scope), is_number=False),
            ShownColumn("Strategy", lambda row: self.terms.group(row.times), is_number=False),
            ShownColumn(f"Batch per {self.terms.device}", lambda row: whole(row.times.batch_per_gpu)),
            ShownColumn("First's epoch, s", lambda row: estimate(row.first_epoch_s, SECONDS)),
            ShownColumn("Epoch, s", lambda row: estimate(row.times.epoch_s, SECONDS)),
            ShownColumn("Ratio", lambda row: estimate(row.ratio, MULTIPLES)),
            ShownColumn("Verdict", lambda row: row.verdict, is_number=False),
        ]
        return [
            ShownTable(f"compared-{number}", name, columns, [[column.cell(row) for column in columns] for row in rows])
            for number, (name, rows) in enumerate(grouped(self.rows, lambda row: row.study).items(), 1)
        ]

    def lines(self, limit: float | None = None) -> Iterator[str]:
        """Yield what a terminal shows."""
        for table in self.tables():
            yield f"{table.caption}:"
            yield from table.lines
            yield ""
        yield from (f"{name}: {description}" for name, description in self.descriptions().items())
        yield from (*self.verdicts(), *self.guard(limit))


def render(comparison: ComparedStudies, limit: float | None = None) -> str:
    """Return the page as HTML. Pure, but for reading its own template."""
    sentences = [*comparison.verdicts(), *comparison.guard(limit)]
    return fill("compare.html.j2", terms=comparison.terms, comparison=comparison, sentences=sentences)
