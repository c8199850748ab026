"""All findings of a study's tables, by the section of the page that they stand in."""

from collections.abc import Mapping, Sequence

from dpscale.present.findings import scaling, training
from dpscale.present.findings.finding import Finder
from dpscale.present.text.words import Terms
from dpscale.tables.tables import Tables

SECTIONS: Mapping[str, Sequence[Finder]] = {
    "speedup": (scaling.more_devices_slower, scaling.strong_scaling),
    "times": (scaling.strategies_compared,),
    "communication": (scaling.largest_communication_share,),
    "training": (training.large_batch_costs, training.best_at_a_batch, training.remedies),
}


def findings(tables: Tables, terms: Terms) -> dict[str, list[str]]:
    """What these tables make true."""
    return {
        section: [found for find in finders if (found := find(tables, terms))] for section, finders in SECTIONS.items()
    }
