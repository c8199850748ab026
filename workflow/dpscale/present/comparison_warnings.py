"""What a reader must know of studies before comparing them: what all of them share is said once."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from dpscale.analyse.comparison import SIDES, Differing, Side, as_written
from dpscale.present import cautions, words
from dpscale.present.words import Row, Terms

# Warnings that differ in numbers alone are one.
_NUMBER = re.compile(r"\d[\d.,]*")


@dataclass(frozen=True)
class _Warning:
    """What is so in a study, and what that means; "" where nothing is said of that."""

    study: str
    what: str
    meaning: str


def terms_of(sides: Sequence[Side]) -> Terms:
    """How the studies speak together."""
    all_terms = [Terms.of(side.study.values, side.tables) for side in sides]
    device = "worker" if "worker" in {terms.device for terms in all_terms} else "GPU"
    return Terms(
        device,
        several_environments=False,
        synthetic=any(terms.synthetic for terms in all_terms),
        own_workload=any(terms.own_workload for terms in all_terms),
    )


def settings_that_differ(first: str, differing: Mapping[str, Iterable[Differing]]) -> list[str]:
    """A sentence with every setting that studies do not share with the first one; none where they share all."""
    others: dict[tuple[str, str, str], list[str]] = {}
    for study, settings in differing.items():
        for setting in settings:
            values = as_written(setting.first), as_written(setting.second)
            others.setdefault((setting.name, *values), []).append(study)
    named = [
        f"{name} is {of_first} in {first} and {of_others} in {_and(studies)}"
        for (name, of_first, of_others), studies in others.items()
    ]
    return [f"Settings differ, as was asked for: {'; '.join(named)}."] if named else []


def of_sides(sides: Sequence[Side], records: pd.DataFrame) -> list[str]:
    """The warnings of all studies, each with whom it is about. `records` is the table `compared_records`."""
    alike: dict[str, list[_Warning]] = {}
    for side, row in zip(sides, words.rows(records), strict=True):
        terms = Terms.of(side.study.values, side.tables)
        for warning in (*_of_records(row), *cautions.of_records(side.tables, terms)):
            what, _, meaning = warning.removesuffix(".").partition(". ")
            alike.setdefault(_NUMBER.sub("", what), []).append(_Warning(side.name, what, meaning))
    return [_said_once(warnings, len(sides)) for warnings in alike.values()]


def _of_records(row: Row) -> Iterator[str]:
    """What is said of records that were found and left out."""
    if row["same_records"]:
        number = words.plural(row["same_records"], "record")
        yield (
            f"{number} left out. Another study has the same files, and the same file in both is no evidence of a "
            "difference."
        )
    if row["not_used"]:
        yield f"Records found and not used: {row['not_used']:,}. They are damaged, or of other settings."


def _said_once(warnings: Sequence[_Warning], studies: int) -> str:
    """`a: 3 of 5 records; b: 1 of 9 records. What that means.`: what holds of several studies stands there once."""
    what = _by_study([(warning.study, warning.what) for warning in warnings], studies)
    meanings = [(warning.study, warning.meaning) for warning in warnings if warning.meaning]
    if len({meaning for _, meaning in meanings}) == 1:
        return f"{what}. {meanings[0][1]}."
    return f"{what}. {_by_study(meanings, studies)}." if meanings else f"{what}."


def _by_study(sentences: Iterable[tuple[str, str]], studies: int) -> str:
    """`a and b: one sentence; c: another`."""
    said_of: dict[str, list[str]] = {}
    for study, sentence in sentences:
        said_of.setdefault(sentence, []).append(study)
    return "; ".join(f"{_named(names, studies)}: {sentence}" for sentence, names in said_of.items())


def _named(names: Sequence[str], studies: int) -> str:
    if len(names) == studies:
        return "Both studies" if studies == len(SIDES) else "All studies"
    return _and(names)


def _and(names: Sequence[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
