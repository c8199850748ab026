"""The page's tables: which rows and columns of the study's tables each of them shows.

A table is added to the page here, by its name, and where the template shows it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from dpscale.analyse.answer.claims import SLOW_SERVER
from dpscale.present.text.numbers import ABSENT, at_least, estimate
from dpscale.present.text.table import ShownTable, TableOfRows
from dpscale.present.text.words import Terms, state, text
from dpscale.tables.answer import CausesRow
from dpscale.tables.column import ESTIMATES_OF_STEP, GB_PER_S
from dpscale.tables.communication import BandwidthRow, CollectivesRow, CommunicationRow, LadderRow
from dpscale.tables.memory import MemoryRow, RooflineRow
from dpscale.tables.study import AbsencesRow, RejectedRow
from dpscale.tables.tables import Tables
from dpscale.tables.timing import NetworksRow, ScopesRow, ServersRow, SpeedupRow, TimesRow, VariantsRow
from dpscale.tables.training import TrainingCurvesRow, TrainingSummaryRow
from dpscale.vocabulary.causes import cause

_MEASURED_ESTIMATES = ("training_step_s", *ESTIMATES_OF_STEP[1:])


def _bandwidth(row: BandwidthRow) -> str:
    """The inferred bandwidth with its interval, or what follows where it is not resolvable: `at least 47.1`."""
    least = at_least(row.bandwidth_gb_s_at_least)
    return estimate(row.bandwidth_gb_s, GB_PER_S) if least == ABSENT else f"at least {least}"


def _use(row: CollectivesRow) -> str:
    return text(row.use) if row.source is None else f"from {row.source} to {row.target}"


_TABLES: Sequence[TableOfRows[Any]] = (
    TableOfRows(TimesRow, "times", "Times of every configuration", ("point", "state")),
    TableOfRows(
        AbsencesRow,
        "absences",
        "Configurations without a number, and why",
        ("status", "reason", "configurations"),
        {"status": lambda row: state(row.status)},
    ),
    TableOfRows(
        SpeedupRow,
        "speedup",
        "Speedup over 1 {device}",
        ("scaling", "point", "state"),
        marked="speedup",
    ),
    # The reasons of every configuration, and what is said of those without one.
    TableOfRows(
        CausesRow,
        "causes",
        "Why {devices} are not faster: the reasons at every configuration",
        cells={"cause": lambda row: cause(row.cause).label},
        rows=lambda rows: [row for row in rows if row.order == 0 or row.is_reason],
    ),
    TableOfRows(
        ScopesRow,
        "scopes",
        "With and without the DataLoader in the clock. Longer by: the mean of what each run took longer",
    ),
    TableOfRows(
        CommunicationRow,
        "communication",
        "Communication time, inferred by subtraction (E1)",
        ("point", "state"),
        marked="epoch_s",
    ),
    TableOfRows(
        CommunicationRow,
        "estimates",
        "Communication of one step, as it was estimated",
        ("point", "step_s", "training_step_s", *ESTIMATES_OF_STEP, "slower_computing_step_s", "profiler"),
        rows=lambda rows: [row for row in rows if any(getattr(row, name).is_known for name in _MEASURED_ESTIMATES)],
        has_lead_alone=True,
    ),
    TableOfRows(
        BandwidthRow,
        "bandwidth",
        "Bandwidth, inferred from the communication time, and measured",
        ("point", "state"),
        {"bandwidth_gb_s": _bandwidth},
    ),
    TableOfRows(
        CollectivesRow,
        "collectives",
        "Collectives with nothing else running: by size, of the messages of a training step, and copies",
        ("operation", "point", "message_bytes", "use", "runs", "servers"),
        {"operation": lambda row: row.operation.replace("_", " "), "use": _use},
    ),
    TableOfRows(
        LadderRow,
        "ladder",
        "Where the time of a step goes, by intervention: each row changes one thing; steps without a profiler, as "
        "multiples of the step of one {device} in the same job, times t(1,b) of the timing jobs",
    ),
    TableOfRows(
        TrainingSummaryRow,
        "training_summary",
        "What every arm comes to after its last epoch; brackets are 95 % t intervals over seeds",
        (
            "arm",
            "point",
            "remedies",
            "lacks",
            "state",
            "faster_by",
            "tuned_trials",
            "tuned_on",
            "seeds",
            "epochs",
            "test_accuracy",
            "compared_with",
            "test_accuracy_difference",
            "test_accuracy_gain",
            "training_accuracy",
            "training_loss",
            "test_loss",
        ),
    ),
    TableOfRows(
        TrainingCurvesRow,
        "training",
        "Every arm after every epoch: mean over seeds, brackets hold all seeds",
        ("arm", "point"),
    ),
    TableOfRows(
        VariantsRow,
        "variants",
        "Every variant beside the study's own settings (base)",
        ("variant", "point", "state"),
        marked="speedup",
    ),
    TableOfRows(
        NetworksRow,
        "networks",
        "Every network on several {devices} (base is the study's own)",
        (
            "variant",
            "point",
            "state",
            "gradient_bytes",
            "baseline_epoch_s",
            "epoch_s",
            "speedup",
            "communication_step_s",
            "peak_memory_bytes",
        ),
        marked="speedup",
        has_lead_alone=True,
    ),
    TableOfRows(
        MemoryRow,
        "memory",
        "Memory of a step on the {device} that needs most",
        ("variant", "point"),
    ),
    TableOfRows(
        RooflineRow,
        "roofline",
        "Work of a step on one {device}, and its rate beside the roof",
        ("variant", "precision", "point"),
    ),
    TableOfRows(
        ServersRow,
        "servers",
        "Servers beside each other",
        ("environment",),
        {"server": lambda row: f"{row.server}{' (slow)' * SLOW_SERVER.surely(row)}"},
    ),
    TableOfRows(RejectedRow, "rejected", "Records found and not used", ()),
)

SHOWN: Mapping[str, TableOfRows[Any]] = {table.name: table for table in _TABLES}


def views(tables: Tables, terms: Terms) -> dict[str, ShownTable]:
    """Every table of the page, by its name."""
    return {name: table.of(tables, terms) for name, table in SHOWN.items()}
