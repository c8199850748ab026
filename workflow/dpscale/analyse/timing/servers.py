"""Where records were measured: on which server, in which environment. Servers are the units of every interval."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from dpscale.analyse.timing.environments import places
from dpscale.formulas.figure import OnServer
from dpscale.plan.cells import AnyCell
from dpscale.records.files import Record

C = TypeVar("C", bound=AnyCell)
K = TypeVar("K")


def placed(records: Mapping[AnyCell, Record], environments: Mapping[str, Sequence[AnyCell]]) -> dict[AnyCell, Record]:
    """The same records, where each says its `environment`, by its letter, and the `block` that it is: its run on the
    server that it was measured on. The seed of a training is its run."""
    letters = {cell: letter for letter, cells in environments.items() for cell in cells}
    servers = servers_of(records.values())
    found = {}
    for cell, record in records.items():
        run = record["cell"].get("run", record["cell"].get("seed"))
        block = OnServer(f"run {run}", servers[places(record)[0]])
        found[cell] = {**record, "environment": letters[cell], "block": block}
    return found


def by_place(
    records: Mapping[AnyCell, Record], kind: type[C], of: Callable[[C], K]
) -> dict[tuple[K, str], list[Record]]:
    """The records of a kind of cell, by what they are `of` and environment."""
    found: dict[tuple[K, str], list[Record]] = defaultdict(list)
    for cell, record in records.items():
        if isinstance(cell, kind):
            found[of(cell), record["environment"]].append(record)
    return found


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
