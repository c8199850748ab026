"""Laws of scaling scored on trainings that others published: fitted within a node, asked for more nodes.

The batch per GPU is fixed and the epochs are as many on any number of GPUs, so a time of a whole training scales as an
epoch does: S(N) = T(1)/T(N).
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from dpscale.analyse.forecast.laws import LAWS, LawFit, fit_laws, predict
from dpscale.analyse.points import Row
from dpscale.formulas import scaling
from dpscale.formulas.figure import Figure

# What is guessed without any law: the efficiency on the most GPUs of a node stays.
UNCHANGED = "unchanged"


def published_scaling_rows(audits: Iterable[Mapping[str, Any]]) -> Iterator[Row]:
    """A row per law and number of GPUs beyond a node, and one for `unchanged`, of every published series."""
    for audit in audits:
        series: dict[int, dict[int, float]] = {}
        for time in audit.get("training_times", ()):
            series.setdefault(time["batch_per_gpu"], {})[time["gpus"]] = float(time["printed"])
        for batch, training_s in series.items():
            place = {"study": audit["id"], "title": audit["title"], "batch_per_gpu": batch}
            for row in _scored(training_s, audit["gpus_per_node"]):
                yield {**place, **row}


def _scored(training_s: Mapping[int, float], gpus_per_node: int) -> Iterator[Row]:
    single_s = training_s[1]
    known = {gpus: seconds for gpus, seconds in sorted(training_s.items()) if gpus <= gpus_per_node}
    fitted = fit_laws({
        gpus: Figure(scaling.speedup(single_s, seconds)) for gpus, seconds in known.items() if gpus > 1
    })  # fmt: skip
    for gpus, measured_s in sorted(training_s.items()):
        if gpus <= gpus_per_node:
            continue
        most = max(known)
        unchanged_s = known[most] * most / gpus
        predicted_s = {fit.law: _predicted_s(fit, gpus, single_s) for fit in fitted} | {UNCHANGED: unchanged_s}
        for law, seconds in predicted_s.items():
            yield {
                "gpus": gpus,
                "nodes": -(-gpus // gpus_per_node),
                "fitted_on_gpus": ", ".join(map(str, known)),
                "law": law,
                "training_s": measured_s,
                **_score(seconds, unchanged_s, measured_s, law),
            }


def _predicted_s(fit: LawFit, gpus: int, single_s: float) -> float | None:
    """The time on N GPUs; None where the points do not identify the law, or where it foresees no speedup at all."""
    speedup = predict(fit, gpus)
    return single_s / speedup.value if speedup and speedup.value > 0 else None


def _score(predicted_s: float | None, unchanged_s: float, measured_s: float, law: str) -> Row:
    if predicted_s is None:
        parameters = len(next(candidate.parameters for candidate in LAWS if candidate.name == law))
        return {"status": "not available", "reason": f"too few points within a node for {parameters} parameters"}
    error, unchanged = (seconds / measured_s - 1 for seconds in (predicted_s, unchanged_s))
    row: Row = {"status": "ok", "predicted_training_s": predicted_s, "relative_error": error}
    return row if law == UNCHANGED else {**row, "beats_unchanged": "yes" if abs(error) < abs(unchanged) else "no"}
