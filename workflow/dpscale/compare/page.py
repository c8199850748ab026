"""The page of studies against the first of them: what changed, by how much, and how sure that is.

Every sentence is computed from the tables; a change is claimed only where its 95 % interval carries it.
"""

from dpscale.analyse.answer.answer import answer_of
from dpscale.compare.comparison import ComparedStudies
from dpscale.compare.forest import changes
from dpscale.compare.sentences import answers, guard
from dpscale.compare.views import Views
from dpscale.compare.warnings import warnings
from dpscale.present.findings.answer import in_words
from dpscale.present.study.environment_facts import dates
from dpscale.present.text.html import fill
from dpscale.present.text.words import text


def render(comparison: ComparedStudies) -> str:
    """The page as HTML. Pure, but for reading its own template."""
    return fill(
        "compare.html.j2",
        terms=comparison.terms,
        comparison=comparison,
        described={
            side.name: f"{text(side.tables.environments[0].device_model)}, {dates(side.tables.records)}"
            for side in comparison.sides
        },
        sentences=_changes(comparison),
        own_answers=own_answers(comparison),
        warnings=warnings(comparison),
        views=Views(comparison),
        changes=changes(comparison.pairs, comparison.terms),
    )


def summary(comparison: ComparedStudies) -> list[str]:
    """The sentences for a terminal: what changed, what is slower than is tolerated, and what every study answers."""
    return [*_changes(comparison), *(f"{name}: {answer}" for name, answer in own_answers(comparison).items())]


def _changes(comparison: ComparedStudies) -> list[str]:
    found = [answer for pair in comparison.pairs for answer in answers(pair, comparison.terms)]
    return [*found, *guard(comparison.groups, comparison.terms)]


def own_answers(comparison: ComparedStudies) -> dict[str, str]:
    """What every study answers of itself, by its name."""
    return {side.name: " ".join(in_words(answer_of(side.tables), side.terms)) for side in comparison.sides}
