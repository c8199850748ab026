"""Which formula foretells a step on more GPUs? Candidates compete on points that they have not seen.

Curves are those that others published (`published_scaling.yaml` beside this file, and the audited studies) and ours. Of
every curve each point is held out that has two smaller ones; a candidate is fitted on the smaller ones alone. Prints a
row for each, and the mean of the errors without their signs: of all, and of points beyond one node.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml

import dpscale

HERE = Path(__file__).parent
RECORDED = ("recorded", "recorded-h200-4")
# Seconds of a step by the number of GPUs: of one batch per GPU. Their scale does not matter.
Steps = Mapping[int, float]


@dataclass(frozen=True)
class Curve:
    """Steps of one batch per GPU; nodes have so many GPUs."""

    name: str
    gpus_per_node: int
    step_s: Steps


def line(over: Callable[[int], float], last: int | None = None) -> Callable[[Steps, int], float]:
    """a + d times `over` N: least squares of relative errors, through all points or the `last` ones."""

    def foretold(steps: Steps, gpus: int) -> float:
        numbers = sorted(steps)[-(last or 0) :]
        seconds = np.array([steps[n] for n in numbers])
        terms = np.array([[1.0, over(n)] for n in numbers]) / seconds[:, None]
        (a, d), *_ = np.linalg.lstsq(terms, np.ones(len(numbers)), rcond=None)
        return max(float(a + d * over(gpus)), min(steps.values()))

    return foretold


# What is added to a step: as many times d as there are GPUs (T = a/N + d of an epoch: Amdahl's law), their logarithm
# (a tree), what a ring sends of the gradient, or nothing.
CANDIDATES: Mapping[str, Callable[[Steps, int], float]] = {
    "unchanged": lambda steps, gpus: steps[max(steps)],
    "a/N + d, all": line(float),
    "a/N + d, last two": line(float, last=2),
    "log N, last two": line(np.log2, last=2),
    "ring, last two": line(lambda n: (n - 1) / n, last=2),
}


def published_curves() -> Iterator[Curve]:
    """Those of the file beside this one."""
    for row in yaml.safe_load((HERE / "published_scaling.yaml").read_text()):
        if "training_s" in row:
            steps = {n: n * seconds for n, seconds in row["training_s"].items()}
        else:
            steps = {n: n / rate for n, rate in row["samples_per_s"].items()}
        yield Curve(row["curve"], row["gpus_per_node"], steps)


def audited_curves() -> Iterator[Curve]:
    """Epochs of the audited studies, which all ran on one node."""
    for path in sorted((HERE.parent / "config/published").glob("*.yaml")):
        study = yaml.safe_load(path.read_text())
        for batch, epochs in study["epoch_s"].items():
            steps = {n: n * seconds for n, seconds in epochs.items() if seconds}
            if isinstance(batch, int) and len(steps) > 2:
                yield Curve(f"{study['id']}, batch {batch}", max(steps), steps)


def recorded_curves() -> Iterator[Curve]:
    """ddp's steps of the recorded studies with four GPUs."""
    for name in RECORDED:
        times = dpscale.load(name).times.query("scope == 'compute' and strategy in ('single', 'ddp')")
        for (environment, batch), rows in times.groupby(["environment", "batch_per_gpu"]):
            steps = dict(zip(rows.gpus, rows.step_s, strict=True))
            if len(steps) > 2:
                yield Curve(f"{name} {environment}, batch {batch}", max(steps), steps)


def curves() -> Iterator[Curve]:
    """All of them, those once that two studies print."""
    seen: list[Steps] = []
    for curve in (*published_curves(), *audited_curves(), *recorded_curves()):
        if curve.step_s not in seen:
            seen.append(curve.step_s)
            yield curve


def errors(curve: Curve) -> Iterator[tuple[int, list[float]]]:
    """Every held-out number of GPUs, with each candidate's error of the step there, in its order."""
    for gpus in sorted(curve.step_s)[2:]:
        seen = {n: seconds for n, seconds in curve.step_s.items() if n < gpus}
        yield gpus, [candidate(seen, gpus) / curve.step_s[gpus] - 1 for candidate in CANDIDATES.values()]


def table() -> Iterator[str]:
    yield f"| curve | fitted on | held out | {' | '.join(CANDIDATES)} |"
    yield "|---" * (3 + len(CANDIDATES)) + "|"
    every, beyond = [], []
    for curve in curves():
        for gpus, row in errors(curve):
            every.append(row)
            beyond += [row] if gpus > curve.gpus_per_node else []
            seen = ", ".join(str(n) for n in sorted(curve.step_s) if n < gpus)
            yield f"| {curve.name} | {seen} | {gpus} | {' | '.join(f'{100 * error:+.1f} %' for error in row)} |"
    for name, rows in (("all", every), ("beyond one node", beyond)):
        means = np.abs(rows).mean(axis=0)
        yield f"| mean without signs | | {name}: {len(rows)} | {' | '.join(f'{100 * mean:.1f} %' for mean in means)} |"


if __name__ == "__main__":
    print("\n".join(table()))
