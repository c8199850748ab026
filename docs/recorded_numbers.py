"""What documents say of recorded studies: tables and numbers that are made of the records, never typed.

`python docs/made.py` writes them anew between the marks `<!-- made: NAME -->` and `<!-- end -->` of documents: as a
block of its own where the line ends behind the first mark, otherwise inside a sentence.
"""

import math
import re
import textwrap
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeVar
from unittest.mock import patch

import bench_numbers
from bench_numbers import NOT_MEASURED, ROOT, markdown, rounded
from dpscale.analyse.answer.answer import answer_of
from dpscale.analyse.tables import build_tables
from dpscale.formulas.figure import Figure, multiplied
from dpscale.options import read_records, read_study
from dpscale.plan.expected import expected_s
from dpscale.plan.plan import plan
from dpscale.plan.study import BASE, Study
from dpscale.present.findings.answer import first_screen
from dpscale.present.text.numbers import ABSENT, estimate
from dpscale.present.text.words import Terms, capitalised, joined, plural
from dpscale.records.collect import CellState, states_of
from dpscale.records.kinds import Scope
from dpscale.records.progress import seconds_of
from dpscale.strategies.known import BASELINE, STRATEGIES
from dpscale.tables.column import MB, MILLISECONDS, MULTIPLES, PERCENT, SECONDS
from dpscale.tables.communication import BandwidthRow, CommunicationRow
from dpscale.tables.row import grouped
from dpscale.tables.tables import Tables
from dpscale.tables.timing import BlocksRow, RunsRow, SpeedupRow, TimesRow, VariantsRow
from dpscale.tables.training import TrainingSummaryRow
from dpscale.vocabulary.chips import chip_named

TWO_H100, TWO_H200, FOUR_H200 = "recorded-two-gpus", "recorded-h200-2", "recorded"
# One H200 with all variants, and trainings by tuned recipes.
ONE_H200 = "recorded-h200-4"
# Two H200s with every strategy, of a ResNet-18 and of a GPT.
ALL_STRATEGIES, ALL_OF_GPT = "recorded-strategies", "recorded-strategies-gpt"
Compared = TypeVar("Compared", CommunicationRow, BandwidthRow)
# At these and larger batches it is the GPU that decides what a step takes.
HOST_LIMITED_BELOW = 512
# The documents that have such numbers.
DOCUMENTS = (
    "README.md",
    "docs/results.md",
    "docs/diagnose.md",
    "docs/guide.md",
    "docs/method/communication.md",
    "docs/method/statistics.md",
    "docs/method/time.md",
    "docs/upstream/cudnn_search_per_thread.md",
    "examples/README.md",
    f"results/{FOUR_H200}/README.md",
    f"results/{TWO_H100}/README.md",
)


class Series(NamedTuple):
    """The speedups of a strategy on so many GPUs of a recorded study, under a heading."""

    heading: str
    strategy: str
    study: str
    gpus: int


def with_made(text: str) -> str:
    """The text of a document with its tables made anew."""
    return with_marked(text, "made", lambda name: MADE[name]())


def with_marked(text: str, kind: str, make: Callable[[str], str]) -> str:
    """The text with what `make` makes of the name between every `<!-- KIND: NAME -->` and `<!-- end -->`."""

    def made_anew(match: re.Match[str]) -> str:
        mark, name, ends_line = match.groups()
        return f"{mark}\n\n{make(name)}\n" if ends_line else f"{mark}{make(name)}"

    return re.sub(rf"(<!-- {kind}: ([\w-]+) -->)(\n?).*?(?=<!-- end -->)", made_anew, text, flags=re.DOTALL)


def study_file(results: str) -> Path:
    """The study file of a folder of results: of the same name, an example's, or of the name without `recorded-`."""
    names = (results, results.replace("recorded", "example"), results.removeprefix("recorded-"))
    return next(file for name in names if (file := ROOT / "config" / f"{name}.yaml").exists())


def study_of(results: str) -> Study:
    """The study of a folder of results."""
    return read_study(study_file(results))


def jobs_of(results: str) -> list[CellState]:
    """Return the jobs of a recorded study that ended well."""
    study = study_of(results).on_any_machine()
    states = states_of(plan(study).all_cells, study.settings, ROOT / "results" / results)
    return [state for state in states if state.record is not None and state.record.status == "ok"]


def expected_times() -> str:
    """How many times as long as expected jobs on record took: all of a kind and study together, least and most."""
    ratios = []
    for results in (TWO_H100, TWO_H200, ONE_H200):
        study = study_of(results)
        for jobs in grouped(jobs_of(results), lambda state: state.cell.kind).values():
            took_s = sum(seconds_of(state.record) for state in jobs if state.record)
            chip = chip_named(tables_of(results).environments[0].device_model)
            ratios.append(
                took_s / sum(expected_s(job.cell, job.cell.settings_under(study.settings), chip) or 0.0 for job in jobs)
            )
    return f"{min(ratios):.1f} to {max(ratios):.1f} times"


@cache
def tables_of(results: str) -> Tables:
    """The tables of a recorded study, of its records."""
    return built_tables(results)


def built_tables(results: str) -> Tables:
    """The tables of a recorded study, built anew."""
    study = study_of(results)
    return build_tables(study, read_records(study, ROOT / "results" / results))


def weak_speedups(study: str, gpus: int) -> dict[tuple[str, int], SpeedupRow]:
    """The speedups at the same batch per GPU, without loading, by strategy and batch."""
    weak = (
        row for row in tables_of(study).speedup if (row.scaling, row.scope, row.status) == ("weak", "compute", "ok")
    )
    return {(row.strategy, row.batch_per_gpu): row for row in weak if row.gpus == gpus}


def runs_of_grid(study: str, gpus: int) -> list[RunsRow]:
    """The runs on so many GPUs under the study's own settings, without loading."""
    runs = tables_of(study).runs
    return [row for row in runs if (row.gpus, row.scope, row.variant) == (gpus, "compute", "")]


def speedup_table(columns: Sequence[Series]) -> str:
    """A row per batch of the first series. As on a page, nothing is said of epochs with fewer than ten full steps."""
    found = [weak_speedups(series.study, series.gpus) for series in columns]
    batches = sorted({batch for _, batch in found[0]})

    def cells(batch: int) -> list[str]:
        rows = [of_series[series.strategy, batch] for series, of_series in zip(columns, found, strict=True)]
        return [f"{batch:,}", *(estimate(row.speedup, MULTIPLES) if row.is_headline else ABSENT for row in rows)]

    return markdown(["batch per GPU", *(series.heading for series in columns)], map(cells, batches))


def what_it_rests_on(study: str, rows: Sequence[SpeedupRow]) -> str:
    """`2 to 3 servers per speedup, with 4 x NVIDIA H200`: those of its blocks, which a speedup is the mean over."""
    servers = sorted({row.servers or 0 for row in rows})
    model = tables_of(study).environments[0].device_model
    fewest = f"{servers[0]} to " if len(servers) > 1 else ""
    return f"{fewest}{plural(servers[-1], 'server')} per speedup, with {rows[0].gpus} x {model}"


def borrowed(rows: Iterable[SpeedupRow]) -> str:
    """Which speedups of two servers have an interval that the spread of other configurations is part of; "" if none."""
    lent = {row.borrowed_from for row in rows if row.borrowed_from}
    if not lent:
        return ""
    batches = grouped((row for row in rows if row.borrowed_from), lambda row: row.strategy)
    named = [f"`{name}` at {', '.join(f'{row.batch_per_gpu:,}' for row in some)}" for name, some in batches.items()]
    return (
        f"{capitalised(' and '.join(named))} on {max(row.gpus for row in rows)} GPUs: steps wait for the host, so the "
        f"interval of two servers has the spread of {max(filter(None, lent))} other configurations in it, without and "
        "with loading ([how](docs/method/statistics.md#two-servers))."
    )


def speedups_found() -> str:
    """README's first table: two GPUs, and beside them four."""
    columns = [Series(f"`{strategy}`, 2 H100", strategy, TWO_H100, 2) for strategy in ("ddp", "dp")]
    columns += [Series(f"`{strategy}`, 4 H200", strategy, FOUR_H200, 4) for strategy in ("ddp", "dp")]
    two = list(weak_speedups(TWO_H100, 2).values())
    batches = {row.batch_per_gpu for row in two}
    four = [row for row in weak_speedups(FOUR_H200, 4).values() if row.batch_per_gpu in batches]
    rests = [
        f"{rows[0].gpus} GPUs: {what_it_rests_on(study, rows)} ([records](results/{study}/README.md))."
        for study, rows in ((TWO_H100, two), (FOUR_H200, four))
    ]
    if any("timing 1" in row.measurement_versions for row in tables_of(FOUR_H200).environments):
        rests.append("Records of 4 GPUs are older: their one GPU was timed in jobs of its own, on the same machines.")
    rests += filter(None, [borrowed(four)])
    few = {row.batch_per_gpu: row.full_steps_per_epoch for row in four if not row.is_headline}
    for batch, steps in few.items():
        rests.append(f"An epoch with batch {batch:,} on 4 GPUs has {steps} full steps: too few for a speedup.")
    again = weak_speedups(ONE_H200, 4)
    repeated = ", ".join(
        f"{estimate(again['ddp', batch].speedup, MULTIPLES)} at {batch:,}"
        for batch in sorted(batches)
        if again["ddp", batch].is_headline
    )
    rests.append(
        f"A later study of one run on such GPUs, so without intervals, gave `ddp` {repeated} (`results/{ONE_H200}`)."
    )
    return speedup_table(columns) + "\n" + "\n".join(rests) + "\n"


def summary() -> str:
    """What a terminal shows of the study of two GPUs: the answer, its table, the reason and the first thing to do."""
    tables, study = tables_of(TWO_H100), study_of(TWO_H100)
    screen = first_screen(answer_of(tables), Terms.of(study.values, tables))
    lines = [screen.sentence, *screen.table.lines, f"Why not more: {screen.reason}", f"To do: {screen.to_do[0].text}."]
    # Rows of a table are not so long, and begin with spaces.
    wrapped = [part for line in lines for part in (textwrap.wrap(line, 118) if len(line) > 118 else [line])]
    command = f"$ dpscale summary config/{TWO_H100}.yaml"
    return "```\n" + "\n".join(line.rstrip() for line in [command, *wrapped]) + "\n```\n"


def findings() -> str:
    """What the study of two H100s found, in words, each with its numbers."""
    found = (worth_it, limited_by_the_host, cost_of_data_parallel, cost_of_loading, one_gpu_beside_two)
    return "\n\n".join(finding() for finding in found) + "\n"


def worth_it() -> str:
    worth_from = study_of(TWO_H100)["answer"]["worth_from"]
    verdicts: dict[str, list[str]] = {"worth it": [], "not decided": [], "not worth it": []}
    for (strategy, batch), row in weak_speedups(TWO_H100, 2).items():
        share = row.efficiency
        is_worth, is_not = share.low > worth_from, share.high < worth_from
        verdict = "worth it" if is_worth else "not worth it" if is_not else "not decided"
        verdicts[verdict].append(f"`{strategy}` at {batch:,} ({percent(share)})")
    said = "; ".join(f"*{verdict}*: {', '.join(rows)}" for verdict, rows in verdicts.items() if rows)
    return (
        f"**Where two GPUs are worth it: at large batches.** Worth it is more than {100 * worth_from:.0f} % of what "
        f"both could give. By batch per GPU, without loading: {said}."
    )


def limited_by_the_host() -> str:
    alone = {row.batch_per_gpu: row.step_s for row in at_two_h100s(tables_of(TWO_H100).times, "single")}
    both = {row.batch_per_gpu: row.step_s for row in at_two_h100s(tables_of(TWO_H100).times, "ddp")}
    captured = next(row for row in rows_of_variant("graph", "single") if row.batch_per_gpu == 32)
    return (
        f"**Where the host limits: below batch {HOST_LIMITED_BELOW}.** One GPU's step takes {ms(alone[32])} at batch "
        f"32 and {ms(alone[128])} at 128, with four times the images, but {ms(alone[512])} at 512: up to 128 the GPU "
        "waits for the host, which starts its kernels one by one. With `ddp` the host has more to start, and the "
        f"step takes {ms(both[32])} and {ms(both[128])}. Where the GPU decides, at 2,048, it takes {ms(alone[2048])} "
        f"and {ms(both[2048])}. Without the host, in a CUDA graph that is compiled and in bfloat16, one GPU is "
        f"{estimate(captured.faster, MULTIPLES)} times as fast as it was at batch 32."
    )


def cost_of_data_parallel() -> str:
    steps = {row.batch_per_gpu: row.step_s for row in at_two_h100s(tables_of(TWO_H100).times, "dp")}
    threads = {
        row.batch_per_gpu: row.difference_s
        for row in tables_of(TWO_H100).ladder
        if (row.strategy, row.rung) == ("dp", "threads")
    }
    longer = {batch: 1 / row.speedup.value for (name, batch), row in weak_speedups(TWO_H100, 2).items() if name == "dp"}
    return (
        f"**What `DataParallel` costs, and why.** An epoch of two GPUs takes {longer[32]:.1f} times as long as that "
        f"of one at batch 32, and {longer[128]:.1f} times at 128. Its step takes {ms(steps[32])}, {ms(steps[128])} "
        f"and {ms(steps[512])} at batches 32, 128 and 512: about the same for 16 times the images, so it is the "
        "host's time. Most of it is its threads, which share one Python interpreter: with replicas that stay on "
        f"their GPUs, and nothing sent between them, they add {ms(threads[32])} at 32, {ms(threads[128])} at 128 and "
        f"{ms(threads[512])} at 512. At 2,048 the GPUs take longer than the host, and `dp` is as fast as `ddp`."
    )


def cost_of_loading() -> str:
    rows = {(row.strategy, row.batch_per_gpu): row for row in tables_of(TWO_H100).scopes}
    alone, both = rows["single", 128], rows["ddp", 128]
    loaded = next(
        row
        for row in tables_of(TWO_H100).speedup
        if (row.strategy, row.batch_per_gpu, row.scope, row.scaling) == ("ddp", 128, "end_to_end", "weak")
    )
    without = weak_speedups(TWO_H100, 2)["ddp", 128]
    return (
        "**What loading does.** With a DataLoader of two processes in the clock, an epoch of one GPU at batch 128 "
        f"takes {estimate(alone.loading_ratio, MULTIPLES)} times as long, {seconds(alone.end_to_end_epoch_s)} in "
        f"place of {seconds(alone.epoch_s)}, and at 512 {estimate(rows['single', 512].loading_ratio, MULTIPLES)} "
        "times. `ddp` has a loader per GPU, `dp` has one: at 128 `ddp` takes "
        f"{estimate(both.loading_ratio, MULTIPLES)} times as long with it. Its speedup is then "
        f"{estimate(loaded.speedup, MULTIPLES)}, without loading {estimate(without.speedup, MULTIPLES)}: part of "
        f"what the second GPU buys is probably its loader. Loading was measured on {len(loading_servers())} servers."
    )


def one_gpu_beside_two() -> str:
    row = next(
        row
        for row in tables_of(TWO_H100).one_gpu
        if (row.variant, row.other_variant, row.batch_per_gpu, row.scope) == ("fast", "base", 128, "compute")
    )
    both = next(row for row in rows_of_variant("fast", "ddp") if row.batch_per_gpu == 128)
    return (
        "**What one GPU used well does beside two.** At batch 128 one H100 in a CUDA graph, in bfloat16 and "
        f"channels-last, takes {seconds(row.epoch_s)} for an epoch ({plural(row.units or 0, 'machine')}): it is "
        f"{estimate(row.ratio, MULTIPLES)} times as fast as two with the settings that torch has, which take "
        f"{seconds(row.other_epoch_s)}. So use one GPU well before you add another. The second one then adds more, "
        f"too: {estimate(both.speedup, MULTIPLES)} times as fast as one."
    )


def at_two_h100s(rows: Iterable[TimesRow], strategy: str) -> list[TimesRow]:
    """The times of a strategy without loading."""
    return [row for row in rows if (row.strategy, row.scope) == (strategy, "compute")]


def rows_of_variant(variant: str, strategy: str) -> list[VariantsRow]:
    """The rows of a variant of the study of two H100s, without loading."""
    place = variant, strategy, "compute"
    return [row for row in tables_of(TWO_H100).variants if (row.variant, row.strategy, row.scope) == place]


def loading_servers() -> set[int | None]:
    """The servers of two H100s that timed loading with `ddp`."""
    timed = [row for row in tables_of(TWO_H100).runs if (row.strategy, row.scope) == ("ddp", "end_to_end")]
    return {row.server for row in timed if not row.variant}


def percent(figure: Figure) -> str:
    return estimate(figure, PERCENT, with_unit=True)


def ms(figure: Figure) -> str:
    return estimate(figure, MILLISECONDS, with_unit=True)


def seconds(figure: Figure) -> str:
    return estimate(figure, SECONDS, with_unit=True)


def speedups_of_both_kinds() -> str:
    """Two H100s beside two H200s."""
    kinds = (("H100", TWO_H100), ("H200", TWO_H200))
    columns = [Series(f"{strategy}, {kind}", strategy, study, 2) for strategy in ("ddp", "dp") for kind, study in kinds]
    rests = "; ".join(
        f"`{study}`: {what_it_rests_on(study, list(weak_speedups(study, 2).values()))}" for _, study in kinds
    )
    return f"{speedup_table(columns)}\n{rests}.\n"


def servers() -> str:
    """The servers of the study of two H100s, and how wide its intervals are."""
    gpus = {row.path: row.gpu_uuids.split("; ") for row in tables_of(TWO_H100).records}
    by_server = sorted(grouped(runs_of_grid(TWO_H100, 2), lambda row: row.server or 0).items())
    lines = []
    for number, (_, rows) in enumerate(by_server, start=1):
        first = rows[0]
        path = f"cells/{first.strategy}/gpus-2/batch-{first.batch_per_gpu}/run-{first.run}.json"
        runs, dates = sorted({f"{row.run}" for row in rows}), sorted({row.started_at[:10] for row in rows})
        uuids = ", ".join(f"`{uuid[:12]}`" for uuid in gpus[path])
        lines.append([f"{number}", uuids, ", ".join(runs), ", ".join(dates)])
    batches = sorted(grouped(weak_speedups(TWO_H100, 2).values(), lambda row: row.batch_per_gpu).items())
    widths = [[f"{batch:,}", *(_half_width(row.speedup) for row in rows)] for batch, rows in batches]
    strategies = [row.strategy for row in batches[0][1]]
    return (
        f"{markdown(('server', 'GPUs', 'runs', 'date'), lines)}\n"
        "How far the 95 % interval of a speedup without loading reaches to either side of it:\n\n"
        f"{markdown(('batch per GPU', *strategies), widths)}"
    )


def _half_width(figure: Figure) -> str:
    return f"{100 * (math.sqrt(figure.high / figure.low) - 1):.2g} %"


def drift_of_one_gpu() -> str:
    """How the time of one GPU changed during the runs of several servers."""
    return drift_in(TWO_H100, TWO_H200)


def drift_in(*studies: str) -> str:
    """How often the time of one GPU changed during a run, at batches where the host limits it and at larger ones."""
    blocks = [row for study in studies for row in tables_of(study).blocks]
    weak = [row for row in blocks if (row.scaling, row.scope, row.gpus) == ("weak", "compute", 2)]
    small = [row for row in weak if row.batch_per_gpu < HOST_LIMITED_BELOW]
    large = [row for row in weak if row.batch_per_gpu >= HOST_LIMITED_BELOW]
    most = max(abs(row.drift) for row in small)
    return (
        f"At batches below {HOST_LIMITED_BELOW} the time of one GPU changed by more than 2 % during "
        f"{sum(map(_has_drifted, small))} of {len(small)} runs, and by up to {100 * most:.0f} %. At larger batches it "
        f"did so during {sum(map(_has_drifted, large)) or 'none'} of {len(large)}.\n"
    )


def _has_drifted(row: BlocksRow) -> bool:
    return bool(row.has_drifted)


def fast_beside_eager() -> str:
    """What the variants `fast` and `graph` gave on servers of two H100s, beside the step as it is."""
    tables = tables_of(TWO_H100)
    alone = [row for row in tables.runs if (row.strategy, row.scope) == ("single", "compute")]
    lines = []
    for batch in (32, 128):
        here = [row for row in alone if row.batch_per_gpu == batch]
        eager_s = {row.server: row.epoch_s for row in here if not row.variant}
        times = [eager_s[row.server] / row.epoch_s for row in here if row.variant == "fast" and row.server in eager_s]
        listed = ", ".join(f"{ratio:.1f}" for ratio in times)
        lines.append(f"- one H100, batch {batch}: {listed} times as fast, a number per server")
    place = ("ddp", 2, 32, "compute")
    by_variant = {
        row.variant: row for row in tables.variants if (row.strategy, row.gpus, row.batch_per_gpu, row.scope) == place
    }
    graph = by_variant["graph"]
    captured, eager = estimate(graph.speedup, MULTIPLES), estimate(by_variant["base"].speedup, MULTIPLES)
    lines.append(
        f"- `ddp` on two H100s, batch 32, in a CUDA graph: {estimate(graph.faster, MULTIPLES)} times as fast "
        f"({graph.faster_units} machines); its speedup over one GPU is {captured} where both steps are captured, and "
        f"{eager} where neither is"
    )
    return "\n".join(lines) + "\n"


def searched_in_every_step() -> str:
    """What cuDNN's search adds to a step of one H200 and of DataParallel on two."""
    rows = tables_of(ALL_STRATEGIES).variants
    lines = []
    for row in (row for row in rows if row.variant == "searched" and row.longer_step_s.is_known):
        place = row.point, row.scope
        base = next(plain for plain in rows if plain.variant == BASE and (plain.point, plain.scope) == place)
        figures = (base.step_s, row.step_s, row.longer_step_s)
        what = "one H200" if row.gpus == 1 else f"`{row.strategy}` on {row.gpus} H200s"
        lines.append((what, f"{row.batch_per_gpu:,}", *(rounded(multiplied(figure, 1000), 1) for figure in figures)))
    head = ("what trains", "batch per GPU", "step without a search, ms", "with a search, ms", "longer by, ms")
    return markdown(head, sorted(lines, reverse=True)) if lines else f"{NOT_MEASURED}\n"


def all_strategies() -> str:
    """What a step of every strategy takes and keeps, with a ResNet-18 and with a GPT, on two H200s."""
    steps, states = defaultdict[str, list[float]](list), defaultdict[str, list[str]](list)
    for results, batches in ((ALL_STRATEGIES, (32, 128, 512)), (ALL_OF_GPT, (32, 128))):
        tables = tables_of(results)
        step_s = {(row.strategy, row.batch_per_gpu): row.step_s for row in tables.times}
        exposed_s = {
            row.strategy: row.profiler_exposed_step_s for row in tables.communication if row.batch_per_gpu == 32
        }
        for row in tables.memory:
            if (row.variant, row.batch_per_gpu) == (BASE, 32):
                steps[row.strategy] += [1000 * step_s[row.strategy, at].value for at in batches]
                kept = row.weights_bytes + row.gradients_bytes + row.optimiser_bytes
                states[row.strategy].append(f"{MB.of(kept):,.0f}")
    shown = {name: f"{1000 * exposed.value:.2f}" for name, exposed in exposed_s.items()}
    rows = [
        (
            f"`{name}`, {'two GPUs' if row.is_parallel else 'one GPU'}",
            *(f"{ms:.1f}" for ms in steps[name]),
            shown.get(name, "–"),
            *states[name],
        )
        for name, row in STRATEGIES.items()
        if name in steps
    ]
    head = (
        *("strategy", "ResNet-18, step at 32, ms", "at 128", "at 512"),
        *("GPT, step at 32, ms", "at 128", "exposed at 32, ms"),
        *("states of the ResNet-18, MB", "of the GPT, MB"),
    )
    longer = {name: 100 * (steps[name][-2] / steps[BASELINE][-2] - 1) for name in steps if name != BASELINE}
    others = [percent for name, percent in longer.items() if name != "dp"]
    words = (
        f"With the GPT at batch 32 a step on two GPUs takes {min(others):.1f} to {max(others):.1f} % longer than on "
        f"one, with `dp` {longer['dp']:.1f} %. {drift_in(ALL_STRATEGIES)}\n{settings_of_strategies()}"
    )
    return f"{markdown(head, rows)}\n{words}"


def settings_of_strategies() -> str:
    """What weights that stay gathered, other networks and cuDNN's search change, on two H200s."""
    tables, of_gpt = tables_of(ALL_STRATEGIES), tables_of(ALL_OF_GPT)
    speedups = {(row.variant, row.strategy, row.batch_per_gpu): row.speedup.value for row in tables.variants}
    kept = [f"{speedups[name, 'fsdp', at]:.2f}" for at in (32, 128, 512) for name in (BASE, "grad-op")]
    peaks = {row.variant: row.peak_bytes for row in of_gpt.memory if (row.strategy, row.batch_per_gpu) == ("fsdp", 32)}
    networks = {row.variant: row.speedup.value for row in tables.networks}
    timed = [row for row in of_gpt.communication if row.slower_computing_step_s.is_known]
    longer = {row.strategy: 1000 * row.slower_computing_step_s.value for row in timed}
    return (
        "Times as fast as one GPU in the same job: `fsdp` whose weights stay gathered from the forward pass to the "
        f"backward pass is {kept[1]} in place of {kept[0]} with the ResNet-18 at 32, {kept[3]} in place of {kept[2]} "
        f"at 128, {kept[5]} in place of {kept[4]} at 512; with the GPT at 32 its peak is "
        f"{MB.of(peaks['grad-op'] - peaks[BASE]):,.0f} MB higher. `dp` with cuDNN's search is "
        f"{speedups['searched', 'dp', 512]:.3f} in place of {speedups[BASE, 'dp', 512]:.2f} at 512. `ddp` at 128 is "
        f"{networks[BASE]:.2f} with the ResNet-18, {networks['resnet-50']:.2f} with the ResNet-50 and "
        f"{networks['width-128']:.2f} with a ResNet-18 of twice the width. Beside the GPT's communication, kernels "
        f"that compute take {longer['ddp']:.2f} ms a step longer with `ddp`, {longer['fsdp']:.2f} ms with `fsdp`.\n"
    )


def examples() -> str:
    """What the workloads under examples/ gave on two GPUs."""
    rows = []
    for example in ("gpt", "wide-mlp", "resnet50"):
        results = f"recorded-{example}"
        tables, precision = tables_of(results), study_of(results)["precision"]
        alone, together = (
            next(row for row in tables.times if (row.scope, row.gpus) == ("compute", gpus)) for gpus in (1, 2)
        )
        speedup = next(row.speedup for row in tables.speedup if row.scope == "compute")
        causes = dict.fromkeys(row.cause.replace("_", " ") for row in tables.causes if row.is_reason)
        rows.append(
            (
                f"`{example.replace('-', '_')}.py`" + (f", {precision}" if precision == "bfloat16" else ""),
                f"{alone.batch_per_gpu:,}",
                rounded(alone.images_per_s, 0),
                rounded(together.images_per_s, 0),
                rounded(speedup, 2),
                ", then ".join(causes) or "none stands out",
            )
        )
    head = ("file", "batch per GPU", "samples/s on 1 GPU", "on 2 GPUs", "speedup", "first reason")
    return markdown(head, rows)


def on_one_h200() -> list[VariantsRow]:
    """The rows of all variants on one H200 without loading."""
    return [row for row in tables_of(ONE_H200).variants if (row.gpus, row.scope) == (1, "compute")]


def one_gpu() -> str:
    """What one H200 gives as torch has it, and with its fastest variant."""
    rows = on_one_h200()
    base = {row.batch_per_gpu: row for row in rows if row.variant == "base"}
    fastest = {row.batch_per_gpu: row for row in rows if row.is_fastest}
    lines = []
    for batch in sorted(base):
        eager_per_s, fastest_per_s = base[batch].images_per_s, fastest[batch].images_per_s
        times, share = fastest_per_s.value / eager_per_s.value, 100 * fastest[batch].mfu_measured.value
        lines.append(
            (f"{batch:,}", rounded(eager_per_s, 0), f"{fastest_per_s.value:,.0f}", f"{times:.1f} ×", f"{share:.0f} %")
        )
    return markdown(("batch", "TF32, eager", "fastest variant", "times as fast", "share of the chip"), lines)


def deviation_over_machines() -> str:
    """What runs of one H200 at batch 32 differ by, eager and captured."""
    percent = {row.variant: 100 * row.run_deviation for row in on_one_h200() if row.batch_per_gpu == 32}
    return f"{percent['base']:.2g} % as they are, and by {percent['graph']:.2g} % in a CUDA graph"


def arm(results: str, name: str) -> TrainingSummaryRow:
    """The row of an arm."""
    return next(row for row in tables_of(results).training_summary if row.arm == name)


def in_percent(figure: Figure, digits: int) -> str:
    """The figure in per cent, with so many digits behind the point."""
    return rounded(multiplied(figure, 100), digits)


def recipes() -> str:
    """What tuned recipes are worth at two batches."""
    lines = [
        (f"{batch:,}", *(in_percent(arm(ONE_H200, name).test_accuracy, 1) for name in (f"b{batch}", f"b{batch}-tuned")))
        for batch in (128, 2048)
    ]
    return markdown(("global batch", "not tuned, %", "tuned, %"), lines)


def lower_by_the_larger_batch() -> str:
    """How much lower the larger batch ends, where both are tuned."""
    lower = multiplied(arm(ONE_H200, "b2048-tuned").test_accuracy_difference, -1)
    return in_percent(lower, 1).replace(" ", " points ", 1)


def bfloat16() -> str:
    """What bfloat16 costs in test accuracy beside autocast."""
    arms = {"gradients sent in bfloat16": "bf16-sent", "weights kept in bfloat16": "bf16-kept"}
    lines = [
        (label, in_percent(arm("recorded-bfloat16", name).test_accuracy_difference, 2)) for label, name in arms.items()
    ]
    return markdown(("beside autocast, the same seeds", "test accuracy, percentage points"), lines)


def autocast() -> str:
    """The test accuracy that autocast ends at."""
    return in_percent(arm("recorded-bfloat16", "autocast").test_accuracy, 1).replace(" ", " % ", 1)


def ddp_on_four(rows: Iterable[Compared], batch: int) -> Compared:
    """The row of `ddp` on 4 GPUs at a batch, without loading."""
    place = ("ddp", 4, batch, "compute")
    return next(row for row in rows if (row.strategy, row.gpus, row.batch_per_gpu, row.scope) == place)


def epochs_with_barrier() -> str:
    """What the barrier of version 1 would make of the communication time of a short epoch."""
    with patch.object(Scope, "slowest_rank_epoch_s", property(lambda scope: scope.epoch_s)):
        with_barrier = built_tables(FOUR_H200)
    without_s, with_s = (
        ddp_on_four(tables.communication, 2048).communication_s.value for tables in (tables_of(FOUR_H200), with_barrier)
    )
    return f"{1e3 * without_s:.2f} ms; with the barrier it would be {1e3 * with_s:.2f} ms"


def bandwidth_of_few_steps() -> str:
    """The bandwidth of a short epoch, and of its step."""
    tables = tables_of(FOUR_H200)
    communication, bandwidth = ddp_on_four(tables.communication, 2048), ddp_on_four(tables.bandwidth, 2048)
    by_step = bandwidth.allreduce_bytes_per_step / communication.communication_step_s.value / 1e9
    return (
        f"{communication.full_steps_per_epoch} full steps in an epoch. The communication time of its epoch implies "
        f"{bandwidth.bandwidth_gb_s.value:.0f} GB/s, that of its step {by_step:.0f} GB/s"
    )


def steps_elsewhere() -> str:
    """The step of ddp at batch 32 on 4 GPUs where communication was measured, and in the runs of the timing cells."""
    runs = [row for row in runs_of_grid(FOUR_H200, 4) if (row.strategy, row.batch_per_gpu) == ("ddp", 32)]
    steps = joined([f"{1e3 * step_s:.1f}" for step_s in sorted(row.step_s for row in runs)])
    there_s = ddp_on_four(tables_of(FOUR_H200).communication, 32).training_step_s.value
    return f"{1e3 * there_s:.1f} ms there, in the runs of the timing cells {steps} ms"


MADE: Mapping[str, Callable[[], str]] = {
    "summary": summary,
    "speedups": speedups_found,
    "expected-times": expected_times,
    "findings": findings,
    "kinds": speedups_of_both_kinds,
    "servers": servers,
    "drift": drift_of_one_gpu,
    "fast": fast_beside_eager,
    "searched": searched_in_every_step,
    "strategies": all_strategies,
    "examples": examples,
    "one-gpu": one_gpu,
    "deviation": deviation_over_machines,
    "recipes": recipes,
    "lower": lower_by_the_larger_batch,
    "bfloat16": bfloat16,
    "autocast": autocast,
    "epochs-with-barrier": epochs_with_barrier,
    "few-steps": bandwidth_of_few_steps,
    "steps-elsewhere": steps_elsewhere,
    **bench_numbers.MADE,
}
