"""A second way to the numbers of Tables 1 to 3: from the records and docs/method.md alone, without the package."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest

from dpscale.formulas.figure import Figure
from dpscale.formulas.rounded import Rounded
from dpscale.present.text.numbers import value_of
from dpscale.tables.column import MULTIPLES
from json_records import records_in
from recorded import RECORDED, recorded_tables

# Student's t, 0.975, for 1, 2, ... degrees of freedom, as printed tables have it.
STUDENT = (
    12.7062047364, 4.3026527297, 3.1824463053, 2.7764451052, 2.5705818366, 2.4469118511, 2.3646242516, 2.3060041352,
    2.2621571628, 2.2281388520,
)  # fmt: skip
PLACE = ("strategy", "gpus", "batch_per_gpu")
Record = dict[str, Any]
Block = tuple[str, int]  # a server, and a run on it


class Recomputed:
    """The timing records of a study, read anew."""

    def __init__(self, results: Path) -> None:
        # The variant `loading` has the study's own settings, in another scope.
        loading = [one for one in records_in(results, "variants") if one["cell"]["variant"] == "loading"]
        self.timing = [*records_in(results, "cells"), *loading]
        self.server: dict[str, str] = {}
        for record in records_in(results):
            first, *further_places = places(record)
            for place in further_places:
                joined = {self.server.get(place, place), self.server.get(first, first)}
                self.server |= {gpu: min(joined) for gpu, server in self.server.items() if server in joined}
                self.server |= dict.fromkeys((first, place), min(joined))

    def block(self, record: Record) -> Block:
        place = places(record)[0]
        return self.server.get(place, place), record["cell"]["run"]

    def at(self, *place: str | int, scope: str) -> list[Record]:
        """The records of a configuration that have a scope."""
        return [record for record in self.timing if is_at(record, *place) and scope in record["scopes"]]

    def steps(self, *place: str | int, scope: str, full: bool = False) -> int:
        """Return the steps of an epoch."""
        timed = self.at(*place, scope=scope)[0]["scopes"][scope]
        return int(timed["full_steps_per_epoch" if full else "steps_per_epoch"])

    def jobs(self, batch: int, scope: str) -> list[tuple[Record, float]]:
        """Epochs of one GPU at a batch, and the records that have them: of one GPU, and in the jobs of several."""
        epochs = [(record, epoch_s(record["scopes"][scope])) for record in self.at("single", 1, batch, scope=scope)]
        for record in self.timing:
            for around in record.get("alone") or ():
                if around["batch_per_gpu"] == batch and around["status"] == "ok" and scope in around["scopes"]:
                    epochs.append((record, mean([epoch_s(half) for half in around["scopes"][scope].values()])))
        return epochs

    def one_gpu(self, batch: int, scope: str) -> dict[Block, float]:
        """T(1,b) of every run on a server that timed it."""
        seconds = defaultdict(list)
        for record, epoch in self.jobs(batch, scope):
            seconds[self.block(record)].append(epoch)
        return {block: mean(epochs) for block, epochs in seconds.items()}

    def epochs(self, *place: str | int, scope: str) -> dict[Block, float]:
        """T(N,b) of every run."""
        return {self.block(record): epoch_s(record["scopes"][scope]) for record in self.at(*place, scope=scope)}

    def pairs(self, *place: str | int, scope: str, batch: int) -> dict[Block, tuple[float, float]]:
        """T(1,batch) and T(N,b) by the block of the first."""
        one_gpu, jobs, sharing = self.one_gpu(batch, scope), self.jobs(batch, scope), defaultdict(list)
        for record in self.at(*place, scope=scope):
            server, run = self.block(record)
            jobs_on_server = [job for job, _ in jobs if self.block(job)[0] == server]
            if (server, run) in one_gpu:
                sharing[server, run].append(epoch_s(record["scopes"][scope]))
            elif jobs_on_server:
                nearest = min(jobs_on_server, key=lambda job: apart(job, record))
                sharing[self.block(nearest)].append(epoch_s(record["scopes"][scope]))
        return {block: (one_gpu[block], mean(epochs)) for block, epochs in sharing.items()}

    def ratios(self, *place: str | int, scope: str, batch: int) -> dict[Block, float]:
        pairs = self.pairs(*place, scope=scope, batch=batch)
        return {block: one_gpu_s / epoch for block, (one_gpu_s, epoch) in pairs.items()}

    def is_uneven(self, *place: str | int, scope: str) -> bool:
        """Whether half of the steps of a run lie further apart than 2 % of their median."""
        scopes = [record["scopes"][scope] for record in self.at(*place, scope=scope)]
        return any(self.spread_of_steps(timed) > 0.02 for timed in scopes)

    @staticmethod
    def spread_of_steps(scope: Mapping[str, Any]) -> float:
        """How far quartiles of steps are apart, as a share of their median. Older records have one for all epochs."""
        older = scope.get("step_s_quantiles")
        if older:
            return float(older["p75"] - older["p25"]) / float(older["median"])
        epochs = zip(scope["step_s_quartiles"], scope["step_s_median"], strict=True)
        return float(median((third - first) / middle for (first, third), middle in epochs))

    def lent(self, strategy: str, gpus: int, batch: int, scopes: Sequence[str]) -> list[list[float]]:
        """Logarithms of the speedups of the other configurations whose spread two servers borrow: of jobs of the same
        settings, which have the same scopes."""
        logarithms = []
        places = {tuple(record["cell"][name] for name in PLACE) for record in self.timing}
        for place in places - {(strategy, gpus, batch)}:
            for scope in scopes if place[1] > 1 else ():
                ratios = self.ratios(*place, scope=scope, batch=place[2])
                if len({server for server, _ in ratios}) < 2 or not self.is_uneven(*place, scope=scope):
                    continue
                if self.steps(*place, scope=scope, full=True) >= 10:
                    logarithms.append(units_of(ratios))
        return logarithms

    def speedup(self, *place: Any, scope: str, batch: int) -> Sequence[float]:
        """Value, low and high; of two servers with the spread of others, where steps are uneven."""
        ratios = self.ratios(*place, scope=scope, batch=batch)
        units = units_of(ratios)
        if len({server for server, _ in ratios}) != 2:
            return over_servers(ratios)
        variance, freedom = float(np.var(units, ddof=1)), 1
        if self.is_uneven(*place, scope=scope):
            jobs_scopes = {tuple(record["settings"]["scopes"]) for record in self.at(*place, scope=scope)}
            lent = self.lent(*place, *jobs_scopes) if batch == place[2] else []
            if len(lent) < 3:
                return over_servers(ratios)
            squares = sum((len(lender) - 1) * np.var(lender, ddof=1) for lender in lent)
            lent_variance = squares / sum(len(lender) - 1 for lender in lent)
            variance, freedom = (variance + float(lent_variance)) / 2, 2
        reach = STUDENT[freedom - 1] * math.sqrt(variance / 2)
        centre = float(np.mean(units))
        return math.exp(centre), math.exp(centre - reach), math.exp(centre + reach)


def places(record: Record) -> list[str]:
    return [gpu["uuid"] for gpu in record["hardware"]["gpus"] if gpu["uuid"]] or [record["hardware"]["host"]]


def is_at(record: Record, *place: str | int) -> bool:
    return tuple(record["cell"][name] for name in PLACE) == place


def epoch_s(scope: Record) -> float:
    """Every rank's own clock, of which the slowest counts: `epoch_s` of version 1 holds a barrier too."""
    return float(median(max(ranks) for ranks in scope["rank_epoch_s"]))


def mean(seconds: Sequence[float]) -> float:
    """Return the mean of logarithms, as seconds."""
    return math.exp(sum(map(math.log, seconds)) / len(seconds))


def apart(first: Record, second: Record) -> float:
    starts = [datetime.fromisoformat(record["started_at"]) for record in (first, second)]
    return abs((starts[0] - starts[1]).total_seconds())


def units_of(blocks: Mapping[Block, float]) -> list[float]:
    """Logarithms: of every server the mean, or those of the runs of the only one."""
    by_server = defaultdict(list)
    for (server, _), value in blocks.items():
        by_server[server].append(math.log(value))
    runs_of_a_server = next(iter(by_server.values()))
    return [float(np.mean(runs)) for runs in by_server.values()] if len(by_server) > 1 else runs_of_a_server


def over_servers(blocks: Mapping[Block, float]) -> Sequence[float]:
    """Value, low and high: of three units or more Student's interval, of two their own values."""
    units = units_of(blocks)
    if len(units) == 1:
        return math.exp(units[0]), math.nan, math.nan
    centre = float(np.mean(units))
    if len(units) == 2:
        return math.exp(centre), math.exp(min(units)), math.exp(max(units))
    reach = STUDENT[len(units) - 2] * np.std(units, ddof=1) / math.sqrt(len(units))
    return math.exp(centre), math.exp(centre - reach), math.exp(centre + reach)


def is_figure(figure: Figure, expected: Sequence[float]) -> bool:
    return (figure.value, figure.low, figure.high) == pytest.approx(tuple(expected), rel=1e-6, abs=1e-9, nan_ok=True)


@pytest.mark.parametrize("study", RECORDED)
def test_speedups_and_what_follows_are_what_the_records_give(root: Path, study: str) -> None:
    tables, records = recorded_tables(root, study), Recomputed(root / "results" / study)
    bandwidths = {tuple(row.point.values()): row for row in tables.bandwidth if row.scope == "compute"}
    communication = {tuple(row.point.values()): row for row in tables.communication if row.scope == "compute"}
    compared = [row for row in tables.speedup if row.status == "ok"]
    assert compared
    for row in compared:
        place = row.strategy, row.gpus, row.batch_per_gpu
        batch = row.global_batch if row.scaling == "strong" else row.batch_per_gpu
        pairs = records.pairs(*place, scope=row.scope, batch=batch)
        one_gpu = over_servers({block: one_gpu_s for block, (one_gpu_s, _) in pairs.items()})
        epochs = over_servers({block: epoch for block, (_, epoch) in pairs.items()})
        speedup = records.speedup(*place, scope=row.scope, batch=batch)
        assert is_figure(row.speedup, speedup), place
        assert is_figure(row.efficiency, [end / row.gpus for end in speedup]), place
        assert is_figure(row.baseline_epoch_s, one_gpu), place
        assert is_figure(row.epoch_s, epochs), place
        assert row.speedup.value == pytest.approx(one_gpu[0] / epochs[0], rel=1e-9), place
        if row.scaling == "weak" and row.scope == "compute":
            e1 = [one_gpu[0] * (1 / ratio - 1 / row.gpus) for ratio in (speedup[0], speedup[2], speedup[1])]
            subtracted = communication[tuple(row.point.values())]
            assert is_figure(subtracted.communication_s, e1), place
            assert subtracted.compute_s + subtracted.communication_s.value == pytest.approx(row.epoch_s.value), place
            bandwidth = bandwidths[tuple(row.point.values())]
            is_sure = subtracted.communication_s.has_interval and e1[1] > 0
            assert bandwidth.bandwidth_gb_s.is_known == is_sure, place
            if is_sure:
                sends_more = row.strategy in ("fsdp", "zero1")  # weights are gathered twice, or sent by their owners
                sent = (3 if sends_more else 2) * (row.gpus - 1) / row.gpus * bandwidth.gradient_bytes
                sent *= records.steps(*place, scope="compute") / 1e9
                assert is_figure(bandwidth.bandwidth_gb_s, [sent / seconds for seconds in (e1[0], e1[2], e1[1])]), place


@pytest.mark.parametrize("study", RECORDED)
def test_printed_times_were_measured(root: Path, study: str) -> None:
    """Each is the mean over servers of its own runs, and lies within their range."""
    tables, records = recorded_tables(root, study), Recomputed(root / "results" / study)
    timed = [row for row in tables.times if row.epoch_s.is_known]
    assert timed
    for row in timed:
        place = row.strategy, row.gpus, row.batch_per_gpu
        is_single = row.strategy == "single"
        runs = records.one_gpu(row.batch_per_gpu, row.scope) if is_single else records.epochs(*place, scope=row.scope)
        assert is_figure(row.epoch_s, over_servers(runs)), place
        assert min(runs.values()) <= row.epoch_s.value * (1 + 1e-12), place
        assert row.epoch_s.value <= max(runs.values()) * (1 + 1e-12), place


@pytest.mark.parametrize("study", RECORDED)
def test_the_quotient_of_printed_times_is_the_printed_speedup_or_the_row_has_a_mark(root: Path, study: str) -> None:
    tables = recorded_tables(root, study)
    times = {(row.strategy, row.gpus, row.batch_per_gpu, row.scope): row.epoch_s for row in tables.times}
    for row in (row for row in tables.speedup if row.status == "ok"):
        batch = row.global_batch if row.scaling == "strong" else row.batch_per_gpu
        one_gpu = times["single", 1, batch, row.scope]
        epoch = times[row.strategy, row.gpus, row.batch_per_gpu, row.scope]
        assert row.other_runs == (row.speedup.value != pytest.approx(one_gpu.value / epoch.value, rel=1e-9))
        if not row.other_runs:
            printed = Rounded.of(Decimal(value_of(row.speedup, MULTIPLES)))
            assert printed.meets(Rounded.of(Decimal(value_of(one_gpu))) / Rounded.of(Decimal(value_of(epoch))))
