"""The servers that records were measured on: the units of every interval."""

from collections.abc import Iterable
from dataclasses import replace

from dpscale.analyse.timing.blocks import places
from dpscale.records.collect import Collected
from dpscale.records.files import Record


def on_servers(collected: Collected) -> Collected:
    """The same, where every record says the number of its server."""
    servers = servers_of(collected.records.values())
    numbered = {cell: {**record, "server": servers[places(record)[0]]} for cell, record in collected.records.items()}
    return replace(collected, records=numbered)


def servers_of(records: Iterable[Record]) -> dict[str, int]:
    """The server of every GPU (host, where there are none), numbered in the order in which they were first used.

    GPUs that a record used together are of one server. Hosts may all have one name.
    """
    servers: dict[str, set[str]] = {}
    for record in sorted(records, key=lambda record: str(record["started_at"])):
        together = set(places(record)).union(*(servers.get(place, set()) for place in places(record)))
        servers |= dict.fromkeys(together, together)
    numbers: dict[int, int] = {}
    return {place: numbers.setdefault(id(server), len(numbers) + 1) for place, server in servers.items()}


def servers_used(records: Iterable[Record]) -> set[int]:
    """The servers that these records were measured on."""
    return {record["server"] for record in records}
