"""The page and the terminal's lines of compared studies: verdicts, what studies are of, and a table per scope."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from dpscale.compare.ratios import FASTER, NO_DIFFERENCE, NO_INTERVAL, SLOWER, Measurement, measurements
from dpscale.compare.studies import ComparedStudy
from dpscale.present.findings.cautions import of_records
from dpscale.present.text.html import fill
from dpscale.present.text.numbers import estimate, whole
from dpscale.present.text.table import ShownColumn, ShownTable
from dpscale.present.text.words import Terms, capitalised, listed, plural, scope
from dpscale.tables.column import MULTIPLES, PERCENT, SECONDS
from dpscale.tables.row import grouped

_NAMED = 6


@dataclass(frozen=True)
class ComparedStudies:
    """Studies beside the first of them."""

    studies: Sequence[ComparedStudy]

    @cached_property
    def rows(self) -> list[Measurement]:
        return list(measurements(self.studies))

    @property
    def first(self) -> ComparedStudy:
        return self.studies[0]

    @property
    def others(self) -> Sequence[ComparedStudy]:
        return self.studies[1:]

    @property
    def terms(self) -> Terms:
        """How the studies speak together: of synthetic images, where one of them has such."""
        return max((study.terms for study in self.studies), key=lambda terms: terms.synthetic)

    @property
    def title(self) -> str:
        return " and ".join(study.name for study in self.studies) if len(self.studies) == 2 else "Studies compared"

    def verdicts(self) -> Iterator[str]:
        """Yield a sentence for every study but the first: in how many configurations it is slower, and faster."""
        for study in self.others:
            rows = [row for row in self.rows if row.study == study.name and row.verdict]
            at_batches = [row.verdict for row in rows if row.batch is not None]
            over_all = [row.verdict for row in rows if row.batch is None]
            sentence = f"{study.name} against {self.first.name}: "
            sentence += f"{_tally(at_batches, ' configurations')}." if at_batches else "no configuration is in both."
            yield sentence + (f" Over all batches: {_tally(over_all)}." if over_all else "")

    def descriptions(self) -> dict[str, str]:
        """Return what every study is of and what it has unlike the first, by its name."""
        described = {}
        for study in self.studies:
            unlike = {
                "Settings": ", ".join(study.settings_unlike(self.first)),
                "Environment": ", ".join(study.environment_unlike(self.first)),
            }
            differences = [f" {about} unlike {self.first.name}: {what}." for about, what in unlike.items() if what]
            described[study.name] = f"{study.description}.{''.join(differences)}"
        return described

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

    def guard(self, limit: float) -> Iterator[str]:
        """Yield what is slower than is tolerated, and how much of the rest is undecided."""
        slower = self.slower_than(limit)
        percent = f"{PERCENT.of(limit):g} %"
        named = [f"{self._place(row)} {estimate(row.ratio, MULTIPLES, with_unit=True)}" for row in slower]
        yield f"Slower by more than {percent}: {listed(named, _NAMED, '; ') or 'none'}."
        compared = [row for row in self.rows if row.ratio.is_known and row not in slower]
        undecided = [row for row in compared if not (row.ratio.has_interval and row.ratio.high <= 1 + limit)]
        if undecided:
            named = [self._place(row) for row in undecided]
            yield f"Undecided, which is no failure: {listed(named, _NAMED, '; ')}."

    def _place(self, row: Measurement) -> str:
        batch = "over all batches" if row.batch is None else f"at batch {row.batch:,}"
        place = f"{self.terms.group(row.group)} {batch} ({scope(row.group.scope)})"
        return f"{row.study}, {place}" if len(self.others) > 1 else place

    def tables(self) -> list[ShownTable]:
        """Return a table per scope: every configuration that two studies have, and a row for each of these."""

        def is_first(row: Measurement) -> bool:
            return row.study == self.first.name

        columns: list[ShownColumn[Measurement]] = [
            ShownColumn("Strategy", lambda row: self.terms.group(row.group), is_number=False),
            ShownColumn(f"Batch per {self.terms.device}", lambda row: "all" if row.batch is None else whole(row.batch)),
            ShownColumn("Study", lambda row: row.study, is_number=False),
            ShownColumn("Epoch, s", lambda row: estimate(row.epoch_s, SECONDS)),
            ShownColumn("Ratio to first", lambda row: "1" if is_first(row) else estimate(row.ratio, MULTIPLES)),
            ShownColumn("Verdict", lambda row: row.verdict, is_number=False),
            ShownColumn("Speedup, ×", lambda row: estimate(row.speedup, MULTIPLES, mark=row.mark)),
        ]
        return [
            ShownTable(
                name, capitalised(scope(name)), columns, [[column.cell(row) for column in columns] for row in rows]
            )
            for name, rows in grouped(self.rows, lambda row: row.group.scope).items()
        ]

    def lines(self) -> Iterator[str]:
        """Yield what a terminal shows."""
        for table in self.tables():
            yield f"{table.caption}:"
            yield from table.lines
            yield ""
        yield from (f"{name}: {description}" for name, description in self.descriptions().items())
        yield from self.verdicts()


def _tally(verdicts: Sequence[str], noun: str = "") -> str:
    """Return `slower in 3 of 12 configurations, no difference shown in 9`."""
    counts = Counter(verdicts)
    said = [
        f"{verdict} in {counts[verdict]}" for verdict in (SLOWER, FASTER, NO_DIFFERENCE, NO_INTERVAL) if counts[verdict]
    ]
    said[0] += f" of {len(verdicts):,}{noun}"
    return ", ".join(said)


def render(comparison: ComparedStudies, limit: float | None = None) -> str:
    """Return the page as HTML. Pure, but for reading its own template."""
    sentences = [*comparison.verdicts(), *(comparison.guard(limit) if limit is not None else ())]
    return fill("compare.html.j2", terms=comparison.terms, comparison=comparison, sentences=sentences)
