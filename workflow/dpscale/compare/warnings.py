"""What a reader must know of studies before comparing them: what all of them share is said once."""

from collections.abc import Iterator, Mapping, Sequence

from dpscale.compare.comparison import ComparedStudies
from dpscale.compare.rows import ComparedStudiesRow
from dpscale.compare.studies import Side, as_written
from dpscale.present.findings.cautions import Caution, of_records
from dpscale.present.text.words import Terms, joined, plural


def terms_of(comparison: ComparedStudies) -> Terms:
    """How the studies speak together."""
    found = [Terms.of(side.study.values, side.tables) for side in comparison.sides]
    return Terms(
        "worker" if "worker" in {terms.device for terms in found} else "GPU",
        several_environments=False,
        synthetic=any(terms.synthetic for terms in found),
        own_workload=any(terms.own_workload for terms in found),
    )


def warnings(comparison: ComparedStudies, terms: Terms) -> list[str]:
    """Settings that differ because they may, and what a reader must know of how each study was measured."""
    return [*_settings_that_differ(comparison), *_other_images(comparison, terms), *_of_studies(comparison)]


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


def _other_images(comparison: ComparedStudies, terms: Terms) -> Iterator[str]:
    if len({row.dataset_sha256 for row in comparison.studies}) > 1:
        yield f"The {terms.samples} have different checksums: arms were not trained on the very same ones."


def _of_studies(comparison: ComparedStudies) -> Iterator[str]:
    """The warnings of all studies, those of a kind together, each with whom it is about: `a: 3 of 5 records; b: 1 of 9
    records. What that means.`"""
    for of_kind in zip(*map(_of_study, comparison.sides, comparison.studies), strict=True):
        found = {side.name: caution for side, caution in zip(comparison.sides, of_kind, strict=True) if caution}
        if found:
            meanings = {name: caution.meaning for name, caution in found.items() if caution.meaning}
            said = _by_study({name: caution.what for name, caution in found.items()}, comparison)
            same = set(meanings.values())
            yield str(Caution(said, same.pop() if len(same) == 1 else _by_study(meanings, comparison)))


def _of_study(side: Side, row: ComparedStudiesRow) -> Sequence[Caution | None]:
    """What is said of records that were found and left out, and of how the others were measured."""
    same = Caution(
        f"{plural(row.same_records or 0, 'record')} left out",
        "Another study has the same files, and the same file in both is no evidence of a difference",
    )
    not_used = Caution(f"Records found and not used: {row.not_used:,}", "They are damaged, or of other settings")
    cautions = of_records(side.tables, Terms.of(side.study.values, side.tables))
    return [same if row.same_records else None, not_used if row.not_used else None, *cautions]


def _by_study(sentences: Mapping[str, str], comparison: ComparedStudies) -> str:
    """`a and b: one sentence; c: another`"""
    said_of: dict[str, list[str]] = {}
    for study, sentence in sentences.items():
        said_of.setdefault(sentence, []).append(study)
    every = len(comparison.sides)
    return "; ".join(
        f"{f'{both(comparison)} studies' if len(names) == every else joined(names)}: {sentence}"
        for sentence, names in said_of.items()
    )


def both(comparison: ComparedStudies) -> str:
    return "Both" if len(comparison.pairs) == 1 else "All"
