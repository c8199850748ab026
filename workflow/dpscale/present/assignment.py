"""The assignment's tables in their familiar form, all strategies in one table: to read, to copy and to hand in.

Table 1: time and speedup. Table 2: computation and communication time. Table 3: bandwidth and its utilisation. And what
large batches end at. Every table has one row per strategy and batch; a word stands where there is no number.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from dpscale.analyse.claims import is_range
from dpscale.present import assignment_sentences, words
from dpscale.present.sheet import AT_LEAST, Group, Sheet
from dpscale.present.study.environment_facts import dates
from dpscale.present.words import Row, Tables, Terms
from dpscale.strategies.known import BASELINE
from dpscale.tables.study import RecordsRow
from dpscale.vocabulary import quantities
from dpscale.vocabulary.quantities import TEST_ACCURACY, TRAINING_ACCURACY, TRAINING_LOSS, Quantity, quantity
from dpscale.vocabulary.states import NOT_PLANNED, NOT_RESOLVABLE

_BATCHES_SHOWN = 24
_NUMBERS_SHOWN = 6
_NOT_MEASURED = "not measured"
_TIMED = ("times", "speedup", "communication", "bandwidth")
_ENDS = (TRAINING_LOSS, TRAINING_ACCURACY, TEST_ACCURACY)
# Of the strategies, this one has no allreduce, and the tables of an assignment give it the bandwidth of one.
_WITHOUT_ALLREDUCE = "dp"


def sheets(tables: Tables, terms: Terms) -> list[Sheet]:
    """The tables of every environment that has results on several devices."""
    found = []
    for environment, strategies in _places(tables).items():
        here = {name: _in(tables[name], environment) for name in (*_TIMED, "training_summary", "ladder")}
        made = (
            _times_and_speedup(here, strategies, terms),
            _computation_and_communication(here, strategies, terms),
            _bandwidth(here, strategies, terms),
            _large_batches(here["training_summary"], strategies, terms),
        )
        where = terms.environment({"environment": environment})
        suffix = f"-{environment}".lower() if where else ""
        note = _note(tables, environment, terms)
        found += [
            replace(sheet, id=f"{sheet.id}{suffix}", title=f"{sheet.title}{where}", note=note)
            for sheet in made
            if sheet
        ]
    return found


def _places(tables: Tables) -> dict[str, list[str]]:
    """By environment, the strategies with results on several devices there."""
    times, trained = words.ok(words.in_order(tables["times"])), words.ok(tables["training_summary"])
    several = pd.concat([part[part["gpus"] > 1][["strategy", "environment"]] for part in (times, trained)])
    places: dict[str, list[str]] = {}
    for row in words.rows(several.drop_duplicates()):
        places.setdefault(str(row["environment"]), []).append(str(row["strategy"]))
    return places


def _in(table: pd.DataFrame, environment: str) -> pd.DataFrame:
    """The rows of an environment, and those without a record, which have none and belong to each."""
    return table[table["environment"].isna() | (table["environment"].astype(str) == environment)]


def _note(tables: Tables, environment: str, terms: Terms) -> str:
    """What measured, and when: a copy is read without its page."""
    environments, records = (_in(tables[name], environment) for name in ("environments", "records"))
    models = sorted(set(environments["device_model"].dropna().astype(str)))
    measured = [RecordsRow.read(row) for row in words.rows(records)]
    synthetic = "Synthetic images. " if terms.synthetic else ""
    on = f" on {words.listed(models)}" if models else ""
    return f"{synthetic}{words.capitalised(dates(measured))}{on}."


def _times_and_speedup(here: Tables, strategies: Sequence[str], terms: Terms) -> Sheet | None:
    """Of the compute scope, or of the first there is."""
    scope = min(here["times"]["scope"], default="compute")
    times, speedup = (here[name][here[name]["scope"] == scope] for name in ("times", "speedup"))
    weak = speedup[speedup["scaling"] == "weak"]
    return _by_batch(
        "table-1",
        "Table 1: time and speedup",
        f"Epoch time T(N,b), s, and speedup T(1,b) / T(N,b), ×, {words.scope(scope)}",
        here["times"],
        {
            strategy: [
                _Drawn("time", times[times["strategy"].isin([BASELINE, strategy])], quantities.EPOCH),
                _Drawn("speedup", weak[weak["strategy"] == strategy], quantities.SPEEDUP),
            ]
            for strategy in strategies
        },
        terms,
        assignment_sentences.of_speedup(here, scope, terms),
    )


def _computation_and_communication(here: Tables, strategies: Sequence[str], terms: Terms) -> Sheet | None:
    communication = here["communication"]
    parts = {strategy: communication[communication["strategy"] == strategy] for strategy in strategies}
    return _by_batch(
        "table-2",
        "Table 2: computation and communication time",
        "Of an epoch, inferred: computation T(1,b)/N, s, and communication T(N,b) − T(1,b)/N, s, compute scope",
        here["times"],
        {
            strategy: [
                _Drawn("computation", part, quantity("compute_s", "communication")),
                _Drawn("communication", part, quantities.COMMUNICATION),
            ]
            for strategy, part in parts.items()
        },
        terms,
        assignment_sentences.of_communication(here, terms),
    )


def _bandwidth(here: Tables, strategies: Sequence[str], terms: Terms) -> Sheet | None:
    bandwidth = here["bandwidth"]
    parts = {strategy: bandwidth[bandwidth["strategy"] == strategy] for strategy in strategies}
    return _by_batch(
        "table-3",
        "Table 3: bandwidth utilisation",
        "Bytes of a ring allreduce over the communication time, GB/s (1 GB is 10⁹ bytes), and that over the measured "
        "bus bandwidth, %, compute scope",
        here["times"],
        {
            strategy: [
                _Drawn("bandwidth", part, quantities.BANDWIDTH),
                _Drawn("utilisation", part, quantity("utilisation")),
            ]
            for strategy, part in parts.items()
        },
        terms,
        assignment_sentences.of_bandwidth(here, terms),
        "DataParallel runs no allreduce: its figure is for comparison only" if _WITHOUT_ALLREDUCE in strategies else "",
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

    def cells(self, gpus: int) -> dict[int, str]:
        """What stands in its column, by batch."""
        rows = self.rows[self.rows["gpus"] == gpus]
        return {row["batch_per_gpu"]: _cell(row, self.quantity) for row in words.rows(rows)}


def _by_batch(
    id: str,
    title: str,
    caption: str,
    times: pd.DataFrame,
    drawn: Mapping[str, Sequence[_Drawn]],
    terms: Terms,
    explanations: Sequence[str],
    remark: str = "",
) -> Sheet | None:
    """One row for every strategy and batch that one device was to be timed with, as the others are compared with it."""
    batches = sorted(set(times[times["strategy"] == BASELINE]["batch_per_gpu"]))
    decided = {strategy: ways for strategy, ways in drawn.items() if any(way.is_decided for way in ways)}
    if not batches or not decided:
        return None
    measured = [way for ways in decided.values() for way in ways]
    numbers = sorted({gpus for way in measured for gpus in way.rows["gpus"]})
    columns = {
        (gpus, way.name): f"{terms.count(gpus)}{words.on_nodes(times[times['gpus'] == gpus])}: {way.heading}"
        for gpus in numbers[:_NUMBERS_SHOWN]
        for way in measured
        if any(gpus in set(other.rows["gpus"]) for other in measured if other.name == way.name)
    }
    shown = batches[:_BATCHES_SHOWN]
    groups = [Group(strategy, list(_rows(shown, ways, list(columns)))) for strategy, ways in decided.items()]
    left_out = ""
    if len(batches) > _BATCHES_SHOWN or len(numbers) > _NUMBERS_SHOWN:
        left_out = f". The first of {len(batches):,} batches and {len(numbers):,} numbers of {terms.devices}"
    said = f"{caption}; {_brackets(measured)}{left_out}."
    return Sheet(
        id,
        title,
        f"{said} {remark}." if remark else said,
        [f"Batch per {terms.device}", *columns.values()],
        groups,
        explanations=explanations,
    )


def _rows(batches: Sequence[int], ways: Sequence[_Drawn], columns: Sequence[tuple[int, str]]) -> Iterator[list[str]]:
    cells = {(gpus, way.name): way.cells(gpus) for way in ways for gpus, name in columns if name == way.name}
    for batch in batches:
        yield [f"{batch:,}", *(cells[column].get(batch, NOT_PLANNED) for column in columns)]


def _brackets(drawn: Sequence[_Drawn]) -> str:
    """What stands behind the numbers."""
    has_range = any(is_range(row, way.quantity.column) for way in drawn for row in words.rows(way.rows))
    return f"in brackets 95 % intervals{', in parentheses ranges of two runs' if has_range else ''}"


def _cell(row: Row, shown: Quantity) -> str:
    """The number, with its interval where the table has one; otherwise the state that is the reason for none."""
    if words.is_known(row[shown.column]):
        return words.brief(row, shown.column, shown.unit)
    if shown is quantities.BANDWIDTH and words.is_known(row["bandwidth_gb_s_at_least"]):
        return f"{AT_LEAST} {words.figure(row['bandwidth_gb_s_at_least'], 3)}"
    return _NOT_MEASURED if row["status"] == "ok" else words.state(row["status"])


def _large_batches(summary: pd.DataFrame, strategies: Sequence[str], terms: Terms) -> Sheet | None:
    """The strategies' arms without remedies below the baseline."""
    is_baseline = words.are_true(summary["is_baseline"])
    plain = summary["remedies"].isna() | (summary["remedies"] == "")
    mine = summary[~is_baseline & plain & summary["strategy"].isin(strategies)].sort_values("global_batch")
    if words.ok(mine).empty:
        return None
    groups = [Group(f"baseline: {name}", _arms(part)) for name, part in summary[is_baseline].groupby("strategy")]
    groups += [
        Group(strategy, _arms(part)) for strategy in strategies if len(part := mine[mine["strategy"] == strategy])
    ]
    return Sheet(
        "large-batches",
        "Large batches",
        "Mean cross-entropy of training, accuracy of training and on the test images, %, after the epoch named; the "
        "baseline first; 95 % t intervals over seeds in brackets.",
        ["Arm", "Global batch", terms.heading, "Epoch", "Seeds", *(end.heading for end in _ENDS)],
        groups,
    )


def _arms(part: pd.DataFrame) -> list[list[str]]:
    counts = ("global_batch", "gpus", "epochs", "seeds")
    return [
        [row["arm"], *(words.whole(row[name]) for name in counts), *(_cell(row, end) for end in _ENDS)]
        for row in words.rows(part)
    ]
