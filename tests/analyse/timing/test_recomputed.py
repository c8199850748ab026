"""A second way to the numbers of Tables 1 to 3: from the records and docs/method.md alone, without the package."""

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest

from dpscale.formulas.figure import Figure
from recorded import recorded_tables

STUDIES = {
    "recorded": "recorded",
    "recorded-h100-2": "recorded-h100-2",
    "recorded-h200-2": "recorded-h200-2",
    "recorded-h200-4": "recorded-h200-4",
    "recorded-gpt": "example-gpt",
    "recorded-resnet50": "example-resnet50",
    "recorded-wide-mlp": "example-wide-mlp",
}
# Student's t, 0.975, for 1, 2, ... degrees of freedom, as printed tables have it.
STUDENT = (
    12.7062047364, 4.3026527297, 3.1824463053, 2.7764451052, 2.5705818366, 2.4469118511, 2.3646242516, 2.3060041352,
    2.2621571628, 2.2281388520,
)  # fmt: skip
Record = dict[str, Any]
Timed = list[tuple[str, float]]  # server, and a time or a ratio


class Recomputed:
    """The timing records of a study, read anew."""

    def __init__(self, results: Path) -> None:
        every = [json.loads(path.read_text()) for path in results.rglob("*.json") if '"hardware"' in path.read_text()]
        self.timing = [json.loads(path.read_text()) for path in sorted(results.glob("cells/**/run-*.json"))]
        self.server: dict[str, str] = {}
        for record in every:
            first, *others = places(record)
            for place in others:
                joined = {self.server.get(place, place), self.server.get(first, first)}
                self.server |= {known: min(joined) for known, of in self.server.items() if of in joined}
                self.server |= dict.fromkeys((first, place), min(joined))

    def at(self, record: Record) -> str:
        place = places(record)[0]
        return self.server.get(place, place)

    def steps(self, *place: str | int) -> int:
        """Of an epoch."""
        found = (one["scopes"]["compute"] for one in self.timing if is_at(one, *place) and "compute" in one["scopes"])
        return int(next(found)["steps_per_epoch"])

    def one_gpu(self, batch: int, scope: str) -> Timed:
        """Epochs of one GPU at a batch: cells of its own, and the means of before and after in the jobs of several."""
        found = [
            (self.at(record), epoch_s(record["scopes"][scope]))
            for record in self.timing
            if is_at(record, "single", 1, batch) and scope in record["scopes"]
        ]
        for record in self.timing:
            for around in record.get("alone") or ():
                if around["batch_per_gpu"] == batch and around["status"] == "ok" and scope in around["scopes"]:
                    found.append((self.at(record), alone_s(around, scope)))
        return found

    def ratios(self, strategy: str, gpus: int, batch: int, scope: str) -> Timed:
        """T(1,b) / T(N,b) of every block."""
        found, shared = [], defaultdict(list)
        singles = [one for one in self.timing if is_at(one, "single", 1, batch) and scope in one["scopes"]]
        for record in self.timing:
            if not is_at(record, strategy, gpus, batch) or scope not in record["scopes"]:
                continue
            own = [around for around in record.get("alone") or () if around["batch_per_gpu"] == batch]
            if own and own[0]["status"] == "ok" and scope in own[0]["scopes"]:
                found.append((self.at(record), alone_s(own[0], scope) / epoch_s(record["scopes"][scope])))
                continue
            on_its_gpus = [one for place in places(record) for one in singles if places(one)[0] == place]
            here = [one for one in on_its_gpus if places(one)[0] == places(on_its_gpus[0])[0]]
            if here:
                nearest = min(here, key=lambda one: (one["cell"]["run"] != record["cell"]["run"], apart(one, record)))
                shared[singles.index(nearest)].append(epoch_s(record["scopes"][scope]))
        for number, epochs in shared.items():
            found.append((self.at(singles[number]), epoch_s(singles[number]["scopes"][scope]) / float(np.mean(epochs))))
        return found


def places(record: Record) -> list[str]:
    return [gpu["uuid"] for gpu in record["hardware"]["gpus"] if gpu["uuid"]] or [record["hardware"]["host"]]


def is_at(record: Record, *place: str | int) -> bool:
    return tuple(record["cell"][name] for name in ("strategy", "gpus", "batch_per_gpu")) == place


def epoch_s(scope: Record) -> float:
    return float(median(scope["epoch_s"]))


def alone_s(around: Record, scope: str) -> float:
    return (epoch_s(around["scopes"][scope]["before"]) + epoch_s(around["scopes"][scope]["after"])) / 2


def apart(one: Record, other: Record) -> float:
    starts = [datetime.fromisoformat(record["started_at"]) for record in (one, other)]
    return abs((starts[0] - starts[1]).total_seconds())


def over_servers(timed: Iterable[tuple[str, float]]) -> Sequence[float]:
    """Value, low and high: of logarithms, over the means of servers, or over the runs of the only one. Of two these are
    their values."""
    by_server = defaultdict(list)
    for server, value in timed:
        by_server[server].append(math.log(value))
    units = [float(np.mean(of)) for of in by_server.values()] if len(by_server) > 1 else next(iter(by_server.values()))
    if len(units) == 1:
        return math.exp(units[0]), math.nan, math.nan
    mean = float(np.mean(units))
    if len(units) == 2:
        return math.exp(mean), math.exp(min(units)), math.exp(max(units))
    reach = STUDENT[len(units) - 2] * np.std(units, ddof=1) / math.sqrt(len(units))
    return math.exp(mean), math.exp(mean - reach), math.exp(mean + reach)


def is_figure(found: Figure, expected: Sequence[float]) -> bool:
    return (found.value, found.low, found.high) == pytest.approx(tuple(expected), rel=1e-6, abs=1e-9, nan_ok=True)


@pytest.mark.parametrize("study", STUDIES)
def test_tables_1_to_3_are_what_the_records_give(root: Path, study: str) -> None:
    tables, records = recorded_tables(root, study, STUDIES[study]), Recomputed(root / "results" / study)
    bandwidths = {tuple(row.point.values()): row for row in tables.bandwidth if row.scope == "compute"}
    communication = {tuple(row.point.values()): row for row in tables.communication if row.scope == "compute"}
    weak = [row for row in tables.speedup if (row.scaling, row.scope, row.status) == ("weak", "compute", "ok")]
    assert weak
    for row in weak:
        place = row.strategy, row.gpus, row.batch_per_gpu
        speedup, low, high = over_servers(records.ratios(*place, row.scope))
        alone = over_servers(records.one_gpu(row.batch_per_gpu, row.scope))
        epochs = [alone[0] / ratio for ratio in (speedup, high, low)]
        e1 = [epoch - alone[0] / row.gpus for epoch in epochs]
        assert is_figure(row.speedup, (speedup, low, high)), place
        assert is_figure(row.baseline_epoch_s, alone), place
        assert is_figure(row.epoch_s, epochs), place
        assert is_figure(communication[tuple(row.point.values())].communication_s, e1), place
        bandwidth = bandwidths[tuple(row.point.values())]
        is_resolved = row.speedup.has_interval and e1[1] > 0
        assert bandwidth.bandwidth_gb_s.is_known == is_resolved, place
        if is_resolved:
            sent = 2 * (row.gpus - 1) / row.gpus * bandwidth.gradient_bytes
            steps = records.steps(*place)
            found = bandwidth.bandwidth_gb_s
            assert is_figure(found, [sent * steps / seconds / 1e9 for seconds in (e1[0], e1[2], e1[1])]), place
