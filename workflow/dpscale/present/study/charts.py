"""The charts of a study's page."""

from collections.abc import Mapping
from typing import Any

from dpscale.present.charts import communication, timing, training, variants
from dpscale.present.charts.chart import Chart
from dpscale.present.text.words import Terms
from dpscale.tables.tables import Tables


def charts_of(study: Mapping[str, Any], tables: Tables, terms: Terms) -> dict[str, Chart]:
    """Those that the page shows, by their names in its template."""
    baseline, target = study["training"]["baseline"], study["training"]["target_accuracy"]
    return {
        "gains": timing.speedup(tables.answer, tables.speedup, terms),
        "efficiency": timing.efficiency(tables.speedup, terms),
        "ladders": communication.ladders(tables.ladder, terms),
        "bus_bandwidth": communication.bus_bandwidth(tables.collectives, terms),
        "variants_on_one": variants.epochs_on_one(tables.variants, terms),
        "test_accuracy": training.test_accuracy(tables.training_curves, baseline, target, terms),
    }
