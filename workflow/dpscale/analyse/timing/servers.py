"""Where records were measured: on which server, in which environment. Servers are the units of every interval."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from msgspec.structs import replace

from dpscale.analyse.timing.environments import places
from dpscale.formulas.on_server import OnServer
from dpscale.plan.cells import AnyCell
from dpscale.records.kinds import Record

C = TypeVar("C", bound=AnyCell)
K = TypeVar("K")
R = TypeVar("R", bound=Record)


def placed(records: Mapping[AnyCell, Record], environments: Mapping[str, Sequence[AnyCell]]) -> dict[AnyCell, Record]:
    """The same records, where each says its `environment`, by its letter, and the `block` that it is: its run on the
    server that it was measured on. The seed of a training is its run."""
    letters = {cell: letter for letter, cells in environments.items() for cell in cells}
    servers = servers_of(records.values())
    found = {}
    for cell, record in records.items():
        block = OnServer(f"run {record.run}", servers[places(record)[0]])
        found[cell] = replace(record, environment=letters[cell], block=block)
    return found


def by_place(
    records: Mapping[AnyCell, Record], kind: type[C], record_kind: type[R], of: Callable[[C], K]
) -> dict[tuple[K, str], list[R]]:
    """The records of a kind of cell, by what they are `of` and environment."""
    found: dict[tuple[K, str], list[R]] = defaultdict(list)
    for cell, record in records.items():
        if isinstance(cell, kind) and isinstance(record, record_kind):
            found[of(cell), record.environment].append(record)
    return found


def servers_of(records: Iterable[Record]) -> dict[str, int]:
    """The server of every GPU (host, where there are none), numbered in the order in which they were first used.

    GPUs that a record used together are of one server. Hosts may all have one name.
    """
    servers: dict[str, set[str]] = {}
    for record in sorted(records, key=lambda record: record.started_at):
        together = set(places(record)).union(*(servers.get(place, set()) for place in places(record)))
        servers |= dict.fromkeys(together, together)
    numbers: dict[int, int] = {}
    return {place: numbers.setdefault(id(server), len(numbers) + 1) for place, server in servers.items()}
