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
    """Say in how many configurations of a weak series more devices are slower than one, surely and probably, and in
    how many faster; and name the slowest of those that surely are."""
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
        outcome = claim.of(rows)
        counts += [f"{words} in {outcome.number:,}"] if outcome.holding else []
    loading = ", with data loading" if slowest.scope == END_TO_END else ""
    return (
        f"Of {plural(SURELY_FASTER.of(rows).of, 'comparison')}, more {terms.devices} are {joined(counts)}. Surely "
        f"slowest is {terms.point(slowest)}{loading}: "
        f"{estimate(slowest.speedup, MULTIPLES, with_unit=True)}."
    )


def strategies_compared(rows: Iterable[StrategyPairsRow], terms: Terms) -> str:
    """Say where the later strategy of the table is faster, and where it is slower, interval against interval; and where
    it probably is."""
    pairs = grouped(rows, lambda row: (row.strategy, row.other_strategy)).values()
    sentences = []
    for pair, (outcome, claim) in product(pairs, STRATEGIES.items()):
        surely = claim.of(pair)
        if surely.holding:
            farthest = largest if outcome == "faster" else smallest
            most = farthest(surely.holding, lambda row: row.ratio)
            seconds = f"{plain(most.epoch_s.value, 3)} and {plain(most.other_epoch_s.value, 3)} s per epoch"
            probably = PROBABLY_STRATEGIES[outcome].of(pair)
            more = f" and probably in {probably.number:,} more" if probably.holding else ""
            sentences.append(
                f"{most.strategy} is surely {outcome} than {most.other_strategy} in {surely.number:,} of "
                f"{plural(probably.of, 'comparison')}{more}, most on {terms.count(most.gpus)} {terms.at_batch(most)}: "
                f"{measured(most.ratio, MULTIPLES)} as fast, {seconds}."
            )
    return " ".join(sentences)


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
    """Name the smallest batch that is surely almost as fast as the best, on these devices."""
    sentences = []
    for rows in by_batch(times):
        measured_rows = [row for row in headline(rows) if row.of_best.is_known]
        if not measured_rows:
            continue
        enough, best = ENOUGH.of(measured_rows), largest(measured_rows, lambda row: row.of_best.value)
        within = f"surely within {percent(SLOWER_BY, 1)} of the best throughput"
        where = f"With {terms.group(best)}{terms.environment(best)},"
        for row in enough.holding[:1]:
            memory, memory_of_best = measured(row.peak_memory_bytes, GB), measured(best.peak_memory_bytes, GB)
            is_known = ABSENT not in (memory, memory_of_best)
            less = f", with {memory} of memory, not {memory_of_best}" if is_known else ""
            share = f"{estimate(row.of_best, PERCENT, with_unit=True)} of that at {best.batch_per_gpu:,}"
            sentences.append(f"{where} batch {row.batch_per_gpu:,} is {within}: {share}{less}.")
        if enough.asked and not enough.holding:
            sentences.append(f"{where} no batch but {best.batch_per_gpu:,} is {within}.")
    return " ".join(sentences)


def largest_communication_share(rows: Sequence[CommunicationRow], terms: Terms) -> str:
    """Name the configuration that loses most of its epoch to what is not compute, where that is resolved."""
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
    """Say what the most devices gain at the largest global batch: without loading, and with it."""
    strong = in_order(row for row in headline(ok(speedup)) if row.scaling == "strong")
    in_memory = [row for row in strong if row.scope == COMPUTE]
    if not strong:
        return ""
    row = (in_memory or strong)[-1]
    loaded = [loaded_row for loaded_row in of_configuration(strong, row) if loaded_row.scope == END_TO_END]
    times_as_fast = f"{estimate(row.speedup, MULTIPLES)} times as fast as 1"
    if not in_memory:
        times_as_fast += ", data loading counted"
    elif loaded:
        times_as_fast += f"; with data loading, {estimate(loaded[0].speedup, MULTIPLES)} times"
    return (
        f"With the global batch held at {row.global_batch:,} (strong scaling), {terms.count(row.gpus)} with "
        f"{row.strategy} are {times_as_fast}."
    )


@where(PROFILER_LEFT_OUT)
def profiler_left_out(left_out: Outcome[CommunicationRow], terms: Terms) -> str:
    """Say how many configurations have a profiled step that is no witness of the step."""
    return (
        f"Left out: {among(left_out, 'configuration')}. There the profiler makes the step more than "
        f"{percent(DISTORTED_BEYOND)} longer, or shows more exposed communication than the step has room for."
    )
