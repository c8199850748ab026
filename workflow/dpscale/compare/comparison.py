"""Studies compared: epoch times over those of the first study, what else differs, verdicts, page and lines.

Studies were measured apart, so nothing is paired. A ratio is of geometric means over servers, or over the runs of one,
with Welch's interval of the logarithms. The intervals of the batches of a group hold together.

One batch says little where servers differ much. A run often keeps its server over its batches, so over all batches it
has one figure: the geometric mean of its epoch times. If every run at every batch counted as a unit, the interval would
be too narrow.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

import numpy as np

from dpscale.analyse.tables import build_tables
from dpscale.errors import ComparisonError
from dpscale.formulas import OnServer
from dpscale.formulas.figure import UNKNOWN, Figure, estimate_of_blocks, units_of
from dpscale.formulas.statistics import best_of, ratio_of_blocks
from dpscale.plan.study import Study
from dpscale.present.findings.cautions import of_records
from dpscale.present.findings.set_up import CHECKSUM_DIGITS, dates
from dpscale.present.text.html import fill
from dpscale.present.text.numbers import estimate, printed, whole
from dpscale.present.text.table import ShownColumn, ShownTable
from dpscale.present.text.words import Terms, capitalised, listed, plural, rank, scope, states_of, text
from dpscale.records.collect import Collected
from dpscale.tables.column import MULTIPLES, PERCENT, SECONDS, SOFTWARE
from dpscale.tables.row import grouped
from dpscale.tables.study import EnvironmentsRow
from dpscale.tables.tables import Tables
from dpscale.tables.timing import TimesRow

SLOWER, FASTER, NO_DIFFERENCE, NO_INTERVAL = "slower", "faster", "no difference shown", "no interval"
# An interval without a width lies beside one by the last digit of its computation.
_LAST_DIGITS = 1e-12

Epochs = Mapping[int, Figure]  # by batch per device


class Group(NamedTuple):
    """A strategy on so many devices in a scope, whose batches are pooled."""

    scope: str
    strategy: str
    gpus: int


@dataclass(frozen=True)
class Measurement:
    """A study at a batch that two studies have, or over all batches (None) that it has with the first."""

    study: str
    group: Group
    batch: int | None
    epoch_s: Figure = UNKNOWN
    ratio: Figure = UNKNOWN
    """Its epoch time over that of the first study."""
    speedup: Figure = UNKNOWN
    states: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """The side of one on which the whole interval lies; "" of the first study, or where that has no time."""
        if not self.ratio.has_interval:
            return NO_INTERVAL if self.ratio.is_known else ""
        if self.ratio.is_above(1 + _LAST_DIGITS):
            return SLOWER
        return FASTER if self.ratio.is_below(1 - _LAST_DIGITS) else NO_DIFFERENCE


def measurements(studies: Mapping[str, Tables]) -> Iterator[Measurement]:
    """Yield all that two studies or more have a time of, group by group as people read them. `studies` are the tables
    by the name of their study, those of the first study first."""
    name_of_first = next(iter(studies))
    epochs = {name: epochs_by_group(tables.times) for name, tables in studies.items()}
    speedups = {
        (name, row.scope, row.strategy, row.gpus, row.batch_per_gpu): row
        for name, tables in studies.items()
        for row in tables.speedup
        if row.scaling == "weak"
    }
    groups = {group for of_study in epochs.values() for group in of_study}
    for group in sorted(groups, key=lambda group: (group.scope, rank(group.strategy), group.gpus)):
        of_studies = {name: of_study[group] for name, of_study in epochs.items() if group in of_study}
        first = of_studies.get(name_of_first, {})
        ratios = {name: ratios_of_group(first, times) for name, times in of_studies.items() if name != name_of_first}
        for batch in sorted({batch for times in of_studies.values() for batch in times}):
            with_time = [name for name, times in of_studies.items() if batch in times]
            for name in with_time if len(with_time) > 1 else ():
                ratio = ratios.get(name, {}).get(batch, UNKNOWN)
                row = speedups.get((name, *group, batch))
                speedup, states = (row.speedup, states_of(row)) if row else (UNKNOWN, ())
                yield Measurement(name, group, batch, of_studies[name][batch], ratio, speedup, states)
        for name, by_batch in ratios.items():
            over_all = ratio_over_batches(first, of_studies[name]) if len(by_batch) > 1 else UNKNOWN
            if over_all.is_known:
                yield Measurement(name, group, None, ratio=over_all)


def epochs_by_group(rows: Iterable[TimesRow]) -> dict[Group, dict[int, Figure]]:
    """Return the epoch times that are known, by group and batch."""
    epochs: dict[Group, dict[int, Figure]] = {}
    for row in rows:
        if row.epoch_s.is_known:
            epochs.setdefault(Group(row.scope, row.strategy, row.gpus), {})[row.batch_per_gpu] = row.epoch_s
    return epochs


def ratio_of(epoch_s: Figure, first_epoch_s: Figure) -> Figure:
    """Return an epoch time over the first study's, with Welch's interval over the servers of both, or the runs of
    one."""
    times = ratio_of_blocks(units_of(epoch_s.blocks), units_of(first_epoch_s.blocks))
    is_one_machine = times.has_interval and (epoch_s.is_one_machine or first_epoch_s.is_one_machine)
    return replace(times, kind="one machine") if is_one_machine else times


def ratios_of_group(first: Epochs, second: Epochs) -> dict[int, Figure]:
    """Return the ratio at every batch that both studies have, with 95 % intervals that hold for all batches at once."""
    ratios = {batch: ratio_of(second[batch], first[batch]) for batch in sorted(first.keys() & second.keys())}
    with_interval = sum(ratio.has_interval for ratio in ratios.values())
    for batch, ratio in ratios.items():
        units = min(len(units_of(epochs[batch].blocks)) for epochs in (first, second))
        ratios[batch] = best_of(ratio, max(with_interval, 1), units)
    return ratios


def ratio_over_batches(first: Epochs, second: Epochs) -> Figure:
    """Return the ratio over the batches that both studies have two runs of; where there is none, over all that both
    have.

    A run that lacks one of them is left out; without any run the ratio is not known. What runs took decides nothing.
    """
    common = first.keys() & second.keys()
    repeated = {batch for batch in common if min(len(first[batch].blocks), len(second[batch].blocks)) > 1}
    figures = [_figures_of_runs([epochs[batch].blocks for batch in repeated or common]) for epochs in (second, first)]
    return ratio_of(*map(estimate_of_blocks, figures)) if all(figures) else UNKNOWN


def _figures_of_runs(epoch_s: Sequence[Mapping[OnServer, float]]) -> dict[OnServer, float]:
    """Return the geometric mean over batches of every run that has all of them; `epoch_s` are the times of each batch
    by run."""
    whole_runs = [run for run in (epoch_s[0] if epoch_s else ()) if all(run in of_batch for of_batch in epoch_s)]
    return {run: float(np.exp(np.log([of_batch[run] for of_batch in epoch_s]).mean())) for run in whole_runs}


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
        sentences = [f"{most} x {device}, {versions}, measured {dates(self.tables.records)}."]
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
            ShownColumn("Speedup, ×", lambda row: printed(row.speedup, MULTIPLES, states=row.states).text),
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
