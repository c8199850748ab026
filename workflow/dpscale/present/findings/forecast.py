"""What is said of more devices than were measured: how the forecast did in its test, then the forecast, or why not."""

from collections.abc import Iterator, Sequence

from dpscale.analyse.forecast.forecast import FORECAST
from dpscale.present.findings.finding import largest
from dpscale.present.text.numbers import measured, percent
from dpscale.present.text.words import Terms, capitalised, listed, ok
from dpscale.tables.column import PERCENT
from dpscale.tables.forecast import ForecastRow, HeldOutRow
from dpscale.tables.row import grouped


def forecast_said(held_out: Sequence[HeldOutRow], forecast: Sequence[ForecastRow], terms: Terms) -> str:
    """A test and an outcome for every environment."""
    said: list[str] = []
    for environment, rows in grouped(forecast, lambda row: row.environment).items():
        said.extend(_test([row for row in held_out if row.environment == environment], terms))
        said.extend(_outcome(rows, terms))
    return " ".join(said) or f"There is no forecast: {FORECAST} was not measured on several {terms.devices}."


def _test(rows: Sequence[HeldOutRow], terms: Terms) -> Iterator[str]:
    """`Our forecast of the step on 4 GPUs is at most 8.3 % off. Reusing the step on 2 GPUs is at most 8.7 % off.`"""
    if not rows:
        return
    on, of = listed(sorted({str(row.gpus) for row in rows})), listed(sorted({str(row.fewer_gpus) for row in rows}))
    model = largest(rows, lambda row: abs(row.relative_error)).relative_error
    unchanged = largest(rows, lambda row: abs(row.unchanged_relative_error)).unchanged_relative_error
    yield (
        f"Our forecast of the step on {on} {terms.devices}{terms.environment(rows[0])} is at most {percent(model)} off."
    )
    yield f"Reusing the step on {of} {terms.devices} is at most {percent(unchanged)} off."


def _outcome(rows: Sequence[ForecastRow], terms: Terms) -> Iterator[str]:
    """`Forecast for 8 GPUs: efficiency 79.0 % at batch 32, 99.0 % at 512.`, with the two ends alone."""
    predicted = ok(rows)
    if not predicted:
        for row in rows:
            yield f"There is no forecast for more {terms.devices}{terms.environment(row)}: {row.reason}."
        return
    ends = [f"{measured(row.efficiency, PERCENT)} at batch {row.batch_per_gpu:,}" for row in predicted]
    shown = ends if len(ends) < 3 else [ends[0], ends[-1]]
    first = predicted[0]
    yield f"Forecast for {terms.count(first.gpus)}{terms.environment(first)}: efficiency {listed(shown)}."
    if first.reason:
        yield f"{capitalised(first.reason)}."
