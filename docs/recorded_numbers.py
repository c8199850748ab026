"""What documents say of recorded studies: tables that are made of the records, never typed.

`python docs/made.py` writes them anew between the marks `<!-- made: NAME -->` and `<!-- end -->` of documents.
"""

import importlib
import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from dpscale.analyse.tables import build_tables
from dpscale.formulas.figure import Figure
from dpscale.options import read_records, read_study
from dpscale.present.text.numbers import estimate
from dpscale.present.text.words import capitalised, plural
from dpscale.tables.column import MULTIPLES
from dpscale.tables.row import grouped
from dpscale.tables.tables import Tables
from dpscale.tables.timing import RunsRow, SpeedupRow

ROOT = Path(__file__).parents[1]
TWO_H100, TWO_H200, FOUR_H200 = "recorded-two-gpus", "recorded-h200-2", "recorded"
# At these and larger batches it is the GPU that decides what a step takes.
HOST_LIMITED_BELOW = 512
# The documents that have such tables.
DOCUMENTS = ("README.md", "docs/results.md", "docs/method/statistics.md", f"results/{TWO_H100}/README.md")


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
    marked = re.compile(rf"(?<=<!-- {kind}: )([\w-]+)( -->\n).*?(?=<!-- end -->)", re.DOTALL)
    return marked.sub(lambda found: f"{found[1]}{found[2]}\n{make(found[1])}\n", text)


def markdown(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table in Markdown."""
    names = list(head)
    return "".join(f"| {' | '.join(line)} |\n" for line in (names, ["---"] * len(names), *rows))


@cache
def tables_of(study: str) -> Tables:
    """The tables of a recorded study, of its records."""
    stated = read_study(ROOT / "config" / f"{study}.yaml")
    return build_tables(stated, read_records(stated, ROOT / "results" / study))


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
    """A row per batch of the first series."""
    found = [weak_speedups(series.study, series.gpus) for series in columns]
    batches = sorted({batch for _, batch in found[0]})

    def cells(batch: int) -> list[str]:
        rows = [of_series[series.strategy, batch] for series, of_series in zip(columns, found, strict=True)]
        return [f"{batch:,}", *(estimate(row.speedup, MULTIPLES) for row in rows)]

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
    rests += filter(None, [borrowed(four)])
    few = {row.batch_per_gpu: row.full_steps_per_epoch for row in four if not row.is_headline}
    for batch, steps in few.items():
        rests.append(f"An epoch with batch {batch:,} on 4 GPUs has {steps} full steps: these two cells say little.")
    return speedup_table(columns) + "\n" + "\n".join(rests) + "\n"


def speedups_of_both_kinds() -> str:
    """Two H100s beside two H200s."""
    kinds = (("H100", TWO_H100), ("H200", TWO_H200))
    columns = [Series(f"{strategy}, {kind}", strategy, study, 2) for strategy in ("ddp", "dp") for kind, study in kinds]
    rests = "; ".join(
        f"`{study}`: {what_it_rests_on(study, list(weak_speedups(study, 2).values()))}" for _, study in kinds
    )
    return f"{speedup_table(columns)}\n{rests}.\n"


def servers() -> str:
    """The servers of the study that grows by one at a time, and how wide its intervals are."""
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
    """How often the time of one GPU changed during a run, at batches where the host limits it and at larger ones."""
    weak = [row for study in (TWO_H100, TWO_H200) for row in weak_speedups(study, 2).values()]
    small = [row for row in weak if row.batch_per_gpu < HOST_LIMITED_BELOW]
    large = [row for row in weak if row.batch_per_gpu >= HOST_LIMITED_BELOW]
    drifted, runs = sum(row.drifted or 0 for row in small), sum(row.blocks or 0 for row in small)
    most, later = max(abs(row.drift or 0) for row in small), sum(row.drifted or 0 for row in large)
    return (
        f"At batches below {HOST_LIMITED_BELOW} the time of one GPU changed by more than 2 % during {drifted} of "
        f"{runs} runs, and by up to {100 * most:.0f} %. At larger batches it did so during {later or 'none'} of "
        f"{sum(row.blocks or 0 for row in large)}.\n"
    )


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
    graph = next(
        row
        for row in tables.variants
        if (row.variant, row.strategy, row.gpus, row.batch_per_gpu, row.scope) == ("graph", "ddp", 2, 32, "compute")
    )
    captured, eager = estimate(graph.speedup, MULTIPLES), estimate(graph.base_speedup, MULTIPLES)
    lines.append(
        f"- `ddp` on two H100s, batch 32, in a CUDA graph: {estimate(graph.faster, MULTIPLES)} times as fast "
        f"({graph.faster_units} machines); its speedup over one GPU is {captured} where both steps are captured, and "
        f"{eager} where neither is"
    )
    return "\n".join(lines) + "\n"


def spreads_by_turns() -> str:
    """What bench/turns.py shows of its machines."""
    files = sorted((ROOT / "results/recorded-turns").glob("*.json"))
    return of_bench("turns", [json.loads(path.read_text())["jobs"] for path in files])


def spreads_by_pairing() -> str:
    """What bench/pairings.py shows of the recorded studies."""
    return of_bench("pairings", ROOT / "results")


def of_bench(module: str, what: Any) -> str:
    """The table of a module of bench/, which is loaded when it is asked for: one loads torch."""
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    lines = importlib.import_module(f"bench.{module}").table(what)
    return "".join(f"{line}\n" for line in lines)


MADE: Mapping[str, Callable[[], str]] = {
    "speedups": speedups_found,
    "kinds": speedups_of_both_kinds,
    "servers": servers,
    "drift": drift_of_one_gpu,
    "fast": fast_beside_eager,
    "turns": spreads_by_turns,
    "pairings": spreads_by_pairing,
}
