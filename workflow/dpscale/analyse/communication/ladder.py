"""Where the time of a step goes, by intervention: what every rung of the ladder adds to the one before it.

Figures of a communication record are medians over its rounds, and differences are differences of these: in every
record they add up to the whole step less the step of one GPU alone. Means over records then add up too.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from math import nan
from statistics import fmean, median

from dpscale.analyse.communication.measured import Measurements
from dpscale.analyse.timing.blocks import run_name
from dpscale.analyse.timing.points import Points, point_fields
from dpscale.formulas.statistics import estimate_of_blocks, repeatability
from dpscale.plan.cells import Configuration
from dpscale.records.files import Record
from dpscale.strategies.known import strategy
from dpscale.strategies.strategy import ALONE, WHOLE
from dpscale.tables.communication import LadderRow


def rungs_of(record: Record) -> tuple[str, ...]:
    """The record's rungs in their order, none where it has no whole ladder: version 1 has none, memory may have run
    out, and a strategy may have no more than its whole step."""
    variants = (record["steps"] or {"variants": {}})["variants"]
    controls = strategy(record["cell"]["strategy"]).controls
    rungs = tuple(name for name in variants if name not in controls)
    return rungs if rungs and (rungs[0], rungs[-1]) == (ALONE, WHOLE) and len(rungs) > 1 else ()


def ladders(measured: Measurements, points: Points) -> Iterator[LadderRow]:
    """The ladder of every configuration, and its parts of the timing cell's step."""
    for (configuration, environment), records in sorted(measured.steps.items()):
        point = points.get((configuration, "compute", environment))
        yield from ladder_rows(configuration, environment, records, point.step.value if point else nan)


def ladder_rows(
    configuration: Configuration, environment: str, records: Sequence[Record], headline_step_s: float
) -> Iterator[LadderRow]:
    """A row for every rung. Records without a ladder do not count.

    `headline_step_s` is the step of the timing cell, NaN where there is none: parts of it are in proportion.
    """
    # Where records differ in their rungs, as older ones may, those with the most are one ladder.
    rungs = max(map(rungs_of, records), key=len, default=())
    complete = [record for record in records if rungs and rungs_of(record) == rungs]
    if not complete:
        return
    label = f"{configuration} {environment}"
    timings = {rung: [record["steps"]["variants"][rung]["step_s"] for record in complete] for rung in rungs}
    runs = [run_name(record) for record in complete]
    steps = {rung: dict(zip(runs, map(median, timings[rung]), strict=True)) for rung in rungs}
    alone_s, whole_s = (fmean(steps[rung].values()) for rung in (ALONE, WHOLE))
    for order, (before, rung) in enumerate(pairwise(("", *rungs))):
        step = estimate_of_blocks(steps[rung], f"{rung} {label}", "linear")
        row = LadderRow(
            **point_fields(configuration, environment),
            rung=rung,
            order=order,
            repeatability=repeatability(timings[rung]),
            records=len(complete),
            rounds=sum(map(len, timings[rung])),
            step_s=step,
            share=step.value / whole_s,
            headline_step_s=headline_step_s,
            part_of_headline_s=step.value / whole_s * headline_step_s,
            reached_of_headline_s=step.value / whole_s * headline_step_s,
            beyond_alone_s=(step.value - alone_s) / whole_s * headline_step_s,
        )
        if before:
            added_s = {run: steps[rung][run] - steps[before][run] for run in runs}
            difference = estimate_of_blocks(added_s, f"{rung} after {before} {label}", "linear")
            row = replace(
                row,
                difference_s=difference,
                adds=strategy(configuration.strategy).added(before, rung),
                share=difference.value / whole_s,
                part_of_headline_s=difference.value / whole_s * headline_step_s,
            )
        yield row
