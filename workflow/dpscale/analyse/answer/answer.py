"""The answer's own figures: what every series gains, at the batch that is best supported."""

from collections.abc import Iterator, Sequence

from dpscale.analyse.answer.series import COMPUTE, best_of, configuration_of, weak_series
from dpscale.formulas.figure import UNKNOWN, ratio
from dpscale.strategies.known import BASELINE
from dpscale.tables.answer import AnswerRow
from dpscale.tables.timing import ScopesRow, SpeedupRow, TimesRow


def answer_rows(
    speedup: Sequence[SpeedupRow], times: Sequence[TimesRow], scopes: Sequence[ScopesRow]
) -> Iterator[AnswerRow]:
    """A row for every series."""
    loaded = {configuration_of(row): row for row in scopes}
    timed = {(configuration_of(row), row.scope): row for row in times if row.status == "ok"}
    for gains in weak_series(speedup).values():
        best = best_of(gains)
        scope, place = best.scope, configuration_of(best)
        beside = loaded.get(place) if scope == COMPUTE else None
        here = timed.get((place, scope))
        one = timed.get(((BASELINE, 1, best.batch_per_gpu, best.environment), scope))
        yield AnswerRow(
            **best.point,
            scope=scope,
            speedup=best.speedup,
            end_to_end_speedup=beside.end_to_end_speedup if beside else UNKNOWN,
            efficiency=best.efficiency,
            gpu_s_over_one=best.efficiency.map(lambda efficiency: 1 / efficiency),
            mfu=here.mfu if here else UNKNOWN,
            # Of separate runs: a job on several GPUs does not record what one of them takes alone.
            energy_over_one=ratio(here.energy_j.sure, one.energy_j.sure) if here and one else UNKNOWN,
        )
