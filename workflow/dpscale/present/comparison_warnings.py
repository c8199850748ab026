"""What a reader must know of studies before comparing them: what all of them share is said once."""

from collections.abc import Iterable, Iterator, Sequence

import pandas as pd

from dpscale.analyse.comparison import Differing, Side, as_written
from dpscale.present import cautions, words
from dpscale.present.words import Row, Terms


def terms_of(sides: Sequence[Side]) -> Terms:
    """How the studies speak together."""
    all_terms = [Terms.of(side.study.values, side.tables) for side in sides]
    device = "worker" if "worker" in {terms.device for terms in all_terms} else "GPU"
    return Terms(device, several_environments=False, synthetic=any(terms.synthetic for terms in all_terms))


def settings_that_differ(differing: Iterable[Differing], first: str, second: str) -> Iterator[str]:
    """A sentence for every setting that two studies do not share."""
    for setting in differing:
        yield (
            f"Settings differ, as was asked for: {setting.name} is {as_written(setting.first)} in {first} and "
            f"{as_written(setting.second)} in {second}."
        )


def of_sides(sides: Sequence[Side], records: pd.DataFrame) -> list[str]:
    """The warnings of all studies, each with whom it is about. `records` is the table `compared_records`."""
    found: dict[str, dict[str, list[str]]] = {}
    for side, row in zip(sides, words.rows(records), strict=True):
        terms = Terms.of(side.study.values, side.tables)
        for warning in (*_of_records(row), *cautions.of_records(side.tables, terms)):
            what, _, meaning = warning.partition(". ")
            found.setdefault(meaning or warning, {}).setdefault(what, []).append(side.name)
    return [_said_once(meaning, by_study, len(sides)) for meaning, by_study in found.items()]


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


def _said_once(meaning: str, by_study: dict[str, list[str]], studies: int) -> str:
    """`a: 3 of 5 records; b: 1 of 9 records. What that means.`: what holds of several studies is explained once."""
    parts = [f"{_named(names, studies)}: {what.removesuffix('.')}" for what, names in by_study.items()]
    explained = "" if meaning.removesuffix(".") in {what.removesuffix(".") for what in by_study} else f" {meaning}"
    return f"{'; '.join(parts)}.{explained}"


def _named(names: Sequence[str], studies: int) -> str:
    if len(names) == studies:
        return "Both studies" if studies == len(("first", "second")) else "All studies"
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
