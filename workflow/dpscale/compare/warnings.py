"""What a reader must know of studies before comparing them: what all of them share is said once."""

from collections.abc import Iterator

from dpscale.compare.comparison import ComparedStudies
from dpscale.compare.studies import Differing
from dpscale.present.findings.cautions import of_records
from dpscale.present.text.words import joined
from dpscale.tables.row import grouped


def warnings(comparison: ComparedStudies) -> list[str]:
    """Settings that differ because they may, and what a reader must know of how each study was measured."""
    named = "; ".join(f"{found.name} is {_where(found)}" for found in comparison.differing)
    return [*([f"Settings differ, as was asked for: {named}."] if named else []), *_of_studies(comparison)]


def _where(differing: Differing) -> str:
    """`float32 in first and bfloat16 in a and b`."""
    studies = grouped(differing.values, differing.values.__getitem__)
    return " and ".join(f"{value} in {joined(names)}" for value, names in studies.items())


def _of_studies(comparison: ComparedStudies) -> Iterator[str]:
    """The warnings of all studies, each with whom it is about: `a and b: 1 of 9 records. What that means.`"""
    about: dict[str, list[str]] = {}
    for side, row in zip(comparison.sides, comparison.studies, strict=True):
        not_used = f"Records found and not used: {row.not_used:,}. They are damaged, or of other settings."
        for caution in [*([not_used] if row.not_used else []), *of_records(side.tables, side.terms)]:
            about.setdefault(caution, []).append(side.name)
    every = "Both" if len(comparison.pairs) == 1 else "All"
    for said, names in about.items():
        yield f"{f'{every} studies' if len(names) == len(comparison.sides) else joined(names)}: {said}"
