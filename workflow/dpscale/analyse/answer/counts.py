"""Of how many rows every claim of the page holds, and how many intervals are looked at."""

from collections.abc import Iterator

from dpscale.analyse.answer.claims import CLAIMS
from dpscale.formulas.figure import INTERVAL
from dpscale.tables.answer import CountsRow
from dpscale.tables.tables import Tables

# How many different intervals are looked at before findings and verdict are chosen.
INTERVALS_USED = "intervals used"
# Of 100 intervals, so many miss the true value by chance.
MISSED_OF_100 = round(100 * (1 - (INTERVAL[1] - INTERVAL[0])))


def counts_rows(tables: Tables) -> Iterator[CountsRow]:
    """For every claim, of how many of the rows that it asks it holds."""
    used: set[int] = set()  # a figure of several rows is one
    for what, claim in CLAIMS.items():
        outcome = claim.of(getattr(tables, claim.table))
        used |= {id(figure) for row in outcome.asked for figure in claim.intervals(row)}
        yield CountsRow(what=what, number=outcome.number, of=outcome.of)
    yield CountsRow(what=INTERVALS_USED, number=len(used), of=len(used))
