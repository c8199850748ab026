"""Collectives and copies between GPUs with nothing else running: their times, and what a time is between two sizes."""

from bisect import bisect
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress
from typing import Any

from dpscale.formulas import scaling
from dpscale.formulas.figure import UNKNOWN, Figure, OnServer, multiplied
from dpscale.formulas.statistics import derive_in_blocks, estimate_of_runs, repeatability
from dpscale.records.files import Record
from dpscale.strategies.known import STRATEGIES
from dpscale.strategies.strategy import Facts, Message
from dpscale.tables.communication import CollectivesRow


@dataclass(frozen=True)
class TimedAlone:
    """A collective timed alone, or a copy from `source` to `target`: all timings by run, and the figure of those that
    count."""

    operation: str
    message_bytes: int
    source: int | None
    target: int | None
    runs: Sequence[Sequence[float]]
    seconds: Figure

    @property
    def is_copy(self) -> bool:
        return self.source is not None


@dataclass(frozen=True)
class Links:
    """What collectives records say of a number of GPUs."""

    environment: str
    records: Sequence[Record]
    timed: Sequence[TimedAlone]

    @property
    def gpus(self) -> int:
        return int(self.records[0]["cell"]["gpus"])

    @property
    def nodes(self) -> int:
        """Nodes that the GPUs filled when their collectives were timed."""
        return int(self.records[0]["cell"].get("nodes", 1))

    @cached_property
    def collectives(self) -> Mapping[Message, Figure]:
        """Their seconds, by operation and bytes."""
        return {(timed.operation, timed.message_bytes): timed.seconds for timed in self.timed if not timed.is_copy}

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
        ends = self.collectives[operation, smaller], self.collectives[operation, larger]
        return derive_in_blocks(lambda less_s, more_s: less_s + share * (more_s - less_s), *ends)

    def copy_seconds(self, source: int, target: int, message_bytes: int) -> Figure:
        """A copy at the bandwidth that was measured with a large one."""
        timed = next((one for one in self.timed if (one.source, one.target) == (source, target)), None)
        if timed is None:
            return UNKNOWN
        return multiplied(timed.seconds, message_bytes / timed.message_bytes)


def links_of(records: Sequence[Record], environment: str) -> Links:
    """The medians over repeats. Those for which the GPUs could not be held long enough count only where all are so."""
    found: dict[tuple[str, int, int | None, int | None], dict[OnServer, Mapping[str, Any]]] = defaultdict(dict)
    for record in records:
        for result in record["collectives"]:
            found[result["operation"], result["bytes"], None, None][record["block"]] = result
        for copy in record["peer_copies"]:
            found["peer_copy", copy["bytes"], copy["source"], copy["target"]][record["block"]] = copy
    timed = []
    for call, results in found.items():
        held = {run: _held_s(result) for run, result in results.items()}
        runs = [result["seconds"] for result in results.values()]
        counted = {run: held[run] or result["seconds"] for run, result in results.items()}
        timed.append(TimedAlone(*call, runs, estimate_of_runs(counted)))
    return Links(environment, records, sorted(timed, key=lambda one: one.is_copy))


def _held_s(result: Mapping[str, Any]) -> list[float]:
    """The timings before which all calls were queued, as far as that is known: version 1 did not look, and on a CPU
    there is no queue."""
    held = result.get("held") or [True] * len(result["seconds"])
    return list(compress(result["seconds"], held))


def collectives_rows(found: Iterable[Links], network: Facts | None) -> Iterator[CollectivesRow]:
    """A row for every collective and size, and for every pair of GPUs."""
    uses = _uses(network)
    for links in found:
        for timed in links.timed:
            seconds, size, bus = timed.seconds, timed.message_bytes, _bus_bandwidth(timed, links.gpus)
            yield CollectivesRow(
                operation=timed.operation,
                gpus=links.gpus,
                message_bytes=size,
                environment=links.environment,
                runs=len(timed.runs),
                servers=len({record["block"].server for record in links.records}),
                n=sum(map(len, timed.runs)),
                time_s=seconds,
                repeatability=repeatability(timed.runs),
                bus_bandwidth_gb_s=bus,
                use=uses.get((timed.operation, size), ""),
                source=timed.source,
                target=timed.target,
                nodes=1 if timed.is_copy else links.nodes,
            )


def _bus_bandwidth(timed: TimedAlone, gpus: int) -> Figure:
    return timed.seconds.map(
        lambda seconds: scaling.bus_bandwidth_gb_s(timed.operation, gpus, timed.message_bytes, seconds)
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
