"""What a reader must know of studies before comparing them: what all of them share is said once."""

from collections.abc import Iterator

from dpscale.compare.comparison import ComparedStudies
from dpscale.compare.rows import ComparedStudiesRow
from dpscale.compare.studies import Side, as_written
from dpscale.present.findings.cautions import of_records
from dpscale.present.text.words import Terms, joined


def terms_of(comparison: ComparedStudies) -> Terms:
    """How the studies speak together."""
    found = [Terms.of(side.study.values, side.tables) for side in comparison.sides]
    return Terms(
        "worker" if "worker" in {terms.device for terms in found} else "GPU",
        several_environments=False,
        synthetic=any(terms.synthetic for terms in found),
        own_workload=any(terms.own_workload for terms in found),
    )


def warnings(comparison: ComparedStudies) -> list[str]:
    """Settings that differ because they may, and what a reader must know of how each study was measured."""
    return [*_settings_that_differ(comparison), *_of_studies(comparison)]


def _settings_that_differ(comparison: ComparedStudies) -> Iterator[str]:
    """A sentence with every setting that studies do not share with the first one; none where they share all."""
    others: dict[tuple[str, str, str], list[str]] = {}
    for pair in comparison.pairs:
        for found in pair.differing:
            key = found.name, as_written(found.first), as_written(found.second)
            others.setdefault(key, []).append(pair.study)
    named = [
        f"{name} is {of_first} in {comparison.first} and {of_others} in {joined(studies)}"
        for (name, of_first, of_others), studies in others.items()
    ]
    if named:
        yield f"Settings differ, as was asked for: {'; '.join(named)}."


def _of_studies(comparison: ComparedStudies) -> Iterator[str]:
    """The warnings of all studies, each with whom it is about: `a and b: 1 of 9 records. What that means.`"""
    about: dict[str, list[str]] = {}
    for side, row in zip(comparison.sides, comparison.studies, strict=True):
        for caution in _of_study(side, row):
            about.setdefault(caution, []).append(side.name)
    for said, names in about.items():
        every = len(names) == len(comparison.sides)
        yield f"{f'{both(comparison)} studies' if every else joined(names)}: {said}"


def _of_study(side: Side, row: ComparedStudiesRow) -> Iterator[str]:
    """What is said of records that were found and left out, and of how the others were measured."""
    if row.not_used:
        yield f"Records found and not used: {row.not_used:,}. They are damaged, or of other settings."
    yield from of_records(side.tables, Terms.of(side.study.values, side.tables))


def both(comparison: ComparedStudies) -> str:
    return "Both" if len(comparison.pairs) == 1 else "All"
