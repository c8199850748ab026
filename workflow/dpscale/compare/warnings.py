"""What a reader must know of studies before comparing them: what all of them share is said once."""

import re
from collections.abc import Iterable, Iterator, Sequence

from dpscale.compare.comparison import Comparison
from dpscale.compare.rows import ComparedRecordsRow
from dpscale.compare.studies import as_written
from dpscale.present.findings import cautions
from dpscale.present.text.words import Terms, plural

# Warnings that differ in numbers alone are one.
_NUMBER = re.compile(r"\d[\d.,]*")


def terms_of(comparison: Comparison) -> Terms:
    """How the studies speak together."""
    found = [Terms.of(side.study.values, side.tables) for side in comparison.sides]
    return Terms(
        "worker" if "worker" in {terms.device for terms in found} else "GPU",
        several_environments=False,
        synthetic=any(terms.synthetic for terms in found),
        own_workload=any(terms.own_workload for terms in found),
    )


def warnings(comparison: Comparison, terms: Terms) -> list[str]:
    """Settings that differ because they may, and what a reader must know of how each study was measured."""
    return [*_settings_that_differ(comparison), *_other_images(comparison, terms), *_of_studies(comparison)]


def _settings_that_differ(comparison: Comparison) -> Iterator[str]:
    """A sentence with every setting that studies do not share with the first one; none where they share all."""
    others: dict[tuple[str, str, str], list[str]] = {}
    for pair in comparison.pairs:
        for found in pair.differing:
            key = found.name, as_written(found.first), as_written(found.second)
            others.setdefault(key, []).append(pair.study)
    named = [
        f"{name} is {of_first} in {comparison.first} and {of_others} in {_and(studies)}"
        for (name, of_first, of_others), studies in others.items()
    ]
    if named:
        yield f"Settings differ, as was asked for: {'; '.join(named)}."


def _other_images(comparison: Comparison, terms: Terms) -> Iterator[str]:
    if len({row.dataset_sha256 for row in comparison.studies}) > 1:
        yield f"The {terms.samples} have different checksums: arms were not trained on the very same ones."


def _of_studies(comparison: Comparison) -> Iterator[str]:
    """The warnings of all studies, each with whom it is about: `a: 3 of 5 records; b: 1 of 9 records. What that
    means.`"""
    alike: dict[str, list[tuple[str, str, str]]] = {}
    for side, row in zip(comparison.sides, comparison.records, strict=True):
        terms = Terms.of(side.study.values, side.tables)
        for warning in (*_of_records(row), *cautions.of_records(side.tables, terms)):
            what, _, meaning = warning.removesuffix(".").partition(". ")
            alike.setdefault(_NUMBER.sub("", what), []).append((side.name, what, meaning))
    for found in alike.values():
        said = _by_study([(study, what) for study, what, _ in found], comparison)
        meanings = {meaning for _, _, meaning in found if meaning}
        if len(meanings) > 1:
            meanings = {_by_study([(study, meaning) for study, _, meaning in found if meaning], comparison)}
        yield f"{'. '.join([said, *meanings])}."


def _of_records(row: ComparedRecordsRow) -> Iterator[str]:
    """What is said of records that were found and left out."""
    if row.same_records:
        yield (
            f"{plural(row.same_records, 'record')} left out. Another study has the same files, and the same file in "
            "both is no evidence of a difference."
        )
    if row.not_used:
        yield f"Records found and not used: {row.not_used:,}. They are damaged, or of other settings."


def _by_study(sentences: Iterable[tuple[str, str]], comparison: Comparison) -> str:
    """`a and b: one sentence; c: another`"""
    said_of: dict[str, list[str]] = {}
    for study, sentence in sentences:
        said_of.setdefault(sentence, []).append(study)
    every = len(comparison.sides)
    return "; ".join(
        f"{f'{both(comparison)} studies' if len(names) == every else _and(names)}: {sentence}"
        for sentence, names in said_of.items()
    )


def both(comparison: Comparison) -> str:
    return "Both" if len(comparison.pairs) == 1 else "All"


def _and(names: Sequence[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
