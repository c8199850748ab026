"""The page's tables: which rows and columns of the study's tables each of them shows."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from dpscale.formulas.figure import Figure
from dpscale.present.text.numbers import ABSENT, estimate, plain, whole
from dpscale.present.text.view import ShownColumn, View, point, shown, shown_columns, view_of, written
from dpscale.present.text.words import Terms, capitalised, listed, ok, on_or_off, scope, span, state, text
from dpscale.tables.answer import CausesRow
from dpscale.tables.column import GB_PER_S, PERCENT
from dpscale.tables.communication import BandwidthRow, CollectivesRow, CommunicationRow, LadderRow, StepsRow
from dpscale.tables.forecast import AllreduceModelsRow, CriticalBatchRow, ForecastRow, LawsRow, PublishedScalingRow
from dpscale.tables.quantities import ESTIMATES_OF_STEP
from dpscale.tables.row import Row
from dpscale.tables.study import EnvironmentsRow, OriginsRow, RecordsRow, RejectedRow
from dpscale.tables.timing import ScopesRow, SpeedupRow, TimesRow
from dpscale.tables.training import (
    FrontierRow,
    TrainingCurvesRow,
    TrainingEvidenceRow,
    TrainingRow,
    TrainingSummaryRow,
    TwinsRow,
)
from dpscale.vocabulary.causes import cause
from dpscale.vocabulary.states import HELD_OUT, NOT_MEASURED, NOT_RESOLVABLE, WHOLE_STEP

_WITH_REASON = ("ok", "no baseline", NOT_RESOLVABLE)


class _WithReason(Protocol):
    @property
    def status(self) -> str: ...
    @property
    def reason(self) -> str: ...


class _Utilised(Protocol):
    @property
    def mfu(self) -> Figure: ...
    @property
    def peak_source(self) -> str: ...


def times(rows: Sequence[TimesRow], terms: Terms) -> View:
    columns = [*keys(TimesRow, rows, terms), *shown_columns(TimesRow, "times", terms, cells={"mfu": mfu})]
    return view_of("times", "Times of every configuration", rows, columns, all_rows=rows)


def speedup(rows: Sequence[SpeedupRow], terms: Terms) -> View:
    scaling, *figures = shown_columns(SpeedupRow, "speedup", terms, first=["scaling"])
    columns = [scaling, *keys(SpeedupRow, rows, terms), *figures]
    return view_of("speedup", f"Speedup over 1 {terms.device}", rows, columns, all_rows=rows)


def strong(rows: Sequence[SpeedupRow], terms: Terms) -> View:
    """What a strategy gains while the global batch is held fixed."""
    held = ok(row for row in rows if row.scaling == "strong")
    columns = [*point(SpeedupRow, held, terms), *shown_columns(SpeedupRow, "strong", terms)]
    return view_of("strong", "Strong scaling: the global batch is held fixed", held, columns, "speedup")


def causes(rows: Sequence[CausesRow], terms: Terms) -> View:
    """The reasons of every configuration, and what is said of those without one."""
    cells = {"cause": lambda row: cause(row.cause).label}
    columns = [*point(CausesRow, rows, terms), *shown_columns(CausesRow, "causes", terms, cells=cells)]
    first = [row for row in rows if row.scaling == "weak" and (row.order == 0 or row.is_reason)]
    caption = f"Why {terms.devices} are not faster: the reasons at every configuration"
    return view_of("causes", caption, first, columns, all_rows=rows)


def scopes(rows: Sequence[ScopesRow], terms: Terms) -> View:
    """The configurations that were measured with and without the DataLoader in the clock."""
    columns = [*point(ScopesRow, rows, terms), *shown_columns(ScopesRow, "scopes", terms)]
    return view_of("scopes", "With and without the DataLoader in the clock", rows, columns)


def communication(rows: Sequence[CommunicationRow], terms: Terms) -> View:
    columns = [*keys(CommunicationRow, rows, terms), *shown_columns(CommunicationRow, "communication", terms)]
    caption = "Communication time, inferred by subtraction (E1)"
    return view_of("communication", caption, rows, columns, all_rows=rows)


def estimates(rows: Sequence[CommunicationRow], terms: Terms) -> View:
    """The estimates of communication in a step, of the configurations that have more than one."""
    measured = [row for row in rows if _is_estimated(row)]
    steps = ("training_step_s", "profiled_step_s")  # which are shown without their intervals
    columns = shown_columns(
        CommunicationRow,
        "estimates",
        terms,
        first=["step_s", "training_step_s", *ESTIMATES_OF_STEP],
        cells={name: written(CommunicationRow.column(name), digits=4) for name in steps},
        units=False,
    )
    caption = "Communication of one step, in ms, as it was estimated"
    columns = [*point(CommunicationRow, rows, terms), *columns]
    return view_of("estimates", caption, measured, columns, "communication")


def _is_estimated(row: CommunicationRow) -> bool:
    others = (
        row.ablation_step_s, row.profiler_step_s, row.logger_step_s, row.isolated_step_s, row.training_step_s,
    )  # fmt: skip
    return any(other.is_known for other in others)


def bandwidth(rows: Sequence[BandwidthRow], terms: Terms) -> View:
    first = ["allreduce_bytes_per_step", "root_link_bytes_per_step"]
    figures = shown_columns(BandwidthRow, "bandwidth", terms, first, {"bandwidth_gb_s": _bandwidth})
    caption = "Bandwidth, inferred from the communication time, and measured"
    return view_of("bandwidth", caption, rows, [*keys(BandwidthRow, rows, terms), *figures], all_rows=rows)


def _bandwidth(row: BandwidthRow) -> str:
    """The inferred bandwidth with its interval, or what follows where it is not resolvable: `at least 47.1`."""
    least = plain(row.bandwidth_gb_s_at_least, 3)
    return estimate(row.bandwidth_gb_s, GB_PER_S) if least == ABSENT else f"at least {least}"


def ladder(rows: Sequence[LadderRow], terms: Terms) -> View:
    caption = "Where the time of a step goes, by intervention: each row changes one thing; steps without a profiler"
    cells = {"adds": lambda row: row.adds or f"1 {terms.device} alone"}
    columns = [*point(LadderRow, rows, terms), *shown_columns(LadderRow, "ladder", terms, cells=cells)]
    return view_of("ladder", caption, rows, columns, all_rows=rows)


def steps(rows: Sequence[StepsRow], terms: Terms) -> View:
    caption = f"Where a step goes, for every {terms.device}, in ms; brackets hold the least and the most of all blocks"
    first = ["device", "compute_s", "communication_s", "copy_s", "idle_s", "step_s"]
    columns = [*point(StepsRow, rows, terms), *shown_columns(StepsRow, "steps", terms, first, units=False)]
    return view_of("steps", caption, [row for row in _seen(rows) if row.phase == WHOLE_STEP], columns, all_rows=rows)


def _seen(rows: Iterable[StepsRow]) -> list[StepsRow]:
    """The steps that profiling left as they are. Those of records that do not say so are none."""
    return [row for row in rows if row.profiler == "ok"]


def phases(rows: Sequence[StepsRow], terms: Terms) -> View:
    """What the first of the most devices did, by phase; the others are in the table on disk."""
    seen = _seen(rows)
    most = max((row.gpus for row in seen), default=0)
    first = [row for row in seen if row.phase != WHOLE_STEP and row.device == 0 and row.gpus == most]
    caption = (
        f"Where a step of {terms.device} 0 goes by phase, on the most {terms.devices}, in ms, by the phase that asked"
    )
    parts = ("compute_s", "communication_s", "copy_s", "idle_s")
    cells = {part: written(StepsRow.column(part), digits=3) for part in parts}
    columns = [*point(StepsRow, seen, terms), *shown_columns(StepsRow, "phases", terms, cells=cells, units=False)]
    return view_of("phases", caption, first, columns, "steps")


def bus_bandwidth(rows: Sequence[CollectivesRow], terms: Terms) -> View:
    """The sweep over message sizes: a row a message, a column an operation."""
    swept = _sweep(rows)
    timed = {(_message(row), row.operation): row.bus_bandwidth_gb_s for row in swept}
    messages = {_message(row): row for row in swept}
    operations = sorted({row.operation for row in swept})
    caption = f"Bus bandwidth of collectives by message, in GB/s, with nothing else running{_runs_on_servers(swept)}"
    columns = [
        *_environment(CollectivesRow, terms),
        shown(CollectivesRow.column("gpus"), terms),
        shown(CollectivesRow.column("message_bytes"), terms),
        *(_of_operation(operation, timed) for operation in operations),
    ]
    in_order = [messages[message] for message in sorted(messages)]
    return view_of("bus_bandwidth", caption, in_order, columns, "collectives", rows)


def _message(row: CollectivesRow) -> tuple[str, int, int]:
    return row.environment, row.gpus, row.message_bytes or 0


def _of_operation(operation: str, timed: dict[tuple[Any, str], Figure]) -> ShownColumn[CollectivesRow]:
    """No cell of this table has room for the range of two runs."""

    def cell(row: CollectivesRow) -> str:
        found = timed.get((_message(row), operation), Figure())
        return estimate(found if found.has_interval else Figure(found.value), GB_PER_S)

    return ShownColumn(capitalised(operation.replace("_", "-")), cell)


def collectives(rows: Sequence[CollectivesRow], terms: Terms) -> View:
    """The messages of a training step, and copies from one device to another."""
    messages = [row for row in rows if not _is_of_sweep(row)]
    where = _runs_on_servers(messages)
    caption = f"The messages of a training step, and copies from one to another, with nothing else running{where}"
    cells: dict[str, Callable[[CollectivesRow], str]] = {
        "operation": lambda row: row.operation.replace("_", " "),
        "use": _use,
    }
    order = ["operation", "gpus", "message_bytes", "use"]
    operation, gpus, *others = shown_columns(CollectivesRow, "collectives", terms, order, cells)
    columns = [operation, gpus, *_environment(CollectivesRow, terms), *others]
    return view_of("collectives", caption, messages, columns)


def _use(row: CollectivesRow) -> str:
    return text(row.use) if row.source is None else f"from {row.source} to {row.target}"


def _is_of_sweep(row: CollectivesRow) -> bool:
    """Whether it is for no message of a training, and between no two devices alone."""
    return not row.use and row.source is None


def _sweep(rows: Iterable[CollectivesRow]) -> list[CollectivesRow]:
    return [row for row in rows if _is_of_sweep(row)]


def _runs_on_servers(timed: Sequence[CollectivesRow]) -> str:
    """What an interval of collectives is over: `: 3 runs on 1 server`. Runs of one server say nothing of another."""
    if not timed:
        return ""
    counts = {"run": span(row.runs for row in timed), "server": span(row.servers for row in timed)}
    return ": " + " on ".join(f"{count} {noun}{'' if count == '1' else 's'}" for noun, count in counts.items())


def laws(rows: Sequence[LawsRow], terms: Terms) -> View:
    """One row a law, compute scope where there is one; a law's parameters stand side by side."""
    first = min((row.scope for row in rows), default="")
    fitted: dict[tuple[Any, ...], list[LawsRow]] = {}
    for row in rows:
        if row.scope == first:
            fitted.setdefault(_law(row), []).append(row)
    shown_rows = [parameters[0] for parameters in fitted.values()]
    parameters = ShownColumn[LawsRow](
        "Parameters", lambda row: "; ".join(map(_parameter, fitted[_law(row)])), is_number=False
    )
    where = f", {scope(first)}" if rows else ""
    columns = [*point(LawsRow, shown_rows, terms), parameters, *shown_columns(LawsRow, "laws", terms)]
    caption = f"Scaling laws fitted to the weak speedups{where}"
    return view_of("laws", caption, shown_rows, columns, all_rows=rows)


def _law(row: LawsRow) -> tuple[Any, ...]:
    return row.strategy, row.environment, row.batch_per_gpu, row.law, row.statement


def _parameter(row: LawsRow) -> str:
    """A law that too few points identify has none."""
    return f"{row.parameter} {estimate(row.value)}" if row.parameter else ABSENT


def published_scaling(rows: Sequence[PublishedScalingRow], terms: Terms) -> View:
    caption = "Laws of scaling on trainings that others published: fitted within a node, asked for more nodes"
    columns = [*shown_columns(PublishedScalingRow, "published_scaling", terms), _STATUS]
    return view_of("published_scaling", caption, rows, columns, all_rows=rows)


def allreduce_models(rows: Sequence[AllreduceModelsRow], terms: Terms) -> View:
    caption = (
        "Latency and bandwidth by the model of allreduce, with its errors at the measured sizes; brackets hold what it "
        "misses"
    )
    figures = shown_columns(AllreduceModelsRow, "allreduce_models", terms)
    columns = [*_environment(AllreduceModelsRow, terms), *figures, _STATUS]
    return view_of("allreduce_models", caption, rows, columns, all_rows=rows)


def held_out(rows: Sequence[ForecastRow], terms: Terms) -> View:
    caption = f"ddp's step on the most {terms.devices}, predicted without any measurement on as many"
    scored = [row for row in rows if row.kind == HELD_OUT]
    columns = [*_forecast_keys(terms), *shown_columns(ForecastRow, "held_out", terms)]
    return view_of("held_out", caption, scored, columns, "forecast")


def forecast(rows: Sequence[ForecastRow], terms: Terms) -> View:
    caption = (
        f"Forecast, not measured: ddp's step on more {terms.devices}; brackets hold all algorithms, all intervals, and "
        "what the model of allreduce misses. A scenario needs links that were not measured"
    )
    first = ["kind", "nodes", "algorithm", "step_s"]
    ahead = [row for row in rows if row.kind in NOT_MEASURED]
    columns = [*_forecast_keys(terms), *shown_columns(ForecastRow, "forecast", terms, first)]
    return view_of("forecast", caption, ahead, columns, all_rows=rows)


def _forecast_keys(terms: Terms) -> list[ShownColumn[Any]]:
    numbers = (shown(ForecastRow.column(name), terms) for name in ("gpus", "batch_per_gpu"))
    return [*_environment(ForecastRow, terms), *numbers, _STATUS]


def critical_batch(rows: Sequence[CriticalBatchRow], terms: Terms) -> View:
    caption = f"Batch per {terms.device} from which on communication hides behind backward"
    cells = {"measured_batch_per_gpu": _hidden_from, "batch_per_gpu": _hides_from}
    columns = [
        *_environment(CriticalBatchRow, terms),
        shown(CriticalBatchRow.column("gpus"), terms),
        *shown_columns(CriticalBatchRow, "critical_batch", terms, cells=cells),
        _STATUS,
    ]
    return view_of("critical_batch", caption, rows, columns, all_rows=rows)


def _hides_from(row: CriticalBatchRow) -> str:
    """The predicted batch, a whole number; a dash where it is not known."""
    return estimate(row.batch_per_gpu) if row.batch_per_gpu.has_interval else whole(row.batch_per_gpu.value)


def _hidden_from(row: CriticalBatchRow) -> str:
    if not row.profiled:
        return "not known"
    return "none" if row.measured_batch_per_gpu is None else whole(row.measured_batch_per_gpu)


def training_summary(rows: Sequence[TrainingSummaryRow], terms: Terms) -> View:
    caption = "What every arm comes to after its last epoch; brackets are 95 % t intervals over seeds"
    order = [
        "remedies",
        "faster_by",
        "tuned_trials",
        "tuned_on",
        "seeds",
        "epochs",
        "test_accuracy",
        "test_accuracy_spread",
        "compared_with",
        "test_accuracy_difference",
        "test_accuracy_gain",
        "recovered",
        "training_accuracy",
        "training_loss",
        "test_loss",
    ]
    remedies, *others = shown_columns(
        TrainingSummaryRow, "training_summary", terms, order, cells={"recovered": _recovered}
    )
    columns = [*_arm(TrainingSummaryRow, rows, terms), remedies, _STATUS, *others]
    return view_of("training_summary", caption, rows, columns, all_rows=rows)


def _recovered(row: TrainingSummaryRow) -> str:
    return NOT_RESOLVABLE if row.recovered_status == NOT_RESOLVABLE else estimate(row.recovered, PERCENT)


def training(curves: Sequence[TrainingCurvesRow], epochs: Sequence[TrainingRow], terms: Terms) -> View:
    """Every arm's epochs: the mean over seeds between the least and the most, as its curve shows it."""
    caption = "Every arm after every epoch: mean over seeds, brackets hold all seeds"
    columns = [*_arm(TrainingCurvesRow, curves, terms), *shown_columns(TrainingCurvesRow, "training_curves", terms)]
    return view_of("training", caption, curves, columns, all_rows=epochs)


def frontier(rows: Sequence[FrontierRow], terms: Terms) -> View:
    caption = "What every arm's training costs and what it ends with; brackets are 95 % t intervals over seeds"
    columns = [*_arm(FrontierRow, rows, terms), *shown_columns(FrontierRow, "frontier", terms)]
    return view_of("frontier", caption, rows, columns, all_rows=rows)


def twins(rows: Sequence[TwinsRow], terms: Terms) -> View:
    caption = (
        "Trainings beside their twins that differ in settings of speed alone; brackets are 95 % intervals over seeds"
    )
    columns = [*_arm(TwinsRow, rows, terms), *shown_columns(TwinsRow, "twins", terms)]
    return view_of("twins", caption, rows, columns, all_rows=rows)


def training_evidence(rows: Sequence[TrainingEvidenceRow], terms: Terms) -> View:
    """The last epoch of every arm's first seed; the others are in the table on disk."""
    last: dict[tuple[str, str], tuple[int, int]] = {}
    for row in rows:
        arm, here = (row.arm, row.environment), (-row.seed, row.epoch)
        last[arm] = max(last.get(arm, here), here)
    shown_rows = [row for row in rows if last[row.arm, row.environment] == (-row.seed, row.epoch)]
    caption = f"What {terms.devices} share: order of samples and batch-norm statistics in the last epoch of one seed"
    cells: dict[str, Callable[[TrainingEvidenceRow], str]] = {
        "set_epoch": lambda row: on_or_off(row.set_epoch),
        "sync_batch_norm": lambda row: on_or_off(row.sync_batch_norm),
        "statistics_kept": lambda row: {None: ABSENT, True: "yes", False: "no"}[row.statistics_kept],
    }
    figures = shown_columns(TrainingEvidenceRow, "training_evidence", terms, cells=cells)
    columns = [*_arm(TrainingEvidenceRow, rows, terms), *figures]
    return view_of("training_evidence", caption, shown_rows, columns, all_rows=rows)


def environments(rows: Sequence[EnvironmentsRow], terms: Terms) -> View:
    caption = f"Environments: a letter is a combination of hardware, software and {terms.samples}"
    first = ["environment", "device_model", "cpu_model", "links"]
    cells = {"dataset_sha256": lambda row: text(row.dataset_sha256)[:12]}
    columns = shown_columns(EnvironmentsRow, "environments", terms, first, cells)
    return view_of("environments", caption, rows, columns, all_rows=rows)


def records(origins: Sequence[OriginsRow], rows: Sequence[RecordsRow], terms: Terms) -> View:
    """How many records there are of a kind, by what measured them; each of them is in the table on disk."""
    cells: dict[str, Callable[[OriginsRow], str]] = {
        "git_commit": lambda row: f"{text(row.git_commit)[:12]}{' (dirty)' if row.git_dirty else ''}",
        "jobs": lambda row: text(listed(row.jobs.split("; "), 3)),
    }
    kind, *others = shown_columns(OriginsRow, "origins", terms, cells=cells)
    columns = [kind, *_environment(OriginsRow, terms), *others]
    return view_of("records", "Records used, by what measured them", origins, columns, all_rows=rows)


def rejected(rows: Sequence[RejectedRow], terms: Terms) -> View:
    columns = shown_columns(RejectedRow, "rejected", terms)
    return view_of("rejected", "Records found and not used", rows, columns, all_rows=rows)


def keys(kind: type[Row], rows: Sequence[Row], terms: Terms) -> list[ShownColumn[Any]]:
    """What tells configurations apart, and their state."""
    return [*point(kind, rows, terms), shown(kind.column("status"), terms, _state)]


def _arm(kind: type[Row], rows: Sequence[Row], terms: Terms) -> list[ShownColumn[Any]]:
    return [shown(kind.column("arm"), terms), *point(kind, rows, terms)]


def _environment(kind: type[Row], terms: Terms) -> list[ShownColumn[Any]]:
    """The environment's column, where there are several."""
    return [shown(kind.column("environment"), terms)] if terms.several_environments else []


def _state(row: _WithReason) -> str:
    """The state's word, with its reason only where that is this table's own: why there is no time is under Not run."""
    return _status_with_reason(row) if row.status in _WITH_REASON else state(row.status)


def _status_with_reason(row: _WithReason) -> str:
    """The state's word, with its reason where the table has one: an `ok` can have one too."""
    return ": ".join(filter(None, (state(row.status), row.reason)))


_STATUS = ShownColumn("Status", _status_with_reason, is_number=False)


def mfu(row: _Utilised) -> str:
    """Work was counted, but the GPU's peak is not in the table: unknown, which is not the same as not counted."""
    return "unknown" if row.peak_source == "unknown" else estimate(row.mfu, PERCENT)
