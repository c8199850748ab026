"""Studies beside the first of them: what they are of and differ in, verdicts, a table per scope, and the page."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

from dpscale.analyse.tables import build_tables
from dpscale.compare.ratios import FASTER, NO_DIFFERENCE, NO_INTERVAL, SLOWER, Measurement, measurements
from dpscale.errors import ComparisonError
from dpscale.plan.study import Study
from dpscale.present.findings.cautions import of_records
from dpscale.present.findings.set_up import CHECKSUM_DIGITS, dates
from dpscale.present.text.html import fill
from dpscale.present.text.numbers import estimate, whole
from dpscale.present.text.table import ShownColumn, ShownTable
from dpscale.present.text.words import Terms, capitalised, listed, plural, scope, text
from dpscale.records.collect import Collected
from dpscale.tables.column import MULTIPLES, PERCENT, SECONDS
from dpscale.tables.quantities import SOFTWARE
from dpscale.tables.row import grouped
from dpscale.tables.study import EnvironmentsRow
from dpscale.tables.tables import Tables

_ENVIRONMENT = ("device_model", "cpu_model", "cpu_cores", "links", *SOFTWARE, "variables", "dataset_sha256")
_NAMED = 6


@dataclass(frozen=True)
class ComparedStudy:
    """A study under the name that it has beside others, with all its tables.

    Raises ComparisonError unless these are of exactly one environment.
    """

    name: str
    study: Study
    tables: Tables

    def __post_init__(self) -> None:
        environments = self.tables.environments
        if not environments:
            raise ComparisonError(f"{self.name}: nothing was measured: no record is there. Name its folder: --results")
        if len(environments) > 1:
            varying = [name for name in _ENVIRONMENT if len({getattr(row, name) for row in environments}) > 1]
            raise ComparisonError(
                f"{self.name}: its records are of {len(environments)} environments, which are never pooled; they "
                f"differ in {', '.join(varying)}. Name a folder with the records of one: --results"
            )

    @property
    def terms(self) -> Terms:
        return Terms.of(self.study.values, self.tables)

    def described(self, first: "ComparedStudy") -> str:
        """Return what was measured and when, and every setting and part of the environment that is not as in the first
        study: `2 x NVIDIA H200, torch 2.11.0, CUDA 13.0, measured 2026-11-20. Settings unlike plain: precision bfloat16
        (not float32).`"""
        most = max((row.gpus or 0 for row in self.tables.records), default=0)
        environment = self.tables.environments[0]
        device, versions = text(environment.device_model), f"torch {environment.torch}, CUDA {text(environment.cuda)}"
        sentences = [f"{most} x {device}, {versions}, {dates(self.tables.records)}."]
        topics = {
            "Settings": (self._settings(), first._settings()),
            "Environment": (self._environment(), first._environment()),
        }
        for topic, (mine, of_first) in topics.items():
            differences = [
                f"{name} {mine[name]} (not {of_first[name]})" for name in mine if mine[name] != of_first[name]
            ]
            if differences:
                sentences.append(f"{topic} unlike {first.name}: {', '.join(differences)}.")
        return " ".join(sentences)

    def _settings(self) -> dict[str, str]:
        """Return every setting that can change a number, as people write it."""
        values = {name: getattr(self.study.settings, name) for name in self.study.settings.names()}
        return {
            name: "+".join(map(str, value)) if isinstance(value, tuple) else str(value)
            for name, value in values.items()
        }

    def _environment(self) -> dict[str, str]:
        """Return every fact of hardware, software and images, by its label."""
        row = self.tables.environments[0]
        facts = {name: str(getattr(row, name)) for name in (*_ENVIRONMENT, "measurement_versions")}
        facts["dataset_sha256"] = facts["dataset_sha256"][:CHECKSUM_DIGITS]
        return {EnvironmentsRow.column(name).label: text(fact) for name, fact in facts.items()}


def studies_of(studies: Mapping[str, Study], records: Sequence[Collected]) -> list[ComparedStudy]:
    """Return the studies by their names, with their tables.

    Raises ComparisonError where two of them share a record: it is no evidence of how they differ, and would make any
    interval of their ratio too narrow.
    """
    for (name, first), (second_name, second) in combinations(zip(studies, records, strict=True), 2):
        # Records hold when and where they were measured, and every time.
        shared = sum(record == second.records.get(cell) for cell, record in first.records.items())
        if shared:
            raise ComparisonError(
                f"{second_name}: {shared} of its records stand in {name} too. The same file in both studies is no "
                "evidence of a difference: give each a folder with its own records"
            )
    return [
        ComparedStudy(name, study, build_tables(study, collected))
        for (name, study), collected in zip(studies.items(), records, strict=True)
    ]


@dataclass(frozen=True)
class ComparedStudies:
    """Studies beside the first of them."""

    studies: Sequence[ComparedStudy]

    @cached_property
    def rows(self) -> list[Measurement]:
        tables = {study.name: study.tables for study in self.studies}
        return list(measurements(tables))

    @property
    def first(self) -> ComparedStudy:
        return self.studies[0]

    @property
    def terms(self) -> Terms:
        """How the studies speak together: of synthetic images, where one of them has such."""
        return max((study.terms for study in self.studies), key=lambda terms: terms.synthetic)

    @property
    def title(self) -> str:
        return " and ".join(study.name for study in self.studies) if len(self.studies) == 2 else "Studies compared"

    def verdicts(self) -> Iterator[str]:
        """Yield a sentence for every study but the first: in how many configurations it is slower, and faster."""
        for study in self.studies[1:]:
            rows = [row for row in self.rows if row.study == study.name and row.verdict]
            at_batches = [row.verdict for row in rows if row.batch is not None]
            over_all = [row.verdict for row in rows if row.batch is None]
            sentence = f"{study.name} against {self.first.name}: "
            sentence += f"{_tally(at_batches, ' configurations')}." if at_batches else "no configuration is in both."
            yield sentence + (f" Over all batches: {_tally(over_all)}." if over_all else "")

    def descriptions(self) -> dict[str, str]:
        """Return what every study is of and what it has unlike the first, by its name."""
        return {study.name: study.described(self.first) for study in self.studies}

    def warnings(self) -> Iterator[str]:
        """Yield what a reader must know of how each study was measured."""
        for study in self.studies:
            if study.tables.rejected:
                number = plural(len(study.tables.rejected), "record")
                yield f"{study.name}: {number} not used, damaged or of other settings."
            yield from (f"{study.name}: {caution}" for caution in of_records(study.tables, study.terms))

    def slower_than(self, limit: float) -> list[Measurement]:
        """Return what is slower than the first by more than this share, with its whole interval."""
        return [row for row in self.rows if row.ratio.is_above(1 + limit)]

    def guard(self, limit: float | None) -> list[str]:
        """Return what is slower than is tolerated, and how much of the rest is undecided; nothing without a limit."""
        if limit is None:
            return []
        slower = self.slower_than(limit)
        named = [f"{self._place(row)} {estimate(row.ratio, MULTIPLES, with_unit=True)}" for row in slower]
        sentences = [f"Slower by more than {PERCENT.of(limit):g} %: {listed(named, _NAMED, '; ') or 'none'}."]
        compared = [row for row in self.rows if row.ratio.is_known and row not in slower]
        undecided = [row for row in compared if not (row.ratio.has_interval and row.ratio.high <= 1 + limit)]
        if undecided:
            places = listed([self._place(row) for row in undecided], _NAMED, "; ")
            sentences.append(f"Undecided, which is no failure: {places}.")
        return sentences

    def _place(self, row: Measurement) -> str:
        batch = "over all batches" if row.batch is None else f"at batch {row.batch:,}"
        place = f"{self.terms.group(row.group)} {batch} ({scope(row.group.scope)})"
        return f"{row.study}, {place}" if len(self.studies) > 2 else place

    def tables(self) -> list[ShownTable]:
        """Return a table per scope: every configuration that two studies have, and a row for each of these."""

        def ratio(row: Measurement) -> str:
            return "1" if row.study == self.first.name else estimate(row.ratio, MULTIPLES)

        columns: list[ShownColumn[Measurement]] = [
            ShownColumn("Strategy", lambda row: self.terms.group(row.group), is_number=False),
            ShownColumn(f"Batch per {self.terms.device}", lambda row: "all" if row.batch is None else whole(row.batch)),
            ShownColumn("Study", lambda row: row.study, is_number=False),
            ShownColumn("Epoch, s", lambda row: estimate(row.epoch_s, SECONDS)),
            ShownColumn("Ratio to first", ratio),
            ShownColumn("Verdict", lambda row: row.verdict, is_number=False),
            ShownColumn("Speedup, ×", lambda row: estimate(row.speedup, MULTIPLES, mark=row.mark)),
        ]
        return [
            ShownTable(
                name, capitalised(scope(name)), columns, [[column.cell(row) for column in columns] for row in rows]
            )
            for name, rows in grouped(self.rows, lambda row: row.group.scope).items()
        ]

    def lines(self, limit: float | None = None) -> Iterator[str]:
        """Yield what a terminal shows."""
        for table in self.tables():
            yield f"{table.caption}:"
            yield from table.lines
            yield ""
        yield from (f"{name}: {description}" for name, description in self.descriptions().items())
        yield from (*self.verdicts(), *self.guard(limit))


def _tally(verdicts: Sequence[str], noun: str = "") -> str:
    """Return `slower in 3 of 12 configurations, no difference shown in 9`."""
    counts = Counter(verdicts)
    in_order = (SLOWER, FASTER, NO_DIFFERENCE, NO_INTERVAL)
    first, *more = [f"{verdict} in {counts[verdict]}" for verdict in in_order if counts[verdict]]
    return ", ".join([f"{first} of {len(verdicts):,}{noun}", *more])


def render(comparison: ComparedStudies, limit: float | None = None) -> str:
    """Return the page as HTML. Pure, but for reading its own template."""
    sentences = [*comparison.verdicts(), *comparison.guard(limit)]
    return fill("compare.html.j2", terms=comparison.terms, comparison=comparison, sentences=sentences)
