"""Where the time of a step goes, as far as a study knows it that changed nothing in the step: by witnesses."""

from collections.abc import Iterator, Sequence

from dpscale.analyse.answer.answer import with_speedup
from dpscale.analyse.answer.claims import LONGER_THAN_MESSAGES
from dpscale.analyse.answer.series import of_configuration
from dpscale.formulas.figure import Figure
from dpscale.present.text.numbers import estimate
from dpscale.present.text.words import Terms, headline, in_order, ok
from dpscale.tables.answer import AnswerRow
from dpscale.tables.column import MILLISECONDS
from dpscale.tables.communication import CommunicationRow


def witnesses(rows: Sequence[CommunicationRow], answer: Sequence[AnswerRow], terms: Terms) -> str:
    """Say where the step of the answer on the most devices goes; where nothing is known of that, the last step that
    something is known of; "" where nothing is known."""
    longer = [row for row in in_order(headline(ok(rows))) if row.communication_step_s.is_known]
    witnessed = [row for row in longer if _has_witness(row)]
    if not witnessed:
        return ""
    answered = with_speedup(answer)[-1:]
    of_answer = of_configuration(witnessed, answered[0]) if answered else []
    return " ".join(_sentences((of_answer or witnessed)[-1], terms))


def _has_witness(row: CommunicationRow) -> bool:
    figures = row.ablation_step_s, row.isolated_step_s, row.logger_exposed_step_s
    return any(figure.is_known for figure in figures)


def _sentences(row: CommunicationRow, terms: Terms) -> Iterator[str]:
    longer = _ms(row.communication_step_s)
    yield f"With {terms.point(row)}, a step takes {longer} longer than on 1 {terms.device} alone (E1)."
    if row.ablation_step_s.is_known:
        yield f"Without its allreduce it is {_ms(row.ablation_step_s)} shorter (E2)."
    if row.logger_exposed_step_s.is_known:
        yield f"By DDP's own clock, {_ms(row.logger_exposed_step_s)} of the exchange lie after the backward pass (E4)."
    if row.isolated_step_s.is_known:
        yield f"Its messages take {_ms(row.isolated_step_s)} with nothing else running (E5)."
    if LONGER_THAN_MESSAGES.surely(row):
        waiting = f"{terms.devices} that wait, or transfers that take longer beside compute"
        yield f"So a part is not the messages: it is overhead of the host, {waiting}."


def _ms(figure: Figure) -> str:
    return estimate(figure, MILLISECONDS, with_unit=True, digits=3)
