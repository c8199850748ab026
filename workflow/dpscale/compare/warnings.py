"""What a reader must know of studies before comparing them: what all of them share is said once."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from dpscale.compare.comparison import Comparison
from dpscale.compare.rows import ComparedRecordsRow
from dpscale.compare.studies import as_written
from dpscale.present import cautions
from dpscale.present.text.words import Terms, plural

# Warnings that differ in numbers alone are one.
_NUMBER = re.compile(r"\d[\d.,]*")


@dataclass(frozen=True)
class _Warning:
    """What is so in a study, and what that means; "" where nothing is said of that."""

    study: str
    what: str
    meaning: str


def terms_of(comparison: Comparison) -> Terms:
    """How the studies speak together."""
    all_terms = [Terms.of(side.study.values, side.tables) for side in comparison.sides]
    return Terms(
        "worker" if "worker" in {terms.device for terms in all_terms} else "GPU",
        several_environments=False,
        synthetic=any(terms.synthetic for terms in all_terms),
        own_workload=any(terms.own_workload for terms in all_terms),
    )


def warnings(comparison: Comparison, terms: Terms) -> list[str]:
    """Settings that differ because they may, and what a reader must know of how each study was measured."""
    return [*_settings_that_differ(comparison), *_other_images(comparison, terms), *_of_sides(comparison)]


def _settings_that_differ(comparison: Comparison) -> Iterator[str]:
    """A sentence with every setting that studies do not share with the first one; none where they share all."""
    others: dict[tuple[str, str, str], list[str]] = {}
    for study, settings in comparison.differing.items():
        for setting in settings:
            key = setting.name, as_written(setting.first), as_written(setting.second)
            others.setdefault(key, []).append(study)
    named = [
        f"{name} is {of_first} in {comparison.first.name} and {of_others} in {_and(studies)}"
        for (name, of_first, of_others), studies in others.items()
    ]
    if named:
        yield f"Settings differ, as was asked for: {'; '.join(named)}."


def _other_images(comparison: Comparison, terms: Terms) -> Iterator[str]:
    if len({row.dataset_sha256 for row in comparison.tables.studies}) > 1:
        yield f"The {terms.samples} have different checksums: arms were not trained on the very same ones."


def _of_sides(comparison: Comparison) -> list[str]:
    """The warnings of all studies, each with whom it is about."""
    alike: dict[str, list[_Warning]] = {}
    for side, row in zip(comparison.sides, comparison.tables.records, strict=True):
        terms = Terms.of(side.study.values, side.tables)
        for warning in (*_of_records(row), *cautions.of_records(side.tables, terms)):
            what, _, meaning = warning.removesuffix(".").partition(". ")
            alike.setdefault(_NUMBER.sub("", what), []).append(_Warning(side.name, what, meaning))
    return [_said_once(found, len(comparison.sides)) for found in alike.values()]


def _of_records(row: ComparedRecordsRow) -> Iterator[str]:
    """What is said of records that were found and left out."""
    if row.same_records:
        yield (
            f"{plural(row.same_records, 'record')} left out. Another study has the same files, and the same file in "
            "both is no evidence of a difference."
        )
    if row.not_used:
        yield f"Records found and not used: {row.not_used:,}. They are damaged, or of other settings."


def _said_once(found: Sequence[_Warning], studies: int) -> str:
    """`a: 3 of 5 records; b: 1 of 9 records. What that means.`: what holds of several studies stands there once."""
    what = _by_study([(warning.study, warning.what) for warning in found], studies)
    meanings = [(warning.study, warning.meaning) for warning in found if warning.meaning]
    if len({meaning for _, meaning in meanings}) == 1:
        return f"{what}. {meanings[0][1]}."
    return f"{what}. {_by_study(meanings, studies)}." if meanings else f"{what}."


def _by_study(sentences: Iterable[tuple[str, str]], studies: int) -> str:
    """`a and b: one sentence; c: another`"""
    said_of: dict[str, list[str]] = {}
    for study, sentence in sentences:
        said_of.setdefault(sentence, []).append(study)
    return "; ".join(f"{_named(names, studies)}: {sentence}" for sentence, names in said_of.items())


def _named(names: Sequence[str], studies: int) -> str:
    if len(names) == studies:
        return f"{both(studies)} studies"
    return _and(names)


def both(studies: int) -> str:
    return "Both" if studies == 2 else "All"


def _and(names: Sequence[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
