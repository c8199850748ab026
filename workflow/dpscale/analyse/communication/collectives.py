"""Collectives and copies between GPUs with nothing else running: their times, and what a time is between two sizes."""

from bisect import bisect
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import numpy as np

from dpscale.analyse.timing.blocks import run_name
from dpscale.analyse.timing.records import grouped
from dpscale.analyse.timing.runs import servers_used
from dpscale.formulas import scaling
from dpscale.formulas.figure import UNKNOWN, Figure
from dpscale.formulas.statistics import derive_in_blocks, estimate_of_runs, repeatability
from dpscale.records.files import Record
from dpscale.strategies.known import STRATEGIES
from dpscale.strategies.strategy import Facts, Message
from dpscale.tables.communication import CollectivesRow, PeerCopiesRow


@dataclass(frozen=True)
class Links:
    """What collectives records say of a number of GPUs: seconds of every collective, and of copies between GPUs."""

    environment: str
    records: Sequence[Record]
    collectives: Mapping[Message, Figure]
    peer_copies: Mapping[tuple[int, int], tuple[int, Figure]]  # (source, target): bytes, seconds

    @property
    def gpus(self) -> int:
        return int(self.records[0]["cell"]["gpus"])

    @property
    def nodes(self) -> int:
        """Nodes that the GPUs filled when their collectives were timed."""
        return int(self.records[0]["cell"].get("nodes", 1))

    def seconds(self, message: Message) -> Figure:
        """A collective's time alone. Between two sizes that were timed it grows with the bytes, from one to the other:
        a latency, and a time per byte. Beyond them it is not known."""
        if message in self.collectives:
            return self.collectives[message]
        operation, message_bytes = message
        sizes = sorted(size for name, size in self.collectives if name == operation)
        place = bisect(sizes, message_bytes)
        if not 0 < place < len(sizes):
            return UNKNOWN
        smaller, larger = sizes[place - 1 : place + 1]
        share = (message_bytes - smaller) / (larger - smaller)
        return derive_in_blocks(
            lambda less_s, more_s: less_s + share * (more_s - less_s),
            self.collectives[operation, smaller],
            self.collectives[operation, larger],
            label=f"{message}",
        )

    def copy_seconds(self, pair: tuple[int, int], message_bytes: int) -> Figure:
        """A copy at the bandwidth that was measured with a large one."""
        if pair not in self.peer_copies:
            return UNKNOWN
        measured_bytes, seconds = self.peer_copies[pair]
        return derive_in_blocks(
            lambda measured_s: measured_s * message_bytes / measured_bytes, seconds, label=f"copy {pair}"
        )


def links_of(records: Sequence[Record], environment: str) -> Links:
    """The medians over repeats. Those for which the GPUs could not be held long enough count only where all are so."""
    timed: dict[Message, dict[str, Sequence[float]]] = defaultdict(dict)
    copied: dict[tuple[int, int], dict[str, Sequence[float]]] = defaultdict(dict)
    sizes: dict[tuple[int, int], int] = {}
    for record in records:
        for result in record["collectives"]:
            timed[result["operation"], result["bytes"]][run_name(record)] = _held_s(result) or result["seconds"]
        for copy in record["peer_copies"]:
            pair = copy["source"], copy["target"]
            copied[pair][run_name(record)] = copy["seconds"]
            sizes[pair] = copy["bytes"]
    label = f"{records[0]['cell']['gpus']} {environment}"
    return Links(
        environment,
        records,
        {message: estimate_of_runs(runs, f"{message} {label}") for message, runs in timed.items()},
        {pair: (sizes[pair], estimate_of_runs(runs, f"copy {pair} {label}")) for pair, runs in copied.items()},
    )


def _held_s(result: Mapping[str, Any]) -> list[float]:
    """The timings of a collective before which all calls were queued, as far as that is known: version 1 did not look,
    and on a CPU there is no queue."""
    held = result.get("held") or [True] * len(result["seconds"])
    return [seconds for seconds, was_held in zip(result["seconds"], held, strict=True) if was_held]


def collectives_rows(
    found: Iterable[Links], network: Facts | None, servers: Mapping[str, int]
) -> Iterator[CollectivesRow]:
    """A row for every collective and size, and for every pair of GPUs; `servers` as `runs.servers_of` numbers them."""
    uses = _uses(network)
    for links in found:
        results = [result for record in links.records for result in record["collectives"]]
        copies = [copy for record in links.records for copy in record["peer_copies"]]
        on_servers = len(servers_used(links.records, servers))
        for message, seconds in links.collectives.items():
            operation, message_bytes = message
            timed = [result for result in results if (result["operation"], result["bytes"]) == message]
            row = CollectivesRow(
                operation=operation,
                message_bytes=message_bytes,
                servers=on_servers,
                nodes=links.nodes,
                use=uses.get(message, ""),
                not_held=sum(len(result["seconds"]) - len(_held_s(result)) for result in timed),
            )
            yield _with_times(row, links, seconds, [result["seconds"] for result in timed])
        for (source, target), (message_bytes, seconds) in links.peer_copies.items():
            row = CollectivesRow(
                operation="peer_copy",
                message_bytes=message_bytes,
                servers=on_servers,
                nodes=1,
                source=source,
                target=target,
            )
            timed = [copy for copy in copies if (copy["source"], copy["target"]) == (source, target)]
            yield _with_times(row, links, seconds, [copy["seconds"] for copy in timed])


def _with_times(row: CollectivesRow, links: Links, seconds: Figure, runs: Sequence[Sequence[float]]) -> CollectivesRow:
    message_bytes = row.message_bytes or 0
    timings = [timing for run in runs for timing in run]
    return replace(
        row,
        gpus=links.gpus,
        environment=links.environment,
        n=len(timings),
        runs=len(runs),
        time_s=seconds,
        bus_bandwidth_gb_s=derive_in_blocks(
            lambda s: scaling.bus_bandwidth_gb_s(row.operation, links.gpus, message_bytes, s), seconds
        ),
        repeatability=repeatability(runs),
        time_s_min=min(timings),
        time_s_p95=float(np.quantile(timings, 0.95)),
        algorithm_bandwidth_gb_s=scaling.algorithm_bandwidth_gb_s(message_bytes, seconds.value),
    )


def _uses(network: Facts | None) -> dict[Message, str]:
    """What the network needs a message of this size for."""
    if network is None:
        return {}
    uses: dict[Message, list[str]] = defaultdict(list)
    uses["allreduce", network["gradient_bytes"]].append("whole gradient")
    for row in STRATEGIES.values():
        numbers: dict[str, int] = defaultdict(int)
        for operation, size in row.messages_of_step(network):
            numbers[operation] += 1
            uses[operation, size].append(f"{row.message_names[operation]} {numbers[operation]}")
    return {message: ", ".join(names) for message, names in uses.items()}


def peer_copies_rows(collectives: Iterable[CollectivesRow]) -> Iterator[PeerCopiesRow]:
    """The copies from one device to another: their median, and their range over the directed pairs."""
    copies = (row for row in collectives if row.operation == "peer_copy" and row.bus_bandwidth_gb_s.is_known)
    for group in grouped(copies, lambda row: (row.gpus, row.environment)):
        rates = [row.bus_bandwidth_gb_s.value for row in group]
        yield PeerCopiesRow(
            gpus=group[0].gpus,
            environment=group[0].environment,
            directions=len(rates),
            message_bytes=max(row.message_bytes or 0 for row in group),
            bus_bandwidth_gb_s=Figure.of(median(rates), min(rates), max(rates)),
        )
