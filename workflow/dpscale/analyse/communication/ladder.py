"""Where the time of a step goes, by intervention: what every rung of the ladder adds to the one before it.

A ladder has one scale, the step of one GPU alone, and per rung a ratio to it: in every record the median over its
rounds, since what drifts from round to round hits both sides. Ratios are averaged over servers as they are, not as
logarithms, so differences of rungs are differences of their means: they add up to the loss exactly, and each has the
interval of its own differences. A rung's time is the scale times its ratio. The scale is t(1,b) of the timing cells
where that was measured, so that a ladder stands on the times of its study; otherwise it is the ladder's own first rung.
Intervals hold at this scale, whose own interval is that of the first rung.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from operator import truediv
from statistics import median

from dpscale.analyse.communication.estimators import StepsByConfiguration
from dpscale.analyse.timing.points import Points, point_fields
from dpscale.formulas import OnServer
from dpscale.formulas.figure import UNKNOWN, Figure, estimate_of_blocks, estimate_of_runs, multiplied
from dpscale.formulas.statistics import median_of_blocks
from dpscale.plan.cells import Configuration
from dpscale.records.kinds import CommunicationRecord
from dpscale.strategies.known import BASELINE, strategy
from dpscale.strategies.strategy import ALONE, WHOLE
from dpscale.tables.communication import LadderRow

# Rungs whose ranks wait for nobody. With a hook that does nothing, they still wait for the buffers of the first one.
APART = ("together", "no_sync")


def ladders(steps: StepsByConfiguration, points: Points) -> Iterator[LadderRow]:
    """Yield the ladder of every configuration, at the step of one GPU that the timing cells have."""
    for (configuration, environment), records in sorted(steps.items()):
        single = Configuration(BASELINE, 1, configuration.batch_per_gpu)
        point = points.get((single, "compute", environment))
        yield from ladder_rows(configuration, environment, records, point.step if point else UNKNOWN)


def ladder_rows(
    configuration: Configuration, environment: str, records: Sequence[CommunicationRecord], alone_s: Figure = UNKNOWN
) -> Iterator[LadderRow]:
    """Yield a row for every rung. Records without a ladder do not count. `alone_s` is the scale: t(1,b), if it is
    known."""
    # Where records differ in their rungs, as older ones may, those with the most are one ladder.
    rungs = max(map(rungs_of, records), key=len, default=())
    complete = [record for record in records if rungs and rungs_of(record) == rungs]
    if not complete:
        return
    timings = {rung: {record.block: record.variants[rung].step_s for record in complete} for rung in rungs}
    baseline = alone_s if alone_s.is_known else estimate_of_runs(timings[ALONE])
    ratios = {
        rung: {run: median(map(truediv, steps_s, timings[ALONE][run])) for run, steps_s in timings[rung].items()}
        for rung in rungs
    }

    def mean(values: Mapping[OnServer, float]) -> Figure:
        return multiplied(estimate_of_blocks(values, "linear"), baseline.value)

    def beyond(rung: str, lower: str) -> Figure:
        return mean({run: ratio - ratios[lower][run] for run, ratio in ratios[rung].items()})

    steps = {rung: baseline if rung == ALONE else mean(ratios[rung]) for rung in rungs}
    for order, (before, rung) in enumerate(pairwise(("", *rungs))):
        row = LadderRow(
            **point_fields(configuration, environment),
            rung=rung,
            order=order,
            runs=len(complete),
            step_s=steps[rung],
            share=steps[rung].value / steps[WHOLE].value,
        )
        if before:
            difference = beyond(rung, before)
            row = replace(
                row,
                difference_s=difference,
                adds=strategy(configuration.strategy).added(before, rung),
                share=difference.value / steps[WHOLE].value,
                beyond_alone_s=beyond(rung, ALONE),
            )
        yield _with_slowest(row, complete) if rung == APART[0] else row


def rungs_of(record: CommunicationRecord) -> tuple[str, ...]:
    """Return the record's rungs in their order; none where it has no whole ladder: version 1 has none, memory may have
    run out, and a strategy may have no more than its whole step."""
    controls = strategy(record.cell.strategy).controls
    rungs = tuple(name for name in record.variants if name not in controls)
    return rungs if rungs and (rungs[0], rungs[-1]) == (ALONE, WHOLE) and len(rungs) > 1 else ()


def _with_slowest(row: LadderRow, records: Sequence[CommunicationRecord]) -> LadderRow:
    """Return the row with the slowest rank of steps in which none waits for another, by its name, and what it takes
    longer than the fastest one: round by round, of all records. Means of steps where a record has them: medians do not
    see a rank that is stopped now and then."""
    differences, names = [], set()
    for record in records:
        blocks = [record.variants[rung] for rung in APART if rung in record.variants]
        rounds = [
            [step_s for step_s in ranks if step_s is not None]  # No rank of these rungs waits for another.
            for block in blocks
            for ranks in block.rank_block_step_s or block.rank_step_s or ()
        ]
        steps = [median(seconds) for seconds in zip(*rounds, strict=True)]
        slow, fast = steps.index(max(steps)), steps.index(min(steps))
        differences += [ranks[slow] - ranks[fast] for ranks in rounds]
        nodes = record.nodes or []
        host = f" on {nodes[slow * len(nodes) // len(steps)].hardware.host}" if nodes else ""
        names.add(f"rank {slow}{host}")
    return replace(row, uneven_s=median_of_blocks(differences), slowest="; ".join(sorted(names)))
