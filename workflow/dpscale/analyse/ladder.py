"""Where the time of a step goes, by intervention: what every rung of the ladder adds to the one before it.

Figures of a communication record are medians over its rounds, and differences are differences of these: in every
record they add up to the whole step less the step of one GPU alone. Means over records then add up too.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import fmean, median
from typing import Any

from dpscale.analyse.blocks import run_name
from dpscale.analyse.points import Row, figures
from dpscale.formulas.statistics import estimate_of_blocks, repeatability
from dpscale.plan.cells import Configuration
from dpscale.records.files import Record
from dpscale.strategies.known import strategy
from dpscale.strategies.strategy import ALONE, WHOLE


def rungs_of(record: Record) -> tuple[str, ...]:
    """The record's rungs in their order, none where it has no whole ladder: version 1 has none, memory may have run
    out, and a strategy may have no more than its whole step."""
    variants = (record["steps"] or {"variants": {}})["variants"]
    controls = strategy(record["cell"]["strategy"]).controls
    rungs = tuple(name for name in variants if name not in controls)
    return rungs if rungs and (rungs[0], rungs[-1]) == (ALONE, WHOLE) and len(rungs) > 1 else ()


def ladder_rows(
    configuration: Configuration, environment: str, records: Sequence[Record], headline_step_s: float | None
) -> Iterator[Row]:
    """A row for every rung. Records without a ladder do not count.

    `headline_step_s` is the step of the timing cell, None where there is none: parts of it are in proportion.
    """
    # Where records differ in their rungs, as older ones may, those with the most are one ladder.
    rungs = max(map(rungs_of, records), key=len, default=())
    complete = [record for record in records if rungs and rungs_of(record) == rungs]
    if not complete:
        return
    label = f"{configuration} {environment}"
    steps = {rung: {run_name(record): _step_s(record, rung) for record in complete} for rung in rungs}
    alone_s, whole_s = (fmean(steps[rung].values()) for rung in (ALONE, WHOLE))
    for order, (before, rung) in enumerate(pairwise(("", *rungs))):
        step = estimate_of_blocks(steps[rung], f"{rung} {label}", "linear")
        found, part_s = {"step_s": step}, step.value
        row: Row = {
            "strategy": configuration.strategy,
            "gpus": configuration.gpus,
            "batch_per_gpu": configuration.batch_per_gpu,
            "global_batch": configuration.global_batch,
            "environment": environment,
            "rung": rung,
            "order": order,
            "repeatability": repeatability([record["steps"]["variants"][rung]["step_s"] for record in complete]),
            "records": len(complete),
            "rounds": sum(len(record["steps"]["variants"][rung]["step_s"]) for record in complete),
        }
        if before:
            added = {run: steps[rung][run] - steps[before][run] for run in steps[rung]}
            found["difference_s"] = estimate_of_blocks(added, f"{rung} after {before} {label}", "linear")
            part_s = found["difference_s"].value
            row["adds"] = strategy(configuration.strategy).added(before, rung)
        row |= figures(found)
        row["share"] = part_s / whole_s
        if headline_step_s is not None:
            row |= {
                "headline_step_s": headline_step_s,
                "part_of_headline_s": part_s / whole_s * headline_step_s,
                "reached_of_headline_s": step.value / whole_s * headline_step_s,
                "beyond_alone_s": (step.value - alone_s) / whole_s * headline_step_s,
            }
        yield row


def _step_s(record: Mapping[str, Any], rung: str) -> float:
    return float(median(record["steps"]["variants"][rung]["step_s"]))
