"""Every server beside the others, at the configurations that both timed: which of them is slow.

Servers are alike to every interval of a study. One that takes twice as long is a fault of that server, and moves them
all.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from statistics import geometric_mean, median

from dpscale.analyse.points import Point
from dpscale.analyse.records import UUID_CHARACTERS, joined, places
from dpscale.formulas.statistics import median_of_blocks
from dpscale.records.kinds import Record
from dpscale.tables.row import grouped
from dpscale.tables.timing import ServersRow


def servers_rows(points: Iterable[Point], records: Iterable[Record]) -> Iterator[ServersRow]:
    """Yield a row for every server that shares a configuration with another one of its environment."""
    records_by_server = grouped(records, lambda record: (record.environment, record.block.server))
    for (environment, server), ratios in sorted(_times_as_long(points).items()):
        of_server = records_by_server[environment, server]
        uuids = (place[:UUID_CHARACTERS] for record in of_server if record.hardware.gpus for place in places(record))
        yield ServersRow(
            environment=environment,
            server=server,
            host=joined(record.hardware.host for record in of_server),
            gpu_uuids=joined(uuids),
            is_of_scheduler=any(record.provenance.job_id for record in of_server),
            configurations=len(ratios),
            times_as_long=median_of_blocks(ratios),
        )


def _times_as_long(points: Iterable[Point]) -> Mapping[tuple[str, int], list[float]]:
    """Return the epoch of every server over the median of the others', of every configuration on one node that several
    timed and that findings may speak of."""
    ratios = defaultdict(list)
    for point in points:
        if not point.is_headline or point.configuration.nodes > 1:
            continue
        blocks = grouped(point.by_block.items(), lambda block: block[0].server)
        times = {server: geometric_mean(timed.epoch_s for _, timed in there) for server, there in blocks.items()}
        for server, epoch_s in times.items():
            if elsewhere_s := [seconds for place, seconds in times.items() if place != server]:
                ratios[point.environment, server].append(epoch_s / median(elsewhere_s))
    return ratios
