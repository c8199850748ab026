"""Tables for reading: which columns of a table are shown, under which heading, with which unit."""

import base64
import io
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import pandas as pd

from dpscale.analyse.columns import EXTRAPOLATED, HELD_OUT, NOT_RESOLVABLE, WHOLE_STEP
from dpscale.present import words
from dpscale.present.words import Row, Words

ROWS_SHOWN = 200
_ROWS_IN_LINK = 500
_LINK_CHARACTERS = 12_000
_WIDE_CHARACTERS = 40
_US = 1e6
_MS = 1e3
_MB = 1e-6
_GB = 1e-9
_ARM_COLUMNS = ["arm", *words.POINT_COLUMNS, "environment"]
_WITH_REASON = ("ok", "no baseline", NOT_RESOLVABLE)
_SPEEDUP = ("speedup", "speedup_low", "speedup_high")


@dataclass(frozen=True)
class Column:
    """A heading with its unit, and what stands under it for a row of the table."""

    heading: str
    cell: Callable[[Row], str]
    is_number: bool = True


@dataclass(frozen=True)
class View:
    """A table as the page shows it: text only. `source` is the CSV table it is made of; `csv_link`, a data URL of that
    in a ZIP file, is None where it is large, or where another view has it."""

    name: str
    source: str
    caption: str
    columns: Sequence[Column]
    cells: Sequence[Sequence[str]]
    rows_left_out: int
    csv_link: str | None

    @property
    def rows(self) -> list[tuple[Sequence[str], int]]:
        """The cells of every row without the dashes at its end, and how many dashes these are."""
        return [(row[: len(row) - blank], blank) for row in self.cells for blank in [_dashes_at_end(row)]]

    @property
    def css_classes(self) -> str:
        """`t2 w5`: the second column is text, the fifth text that is long. Said once a table, not once a cell."""
        named = []
        for number, column in enumerate(self.columns, start=1):
            if not column.is_number:
                is_wide = any(len(row[number - 1]) > _WIDE_CHARACTERS for row in self.cells)
                named.append(f"{'w' if is_wide else 't'}{number}")
        return " ".join(named)


def _dashes_at_end(row: Sequence[str]) -> int:
    return sum(1 for _ in takewhile(lambda cell: cell == words.ABSENT, reversed(row)))


def times(table: pd.DataFrame, say: Words) -> View:
    return view_of("times", "Times of every configuration", table, [
        *_keys(table, say),
        whole("Runs", "runs"),
        whole("Timed epochs", "n"),
        estimate("Epoch time, s", "epoch_s"),
        _figure("First timed epoch, s", "first_timed_epoch_s"),
        estimate("Step time, ms", "step_s", _MS),
        estimate("Throughput, images/s", "images_per_s"),
        whole("Steps per epoch", "steps_per_epoch"),
        _figure("Peak memory, GB", "peak_memory_bytes", _GB),
        _figure("Energy, J per epoch", "energy_j"),
        Column("MFU, %", _mfu),
    ])  # fmt: skip


def speedup(table: pd.DataFrame, say: Words) -> View:
    return view_of("speedup", f"Speedup over 1 {say.device}", table, [
        text("Scaling", "scaling"),
        *_keys(table, say),
        estimate("Speedup, ×", "speedup"),
        estimate("Efficiency, %", "efficiency", 100),
        estimate("Speedup from steps, ×", "speedup_from_steps"),
    ])  # fmt: skip


def scopes(times: pd.DataFrame, speedups: pd.DataFrame, say: Words) -> View:
    """The configurations that were measured with and without the DataLoader in the clock."""
    places = [*words.POINT_COLUMNS, "environment"]
    weak = words.ok(speedups)[words.ok(speedups)["scaling"] == "weak"]
    measured = words.ok(times).merge(weak[[*places, "scope", *_SPEEDUP]], on=[*places, "scope"], how="left")
    compute, loaded = (measured[measured["scope"] == scope] for scope in ("compute", "end_to_end"))
    both = compute.drop(columns="scope").merge(loaded, on=places, suffixes=("", "_end_to_end"))
    both = both.assign(loader_s=both["epoch_s_end_to_end"] - both["epoch_s"])
    return view_of("scopes", "With and without the DataLoader in the clock", both, [
        *_keys(both.drop(columns="scope"), say, status=False),
        estimate("Epoch time, compute, s", "epoch_s"),
        Column("Epoch time, end-to-end, s", lambda row: words.estimate(_end_to_end(row, "epoch_s"), "epoch_s")),
        _figure("Longer by, s", "loader_s"),
        estimate("Speedup, compute, ×", "speedup"),
        Column("Speedup, end-to-end, ×", lambda row: words.estimate(_end_to_end(row, "speedup"), "speedup")),
    ], source="times")  # fmt: skip


def communication(table: pd.DataFrame, say: Words) -> View:
    return view_of("communication", "Communication time, inferred by subtraction (E1)", table, [
        *_keys(table, say),
        _figure("Epoch time, s", "epoch_s"),
        _figure("Compute time, s", "compute_s"),
        estimate("Communication time, s", "communication_s"),
        _figure("Share of the epoch, %", "communication_share", 100),
        estimate("Communication time of a step, ms", "communication_step_s", _MS),
    ])  # fmt: skip


def estimates(table: pd.DataFrame, say: Words) -> View:
    """The estimates of communication in a step, of the configurations that have more than one."""
    caption = "Communication of one step, in ms, estimated in five ways"
    others = ["ablation_step_s", "profiler_step_s", "logger_step_s", "isolated_step_s", "training_step_s"]
    measured = table.dropna(subset=others, how="all")
    return view_of("estimates", caption, measured, [
        *_keys(table, say, status=False),
        _figure("Step, headline", "step_s", _MS),
        _figure("Step, here", "training_step_s", _MS),
        estimate("E1 subtraction", "communication_step_s", _MS),
        estimate("E2 ablation", "ablation_step_s", _MS),
        estimate("E2 no_sync", "no_sync_step_s", _MS),
        estimate("E3 profiler, exposed", "profiler_exposed_step_s", _MS),
        estimate("E3 profiler, all", "profiler_step_s", _MS),
        estimate("E3 profiler, all, least waiting", "profiler_least_step_s", _MS),
        estimate("E4 DDP's logger, exposed", "logger_exposed_step_s", _MS),
        estimate("E4 DDP's logger, all", "logger_step_s", _MS),
        estimate("E5 isolated collectives", "isolated_step_s", _MS),
        _figure("Step, profiled", "profiled_step_s", _MS),
    ], source="communication")  # fmt: skip


def bandwidth(table: pd.DataFrame, say: Words) -> View:
    return view_of("bandwidth", "Bandwidth, inferred from the communication time, and measured", table, [
        *_keys(table, say),
        _figure("Allreduce per step, MB", "allreduce_bytes_per_step", _MB),
        _figure(f"Through {say.device} 0's links per step, MB", "root_link_bytes_per_step", _MB),
        whole("Steps per epoch", "steps_per_epoch"),
        estimate("Communication time, s", "communication_s"),
        estimate("Bandwidth, GB/s", "bandwidth_gb_s"),
        estimate("Bandwidth from the profiler's time, GB/s", "profiler_bandwidth_gb_s"),
        estimate("Bus bandwidth, measured, GB/s", "bus_bandwidth_gb_s"),
        estimate("Utilisation, %", "utilisation", 100),
    ])  # fmt: skip


def steps(table: pd.DataFrame, say: Words) -> View:
    caption = f"Where a step goes, for every {say.device}, in ms; brackets hold the least and the most of all blocks"
    return view_of("steps", caption, table[table["phase"] == WHOLE_STEP], [
        *_keys(table, say, status=False),
        whole(say.device, "device"),
        estimate("Compute", "compute_s", _MS),
        estimate("Communication, exposed", "communication_s", _MS),
        estimate("Copies from and to the host", "copy_s", _MS),
        estimate("Idle", "idle_s", _MS),
        estimate("Step, by the host's clock", "step_s", _MS),
        _figure("Communication, hidden", "hidden_communication_s", _MS),
    ])  # fmt: skip


def phases(table: pd.DataFrame, say: Words) -> View:
    """What the first of the most devices did, by phase; the others are in the table on disk."""
    first = table[(table["phase"] != WHOLE_STEP) & (table["device"] == 0) & (table["gpus"] == table["gpus"].max())]
    caption = f"Where a step of {say.device} 0 goes by phase, on the most {say.devices}, in ms, by the phase that asked"
    return view_of("phases", caption, first, [
        *_keys(table, say, status=False),
        text("Phase", "phase"),
        _figure("Compute", "compute_s", _MS, 3),
        _figure("Communication, exposed", "communication_s", _MS, 3),
        _figure("Copies from and to the host", "copy_s", _MS, 3),
        _figure("Idle while the host was in this phase", "idle_s", _MS, 3),
    ], source="steps")  # fmt: skip


def bus_bandwidth(table: pd.DataFrame, say: Words) -> View:
    """The sweep over message sizes: a row a message, a column an operation."""
    swept = _sweep(table)
    ends = ["bus_bandwidth_gb_s", "bus_bandwidth_gb_s_low", "bus_bandwidth_gb_s_high"]
    place = ["environment", "gpus", "message_bytes"]
    wide = swept.pivot(index=place, columns="operation", values=ends)
    wide.columns = pd.Index([f"{name[1]}{name[0].removeprefix(ends[0])}" for name in wide.columns.to_flat_index()])
    operations = sorted(set(swept["operation"]))
    caption = "Bus bandwidth of collectives by message, in GB/s, with nothing else running"
    return view_of("bus_bandwidth", caption, wide.reset_index(), [
        *_environment(say),
        whole(say.heading, "gpus"),
        whole("Bytes", "message_bytes"),
        *(estimate(words.capitalised(operation.replace("_", "-")), operation) for operation in operations),
    ], source="collectives", whole=table)  # fmt: skip


def collectives(table: pd.DataFrame, say: Words) -> View:
    """The messages of a training step, and copies from one device to another."""
    caption = "The messages of a training step, and copies from one to another, with nothing else running"
    return view_of("collectives", caption, table.drop(_sweep(table).index), [
        Column("Operation", lambda row: str(row["operation"]).replace("_", " "), is_number=False),
        whole(say.heading, "gpus"),
        *_environment(say),
        whole("Bytes", "message_bytes"),
        Column("For", _use, is_number=False),
        estimate("Time, µs", "time_s", _US),
        estimate("Bus bandwidth, GB/s", "bus_bandwidth_gb_s"),
    ], source="collectives")  # fmt: skip


def laws(table: pd.DataFrame, say: Words) -> View:
    """One row a law, compute scope where there is one; a law's parameters stand side by side."""
    shown = table[table["scope"] == min(table["scope"], default="")]
    shown = shown.assign(known=[f"{row['parameter']} {words.estimate(row, 'value')}" for row in words.rows(shown)])
    law = ["strategy", "scope", "environment", "batch_per_gpu", "law", "statement"]
    fitted = shown.groupby(law, dropna=False, sort=False)["known"].agg("; ".join).reset_index()
    return view_of("laws", f"Scaling laws fitted to the weak speedups{_of_scope(shown)}", fitted, [
        *_keys(fitted, say, status=False),
        text("Parameters", "known"),
        text("What the points can tell", "statement"),
    ], source="laws", whole=table)  # fmt: skip


def allreduce_models(table: pd.DataFrame, say: Words) -> View:
    return view_of("allreduce_models", "Latency and bandwidth of a link, fitted to the measured allreduces", table, [
        *_environment(say),
        text("Algorithm", "algorithm"),
        text(say.heading, "gpus"),
        estimate("Latency of a round, µs", "latency_s", _US),
        estimate("Bandwidth, GB/s", "bandwidth_gb_s"),
        _figure("Median error, %", "median_relative_error", 100, 2),
        _figure("Largest error, %", "worst_relative_error", 100, 2),
        _status(),
    ])  # fmt: skip


def held_out(table: pd.DataFrame, say: Words) -> View:
    caption = f"ddp's step on the most {say.devices}, predicted without any measurement on as many"
    return view_of("held_out", caption, table[table["kind"] == HELD_OUT], [
        *_environment(say),
        whole(say.heading, "gpus"),
        whole(f"Batch per {say.device}, images", "batch_per_gpu"),
        _status(),
        text("Allreduce", "algorithm"),
        _figure("Compute, ms", "compute_s", _MS),
        _figure("Overhead, ms", "overhead_s", _MS),
        _figure("Exposed communication, ms", "exposed_s", _MS),
        estimate("Predicted step, ms", "step_s", _MS),
        estimate("Measured step, ms", "measured_step_s", _MS),
        estimate("Error, %", "relative_error", 100),
        _figure(f"Error of the step on fewer {say.devices} unchanged, %", "carried_over_relative_error", 100, 2),
    ], source="forecast")  # fmt: skip


def forecast(table: pd.DataFrame, say: Words) -> View:
    caption = f"Forecast, not measured: ddp's step on more {say.devices}; brackets hold all algorithms and intervals"
    return view_of("forecast", caption, table[table["kind"] == EXTRAPOLATED], [
        *_environment(say),
        whole(say.heading, "gpus"),
        whole(f"Batch per {say.device}, images", "batch_per_gpu"),
        _status(),
        whole("Nodes", "nodes"),
        text("Allreduce", "algorithm"),
        estimate("Step, ms", "step_s", _MS),
        _figure("Exposed communication, ms", "exposed_s", _MS),
        estimate("Speedup, ×", "speedup"),
        estimate("Efficiency, %", "efficiency", 100),
    ], source="forecast", whole=table)  # fmt: skip


def critical_batch(table: pd.DataFrame, say: Words) -> View:
    caption = f"Batch per {say.device} from which on communication hides behind backward"
    return view_of("critical_batch", caption, table, [
        *_environment(say),
        whole(say.heading, "gpus"),
        estimate("Predicted, images", "batch_per_gpu"),
        Column("Smallest such batch by the profiler, images", _hidden_from),
        _status(),
    ])  # fmt: skip


def training_summary(table: pd.DataFrame, say: Words) -> View:
    caption = "What every arm comes to after its last epoch; brackets are 95 % t intervals over seeds"
    return view_of("training_summary", caption, table, [
        *_arm(table, say),
        text("Remedies", "remedies"),
        _status(),
        whole("Seeds", "seeds"),
        whole("Epochs", "epochs"),
        estimate("Test accuracy, %", "test_accuracy", 100),
        _figure("Its standard deviation over seeds, points", "test_accuracy_spread", 100, 2),
        estimate("Less the baseline's, points", "test_accuracy_difference", 100),
        estimate("Less that without remedies, points", "test_accuracy_gain", 100),
        _figure("Given back of what the batch lost, %", "given_back", 100, 3),
        estimate("Training accuracy, %", "training_accuracy", 100),
        estimate("Training loss", "training_loss"),
        estimate("Test loss", "test_loss"),
        _figure("Time to the target, s", "time_to_target_s"),
        _figure(f"{say.device}-seconds to the target", "gpu_s_to_target"),
        _figure("Epoch time, s", "epoch_s"),
        _figure(f"{say.device}-seconds", "gpu_s"),
        _figure("Energy, J", "energy_j"),
    ])  # fmt: skip


def training(table: pd.DataFrame, say: Words) -> View:
    """Every arm's epochs: the mean over seeds between the least and the most, as its curve shows it."""
    curves = [
        {**key, "seeds": len(part), "diverged": int((part["status"] == "diverged").sum()), **_over_seeds(part)}
        for key, part in _groups(table, [*_ARM_COLUMNS, "epoch"])
    ]
    shown = pd.DataFrame(curves, columns=[*_ARM_COLUMNS, "epoch", "seeds", "diverged", *_over_seeds(table)])
    return view_of("training", "Every arm after every epoch: mean over seeds, brackets hold all seeds", shown, [
        *_arm(shown, say),
        whole("Epoch", "epoch"),
        whole("Seeds", "seeds"),
        whole("Diverged", "diverged"),
        estimate("Training loss", "training_loss"),
        estimate("Test accuracy, %", "test_accuracy", 100),
        _figure("Epoch time, s", "epoch_s"),
    ], source="training", whole=table)  # fmt: skip


def training_evidence(table: pd.DataFrame, say: Words) -> View:
    """The last epoch of every arm's first seed; the others are in the table on disk."""
    first = table[table["seed"] == table.groupby(["arm", "environment"])["seed"].transform("min")]
    last = first[first["epoch"] == first.groupby(["arm", "environment"])["epoch"].transform("max")]
    caption = f"What {say.devices} share: order of samples and batch-norm statistics in the last epoch of one seed"
    return view_of("training_evidence", caption, last, [
        *_arm(table, say),
        Column("set_epoch", lambda row: _on_or_off(row["set_epoch"]), is_number=False),
        Column("SyncBatchNorm", lambda row: _on_or_off(row["sync_batch_norm"]), is_number=False),
        whole(say.device, "worker"),
        _figure("Images it had in the epoch before, %", "seen_before", 100, 3),
        _figure("Images at the same place as before, %", "same_place", 100, 3),
        Column("Its statistics are tested", lambda row: _yes_or_no(row["statistics_kept"]), is_number=False),
        _figure("Running means apart, standard deviations", "statistics_difference", 1, 3),
    ], source="training_evidence", whole=table)  # fmt: skip


def environments(table: pd.DataFrame) -> View:
    return view_of("environments", "Environments: a letter is a combination of hardware, software and images", table, [
        text("Environment", "environment"),
        text("Device", "device_model"),
        text("CPU", "cpu_model"),
        text("Links", "links"),
        text("Driver", "driver"),
        text("CUDA", "cuda"),
        text("cuDNN", "cudnn"),
        text("NCCL", "nccl"),
        text("torch", "torch"),
        text("torchvision", "torchvision"),
        text("Python", "python"),
        Column("Images, SHA-256", lambda row: words.text(row["dataset_sha256"])[:12], is_number=False),
        text("Hosts", "hosts"),
        whole("Records", "records"),
    ])  # fmt: skip


def records(table: pd.DataFrame, say: Words) -> View:
    """How many records there are of a kind, by what measured them; each of them is in the table on disk."""
    origin = ["kind", "environment", "host", "git_commit", "git_dirty", "dataset_source"]
    groups = [
        {
            **key,
            "records": len(part),
            "first": part["started_at"].dropna().min(),
            "last": part["finished_at"].dropna().max(),
            "jobs": words.listed(sorted(set(part["job_id"].dropna().astype(str))), 3),
            "throttled": int((part["throttle_reasons"].dropna().astype(str) != "").sum()),
            "disturbed": int((part["other_processes"].astype(float) > 0).sum()),
        }
        for key, part in _groups(table, origin)
    ]
    names = [*origin, "records", "first", "last", "jobs", "throttled", "disturbed"]
    return view_of("records", "Records used, by what measured them", pd.DataFrame(groups, columns=names), [
        text("Kind", "kind"),
        *_environment(say),
        text("Host", "host"),
        Column("Commit", _commit, is_number=False),
        text("Images", "dataset_source"),
        whole("Records", "records"),
        text("First started, UTC", "first"),
        text("Last finished, UTC", "last"),
        text("Jobs", "jobs"),
        whole("Throttled", "throttled"),
        whole("With other processes", "disturbed"),
    ], source="records", whole=table)  # fmt: skip


def rejected(table: pd.DataFrame) -> View:
    columns = [text("File", "path"), text("Reason", "reason")]
    return view_of("rejected", "Records found and not used", table, columns)


def view_of(
    name: str,
    caption: str,
    table: pd.DataFrame,
    columns: Sequence[Column],
    source: str = "",
    whole: pd.DataFrame | None = None,
) -> View:
    """A view of `table`. Where that is a part of the table `source`, the link, if any, is to the `whole` of it."""
    ordered = words.in_order(table) if set(words.POINT_COLUMNS) <= set(table) else table
    shown = ordered.head(ROWS_SHOWN)
    cells = [[column.cell(row) for column in columns] for row in words.rows(shown)]
    downloaded = whole if source else table
    link = None if downloaded is None else csv_link(source or name, downloaded)
    return View(name, source or name, caption, columns, cells, len(table) - len(shown), link)


def csv_link(name: str, table: pd.DataFrame) -> str | None:
    """The whole table as a data URL of a ZIP file that holds `<name>.csv`, with 5 significant digits.

    None where that is too large for a page. The same table gives the same bytes: the file in it has no date.
    """
    if len(table) > _ROWS_IN_LINK:
        return None
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        csv = table.convert_dtypes().to_csv(index=False, float_format="%.5g")
        archive.writestr(zipfile.ZipInfo(f"{name}.csv"), csv, zipfile.ZIP_DEFLATED, 9)
    link = f"data:application/zip;base64,{base64.b64encode(packed.getvalue()).decode()}"
    return link if len(link) <= _LINK_CHARACTERS else None


def _sweep(collectives: pd.DataFrame) -> pd.DataFrame:
    """The collectives of the sweep: for no message of a training, and between no two devices alone."""
    return collectives[collectives["use"].isna() & collectives["source"].isna()]


def _groups(table: pd.DataFrame, names: list[str]) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    """The table's parts that are equal in these columns, in the order of their first rows."""
    for key, part in table.groupby(names, dropna=False, sort=False):
        yield dict(zip(names, key, strict=True)), part


def _over_seeds(table: pd.DataFrame) -> dict[str, float]:
    """Mean, least and most of what was trained, NaN where nothing is known."""
    names = ("training_loss", "test_accuracy", "epoch_s")
    return {
        end: float(found)
        for name in names
        for end, found in (
            (name, table[name].mean()),
            (f"{name}_low", table[name].min()),
            (f"{name}_high", table[name].max()),
        )
    }


def _of_scope(table: pd.DataFrame) -> str:
    return f", {words.scope(table['scope'].iloc[0])}" if len(table) else ""


def _keys(table: pd.DataFrame, say: Words, status: bool = True) -> list[Column]:
    several_scopes = "scope" in table and table["scope"].nunique() > 1
    return [
        *([text("Scope", "scope")] if several_scopes else []),
        *_environment(say),
        text("Strategy", "strategy"),
        *([whole(say.heading, "gpus")] if "gpus" in table else []),
        whole(f"Batch per {say.device}, images", "batch_per_gpu"),
        *([Column("Status", _state, is_number=False)] if status else []),
    ]


def _arm(table: pd.DataFrame, say: Words) -> list[Column]:
    return [text("Arm", "arm"), *_keys(table, say, status=False)]


def _on_or_off(value: Any) -> str:
    return "on" if words.is_true([value]) == [True] else "off"


def _yes_or_no(value: Any) -> str:
    return ("yes" if words.is_true([value]) == [True] else "no") if words.is_known(value) else words.ABSENT


def _environment(say: Words) -> list[Column]:
    return [text("Environment", "environment")] if say.several_environments else []


def _status() -> Column:
    return Column("Status", _status_with_reason, is_number=False)


def _state(row: Row) -> str:
    """The state's word, with its reason only where that is this table's own: why there is no time is under Not run."""
    return _status_with_reason(row) if row["status"] in _WITH_REASON else words.state(row["status"])


def _status_with_reason(row: Row) -> str:
    """The state's word, with its reason where the table has one: an `ok` can have one too."""
    word, reason = words.state(row["status"]), row.get("reason")
    return f"{word}: {reason}" if words.is_known(reason) else word


def _mfu(row: Row) -> str:
    """Work was counted, but the GPU's peak is not in the table: unknown, which is not the same as not counted."""
    if row["peak_source"] == "unknown":
        return "unknown"
    return words.estimate(row, "mfu", 100)


def _use(row: Row) -> str:
    if words.is_known(row["source"]):
        return f"from {int(row['source'])} to {int(row['target'])}"
    return words.text(row["use"])


def _hidden_from(row: Row) -> str:
    if not row["profiled"]:
        return "not profiled"
    return words.whole(row["measured_batch_per_gpu"]) if words.is_known(row["measured_batch_per_gpu"]) else "none"


def _commit(row: Row) -> str:
    commit = words.text(row["git_commit"])[:12]
    return f"{commit} (dirty)" if words.is_true([row["git_dirty"]]) == [True] else commit


def text(heading: str, name: str) -> Column:
    return Column(heading, lambda row: words.text(row[name]), is_number=False)


def whole(heading: str, name: str) -> Column:
    return Column(heading, lambda row: words.whole(row[name]))


def _figure(heading: str, name: str, scale: float = 1.0, digits: int = 4) -> Column:
    return Column(heading, lambda row: words.figure(_scaled(row[name], scale), digits))


def estimate(heading: str, name: str, scale: float = 1.0) -> Column:
    return Column(heading, lambda row: words.estimate(row, name, scale))


def _end_to_end(row: Row, name: str) -> Row:
    """The estimate `name` of the row's end-to-end scope. Ends of intervals are suffixed after `_low` and `_high`."""
    return {end: row[f"{end}_end_to_end"] for end in (name, f"{name}_low", f"{name}_high")}


def _scaled(value: Any, scale: float) -> Any:
    return value * scale if words.is_known(value) else value
