"""The audit of a published study: search, checks and corrected figures, as one record."""

from collections.abc import Mapping
from dataclasses import asdict
from decimal import Decimal
from typing import Any

from dpscale import __version__
from dpscale.audit.consistency import doubts
from dpscale.audit.corrected import UNITS, Corrected, basis, corrected
from dpscale.audit.published import Place, Published
from dpscale.audit.search import Fit, Found, search
from dpscale.audit.sentences import remarks, sentence
from dpscale.formulas.interval import Interval

Record = dict[str, Any]


def audit(published: Published) -> Record:
    """What `audit.schema.yaml` describes: every quantity's convention, the corrected figures, and warnings; pure."""
    found = {quantity: search(published, quantity) for quantity in published.quantities}
    times = basis(found)
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
        "times": _times(published),
        "gpus_per_node": published.gpus_per_node,
        "training_times": [{**place._asdict(), "printed": str(time)} for place, time in published.training_s.items()],
        "quantities": [_quantity(outcome, published.quantities[quantity]) for quantity, outcome in found.items()],
        "corrected": [_corrected(figure) for figure in corrected(published, times)],
        "warnings": [
            {"check": doubt.check, "quantity": doubt.quantity, **doubt.place._asdict(), "detail": doubt.detail}
            for doubt in doubts(published, found)
        ],
        "remarks": [
            {"quantity": quantity, "verdict": verdict, "sentence": text}
            for quantity, verdict, text in remarks(published, times)
        ],
        "unmeasured": [_plain(values) for values in published.unmeasured],
        "training": [_plain(values) for values in published.training],
    }


def _times(published: Published) -> list[Record]:
    return [
        {"quantity": quantity, **place._asdict(), "printed": str(time)} for quantity, place, time in published.times
    ]


def _quantity(found: Found, printed: Mapping[Place, Decimal]) -> Record:
    best = found.best
    return {
        "quantity": found.quantity,
        "verdict": found.verdict,
        "sentence": sentence(found, printed),
        "convention": _convention(best) if best else None,
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
        "cells": [_cell(place, number, best) for place, number in printed.items()],
    }


def _convention(fit: Fit) -> Record:
    convention = fit.convention
    return {
        "name": convention.name,
        "formula": convention.formula,
        "sentence": convention.sentence,
        "differences": convention.differences,
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
    }


def _interval(interval: Interval | None) -> Record | None:
    return {"value": interval.value, "low": interval.low, "high": interval.high} if interval else None


def _plain(values: Mapping[str, Any]) -> Record:
    return {key: float(value) if isinstance(value, Decimal) else value for key, value in values.items()}
