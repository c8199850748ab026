"""The audit of a published study: search, checks and corrected figures, as one record."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from decimal import Decimal
from typing import Any

from dpscale import __version__
from dpscale.audit.checks import LOOK, Doubt, doubts
from dpscale.audit.conventions import GLOBAL_STEPS, OTHER, WRONG
from dpscale.audit.corrected import UNITS, Corrected, basis, corrected
from dpscale.audit.physics import Reference, above_the_peak, link_of_utilisation, same_times, times_beside_others
from dpscale.audit.reading.published import GLOBAL, Published, Spot
from dpscale.audit.sentences import answer, remarks, sentence, verdict_of
from dpscale.audit.tables import rows
from dpscale.audit.verdicts import FigureVerdict, Reading, read
from dpscale.formulas.rounded import Rounded

Record = dict[str, Any]


def audit(published: Published, references: Iterable[Reference] = (), studies: Sequence[Published] = ()) -> Record:
    """What `audit.schema.yaml` describes: every figure's verdict, every quantity's convention, the corrected figures,
    and warnings; pure.

    `references` are one-GPU times of others and `studies` what others published, to set its times beside.
    """
    reading = read(published)
    if "bandwidth" in reading.found and {*GLOBAL_STEPS} & {*reading.found["bandwidth"].choices}:
        reading = replace(reading, published=replace(reading.published, batch=GLOBAL))
    published = reading.published
    warnings = [
        *doubts(reading),
        *above_the_peak(published),
        *link_of_utilisation(published, reading.found),
        *times_beside_others(published, references),
        *same_times(published, studies),
    ]
    as_given = ("id", "title", "sha256", "dataset_images", "parameters_trained", "bandwidth_unit", "batch")
    record: Record = {
        "kind": "audit",
        "dpscale_version": __version__,
        **{name: getattr(published, name) for name in as_given},
        "communication_from": basis(published, reading.found).formula,
        "times": [
            {"quantity": quantity, **place._asdict(), "printed": str(time)} for quantity, place, time in published.times
        ],
        "quantities": [_quantity(reading, quantity) for quantity in reading.found],
        "corrected": [_corrected(figure) for figure in corrected(reading)],
        "warnings": [_warning(doubt) for doubt in warnings],
        "remarks": [dict(zip(("quantity", "verdict", "sentence"), remark, strict=True)) for remark in remarks(reading)],
        "unmeasured": [_plain(values) for values in published.unmeasured],
        "training": [_plain(values) for values in published.training],
    }
    return {**record, "answer": answer(rows([record]))}


def is_faulty(record: Record) -> bool:
    """Whether a figure is impossible, wrong or not explained; what is only worth a look is none of these."""
    return any(warning["severity"] != LOOK for warning in record["warnings"])


def _quantity(reading: Reading, quantity: str) -> Record:
    found = reading.found[quantity]
    match = found.match
    convention = match and match.convention
    verdicts = {place: verdict for (name, place), verdict in reading.verdicts.items() if name == quantity}
    return {
        "quantity": quantity,
        "verdict": verdict_of(reading, quantity),
        "sentence": sentence(reading, quantity),
        "convention": convention
        and {
            "formula": convention.formula,
            "differences": convention.words(OTHER, WRONG),
            "mistakes": convention.words(WRONG),
            "is_cut": bool(match and match.is_cut),
        },
        "conventions_tried": found.tried,
        "conventions_fitting": found.fitting if match else 0,
        "chance": found.chance,
        "independent_cells": sum(place.gpus > 1 for place in found.checkable),
        "supporting_cells": match.supporting if match else 0,
        "factor": _interval(found.factor),
        "cells": [_cell(reading, quantity, place, verdict) for place, verdict in verdicts.items()],
    }


def _cell(reading: Reading, quantity: str, place: Spot, verdict: FigureVerdict) -> Record:
    return {
        **place._asdict(),
        "printed": str(reading.published.quantities[quantity][place]),
        "given": _interval(verdict.given),
        "state": verdict.state,
        "why": verdict.why,
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
