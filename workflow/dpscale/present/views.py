"""The page's tables: which rows and columns of the study's tables each of them shows."""

from math import nan
from typing import Any

import pandas as pd

from dpscale.analyse.claims import is_range, is_true
from dpscale.present import words
from dpscale.present.view import Column, View, column_of, environment, plain, point, shown_columns, text, view_of
from dpscale.present.words import Row, Terms
from dpscale.vocabulary import quantities
from dpscale.vocabulary.causes import cause
from dpscale.vocabulary.quantities import quantity
from dpscale.vocabulary.states import HELD_OUT, NOT_MEASURED, NOT_RESOLVABLE, WHOLE_STEP

_WITH_REASON = ("ok", "no baseline", NOT_RESOLVABLE)


def times(table: pd.DataFrame, terms: Terms) -> View:
    return view_of(
        "times",
        "Times of every configuration",
        table,
        [*keys(table, terms), *shown_columns("times", terms, cells={"mfu": mfu})],
    )


def speedup(table: pd.DataFrame, terms: Terms) -> View:
    scaling, *figures = shown_columns("speedup", terms, first=["scaling"])
    columns = [scaling, *keys(table, terms), *figures]
    return view_of("speedup", f"Speedup over 1 {terms.device}", table, columns)


def strong(table: pd.DataFrame, terms: Terms) -> View:
    """What a strategy gains while the global batch is held fixed."""
    held = table[(table["scaling"] == "strong") & (table["status"] == "ok")]
    columns = [*point(held, terms), *shown_columns("speedup", terms, "strong")]
    return view_of("strong", "Strong scaling: the global batch is held fixed", held, columns, source="speedup")


def causes(table: pd.DataFrame, terms: Terms) -> View:
    """The reasons of every configuration, and what is said of those without one."""
    cells = {"cause": lambda row: cause(str(row["cause"])).label}
    columns = [*point(table, terms), *shown_columns("causes", terms, cells=cells)]
    first = table[(table["order"] == 0) | words.are_true(table["is_reason"])]
    caption = f"Why {terms.devices} are not faster: the reasons at every configuration"
    return view_of("causes", caption, first[first["scaling"] == "weak"], columns, source="causes", whole=table)


def scopes(table: pd.DataFrame, terms: Terms) -> View:
    """The configurations that were measured with and without the DataLoader in the clock."""
    columns = [*point(table, terms), *shown_columns("scopes", terms)]
    return view_of("scopes", "With and without the DataLoader in the clock", table, columns, source="scopes")


def communication(table: pd.DataFrame, terms: Terms) -> View:
    columns = [*keys(table, terms), *shown_columns("communication", terms)]
    return view_of("communication", "Communication time, inferred by subtraction (E1)", table, columns)


def estimates(table: pd.DataFrame, terms: Terms) -> View:
    """The estimates of communication in a step, of the configurations that have more than one."""
    caption = "Communication of one step, in ms, as it was estimated"
    others = ["ablation_step_s", "profiler_step_s", "logger_step_s", "isolated_step_s", "training_step_s"]
    order = ["step_s", "training_step_s", *quantities.ESTIMATES_OF_STEP]
    without_interval = ("training_step_s", "profiled_step_s")
    cells = {name: plain(quantity(name, "communication")) for name in without_interval}
    columns = shown_columns("communication", terms, "estimates", first=order, cells=cells, units=False)
    measured = table.dropna(subset=others, how="all")
    return view_of("estimates", caption, measured, [*point(table, terms), *columns], source="communication")


def bandwidth(table: pd.DataFrame, terms: Terms) -> View:
    first = ["allreduce_bytes_per_step", "root_link_bytes_per_step"]
    cells = {quantities.BANDWIDTH.column: words.bandwidth}
    columns = [*keys(table, terms), *shown_columns("bandwidth", terms, first=first, cells=cells)]
    return view_of("bandwidth", "Bandwidth, inferred from the communication time, and measured", table, columns)


def ladder(table: pd.DataFrame, terms: Terms) -> View:
    caption = "Where the time of a step goes, by intervention: each row changes one thing; steps without a profiler"
    cells = {"adds": lambda row: row["adds"] if words.is_known(row["adds"]) else f"1 {terms.device} alone"}
    columns = [*point(table, terms), *shown_columns("ladder", terms, cells=cells)]
    return view_of("ladder", caption, table, columns)


def steps(table: pd.DataFrame, terms: Terms) -> View:
    caption = f"Where a step goes, for every {terms.device}, in ms; brackets hold the least and the most of all blocks"
    first = ["device", "compute_s", "communication_s", "copy_s", "idle_s", "step_s"]
    columns = [*point(table, terms), *shown_columns("steps", terms, first=first, units=False)]
    witnessed = _witnessed(table)
    return view_of("steps", caption, witnessed[witnessed["phase"] == WHOLE_STEP], columns, source="steps", whole=table)


def _witnessed(table: pd.DataFrame) -> pd.DataFrame:
    """The steps that profiling left as they are. Those of records that do not say so are none."""
    return table[table["profiler"] == "ok"]


def phases(table: pd.DataFrame, terms: Terms) -> View:
    """What the first of the most devices did, by phase; the others are in the table on disk."""
    table = _witnessed(table)
    first = table[(table["phase"] != WHOLE_STEP) & (table["device"] == 0) & (table["gpus"] == table["gpus"].max())]
    caption = (
        f"Where a step of {terms.device} 0 goes by phase, on the most {terms.devices}, in ms, by the phase that asked"
    )
    parts = ("compute_s", "communication_s", "copy_s", "idle_s")
    cells = {part: plain(quantity(part, "steps"), digits=3) for part in parts}
    columns = [*point(table, terms), *shown_columns("steps", terms, "phases", cells=cells, units=False)]
    return view_of("phases", caption, first, columns, source="steps")


def bus_bandwidth(table: pd.DataFrame, terms: Terms) -> View:
    """The sweep over message sizes: a row a message, a column an operation."""
    swept = _sweep(table).copy()
    bus = quantities.BUS_BANDWIDTH
    ends = [f"{bus.column}{end}" for end in ("", "_low", "_high")]
    place = ["environment", "gpus", "message_bytes"]
    # No cell of this table has room for the range of two runs.
    swept.loc[[is_range(row, bus.column) for row in words.rows(swept)], ends[1:]] = nan
    wide = swept.pivot(index=place, columns="operation", values=ends)
    wide.columns = pd.Index([f"{name[1]}{name[0].removeprefix(ends[0])}" for name in wide.columns.to_flat_index()])
    caption = f"Bus bandwidth of collectives by message, in GB/s, with nothing else running{_runs_on_servers(swept)}"
    columns = [
        *environment(terms),
        column_of(quantities.GPUS, terms),
        column_of(quantities.MESSAGE, terms),
        *(_of_operation(operation) for operation in sorted(set(swept["operation"]))),
    ]
    return view_of("bus_bandwidth", caption, wide.reset_index(), columns, source="collectives", whole=table)


def _of_operation(operation: str) -> Column:
    heading = words.capitalised(operation.replace("_", "-"))
    return Column(heading, lambda row: words.estimate(row, operation, quantities.BUS_BANDWIDTH.unit))


def collectives(table: pd.DataFrame, terms: Terms) -> View:
    """The messages of a training step, and copies from one device to another."""
    messages = table.drop(_sweep(table).index)
    where = _runs_on_servers(messages)
    caption = f"The messages of a training step, and copies from one to another, with nothing else running{where}"
    cells = {"operation": lambda row: str(row["operation"]).replace("_", " "), "use": _use}
    order = ["operation", "gpus", "message_bytes", "use"]
    operation, gpus, *others = shown_columns("collectives", terms, first=order, cells=cells)
    columns = [operation, gpus, *environment(terms), *others]
    return view_of("collectives", caption, messages, columns, source="collectives")


def _runs_on_servers(timed: pd.DataFrame) -> str:
    """What an interval of collectives is over: `: 3 runs on 1 server`. Runs of one server say nothing of another."""
    if timed.empty:
        return ""
    counts = {column: words.span(timed[column]) for column in ("runs", "servers")}
    return ": " + " on ".join(f"{count} {column if count != '1' else column[:-1]}" for column, count in counts.items())


def laws(table: pd.DataFrame, terms: Terms) -> View:
    """One row a law, compute scope where there is one; a law's parameters stand side by side."""
    shown = table[table["scope"] == min(table["scope"], default="")]
    # A law that too few points identify has none.
    known = [
        f"{row['parameter']} {words.estimate(row, 'value')}" if words.is_known(row["parameter"]) else words.ABSENT
        for row in words.rows(shown)
    ]
    shown = shown.assign(known=known)
    law = ["strategy", "scope", "environment", "batch_per_gpu", "law", "statement"]
    fitted = shown.groupby(law, dropna=False, sort=False)["known"].agg("; ".join).reset_index()
    caption = f"Scaling laws fitted to the weak speedups{_of_scope(shown)}"
    columns = [*point(fitted, terms), text("Parameters", "known"), *shown_columns("laws", terms)]
    return view_of("laws", caption, fitted, columns, source="laws", whole=table)


def published_scaling(table: pd.DataFrame, terms: Terms) -> View:
    caption = "Laws of scaling on trainings that others published: fitted within a node, asked for more nodes"
    columns = [*shown_columns("published_scaling", terms), _status()]
    return view_of("published_scaling", caption, table, columns)


def allreduce_models(table: pd.DataFrame, terms: Terms) -> View:
    caption = (
        "Latency and bandwidth by the model of allreduce, with its errors at the measured sizes; brackets hold what it "
        "misses"
    )
    columns = [*environment(terms), *shown_columns("allreduce_models", terms), _status()]
    return view_of("allreduce_models", caption, table, columns)


def held_out(table: pd.DataFrame, terms: Terms) -> View:
    caption = f"ddp's step on the most {terms.devices}, predicted without any measurement on as many"
    columns = [*_forecast_keys(terms), *shown_columns("forecast", terms, "held_out")]
    return view_of("held_out", caption, table[table["kind"] == HELD_OUT], columns, source="forecast")


def forecast(table: pd.DataFrame, terms: Terms) -> View:
    caption = (
        f"Forecast, not measured: ddp's step on more {terms.devices}; brackets hold all algorithms, all intervals, and "
        "what the model of allreduce misses. A scenario needs links that were not measured"
    )
    first = ["kind", "nodes", "algorithm", "step_s"]
    columns = [*_forecast_keys(terms), *shown_columns("forecast", terms, first=first)]
    ahead = table[table["kind"].isin(NOT_MEASURED)]
    return view_of("forecast", caption, ahead, columns, source="forecast", whole=table)


def _forecast_keys(terms: Terms) -> list[Column]:
    return [*environment(terms), column_of(quantities.GPUS, terms), column_of(quantities.BATCH, terms), _status()]


def critical_batch(table: pd.DataFrame, terms: Terms) -> View:
    caption = f"Batch per {terms.device} from which on communication hides behind backward"
    columns = [
        *environment(terms),
        column_of(quantities.GPUS, terms),
        *shown_columns(
            "critical_batch",
            terms,
            cells={"measured_batch_per_gpu": _hidden_from, "batch_per_gpu": _hides_from},
        ),
        _status(),
    ]
    return view_of("critical_batch", caption, table, columns)


def training_summary(table: pd.DataFrame, terms: Terms) -> View:
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
    cells = {"recovered": _recovered}
    remedies, *others = shown_columns("training_summary", terms, first=order, cells=cells)
    return view_of("training_summary", caption, table, [*_arm(table, terms), remedies, _status(), *others])


def training(curves: pd.DataFrame, epochs: pd.DataFrame, terms: Terms) -> View:
    """Every arm's epochs: the mean over seeds between the least and the most, as its curve shows it."""
    caption = "Every arm after every epoch: mean over seeds, brackets hold all seeds"
    columns = [*_arm(curves, terms), *shown_columns("training_curves", terms)]
    return view_of("training", caption, curves, columns, source="training", whole=epochs)


def frontier(table: pd.DataFrame, terms: Terms) -> View:
    caption = "What every arm's training costs and what it ends with; brackets are 95 % t intervals over seeds"
    return view_of("frontier", caption, table, [*_arm(table, terms), *shown_columns("frontier", terms)])


def twins(table: pd.DataFrame, terms: Terms) -> View:
    caption = (
        "Trainings beside their twins that differ in settings of speed alone; brackets are 95 % intervals over seeds"
    )
    return view_of("twins", caption, table, [*_arm(table, terms), *shown_columns("twins", terms)])


def training_evidence(table: pd.DataFrame, terms: Terms) -> View:
    """The last epoch of every arm's first seed; the others are in the table on disk."""
    first = table[table["seed"] == table.groupby(["arm", "environment"])["seed"].transform("min")]
    last = first[first["epoch"] == first.groupby(["arm", "environment"])["epoch"].transform("max")]
    caption = f"What {terms.devices} share: order of samples and batch-norm statistics in the last epoch of one seed"
    cells = {
        "set_epoch": lambda row: _on_or_off(row["set_epoch"]),
        "sync_batch_norm": lambda row: _on_or_off(row["sync_batch_norm"]),
        "statistics_kept": lambda row: _yes_or_no(row["statistics_kept"]),
    }
    columns = [*_arm(table, terms), *shown_columns("training_evidence", terms, cells=cells)]
    return view_of("training_evidence", caption, last, columns, source="training_evidence", whole=table)


def environments(table: pd.DataFrame, terms: Terms) -> View:
    caption = f"Environments: a letter is a combination of hardware, software and {terms.samples}"
    first = ["environment", "device_model", "cpu_model", "links"]
    cells = {"dataset_sha256": lambda row: words.text(row["dataset_sha256"])[:12]}
    return view_of("environments", caption, table, shown_columns("environments", terms, first=first, cells=cells))


def records(origins: pd.DataFrame, table: pd.DataFrame, terms: Terms) -> View:
    """How many records there are of a kind, by what measured them; each of them is in the table on disk."""
    kind, *others = shown_columns("origins", terms, cells={"git_commit": _commit, "jobs": _jobs})
    columns = [kind, *environment(terms), *others]
    return view_of("records", "Records used, by what measured them", origins, columns, source="records", whole=table)


def rejected(table: pd.DataFrame, terms: Terms) -> View:
    return view_of("rejected", "Records found and not used", table, shown_columns("rejected", terms))


def _sweep(collectives: pd.DataFrame) -> pd.DataFrame:
    """The collectives of the sweep: for no message of a training, and between no two devices alone."""
    return collectives[collectives["use"].isna() & collectives["source"].isna()]


def _of_scope(table: pd.DataFrame) -> str:
    return f", {words.scope(table['scope'].iloc[0])}" if len(table) else ""


def keys(table: pd.DataFrame, terms: Terms) -> list[Column]:
    """What tells configurations apart, and their state."""
    return [*point(table, terms), column_of(quantities.STATUS, terms, _state)]


def _arm(table: pd.DataFrame, terms: Terms) -> list[Column]:
    return [column_of(quantities.ARM, terms), *point(table, terms)]


def _status() -> Column:
    return Column(quantities.STATUS.label, _status_with_reason, is_number=False)


def _on_or_off(value: Any) -> str:
    return "on" if is_true(value) else "off"


def _yes_or_no(value: Any) -> str:
    return ("yes" if is_true(value) else "no") if words.is_known(value) else words.ABSENT


def _state(row: Row) -> str:
    """The state's word, with its reason only where that is this table's own: why there is no time is under Not run."""
    return _status_with_reason(row) if row["status"] in _WITH_REASON else words.state(row["status"])


def _status_with_reason(row: Row) -> str:
    """The state's word, with its reason where the table has one: an `ok` can have one too."""
    word, reason = words.state(row["status"]), row.get("reason")
    return f"{word}: {reason}" if words.is_known(reason) else word


def mfu(row: Row) -> str:
    """Work was counted, but the GPU's peak is not in the table: unknown, which is not the same as not counted."""
    if row["peak_source"] == "unknown":
        return "unknown"
    return words.estimate(row, "mfu", quantity("mfu").unit)


def _recovered(row: Row) -> str:
    if words.text(row["recovered_status"]) == NOT_RESOLVABLE:
        return NOT_RESOLVABLE
    return words.estimate(row, "recovered", quantity("recovered").unit)


def _use(row: Row) -> str:
    if words.is_known(row["source"]):
        return f"from {int(row['source'])} to {int(row['target'])}"
    return words.text(row["use"])


def _hides_from(row: Row) -> str:
    """The predicted batch, a whole number; a dash where it is not known."""
    if not words.is_known(row["batch_per_gpu"]):
        return words.ABSENT
    has_interval = words.is_known(row["batch_per_gpu_low"])
    return words.estimate(row, "batch_per_gpu") if has_interval else words.whole(row["batch_per_gpu"])


def _hidden_from(row: Row) -> str:
    if not row["profiled"]:
        return "not known"
    return words.whole(row["measured_batch_per_gpu"]) if words.is_known(row["measured_batch_per_gpu"]) else "none"


def _commit(row: Row) -> str:
    commit = words.text(row["git_commit"])[:12]
    return f"{commit} (dirty)" if is_true(row["git_dirty"]) else commit


def _jobs(row: Row) -> str:
    return words.listed(str(row["jobs"]).split("; "), 3) if words.is_known(row["jobs"]) else words.ABSENT
