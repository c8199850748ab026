"""Laws of scaling scored on trainings that others published: fitted within a node, asked for more nodes.

The batch per GPU is fixed and the epochs are as many on any number of GPUs, so a time of a whole training scales as an
epoch does: S(N) = T(1)/T(N).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from dpscale.analyse.forecast.laws import LawFit, fit_laws
from dpscale.formulas import scaling
from dpscale.formulas.figure import Figure
from dpscale.tables.forecast import PublishedScalingRow

# What is guessed without any law: the efficiency on the most GPUs of a node stays.
UNCHANGED = "unchanged"


def published_scaling_rows(audits: Iterable[Mapping[str, Any]]) -> Iterator[PublishedScalingRow]:
    """A row per law and number of GPUs beyond a node, and one for `unchanged`, of every published series."""
    for audit in audits:
        series: dict[int, dict[int, float]] = {}
        for time in audit.get("training_times", ()):
            series.setdefault(time["batch_per_gpu"], {})[time["gpus"]] = float(time["printed"])
        for batch, training_s in series.items():
            for row in _scored(training_s, audit["gpus_per_node"]):
                yield replace(row, study=audit["id"], title=audit["title"], batch_per_gpu=batch)


def _scored(training_s: Mapping[int, float], gpus_per_node: int) -> Iterator[PublishedScalingRow]:
    single_s = training_s[1]
    known = [gpus for gpus in sorted(training_s) if gpus <= gpus_per_node]
    fitted = fit_laws({gpus: Figure(scaling.speedup(single_s, training_s[gpus])) for gpus in known if gpus > 1})
    for gpus in sorted(set(training_s) - set(known)):
        unchanged_s = training_s[known[-1]] * known[-1] / gpus
        row = PublishedScalingRow(
            gpus=gpus,
            nodes=-(-gpus // gpus_per_node),
            fitted_on_gpus=", ".join(map(str, known)),
            training_s=training_s[gpus],
        )
        unchanged = _with_score(replace(row, law=UNCHANGED), unchanged_s)
        for fit in fitted:
            yield _of_law(row, fit, single_s, unchanged)
        yield unchanged


def _of_law(
    row: PublishedScalingRow, fit: LawFit, single_s: float, unchanged: PublishedScalingRow
) -> PublishedScalingRow:
    """Not available where the points do not identify the law, or where it foresees no speedup at all."""
    row, speedup = replace(row, law=fit.law.name), fit.predict(row.gpus).value
    if not speedup > 0:
        reason = f"too few points within a node for {len(fit.law.parameters)} parameters"
        return replace(row, status="not available", reason=reason)
    scored = _with_score(row, single_s / speedup)
    beats = abs(scored.relative_error) < abs(unchanged.relative_error)
    return replace(scored, beats_unchanged="yes" if beats else "no")


def _with_score(row: PublishedScalingRow, predicted_s: float) -> PublishedScalingRow:
    return replace(row, status="ok", predicted_training_s=predicted_s, relative_error=predicted_s / row.training_s - 1)
