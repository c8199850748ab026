"""All findings of a study's tables, by the section of the page that they stand in."""

from dpscale.present.findings import scaling, training
from dpscale.present.text.words import Terms
from dpscale.tables.tables import Tables


def findings(tables: Tables, terms: Terms) -> dict[str, list[str]]:
    """What these tables make true."""
    found = {
        "speedup": (
            scaling.more_devices_slower(tables.speedup, terms),
            scaling.strong_scaling(tables.speedup, terms),
        ),
        "times": (
            scaling.strategies_compared(tables.strategy_pairs, terms),
            scaling.loaders_compared(tables.times, terms),
        ),
        "batches": (scaling.batch_that_is_enough(tables.times, terms),),
        "communication": (scaling.largest_communication_share(tables.communication, terms),),
        "steps": (scaling.profiler_left_out(tables.communication, terms),),
        "training": training.findings(tables.training_summary, terms),
    }
    return {section: list(filter(None, said)) for section, said in found.items()}
