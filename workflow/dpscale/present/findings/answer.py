"""The answer in words: the first screen of the page, and what a terminal shows. Numbers and decisions are those of
`analyse.answer`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from dpscale.analyse.answer.answer import TO_DO, Answer
from dpscale.analyse.answer.series import COMPUTE
from dpscale.formulas.figure import Figure
from dpscale.present.findings.advice import Advice, advices
from dpscale.present.findings.worth import Deciding, deciding, gains_said, verdicts, who
from dpscale.present.text.numbers import brief, ends_of, estimate, percent, plain, value_of
from dpscale.present.text.words import Terms, capitalised, mark, plural
from dpscale.tables.answer import AnswerRow, CausesRow
from dpscale.tables.column import MILLISECONDS, MULTIPLES, PERCENT, SECONDS, Unit
from dpscale.vocabulary.causes import NO_CERTAIN_LOSS, NOTHING, UNKNOWN, cause
from dpscale.vocabulary.states import (
    MACHINE,
    NOT_WORTH_IT,
    WORTH_IT,
)

# Numbers of devices that one sentence names, and digits of a number at most.
_NAMED, _DIGITS = 4, 3


@dataclass(frozen=True)
class FirstScreen:
    """The answer as people read it. `kind` is `worth`, `not-worth` or `unknown`; `sentences` are the answer, `notes`
    what belongs to it, `deciding` what would decide what is not decided; `section` is that of the page which has the
    reason's evidence, if any."""

    kind: str
    sentences: Sequence[str]
    notes: Sequence[str]
    deciding: Sequence[Deciding]
    caption: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    reason: str
    section: str
    to_do: Sequence[Advice]

    @property
    def sentence(self) -> str:
        return " ".join(self.sentences)


def first_screen(answer: Answer, terms: Terms) -> FirstScreen:
    """The answer in words."""
    causes = [row for row in (answer.reason, answer.reason_with_loading) if row]
    certain = next((cause(row.cause).on(terms.device) for row in causes if row.is_reason), None)
    to_change = [Advice(certain.change.rstrip("."), "", certain.section)] if certain else []
    section_of_unknown = "steps" if any(row.cause == UNKNOWN.name for row in causes) else ""
    caption, headings, cells = _table(answer.rows, answer.prices, terms)
    return FirstScreen(
        kind=_kind(answer),
        sentences=list(sentences(answer, terms)),
        notes=list(notes(answer, terms)),
        deciding=list(deciding(answer, terms)),
        caption=caption,
        headings=headings,
        rows=cells,
        reason=_reasons(answer, terms),
        section=certain.section if certain else section_of_unknown,
        to_do=[*advices(answer.to_do, terms), *to_change][:TO_DO],
    )


def in_words(answer: Answer, terms: Terms) -> list[str]:
    """Return the answer where there is room for sentences alone, with what would decide what is not decided."""
    return [*sentences(answer, terms), *(todo.text for todo in deciding(answer, terms))]


def _kind(answer: Answer) -> str:
    states = {row.worth for row in answer.several}
    if WORTH_IT in states:
        return "worth"
    return "not-worth" if states == {NOT_WORTH_IT} else "unknown"


def sentences(answer: Answer, terms: Terms) -> Iterator[str]:
    """Yield what every number of devices gives, and whether that is worth it."""
    if not answer.several:
        yield _why_unknown(answer, terms)
        return
    loading = "" if answer.several[0].scope == COMPUTE else ", data loading counted"
    for rows in answer.series:
        batch = f"batch {rows[0].batch_per_gpu:,} per {terms.device}{loading}"
        remaining = iter(rows)
        while named := list(islice(remaining, _NAMED)):
            yield f"With {rows[0].strategy} at {batch}, {gains_said(named, terms)}."
    yield from verdicts(answer.several, terms)
    if answer.unknown:
        yield f"There is no measured speedup of {who(answer.unknown, terms)}."


def _why_unknown(answer: Answer, terms: Terms) -> str:
    if not answer.rows:
        return f"Nothing has been measured, so it is not known what more {terms.devices} give."
    return f"It is not known what more {terms.devices} give: none was measured beside 1 {terms.device}."


def notes(answer: Answer, terms: Terms) -> Iterator[str]:
    """Yield what must be known beside the answer, a sentence each."""
    rows = answer.several
    yield from _loading(rows, answer.loaded, terms)
    yield from _batches(rows, terms)
    for row in rows:
        if row.faster_strategy:
            faster = f"{value_of(row.faster_speedup, MULTIPLES)} times [{ends_of(row.faster_speedup, MULTIPLES)}]"
            yield f"{row.faster_strategy} is faster on {terms.count(row.gpus)}: {faster}."
    for row in answer.above_ideal:
        gave = f"{terms.count(row.gpus)} gave more than {row.gpus:,} times the speed"
        yield f"{gave}, which is seldom true: look at the time of 1 {terms.device}."
    if terms.device == "worker":
        yield "Workers share the cores of one machine: another one may differ, and this is no measure of GPUs."
    elif of_one := [row for row in rows if row.unit != MACHINE and (row.units or 0) > 1]:
        yield f"All runs on {who(of_one, terms)} are of one machine: another one may differ."
    few = [row for row in rows if not row.is_headline]
    if few:
        yield f"An epoch on {who(few, terms)} has fewer than ten full steps, so these times say little."
    yield from terms.notes_of([map(mark, rows)])
    if answer.rejected:
        yield f"{plural(answer.rejected, 'record')} could not be used: Provenance says why."


def _loading(rows: Sequence[AnswerRow], loaded: Sequence[AnswerRow], terms: Terms) -> Iterator[str]:
    """Say the speedups with loading; and the verdict, where that is another one."""
    gains = [row for row in loaded if row.speedup.is_known]
    if not gains:
        return
    without = {row.gpus: row.worth for row in rows}
    is_other = any(without[row.gpus] != row.worth for row in gains)
    yield " ".join([f"With data loading, {gains_said(gains, terms)}.", *(verdicts(gains, terms) if is_other else ())])


def _batches(rows: Sequence[AnswerRow], terms: Terms) -> Iterator[str]:
    """Say that another batch stands for the one that was asked for."""
    replaced = [row for row in rows if row.batch_per_gpu != row.asked_batch_per_gpu]
    if replaced:
        asked = f"Batch {replaced[0].asked_batch_per_gpu:,}, which this answer is about,"
        yield f"{asked} was not measured on {who(replaced, terms)}: the nearest one stands for it."


def _table(rows: Sequence[AnswerRow], prices: Sequence[float], terms: Terms) -> tuple[str, list[str], list[list[str]]]:
    """Return caption, headings, and a row per number of devices, with what an epoch costs if that is known. How sure
    efficiency and GPU-seconds are follows from the speedup."""
    headings = [terms.heading, "Epoch, s", "Speedup, ×", "Efficiency, %", f"{terms.device}-seconds, ×", "Worth it"]
    cells = [
        [
            f"{row.gpus:,}",
            brief(row.epoch_s, SECONDS, _DIGITS),
            brief(row.speedup, MULTIPLES, mark=mark(row)),
            value_of(row.efficiency, PERCENT, digits=_DIGITS),
            f"{value_of(row.gpu_s_over_one, MULTIPLES)}{mark(row)}",
            row.worth or "–",
        ]
        for row in rows
    ]
    figures = [figure for row in rows for figure in (row.epoch_s, row.speedup)]
    caption = f"What every number of {terms.devices} gives."
    caption += " In brackets 95 % intervals." if any(figure.has_interval for figure in figures) else ""
    caption += " In parentheses the two values." if any(figure.is_of_two for figure in figures) else ""
    if not prices:
        return caption, headings, cells
    with_price = [[*line, plain(price, 3)] for line, price in zip(cells, prices, strict=True)]
    return caption, [*headings, "Price per epoch"], with_price


def _reasons(answer: Answer, terms: Terms) -> str:
    """Say why the most devices give no more; and with loading, where that is known and another reason."""
    first, second = answer.reason, answer.reason_with_loading
    reasons = [reason(first, terms)] if first else []
    is_first_too = first is not None and first.is_reason and second is not None and first.cause == second.cause
    if second and second.is_reason and not is_first_too:
        reasons.append(f"With data loading: {reason(second, terms)}")
    return " ".join(reasons)


def reason(row: CausesRow, terms: Terms) -> str:
    """Say why so many devices give no more, with what that costs of a step."""
    found_cause, where = cause(row.cause).on(terms.device), f"on {terms.count(row.gpus)}"
    is_loaded = row.scope != COMPUTE
    step = f"a step{' with data loading' if is_loaded else ''} takes {_with_unit(row.whole_s, MILLISECONDS)}"
    by_steps = " by the time of steps" if row.is_by_steps else ""
    loading = "with data loading, " if is_loaded else ""
    efficiency = f"{loading}the efficiency {where}{by_steps} is {_with_unit(row.efficiency, PERCENT)}"
    if found_cause == NOTHING:
        return f"Less than {percent(NOTHING.least_share, 2)} is lost: {efficiency}."
    if found_cause == NO_CERTAIN_LOSS:
        return f"{found_cause.sentence} {capitalised(efficiency)}."
    if found_cause == UNKNOWN:
        one_device = f"1 {terms.device} alone{f', with {terms.samples} in memory,' if is_loaded else ''}"
        share = percent(row.efficiency.value, 2)
        largest_part = "We could not find out what takes the rest."
        if row.part:
            largest_part = (
                f"The largest part of the rest, by intervention, is {row.part}: {_with_unit(row.part_s, MILLISECONDS)}."
            )
        return f"{capitalised(where)}, {step}. {one_device} takes {share} of that{by_steps}. {largest_part}"
    cost = _with_unit(row.cost_s, MILLISECONDS)
    return f"{capitalised(found_cause.label)}. {found_cause.sentence} {capitalised(where)}, {step}; this costs {cost}."


def _with_unit(figure: Figure, unit: Unit) -> str:
    return estimate(figure, unit, with_unit=True, digits=_DIGITS)


def text(screen: FirstScreen) -> str:
    """The answer as a terminal shows it."""
    lines = [
        screen.sentence,
        *screen.notes,
        *(line for todo in screen.deciding for line in todo.lines),
        "",
        *aligned([screen.headings, *screen.rows]),
        "",
    ]
    lines += [f"Why not more: {screen.reason}"] if screen.reason else []
    lines += [f"To do: {advice.text}." for advice in screen.to_do]
    return "\n".join(lines).rstrip()


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
