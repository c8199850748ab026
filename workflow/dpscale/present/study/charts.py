"""The charts of a study's page."""

from collections.abc import Mapping
from typing import Any

from dpscale.present.charts import communication, timing, training, variants
from dpscale.present.charts.picture import Chart
from dpscale.present.text.words import Terms, in_order, ok
from dpscale.strategies.known import BASELINE
from dpscale.tables.tables import Tables


def charts_of(study: Mapping[str, Any], tables: Tables, terms: Terms) -> dict[str, Chart]:
    """Those that the page shows, by their names in its template. Each is given its rows, in the order in which people
    read them."""
    baseline, target = study["training"]["baseline"], study["training"]["target_accuracy"]
    gains = in_order(row for row in ok(tables.speedup) if row.scaling == "weak")
    ladder, alone = in_order(tables.ladder), in_order(row for row in ok(tables.variants) if row.strategy == BASELINE)
    return {
        "speedup": timing.speedup(tables.answer, gains, tables.blocks, terms),
        "efficiency": timing.efficiency(tables.answer, gains, tables.blocks, study["answer"]["worth_from"], terms),
        "ladders": communication.ladders(ladder, terms),
        "bus_bandwidth": communication.bus_bandwidth(tables.collectives, terms),
        "variants_on_one": variants.epochs_on_one(alone, terms),
        "test_accuracy": training.test_accuracy(tables.training_curves, baseline, target, terms),
    }
