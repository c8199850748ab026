"""What a reader must know before trusting the numbers: which data call for a caution.

The words of the page are in template/cautions.txt.j2; those about slow servers are here, because the end of a run says
them too, which knows no terms of a study.
"""

from collections.abc import Iterable, Sequence

from dpscale.analyse.answer.claims import (
    DISTURBED,
    DRIFTED,
    HOT,
    INTERVALS_USED,
    MISSED_OF_100,
    ON_ONE_SERVER,
    SINGLE_RUN,
    SKIPPED,
    SLOW_DEVICE,
    SLOW_SERVER,
    SLOWED,
    STALLED,
)
from dpscale.analyse.points import DRIFT_TOLERANCE
from dpscale.present.text.numbers import estimate
from dpscale.present.text.sentences import sentences
from dpscale.present.text.words import Terms, largest, listed, plural
from dpscale.records import OLDER
from dpscale.tables.answer import CountsRow
from dpscale.tables.column import MULTIPLES
from dpscale.tables.tables import Tables
from dpscale.tables.timing import ServersRow


def first_cautions(tables: Tables, terms: Terms) -> list[str]:
    """Return the cautions that change what a number means, to be read before all others."""
    slow = SLOW_DEVICE.of(tables.ladder)
    cautions = sentences(
        "cautions",
        "first",
        terms,
        slow=slow,
        worst=largest(slow.holding, lambda row: row.uneven_s.value) if slow.holding else None,
        missing=len(tables.missing),
        environments=[row.environment for row in tables.environments],
        single=SINGLE_RUN.of(tables.times),
    )
    return [*slow_servers(tables.servers), *cautions]


def other_cautions(tables: Tables, terms: Terms) -> list[str]:
    """Return the cautions to be read after the numbers."""
    drifted, stalled, hot = DRIFTED.of(tables.blocks), STALLED.of(tables.records), HOT.of(tables.records)
    return sentences(
        "cautions",
        "others",
        terms,
        older=[
            (row, [(version, OLDER[version]) for version in row.measurement_versions.split("; ") if version in OLDER])
            for row in tables.environments
        ],
        on_one_server=ON_ONE_SERVER.of(tables.times),
        environments=tables.environments,
        drifted=drifted,
        most_drift=max((abs(row.drift) for row in drifted.holding), default=0.0),
        stalled=stalled,
        most_stalled_s=max((row.stalled_s for row in stalled.holding), default=0.0),
        skipped=SKIPPED.of(tables.records),
        slowed=SLOWED.of(tables.records),
        hot=hot,
        devices=sorted({device for row in hot.holding for device in row.hot_devices.split("; ")}),
        disturbed=DISTURBED.of(tables.records),
        tolerance=DRIFT_TOLERANCE,
    )


def by_chance(counts: Iterable[CountsRow], terms: Terms) -> str:
    """Say how many intervals are looked at, and how many of so many miss; "" where there is none."""
    looked_at = next((row.number for row in counts if row.claim == INTERVALS_USED), None)
    return " ".join(sentences("cautions", "by_chance", terms, looked_at=looked_at, missed=MISSED_OF_100))


def slow_servers(rows: Sequence[ServersRow]) -> list[str]:
    """Name every server that is slow, and how it is left out."""
    return [
        f"Server {row.server} ({row.host}{_first_devices(row)}) is slow: an epoch there takes "
        f"{estimate(row.times_as_long, MULTIPLES)} times as long as on the others, by the median of "
        f"{plural(row.configurations or 0, 'configuration')}. Its runs count here as all others do. To leave it out, "
        f"delete its records, which records.csv names, and measure these cells elsewhere{_without(row)}."
        for row in SLOW_SERVER.of(rows).holding
    ]


def _first_devices(row: ServersRow) -> str:
    return f", with {listed(row.gpu_uuids.split('; '), 2)}" if row.gpu_uuids else ""


def _without(row: ServersRow) -> str:
    """Return the command that leaves a node of Slurm out."""
    return f": snakemake --profile slurm --slurm-exclude-failed-nodes {row.host}" if row.is_of_scheduler else ""
