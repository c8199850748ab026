"""What the data say of more devices: each a sentence with its numbers and the cells it rests on, or "".

A finding claims only what the 95 % intervals carry: "slower" is an interval that lies wholly below 1, and a
configuration without an interval supports no finding that compares.
"""

from collections.abc import Iterable
from itertools import product

from dpscale.analyse.answer.claims import COMMUNICATION, ENOUGH, PROFILER_LEFT_OUT, SLOWER, STRATEGIES, Outcome
from dpscale.analyse.answer.series import COMPUTE, END_TO_END, of_configuration
from dpscale.analyse.communication.estimators import DISTORTED_BEYOND
from dpscale.formulas.scaling import SLOWER_BY
from dpscale.present.findings.finding import among, by_batch, largest, smallest, where
from dpscale.present.text.numbers import ABSENT, estimate, measured, percent, plain
from dpscale.present.text.words import Terms, headline, in_order, listed, ok
from dpscale.tables.column import GB, MULTIPLES, PERCENT
from dpscale.tables.communication import CommunicationRow
from dpscale.tables.row import grouped
from dpscale.tables.timing import SpeedupRow, StrategyPairsRow, TimesRow


@where(SLOWER)
def more_devices_slower(slower: Outcome[SpeedupRow], terms: Terms) -> str:
    """Weak scaling: configurations whose speedup lies wholly below 1, and how many are below it, but not surely."""
    worst = smallest(slower.holding, lambda row: row.speedup.value)
    below = [row for row in slower.asked if row.speedup.value < 1 and row not in slower.holding]
    not_surely = f"; in {len(below):,} more they were slower, but not surely" if below else ""
    loading = ", with data loading" if worst.scope == END_TO_END else ""
    return (
        f"More {terms.devices} are surely slower than 1 in {among(slower, 'comparison')}{not_surely}. Of the sure ones "
        f"the slowest is {terms.point(worst)}{loading}: {estimate(worst.speedup, MULTIPLES, with_unit=True)}."
    )


def strategies_compared(rows: Iterable[StrategyPairsRow], terms: Terms) -> str:
    """Both outcomes, interval against interval: where the later strategy of the table is faster, and where it is
    slower."""
    pairs = grouped(rows, lambda row: (row.strategy, row.other_strategy)).values()
    told = []
    for pair, (outcome, claim) in product(pairs, STRATEGIES.items()):
        if (found := claim.of(pair)).holding:
            most = (largest if outcome == "faster" else smallest)(found.holding, lambda row: row.ratio)
            seconds = f"{plain(most.epoch_s.value, 3)} and {plain(most.other_epoch_s.value, 3)} s per epoch"
            told.append(
                f"{most.strategy} is surely {outcome} than {most.other_strategy} in {among(found, 'comparison')}, most "
                f"on {terms.count(most.gpus)} {terms.at_batch(most)}: {measured(most.ratio, MULTIPLES)} as fast, "
                f"{seconds}."
            )
    return " ".join(told)


def loaders_compared(rows: Iterable[StrategyPairsRow], terms: Terms) -> str:
    """That times with loading of two strategies differ for the number of their loader processes too."""
    loaded = (row for row in headline(rows) if row.scope == END_TO_END)
    unequal = (row for row in loaded if row.loader_processes != row.other_loader_processes)
    told = []
    for pairs in grouped(unequal, lambda row: (row.strategy, row.other_strategy)).values():
        numbers = {row.gpus: f"{row.loader_processes} and {row.other_loader_processes}" for row in pairs}
        on_gpus = [f"{both} on {terms.count(gpus)}" for gpus, both in sorted(numbers.items())]
        told.append(
            f"With data loading, {pairs[0].strategy} and {pairs[0].other_strategy} have different numbers of loader "
            f"processes: {listed(on_gpus)}. Their times with loading differ for that too."
        )
    return " ".join(told)


def batch_that_is_enough(times: Iterable[TimesRow], terms: Terms) -> str:
    """The smallest batch that is surely almost as fast as the best, on these devices."""
    told = []
    for rows in by_batch(times):
        known = [row for row in headline(rows) if row.of_best.is_known]
        if not known:
            continue
        found, best = ENOUGH.of(known), largest(known, lambda row: row.of_best.value)
        within = f"surely within {percent(SLOWER_BY, 1)} of the best throughput"
        where = f"With {terms.group(best)}{terms.environment(best)},"
        for row in found.holding[:1]:
            memory = [measured(one.peak_memory_bytes, GB) for one in (row, best)]
            less = f", with {memory[0]} of memory, not {memory[1]}" if ABSENT not in memory else ""
            share = f"{estimate(row.of_best, PERCENT, with_unit=True)} of that at {best.batch_per_gpu:,}"
            told.append(f"{where} batch {row.batch_per_gpu:,} is {within}: {share}{less}.")
        if found.asked and not found.holding:
            told.append(f"{where} no batch but {best.batch_per_gpu:,} is {within}.")
    return " ".join(told)


@where(COMMUNICATION)
def largest_communication_share(resolved: Outcome[CommunicationRow], terms: Terms) -> str:
    """The configuration that loses most of its epoch to what is not compute, where that is resolved."""
    most = largest(resolved.holding, lambda row: row.communication_share)
    return (
        f"Communication time is surely above zero in {among(resolved, 'configuration')}. Of these it takes most with "
        f"{terms.point(most)}: {percent(most.communication_share)} of the epoch."
    )


def strong_scaling(speedup: Iterable[SpeedupRow], terms: Terms) -> str:
    """On the most devices at the largest global batch, whatever it gains: without loading, and the same with it."""
    strong = in_order(row for row in headline(ok(speedup)) if row.scaling == "strong")
    in_memory = [row for row in strong if row.scope == COMPUTE]
    if not strong:
        return ""
    row = (in_memory or strong)[-1]
    gain = f"{estimate(row.speedup, MULTIPLES)} times as fast as 1"
    if not in_memory:
        gain += ", data loading counted"
    elif loaded := [other for other in of_configuration(strong, row) if other.scope == END_TO_END]:
        gain += f"; with data loading, {estimate(loaded[0].speedup, MULTIPLES)} times"
    return (
        f"With the global batch held at {row.global_batch:,} (strong scaling), {terms.count(row.gpus)} with "
        f"{row.strategy} are {gain}."
    )


@where(PROFILER_LEFT_OUT)
def profiler_left_out(left_out: Outcome[CommunicationRow], terms: Terms) -> str:
    """Of how many configurations the profiled step is no witness of the step."""
    return (
        f"Left out: {among(left_out, 'configuration')}. There the profiler makes the step more than "
        f"{percent(DISTORTED_BEYOND)} longer, or shows more exposed communication than the step has room for."
    )
