"""The audit of a published study: search, checks and corrected figures, as one record."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from decimal import Decimal
from typing import Any

from dpscale import __version__
from dpscale.audit.consistency import LOOK, Doubt, doubts
from dpscale.audit.conventions import GLOBAL_STEPS
from dpscale.audit.corrected import UNITS, Basis, Corrected, basis, clock_of, corrected
from dpscale.audit.faults import doubtful_times, explain
from dpscale.audit.physics import Reference, above_the_peak, link_of_utilisation, same_times, times_beside_others
from dpscale.audit.published import GLOBAL, Place, Published
from dpscale.audit.search import Fit, Found, search
from dpscale.audit.sentences import remarks, sentence
from dpscale.formulas.rounded import Rounded

Record = dict[str, Any]


def audit(published: Published, references: Iterable[Reference] = (), studies: Sequence[Published] = ()) -> Record:
    """What `audit.schema.yaml` describes: every quantity's convention, the corrected figures, and warnings; pure.

    `references` are one-GPU times of others and `studies` what others published, to set its times beside.
    """
    found = {quantity: search(published, quantity) for quantity in published.quantities}
    if "bandwidth" in found and set(GLOBAL_STEPS) & set(found["bandwidth"].choices):
        published = replace(published, batch=GLOBAL)
    times = basis(published, found)
    doubtful = list(doubtful_times(published, found))
    clock = clock_of(published, found.get("speedup"))
    warnings = [
        *doubts(published, found),
        *above_the_peak(published),
        *link_of_utilisation(published, found),
        *times_beside_others(published, references),
        *same_times(published, studies),
    ]
    return {
        "kind": "audit",
        "dpscale_version": __version__,
        "id": published.id,
        "title": published.title,
        "sha256": published.sha256,
        "dataset_images": published.dataset_images,
        "parameters_trained": published.parameters_trained,
        "bandwidth_unit": published.bandwidth_unit,
        "communication_from": times.formula,
        "batch": published.batch,
        "times": _times(published),
        "gpus_per_node": published.gpus_per_node,
        "training_times": [{**place._asdict(), "printed": str(time)} for place, time in published.training_s.items()],
        "quantities": [_quantity(quantity, found, published) for quantity in found],
        "corrected": [
            _corrected(figure) for figure in corrected(published, times, Basis(clock.total, clock.one_gpu), doubtful)
        ],
        "warnings": [_warning(doubt) for doubt in warnings],
        "remarks": [
            {"quantity": quantity, "verdict": verdict, "sentence": text}
            for quantity, verdict, text in remarks(published, times)
        ],
        "unmeasured": [_plain(values) for values in published.unmeasured],
        "training": [_plain(values) for values in published.training],
    }


def is_faulty(record: Record) -> bool:
    """Whether a figure is impossible or wrong; what is only worth a look is neither."""
    mistakes = any(quantity["convention"] and quantity["convention"]["mistakes"] for quantity in record["quantities"])
    return mistakes or any(warning["severity"] != LOOK for warning in record["warnings"])


def _warning(doubt: Doubt) -> Record:
    return {
        "check": doubt.check,
        "severity": doubt.severity,
        "quantity": doubt.quantity,
        **doubt.place._asdict(),
        "detail": doubt.detail,
    }


def _times(published: Published) -> list[Record]:
    return [
        {"quantity": quantity, **place._asdict(), "printed": str(time)} for quantity, place, time in published.times
    ]


def _quantity(quantity: str, all_found: Mapping[str, Found], published: Published) -> Record:
    found = all_found[quantity]
    best, printed = found.best, published.quantities[quantity]
    faults = explain(published, quantity, all_found)
    return {
        "quantity": found.quantity,
        "verdict": found.verdict,
        "sentence": sentence(found, printed, published, faults),
        "convention": _convention(best, found) if best else None,
        "conventions_tried": found.tried,
        "chance": found.chance,
        "scale": asdict(found.scale) if found.scale else None,
        "checkable_cells": len(found.cells),
        "independent_cells": sum(place.gpus > 1 for place in found.cells),
        "supporting_cells": best.supporting if best else 0,
        "exceptions": [place._asdict() for place in found.exceptions],
        "worst": {**best.worst._asdict(), "error": best.error(best.worst)} if best else None,
        "rivals": [
            {
                "name": rival.convention.name,
                "formula": rival.convention.formula,
                "would_tell_if_printed": [place._asdict() for place in rival.unprinted],
                "differs_most_at": rival.place._asdict(),
                "difference": rival.difference,
            }
            for rival in found.rivals
        ],
        "conventions_fitting": found.fitting if found.fits else 0,
        "factor": _interval(found.factor),
        "faults": [{**place._asdict(), **asdict(fault)} for place, fault in faults.items()],
        "cells": [_cell(place, number, best) for place, number in printed.items()],
    }


def _convention(fit: Fit, found: Found) -> Record:
    convention = fit.convention
    return {
        "name": convention.name,
        "formula": convention.formula,
        "sentence": convention.sentence,
        "differences": fit.differences,
        "mistakes": fit.mistakes if found.is_found else [],
    }


def _cell(place: Place, number: Decimal, best: Fit | None) -> Record:
    value = best.values.get(place) if best else None
    return {
        **place._asdict(),
        "printed": str(number),
        "recomputed": _interval(value),
        "agrees": place in best.agreeing if best and value else None,
    }


def _corrected(figure: Corrected) -> Record:
    return {
        "quantity": figure.quantity,
        **figure.place._asdict(),
        "corrected": _interval(figure.value),
        "unit": UNITS[figure.quantity],
        "reason": figure.reason,
        "caution": figure.caution,
    }


def _interval(interval: Rounded | None) -> Record | None:
    return {"value": interval.value, "low": interval.low, "high": interval.high} if interval else None


def _plain(values: Mapping[str, Any]) -> Record:
    return {key: float(value) if isinstance(value, Decimal) else value for key, value in values.items()}
