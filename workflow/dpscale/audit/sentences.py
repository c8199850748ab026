"""What was found, in one sentence per quantity, made from the outcome."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dpscale.audit.corrected import TABLE, Basis
from dpscale.audit.published import Place, Printed, Published
from dpscale.audit.search import CHANCE_LIMIT, Fit, Found, Rival

NAMES = {
    "speedup": "speedup",
    "speedup_alternative": "alternative speedup",
    "compute_s": "compute time",
    "communication_s": "communication time",
    "bandwidth": "bandwidth",
}
_SHOWN = 3


def sentence(found: Found, printed: Printed) -> str:
    """The outcome for a quantity: the convention, how much supports it, and what else would fit."""
    name = NAMES[found.quantity]
    if found.best is None:
        return f"The {name} cannot be checked: the times that it would follow from were not printed."
    if found.verdict == "not reproduced":
        return (
            f"No convention of the {found.tried:,} tried gives the {name}. The closest, "
            f"{found.best.convention.formula}, is furthest off at {_miss(found.best, found.best.worst, printed)}."
        )
    return (
        f"The {name} is {found.best.convention.formula}, {_against_method(found.best)}: "
        f"{_support(found, printed)}; {_certainty(found)}."
    )


def remarks(published: Published, times: Basis) -> Iterator[tuple[str, str, str]]:
    """Quantity, verdict and sentence of what else there is to say."""
    if times != TABLE:
        text = (
            f"Compute time, communication time and bandwidth are corrected from {times.formula}, the times that the "
            "authors subtracted; those of their table are another measurement."
        )
        yield "communication_s", "from other times", text
    for cell in published.unmeasured:
        place = Place(cell["batch_per_gpu"], cell["gpus"])
        yield "epoch_s", "not measured", f"There is no time at {place_words(place)}: {cell['why']}."
    if published.training:
        text = "Loss and accuracy stand as published: nothing that was printed allows them to be recomputed."
        yield "training", "not recomputable", text


def summary(record: Mapping[str, Any]) -> str:
    """A record of an audit in a few lines for the terminal."""
    lines = [f"{record['id']}: {record['title']}"]
    for quantity in record["quantities"]:
        formula = quantity["convention"]["formula"] if quantity["convention"] else "-"
        formula = f"closest: {formula}" if quantity["verdict"] == "not reproduced" else formula
        cells = f"{quantity['supporting_cells']} of {quantity['independent_cells']} cells"
        lines.append(f"  {NAMES[quantity['quantity']]:19}  {quantity['verdict']:17}  {cells:>12}  {formula}")
    if times := record.get("training_times"):
        gpus = ", ".join(str(time["gpus"]) for time in times)
        lines.append(f"  times of a whole training on {gpus} GPUs: laws of scaling are scored on them")
    counts = Counter(warning["check"] for warning in record["warnings"])
    return "\n".join([*lines, *(f"  warning: {check} ({number})" for check, number in counts.items())])


def place_words(place: Place) -> str:
    """`batch 32 on 2 GPUs`."""
    return f"batch {place.batch_per_gpu:,} on {place.gpus} GPU{'s' if place.gpus > 1 else ''}"


def _against_method(fit: Fit) -> str:
    differences = fit.convention.differences
    return f"not as defined here ({'; '.join(differences)})" if differences else "as defined here"


def _support(found: Found, printed: Printed) -> str:
    """How many cells the convention gives, whether others do too, and which it does not give."""
    assert found.best
    several = sum(place.gpus > 1 for place in found.cells)
    part = "all" if several == found.best.supporting else f"{found.best.supporting} of"
    cells = f"{part} {several} cells with several GPUs"
    exceptions = [_miss(found.best, place, printed) for place in found.exceptions]
    but = f", but not {_listed(exceptions)}" if exceptions else ""
    if not found.rivals:
        return f"it alone of {found.tried:,} conventions tried gives {cells}{but}"
    others = "does another" if len(found.rivals) == 1 else f"do {len(found.rivals):,} others"
    shown = _listed([_rival(rival, found.best) for rival in found.rivals])
    return f"it gives {cells}{but}, and so {others} of {found.tried:,} tried, {shown}"


def _certainty(found: Found) -> str:
    """The guard against a fit by chance, in words."""
    often = f"in about {found.chance * 100:.1g} % of cases" if found.chance >= 1e-6 else "less than once in a million"
    if found.verdict == "too few cells":
        return f"too little to call it found, as chance alone would do as well {often}"
    if found.scale and found.scale.chance >= CHANCE_LIMIT:
        return (
            f"chance alone would do as well {often}, but for the constant factor that all cells share, one of the "
            f"{found.scale.constants} tried would suit in about {found.scale.chance * 100:.1g} %"
        )
    return f"chance alone would do as well {often}"


def _rival(rival: Rival, best: Fit) -> str:
    """How another convention differs from the best one, and which cell would decide between them."""
    other = [choice.sentence for choice in rival.convention.choices if choice not in best.convention.choices]
    if rival.unprinted:
        decided_by = f"{place_words(rival.unprinted[0])} would tell, which was not printed"
    elif rival.difference:
        apart = "less than 0.1 %" if rival.difference < 0.0005 else f"{rival.difference * 100:.1f} %"
        decided_by = f"{apart} apart at most, at {place_words(rival.place)}"
    else:
        decided_by = "the same in every cell here"
    return f"with {', '.join(other)} ({decided_by})"


def _miss(fit: Fit, place: Place, printed: Printed) -> str:
    where = f"{place_words(place)} (printed {printed[place]}"
    if place not in fit.values:
        return f"{where}, it gives nothing there)"
    return f"{where}, it gives {fit.values[place].value:.4g})"


def _listed(items: Sequence[str]) -> str:
    more = [f"{len(items) - _SHOWN:,} more"] if len(items) > _SHOWN else []
    *first, last = [*items[:_SHOWN], *more]
    return f"{', '.join(first)} and {last}" if first else last
