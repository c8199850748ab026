"""Questions that courses ask since 2026, beside the assignment's: what each way to exchange gradients brings, and what
a step needs of memory. A section is there where its strategies and settings were measured."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import isnan, nan
from operator import attrgetter

from dpscale.analyse.answer import COMPUTE, configuration_of
from dpscale.analyse.answer.claims import STRATEGIES
from dpscale.formulas.figure import UNKNOWN, Figure
from dpscale.plan.study import BASE
from dpscale.present.charts.exchange import EXCHANGES, exchange, is_compared
from dpscale.present.charts.memory import PARTS, named, parts_of
from dpscale.present.charts.memory import memory as memory_chart
from dpscale.present.handin_questions import Section
from dpscale.present.text.numbers import ABSENT, in_unit, recomputable
from dpscale.present.text.sentences import paragraphs
from dpscale.present.text.table import ShownColumn, ShownTable
from dpscale.present.text.words import Terms, in_order, ok
from dpscale.strategies.known import BASELINE
from dpscale.tables.column import MB, MILLISECONDS, PERCENT, PLAIN
from dpscale.tables.memory import MemoryRow
from dpscale.tables.row import grouped, in_groups
from dpscale.tables.tables import Tables
from dpscale.tables.timing import StrategyPairsRow, TimesRow


def sections_of_2026(tables: Tables, environment: str, terms: Terms) -> Iterator[Section]:
    """Yield the questions that the tables of an environment answer."""
    times = [row for row in ok(tables.times) if (row.scope, row.environment) == (COMPUTE, environment)]
    pairs = [row for row in tables.strategy_pairs if (row.scope, row.environment) == (COMPUTE, environment)]
    networks = [
        row
        for row in tables.networks
        if (row.scope, row.environment) == (COMPUTE, environment) and row.speedup.is_known
    ]
    other_networks = {row.variant for row in tables.networks} - {BASE}
    memory = [row for row in tables.memory if row.environment == environment and row.variant not in other_networks]
    if is_compared(times):
        yield _exchange(times, pairs, terms)
    if networks:
        on_most = in_groups(networks, lambda row: (-row.gpus, row.batch_per_gpu))[0]
        yield Section("networks", paragraphs("handin", "networks", terms, rows=on_most))
    if any(row.variant != BASE or row.strategy not in (BASELINE, "dp", "ddp") for row in memory):
        yield _memory(memory, _times_as_long(tables, environment), terms)


def _exchange(times: Sequence[TimesRow], pairs: Sequence[StrategyPairsRow], terms: Terms) -> Section:
    """Return the step time of every exchange beside that of one device, and what each changes at the smallest batch."""
    by_place = grouped((row for row in times if row.strategy in EXCHANGES), lambda row: (row.gpus, row.batch_per_gpu))
    on_one_device = {row.batch_per_gpu: row.step_s for row in times if row.strategy == BASELINE}
    cells = []
    for (gpus, batch), rows in sorted(by_place.items()):
        by_name = {row.strategy: row.step_s for row in rows}
        steps = (on_one_device.get(batch, UNKNOWN), *(by_name.get(name, UNKNOWN) for name in EXCHANGES))
        cells.append([f"{gpus:,}", f"{batch:,}", *(recomputable(step_s, MILLISECONDS).brief for step_s in steps)])
    names = (terms.heading, "Batch", terms.count(1), *EXCHANGES)
    caption = "Time of a step, ms, without loading"
    table = ShownTable("exchange", caption, [ShownColumn(name) for name in names], cells, title="Exchange")
    gpus, batch = max(by_place, key=lambda place: (place[0], -place[1]))
    changes = [
        (row, next((way for way, claim in STRATEGIES.items() if claim.surely(row)), ""))
        for earlier, later in pairwise(EXCHANGES)
        for row in pairs
        if (row.gpus, row.batch_per_gpu, row.other_strategy, row.strategy) == (gpus, batch, earlier, later)
    ]
    pictures = exchange([row for row in times if (row.gpus, row.batch_per_gpu) in ((1, batch), (gpus, batch))], terms)
    texts = paragraphs("handin", "exchange", terms, changes=changes)
    return Section("exchange", texts, table.with_legend(), pictures.pictures[0] if pictures.pictures else None)


def _times_as_long(tables: Tables, environment: str) -> Mapping[tuple[str, str, int, int], Figure]:
    """Return how many times as long an epoch is under a variant as without it, by variant and configuration."""
    return {
        (row.variant, *configuration_of(row)[:3]): row.faster.map(lambda faster: 1 / faster)
        for row in tables.variants
        if (row.scope, row.environment) == (COMPUTE, environment) and row.faster.is_known
    }


def _memory(
    rows: Sequence[MemoryRow],
    times_as_long: Mapping[tuple[str, str, int, int], Figure],
    terms: Terms,
) -> Section:
    """Return what a step needs at one batch, with every strategy on most devices and under every variant; beside it,
    what an epoch takes longer for a variant."""
    batch = max(grouped(rows, attrgetter("batch_per_gpu")).items(), key=lambda item: (len(item[1]), -item[0]))[0]
    at_batch = [row for row in rows if row.batch_per_gpu == batch]
    most = max(row.gpus for row in at_batch)
    shown = in_order(row for row in at_batch if row.gpus in (1, most))
    plain = {(row.strategy, row.gpus): row.together_bytes for row in shown if row.variant == BASE}
    parts = parts_of(shown)
    cells = []
    for row in shown:
        share = row.together_bytes / plain.get((row.strategy, row.gpus), nan)
        longer = times_as_long.get((row.variant, row.strategy, row.gpus, batch), UNKNOWN)
        sizes = (*(getattr(row, PARTS[name][0]) for name in parts), row.together_bytes, row.peak_bytes)
        times = recomputable(longer, PLAIN).brief
        shares = [ABSENT if row.variant == BASE else in_unit(share, PERCENT, 3), times]
        cells.append([named(row, terms), *(in_unit(size, MB, 3) for size in sizes), *shares])
    headings = ("Configuration", *map(str.capitalize, parts), "Sum", "Peak", "Of plain, %", "Time, ×")
    columns = [ShownColumn[object](name, is_number=name != headings[0]) for name in headings]
    filled = [number for number, column in enumerate(zip(*cells, strict=True)) if {*column} != {ABSENT}]
    caption = f"Memory of a step, MB, at batch {batch:,} per {terms.device}, on the {terms.device} that needs most"
    least = min((row for row in shown if not isnan(row.together_bytes)), key=attrgetter("together_bytes"))
    texts = paragraphs(
        "handin",
        "memory",
        terms,
        parameters_bytes=next((row.gradients_bytes for row in shown if row.strategy == BASELINE), nan),
        optimiser_bytes=next((row.optimiser_bytes for row in shown if row.strategy == BASELINE), nan),
        strategies={row.strategy for row in shown},
        least=named(least, terms),
        together=least.together_bytes,
        has_variants=any(row.variant != BASE for row in shown),
    )
    pictures = memory_chart(shown, terms).pictures
    table = ShownTable(
        "memory",
        caption,
        [columns[number] for number in filled],
        [[row[number] for number in filled] for row in cells],
        title="Memory",
    )
    return Section("memory", texts, table, pictures[0] if pictures else None)
