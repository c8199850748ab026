"""Blocks: a run beside the one-GPU baseline that shares its GPU. Differences and ratios are formed inside blocks alone.

Servers, GPUs and hours differ by more than the effects looked for (docs/method.md, "Blocks").
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import nan
from statistics import fmean, median
from typing import Any

from dpscale.analyse.timing.environments import places
from dpscale.formulas.figure import OnServer
from dpscale.records.files import Record

# What before and after may differ by, relative to their mean: more is drift, and said.
DRIFT_TOLERANCE = 0.02
IN_JOB, OWN_CELLS = "in job", "own cells"


@dataclass(frozen=True)
class Timed:
    """An epoch and a full step of a run, in seconds: medians over its timed epochs."""

    epoch_s: float
    step_s: float

    @classmethod
    def of(cls, scope: Mapping[str, Any]) -> "Timed":
        """What a record holds of a scope."""
        return cls(median(scope["epoch_s"]), median(scope["step_s_median"]))

    @classmethod
    def around(cls, scope: Mapping[str, Any]) -> "Timed":
        """One GPU before and after the parallel epochs of its job: the mean, which takes out a steady drift."""
        return cls.mean([cls.of(scope["before"]), cls.of(scope["after"])])

    @classmethod
    def mean(cls, runs: Sequence["Timed"]) -> "Timed":
        """Of the runs of one block."""
        return cls(fmean(run.epoch_s for run in runs), fmean(run.step_s for run in runs))


@dataclass(frozen=True)
class Block:
    """N GPUs and one of them alone, at a batch and in a scope.

    `origin` says where the baseline is from: timed in the same job `before` and after the parallel epochs, or a cell
    of its own on the same GPU. `drift` is the epoch after less the one before, over their mean; NaN without these.
    """

    key: OnServer
    origin: str
    parallel: Timed
    baseline: Timed
    drift: float = nan

    @property
    def name(self) -> str:
        """`run 3`, or `runs 1, 2` that share a baseline."""
        return self.key.block

    @property
    def has_drifted(self) -> bool:
        """Whether before and after differ by more than `DRIFT_TOLERANCE`."""
        return abs(self.drift) > DRIFT_TOLERANCE


def blocks_of(
    records: Sequence[Record], singles: Sequence[Record], scope: str, batch: int
) -> tuple[list[Block], dict[str, str]]:
    """The blocks of a configuration's records, and why the runs have none that are left out, by run.

    `singles` are the one-GPU records at `batch` in the same environment. A record that has a baseline of its own at
    this batch is a block. Any other is set against the single one of the same run on one of its GPUs, or, where there
    is none, against the one nearest in time there. Runs that share a baseline are one block: they are not independent.
    """
    blocks, without, unpaired = [], {}, []
    for record in records:
        own = next((baseline for baseline in record.get("alone") or () if baseline["batch_per_gpu"] == batch), None)
        if own is None or (own["status"] == "ok" and scope not in own["scopes"]):
            unpaired.append(record)
        elif own["status"] != "ok":
            without[record["block"].block] = f"one device alone at batch {batch} ran out of memory in its job"
        else:
            blocks.append(_block_in_job(record, own["scopes"][scope], scope))
    paired, alone = pair(unpaired, singles, scope)
    reason = f"none of its devices was measured alone at batch {batch}"
    return [*blocks, *paired], {**without, **{record["block"].block: reason for record in alone}}


def _block_in_job(record: Record, around: Mapping[str, Any], scope: str) -> Block:
    baseline = Timed.around(around)
    drift_s = Timed.of(around["after"]).epoch_s - Timed.of(around["before"]).epoch_s
    return Block(record["block"], IN_JOB, Timed.of(record["scopes"][scope]), baseline, drift_s / baseline.epoch_s)


def pair(records: Sequence[Record], others: Sequence[Record], scope: str) -> tuple[list[Block], list[Record]]:
    """The blocks of two sets of records, whatever settings each has: `others` stand as their baseline. A record is set
    against the other one of the same run on one of its GPUs, or, where there is none, against the one nearest in time
    there. The second are the records that share no GPU with any."""
    on_place: dict[str, list[Record]] = defaultdict(list)
    for other in others:
        if scope in other["scopes"]:
            on_place[places(other)[0]].append(other)
    shared: dict[int, tuple[Record, list[Record]]] = {}
    alone = []
    for record in records:
        place = next((place for place in places(record) if place in on_place), None)
        if place is None:
            alone.append(record)
        else:
            nearest = _nearest(record, on_place[place])
            shared.setdefault(id(nearest), (nearest, []))[1].append(record)
    return [_block_of_cells(other, sharing, scope) for other, sharing in shared.values()], alone


def _nearest(record: Record, others: Sequence[Record]) -> Record:
    """The one of the same run, otherwise the one that started nearest in time."""

    def distance(other: Record) -> tuple[bool, float]:
        apart = datetime.fromisoformat(other["started_at"]) - datetime.fromisoformat(record["started_at"])
        return other["cell"]["run"] != record["cell"]["run"], abs(apart.total_seconds())

    return min(others, key=distance)


def _block_of_cells(other: Record, records: Sequence[Record], scope: str) -> Block:
    runs = sorted(record["cell"]["run"] for record in records)
    return Block(
        OnServer(f"run {runs[0]}" if len(runs) == 1 else f"runs {', '.join(map(str, runs))}", other["block"].server),
        OWN_CELLS,
        Timed.mean([Timed.of(record["scopes"][scope]) for record in records]),
        Timed.of(other["scopes"][scope]),
    )
