"""The assignment's tables in their familiar form, one a strategy: to read, and to copy as Markdown and as LaTeX.

Table 1: time and speedup. Table 2: computation and communication time. Table 3: bandwidth and its utilisation. And what
large batches end at. Every table has one row a batch; a word stands where there is no number.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from dpscale.analyse.columns import NOT_RESOLVABLE
from dpscale.present import words
from dpscale.present.words import Row, Tables, Terms
from dpscale.vocabulary import quantities
from dpscale.vocabulary.quantities import TEST_ACCURACY, TRAINING_ACCURACY, TRAINING_LOSS, Quantity, quantity
from dpscale.vocabulary.strategies import BASELINE

_BATCHES_SHOWN = 24
_NUMBERS_SHOWN = 6
_NOT_PLANNED, _NOT_MEASURED = "not planned", "not measured"
_TIMED = ("times", "speedup", "communication", "bandwidth")
_ENDS = (TRAINING_LOSS, TRAINING_ACCURACY, TEST_ACCURACY)
_MARKDOWN_SPECIAL = re.compile(r"([\\|*_`<>~])")
_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    words.ABSENT: "--", words.MINUS: "$-$", "×": r"$\times$", "⁹": "$^9$",
}  # fmt: skip


@dataclass(frozen=True)
class Sheet:
    """A table of text: all rows have as many cells as there are columns. The caption gives definitions and units."""

    id: str
    title: str
    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    @property
    def markdown(self) -> str:
        """A table as GitHub's Markdown has it, below its caption."""
        ruler = [":---", *("---:" for _ in self.columns[1:])]
        lines = [_markdown_row(self.columns), f"| {' | '.join(ruler)} |", *map(_markdown_row, self.rows)]
        return f"{_markdown(f'{self.title}. {self.caption}')}\n\n" + "\n".join(lines) + "\n"

    @property
    def latex(self) -> str:
        """A table that needs no package."""
        return "\n".join([
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{_latex(f'{self.title}. {self.caption}')}}}",
            rf"\begin{{tabular}}{{l{''.join('r' for _ in self.columns[1:])}}}",
            r"\hline",
            _latex_row(self.columns),
            r"\hline",
            *map(_latex_row, self.rows),
            r"\hline",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ])  # fmt: skip


def sheets(tables: Tables, terms: Terms) -> list[Sheet]:
    """The tables of every strategy on several devices, in every environment."""
    found = []
    for strategy, environment in _places(tables):
        here = {name: _in(tables[name], environment) for name in (*_TIMED, "training_summary")}
        made = (
            _times_and_speedup(here, strategy, terms),
            _computation_and_communication(here, strategy, terms),
            _bandwidth(here, strategy, terms),
            _large_batches(here["training_summary"], strategy, terms),
        )
        where = terms.environment({"environment": environment})
        suffix = f"{strategy}-{environment}".lower() if where else strategy
        found += [
            replace(sheet, id=f"{sheet.id}-{suffix}", title=f"{sheet.title}, {strategy}{where}")
            for sheet in made
            if sheet
        ]
    return found


def _places(tables: Tables) -> Iterator[tuple[str, str]]:
    """Strategies with results on several devices, and the environments of these."""
    times, trained = words.ok(words.in_order(tables["times"])), words.ok(tables["training_summary"])
    several = pd.concat([part[part["gpus"] > 1][["strategy", "environment"]] for part in (times, trained)])
    for row in words.rows(several.drop_duplicates()):
        yield str(row["strategy"]), str(row["environment"])


def _in(table: pd.DataFrame, environment: str) -> pd.DataFrame:
    """The rows of an environment, and those without a record, which have none and belong to each."""
    return table[table["environment"].isna() | (table["environment"].astype(str) == environment)]


def _times_and_speedup(here: Tables, strategy: str, terms: Terms) -> Sheet | None:
    """Of the compute scope, or of the first there is."""
    scope = min(here["times"]["scope"], default="compute")
    times, speedup = (here[name][here[name]["scope"] == scope] for name in ("times", "speedup"))
    weak = speedup[(speedup["scaling"] == "weak") & (speedup["strategy"] == strategy)]
    return _by_batch(
        "table-1",
        "Table 1: time and speedup",
        f"Median epoch time T(N,b), s, and speedup T(1,b) / T(N,b), ×, {words.scope(scope)}",
        here["times"],
        [
            _Drawn("time", times[times["strategy"].isin([BASELINE, strategy])], quantities.EPOCH),
            _Drawn("speedup", weak, quantities.SPEEDUP),
        ],
        terms,
    )


def _computation_and_communication(here: Tables, strategy: str, terms: Terms) -> Sheet | None:
    communication = here["communication"][here["communication"]["strategy"] == strategy]
    return _by_batch(
        "table-2",
        "Table 2: computation and communication time",
        "Of an epoch, inferred: computation T(1,b)/N, s, and communication T(N,b) − T(1,b)/N, s, compute scope",
        here["times"],
        [
            _Drawn("computation", communication, quantity("compute_s", "communication")),
            _Drawn("communication", communication, quantities.COMMUNICATION),
        ],
        terms,
    )


def _bandwidth(here: Tables, strategy: str, terms: Terms) -> Sheet | None:
    bandwidth = here["bandwidth"][here["bandwidth"]["strategy"] == strategy]
    return _by_batch(
        "table-3",
        "Table 3: bandwidth utilisation",
        "Bytes of a ring allreduce over the communication time, GB/s (1 GB is 10⁹ bytes), and that over the measured "
        "bus bandwidth, %, compute scope",
        here["times"],
        [
            _Drawn("bandwidth", bandwidth, quantities.BANDWIDTH),
            _Drawn("utilisation", bandwidth, quantity("utilisation")),
        ],
        terms,
    )


@dataclass(frozen=True)
class _Drawn:
    """A quantity that has a column for every number of devices, and what the assignment calls it."""

    name: str
    rows: pd.DataFrame
    quantity: Quantity

    @property
    def heading(self) -> str:
        """With its unit: `time, s`."""
        return f"{self.name}, {self.quantity.unit.shown}"

    @property
    def is_decided(self) -> bool:
        """Whether any cell was measured; that it tells no bandwidth is a result too."""
        return bool(self.rows["status"].isin(["ok", NOT_RESOLVABLE]).any())


def _by_batch(
    id: str, title: str, caption: str, times: pd.DataFrame, drawn: Sequence[_Drawn], terms: Terms
) -> Sheet | None:
    """One row for every batch that one device was to be timed with, as the others are compared with it."""
    batches = sorted(set(times[times["strategy"] == BASELINE]["batch_per_gpu"]))
    numbers = sorted({gpus for one in drawn for gpus in one.rows["gpus"]})
    if not batches or not any(one.is_decided for one in drawn):
        return None
    columns = [
        (f"{terms.count(gpus)}: {one.heading}", _cells(one, gpus))
        for gpus in numbers[:_NUMBERS_SHOWN]
        for one in drawn
        if gpus in set(one.rows["gpus"])
    ]
    left_out = ""
    if len(batches) > _BATCHES_SHOWN or len(numbers) > _NUMBERS_SHOWN:
        left_out = f". The first of {len(batches):,} batches and {len(numbers):,} numbers of {terms.devices}"
    return Sheet(
        id,
        title,
        f"{caption}; 95 % intervals in brackets{left_out}.",
        [f"Batch per {terms.device}", *(heading for heading, _ in columns)],
        [
            [f"{batch:,}", *(cells.get(batch, _NOT_PLANNED) for _, cells in columns)]
            for batch in batches[:_BATCHES_SHOWN]
        ],
    )


def _cells(drawn: _Drawn, gpus: int) -> dict[int, str]:
    """What stands in a quantity's column, by batch."""
    rows = drawn.rows[drawn.rows["gpus"] == gpus]
    return {row["batch_per_gpu"]: _cell(row, drawn.quantity) for row in words.rows(rows)}


def _cell(row: Row, shown: Quantity) -> str:
    """The number, with its interval where the table has one; otherwise the state that is the reason for none."""
    if words.is_known(row[shown.column]):
        if f"{shown.column}_low" in row:
            return words.estimate(row, shown.column, shown.unit)
        return words.in_unit(row[shown.column], shown.unit)
    if shown is quantities.BANDWIDTH and words.is_known(row["bandwidth_gb_s_at_least"]):
        return words.bandwidth(row)
    return _NOT_MEASURED if row["status"] == "ok" else words.state(row["status"])


def _large_batches(summary: pd.DataFrame, strategy: str, terms: Terms) -> Sheet | None:
    """The strategy's arms without remedies below the baseline."""
    is_baseline = pd.Series(words.is_true(summary["is_baseline"]), index=summary.index, dtype=bool)
    plain = summary["remedies"].isna() | (summary["remedies"] == "")
    mine = summary[~is_baseline & plain & (summary["strategy"] == strategy)]
    if words.ok(mine).empty:
        return None
    return Sheet(
        "large-batches",
        "Large batches",
        "Mean cross-entropy of training, accuracy of training and on the test images, %, after the epoch named; the "
        "baseline first; 95 % t intervals over seeds in brackets.",
        [
            "Arm",
            "Global batch",
            terms.heading,
            "Epoch",
            "Seeds",
            *(end.heading for end in _ENDS),
        ],
        [
            [
                row["arm"],
                words.whole(row["global_batch"]),
                words.whole(row["gpus"]),
                words.whole(row["epochs"]),
                words.whole(row["seeds"]),
                *(_cell(row, end) for end in _ENDS),
            ]
            for row in words.rows(pd.concat([summary[is_baseline], mine.sort_values("global_batch")]))
        ],
    )


def _markdown(text: str) -> str:
    return _MARKDOWN_SPECIAL.sub(r"\\\1", _one_line(text))


def _markdown_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(_markdown, cells))} |"


def _latex(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in _one_line(text))


def _latex_row(cells: Sequence[str]) -> str:
    """After the end of a row, LaTeX would take a bracket or a star at the start of the next one for its distance."""
    row = " & ".join(map(_latex, cells))
    return rf"{'{}' if row.startswith(('[', '*')) else ''}{row} \\"


def _one_line(text: str) -> str:
    return " ".join(text.split())
