"""The charts of a study's page."""

from collections.abc import Mapping, Sequence
from typing import Any

from dpscale.present.charts import communication, timing, training, variants
from dpscale.present.charts.chart import Chart
from dpscale.present.text.words import Terms
from dpscale.tables.tables import Tables
from dpscale.tables.variants import KernelsRow, VariantsRow


def charts_of(study: Mapping[str, Any], tables: Tables, terms: Terms) -> dict[str, Chart]:
    """Those that the page shows, by their names in its template."""
    return {
        "epoch_time": timing.epoch_time(tables.times, terms),
        "gains": timing.speedup(tables.answer, tables.speedup, terms),
        "efficiency": timing.efficiency(tables.speedup, terms),
        "ladders": communication.ladders(tables.ladder, terms),
        "steps_beside_one": (
            # What a step is made of says more.
            communication.steps_beside_one([] if tables.ladder else tables.times, tables.communication, terms)
        ),
        "step_parts": communication.steps(tables.steps, terms),
        "estimators": communication.estimates(tables.communication, terms),
        "bus_bandwidth": communication.bus_bandwidth(tables.collectives, tables.bandwidth, terms),
        **_of_variants(tables.variants, tables.kernels, terms),
        **_of_training(study["training"], tables, terms),
    }


def _of_variants(measured: Sequence[VariantsRow], profiled: Sequence[KernelsRow], terms: Terms) -> dict[str, Chart]:
    return {
        "variants_on_one": variants.epochs_on_one(measured, terms),
        "variant_epochs": variants.epochs(measured, terms),
        "kernel_shares": variants.kernels(profiled, measured, terms),
    }


def _of_training(study: Mapping[str, Any], tables: Tables, terms: Terms) -> dict[str, Chart]:
    baseline, target = study["baseline"], study["target_accuracy"]
    return {
        "test_accuracy": training.test_accuracy(tables.training_curves, tables.training, baseline, target, terms),
        "frontier": training.frontier(tables.frontier, target, terms),
    }
