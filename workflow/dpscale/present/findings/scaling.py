"""What the data say of more devices: each a sentence with its numbers and the cells it rests on, or "".

"Surely" is what the 95 % intervals carry: "surely slower" is an interval that lies wholly below 1. "Probably" is said
of values that no interval carries.
"""

from collections.abc import Iterable, Sequence
from itertools import product

from dpscale.analyse.answer.claims import (
    COMMUNICATION,
    ENOUGH,
    PROBABLY_COMMUNICATION,
    PROBABLY_FASTER,
    PROBABLY_SLOWER,
    PROBABLY_STRATEGIES,
    PROFILER_LEFT_OUT,
    SLOWER,
    STRATEGIES,
    SURELY_FASTER,
    Outcome,
)
from dpscale.analyse.answer.series import COMPUTE, END_TO_END, of_configuration
from dpscale.analyse.communication.estimators import DISTORTED_BEYOND
from dpscale.formulas.scaling import SLOWER_BY
from dpscale.present.findings.finding import among, by_batch, largest, smallest, where
from dpscale.present.text.numbers import ABSENT, estimate, measured, percent, plain
from dpscale.present.text.words import Terms, headline, in_order, joined, listed, ok, plural
from dpscale.tables.column import GB, MULTIPLES, PERCENT
from dpscale.tables.communication import CommunicationRow
from dpscale.tables.row import grouped
from dpscale.tables.timing import SpeedupRow, StrategyPairsRow, TimesRow


def more_devices_slower(rows: Sequence[SpeedupRow], terms: Terms) -> str:
    """Weak scaling: in how many configurations more devices are slower than one, surely and probably, and in how many
    faster; and the slowest of those that surely are."""
    slower = SLOWER.of(rows)
    if not slower.holding:
        return ""
    slowest = smallest(slower.holding, lambda row: row.speedup.value)
    counts = [f"surely slower than 1 {terms.device} in {slower.number:,}"]
    for words, claim in (
        ("probably slower", PROBABLY_SLOWER),
        ("surely faster", SURELY_FASTER),
        ("probably faster", PROBABLY_FASTER),
    ):
        counts += [f"{words} in {claim.of(rows).number:,}"] if claim.of(rows).holding else []
    loading = ", with data loading" if slowest.scope == END_TO_END else ""
    return (
        f"Of {plural(SURELY_FASTER.of(rows).of, 'comparison')}, more {terms.devices} are {joined(counts)}. Surely "
        f"slowest is {terms.point(slowest)}{loading}: "
        f"{estimate(slowest.speedup, MULTIPLES, with_unit=True)}."
    )


def strategies_compared(rows: Iterable[StrategyPairsRow], terms: Terms) -> str:
    """Both outcomes, interval against interval: where the later strategy of the table is faster, and where it is
    slower; and where it probably is."""
    pairs = grouped(rows, lambda row: (row.strategy, row.other_strategy)).values()
    told = []
    for pair, (outcome, claim) in product(pairs, STRATEGIES.items()):
        if (found := claim.of(pair)).holding:
            most = (largest if outcome == "faster" else smallest)(found.holding, lambda row: row.ratio)
            seconds = f"{plain(most.epoch_s.value, 3)} and {plain(most.other_epoch_s.value, 3)} s per epoch"
            probably = PROBABLY_STRATEGIES[outcome].of(pair)
            more = f" and probably in {probably.number:,} more" if probably.holding else ""
            told.append(
                f"{most.strategy} is surely {outcome} than {most.other_strategy} in {found.number:,} of "
                f"{plural(probably.of, 'comparison')}{more}, most on {terms.count(most.gpus)} {terms.at_batch(most)}: "
                f"{measured(most.ratio, MULTIPLES)} as fast, {seconds}."
            )
    return " ".join(told)


def loaders_compared(times: Iterable[TimesRow], terms: Terms) -> str:
    """Say that times with loading rest on different numbers of loader processes, where they do."""
    loaded = [row for row in in_order(headline(times)) if row.scope == END_TO_END and row.loader_processes]
    processes = {(row.strategy, row.gpus): row.loader_processes for row in loaded}
    if len(set(processes.values())) < 2:
        return ""
    numbers = [f"{name} on {terms.count(gpus)} {number}" for (name, gpus), number in processes.items()]
    return (
        f"With data loading, the numbers of loader processes are different: {listed(numbers)}. Speedups and times with "
        "loading differ for that too."
    )


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


def largest_communication_share(rows: Sequence[CommunicationRow], terms: Terms) -> str:
    """The configuration that loses most of its epoch to what is not compute, where that is resolved."""
    resolved, probably = COMMUNICATION.of(rows), PROBABLY_COMMUNICATION.of(rows)
    if not resolved.holding:
        return ""
    most = largest(resolved.holding, lambda row: row.communication_share)
    more = f" and probably in {probably.number:,} more" if probably.holding else ""
    return (
        f"Communication time is surely above zero in {resolved.number:,} of {plural(probably.of, 'configuration')}"
        f"{more}. Of the sure ones it takes most with {terms.point(most)}: {percent(most.communication_share)} of the "
        "epoch."
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
