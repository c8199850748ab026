"""The audit of a published study: search, checks and corrected figures, as one record."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from decimal import Decimal
from typing import Any

from dpscale import __version__
from dpscale.audit.checks import LOOK, Doubt, doubts
from dpscale.audit.conventions import GLOBAL_STEPS
from dpscale.audit.corrected import UNITS, Corrected, basis, corrected
from dpscale.audit.faults import doubtful_times, explain
from dpscale.audit.physics import Reference, above_the_peak, link_of_utilisation, same_times, times_beside_others
from dpscale.audit.reading.published import GLOBAL, Published
from dpscale.audit.search import Found, Match, Rival, search
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
    figures = corrected(published, times, basis(published, found, "speedup"), list(doubtful_times(published, found)))
    warnings = [
        *doubts(published, found),
        *above_the_peak(published),
        *link_of_utilisation(published, found),
        *times_beside_others(published, references),
        *same_times(published, studies),
    ]
    as_given = ("id", "title", "sha256", "dataset_images", "parameters_trained", "bandwidth_unit")
    return {
        "kind": "audit",
        "dpscale_version": __version__,
        **{name: getattr(published, name) for name in as_given},
        "communication_from": times.formula,
        "batch": published.batch,
        "times": [
            {"quantity": quantity, **place._asdict(), "printed": str(time)} for quantity, place, time in published.times
        ],
        "quantities": [_quantity(outcome, found, published) for outcome in found.values()],
        "corrected": [_corrected(figure) for figure in figures],
        "warnings": [_warning(doubt) for doubt in warnings],
        "remarks": [
            dict(zip(("quantity", "verdict", "sentence"), remark, strict=True)) for remark in remarks(published, times)
        ],
        "unmeasured": [_plain(values) for values in published.unmeasured],
        "training": [_plain(values) for values in published.training],
    }


def is_faulty(record: Record) -> bool:
    """Whether a figure is impossible or wrong; what is only worth a look is neither."""
    mistakes = any(quantity["convention"] and quantity["convention"]["mistakes"] for quantity in record["quantities"])
    return mistakes or any(warning["severity"] != LOOK for warning in record["warnings"])


def _quantity(found: Found, all_found: Mapping[str, Found], published: Published) -> Record:
    best, printed = found.best, published.quantities[found.quantity]
    faults = explain(published, found.quantity, all_found)
    values = best.values if best else {}
    return {
        "quantity": found.quantity,
        "verdict": found.verdict,
        "sentence": sentence(found, printed, published, faults),
        "convention": _convention(best, found) if best else None,
        "conventions_tried": found.tried,
        "chance": found.chance,
        "scale": asdict(found.scale) if found.scale else None,
        "checkable_cells": len(found.cells),
        "independent_cells": found.independent,
        "supporting_cells": best.supporting if best else 0,
        "exceptions": [place._asdict() for place in found.exceptions],
        "worst": {**best.worst._asdict(), "error": best.error(best.worst)} if best else None,
        "rivals": [_rival(rival) for rival in found.rivals],
        "conventions_fitting": found.fitting,
        "factor": _interval(found.factor),
        "faults": [{**place._asdict(), **asdict(fault)} for place, fault in faults.items()],
        "cells": [
            {
                **place._asdict(),
                "printed": str(number),
                "recomputed": _interval(values.get(place)),
                "agrees": place in best.agreeing if best and place in values else None,
            }
            for place, number in printed.items()
        ],
    }


def _rival(rival: Rival) -> Record:
    return {
        "name": rival.convention.name,
        "formula": rival.convention.formula,
        "would_tell_if_printed": [place._asdict() for place in rival.unprinted],
        "differs_most_at": rival.place._asdict(),
        "difference": rival.difference,
    }


def _convention(fit: Match, found: Found) -> Record:
    return {
        **{name: getattr(fit.convention, name) for name in ("name", "formula", "sentence")},
        "differences": fit.differences,
        "mistakes": fit.mistakes if found.is_found else [],
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


def _warning(doubt: Doubt) -> Record:
    what = {"check": doubt.check, "severity": doubt.severity, "quantity": doubt.quantity}
    return {**what, **doubt.place._asdict(), "detail": doubt.detail}


def _interval(interval: Rounded | None) -> Record | None:
    return asdict(interval) if interval else None


def _plain(values: Mapping[str, Any]) -> Record:
    return {key: float(value) if isinstance(value, Decimal) else value for key, value in values.items()}
