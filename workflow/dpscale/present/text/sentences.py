"""Sentences whose words are in templates: Python decides what is true, and a template says it.

What a template asks for by its name, it has from the vocabulary: `states.WORTH_IT`, `causes.NOTHING`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dpscale.formulas.figure import Figure
from dpscale.present.text import words
from dpscale.present.text.html import TEXTS
from dpscale.present.text.numbers import estimate, measured, percent, recomputable, value_of, whole
from dpscale.present.text.words import Terms
from dpscale.tables import column
from dpscale.tables.column import MULTIPLES, Unit
from dpscale.vocabulary import causes, states

Paragraphs = Mapping[str, Sequence[str]]
"""Sentences by what they are about: Formula, Trend, Cause, Note; what comes first is about nothing in particular."""


def exact(figure: Figure, unit: Unit) -> str:
    """`0.5898 s`, as a hand-in's table prints it."""
    return f"{recomputable(figure, unit).value} {'' if unit is MULTIPLES else unit.shown}".rstrip()


TEXTS.filters.update(
    exact=exact,
    estimate=estimate,
    measured=measured,
    percent=percent,
    whole=whole,
    value_of=value_of,
    capitalised=words.capitalised,
    plural=words.plural,
    listed=words.listed,
    joined=words.joined,
    on_or_off=words.on_or_off,
)


def template_of(name: str, terms: Terms, **more: Any) -> Any:
    """Return what a template defines, in a study's terms: its macros and its constants."""
    names = {"terms": terms, "unit": column, "states": states, "causes": causes, **more}
    return TEXTS.get_template(f"{name}.txt.j2").make_module(names)


def paragraphs(template: str, topic: str, terms: Terms, **values: Any) -> Paragraphs:
    """Return what a template says of a topic: a line is a sentence, and those in `{% call about("Cause") %}` are about
    that."""
    lines_by_heading: dict[str, list[str]] = {}

    def about(heading: str, caller: Callable[[], str]) -> str:
        lines_by_heading[heading] = _lines(caller())
        return ""

    lines_by_heading[""] = _lines(getattr(template_of(template, terms, about=about), topic)(**values))
    return {heading: lines for heading in ("", *lines_by_heading) if (lines := lines_by_heading[heading])}


def _lines(text: str) -> list[str]:
    return list(filter(None, map(str.strip, text.splitlines())))


def sentences(template: str, topic: str, terms: Terms, **values: Any) -> list[str]:
    """Return the sentences of a topic that are about nothing else."""
    return list(paragraphs(template, topic, terms, **values).get("", ()))
