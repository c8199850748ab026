"""The audit of a published study: search, checks and corrected figures, as one record of rows."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from dpscale import __version__
from dpscale.audit.checks import LOOK, Doubt, doubts
from dpscale.audit.conventions import GLOBAL_STEPS
from dpscale.audit.corrected import corrected
from dpscale.audit.physics import above_the_peak, link_of_utilisation, same_times
from dpscale.audit.reading.published import GLOBAL, Published
from dpscale.audit.search import several
from dpscale.audit.sentences import answer, remarks, sentence, verdict_of
from dpscale.audit.tables import IN_SHORT, AuditTables
from dpscale.audit.verdicts import FigureVerdict, Reading, read
from dpscale.formulas.figure import UNKNOWN, Figure
from dpscale.formulas.rounded import Rounded
from dpscale.records.audit import AuditRecord
from dpscale.tables.published import AuditFindingsRow, AuditRow, AuditWarningsRow

# The corrected quantity beside a published one of another name.
_CORRECTED_BY = {"speedup_alternative": "speedup"}
# Units of quantities; a printed bandwidth has that of its label.
_UNITS = {
    "compute_s": "s", "communication_s": "s", "images_per_s": "images/s", "utilisation_percent": "%",
    "bandwidth": "GB/s",
}  # fmt: skip


def audit(published: Published, studies: Sequence[Published] = ()) -> AuditRecord:
    """Return the record of an audit: a row of every figure, of every column, and of every warning; pure.

    `studies` are what others published, to set its times beside.
    """
    reading = read(published)
    if "bandwidth" in reading.outcomes and {*GLOBAL_STEPS} & {*reading.outcomes["bandwidth"].choices}:
        reading = replace(reading, published=replace(reading.published, batch=GLOBAL))
    published = reading.published
    warnings = [
        *doubts(reading),
        *above_the_peak(published),
        *link_of_utilisation(published, reading.outcomes),
        *same_times(published, studies),
    ]
    tables = AuditTables([*_cells(reading)], [*_findings(reading)], [_warning(published, doubt) for doubt in warnings])
    verdict_in_short = answer(tables)
    in_short = AuditFindingsRow(study=published.id, title=published.title, verdict=IN_SHORT, sentence=verdict_in_short)
    return AuditRecord(
        kind="audit",
        dpscale_version=__version__,
        id=published.id,
        title=published.title,
        sha256=published.sha256,
        batch=published.batch,
        answer=verdict_in_short,
        cells=[row.flat() for row in tables.audit],
        findings=[row.flat() for row in (in_short, *tables.audit_findings)],
        warnings=[row.flat() for row in tables.audit_warnings],
    )


def is_faulty(record: AuditRecord) -> bool:
    """Whether a figure is impossible, wrong or not explained; what is only worth a look is none of these."""
    return any(warning["severity"] != LOOK for warning in record.warnings)


def _cells(reading: Reading) -> Iterator[AuditRow]:
    """Times first, then every published quantity, then the quantities that were only computed here."""
    published = reading.published
    defined = corrected(reading)
    printed = {(name, place): (str(time), "s") for name, place, time in published.times}
    for name in (*reading.outcomes, *published.of_other_runs):
        unit = (published.bandwidth_unit if name == "bandwidth" else None) or _UNITS.get(name, "")
        figures = {**published.quantities.get(name, {}), **published.of_other_runs.get(name, {})}
        printed |= {(name, place): (str(number), unit) for place, number in figures.items()}
    for name, place in {**printed, **defined}:
        shown, unit = printed.get((name, place), ("", ""))
        verdict = reading.verdicts.get((name, place), FigureVerdict(""))
        by = _CORRECTED_BY.get(name, name)
        defined_here = defined.get((by, place))
        yield AuditRow(
            study=published.id,
            quantity=name,
            **place._asdict(),
            published=shown,
            published_unit=unit,
            verdict=verdict.state,
            why=verdict.why,
            recomputed=_figure(verdict.given),
            corrected=_figure(defined_here),
            unit=_UNITS.get(by, "") if defined_here else "",
            reason=defined_here if isinstance(defined_here, str) else "",
        )


def _findings(reading: Reading) -> Iterator[AuditFindingsRow]:
    """Yield a finding of every column, and what else there is to say."""
    study, title = reading.published.id, reading.published.title
    for quantity, outcome in reading.outcomes.items():
        yield AuditFindingsRow(
            study=study,
            title=title,
            quantity=quantity,
            verdict=verdict_of(reading, quantity),
            convention=outcome.match.convention.formula if outcome.match else "",
            supporting_cells=outcome.match.supporting if outcome.match else 0,
            independent_cells=len(several(outcome.checkable)),
            conventions_tried=outcome.tried,
            chance=outcome.chance,
            sentence=sentence(reading, quantity),
        )
    for verdict, text in remarks(reading):
        yield AuditFindingsRow(study=study, title=title, quantity="epoch_s", verdict=verdict, sentence=text)


def _warning(published: Published, doubt: Doubt) -> AuditWarningsRow:
    return AuditWarningsRow(
        study=published.id,
        check=doubt.check,
        severity=doubt.severity,
        quantity=doubt.quantity,
        **doubt.place._asdict(),
        detail=doubt.detail,
    )


def _figure(value: Rounded | str | None) -> Figure:
    return Figure.of(value.value, value.low, value.high) if isinstance(value, Rounded) else UNKNOWN
