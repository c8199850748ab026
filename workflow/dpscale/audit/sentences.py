"""What was found, in one sentence per quantity, made from the outcome."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from dpscale.audit.corrected import TABLE, Grounds, clock_of
from dpscale.audit.faults import Fault
from dpscale.audit.reading.published import Printed, Published, Spot
from dpscale.audit.search import CHANCE_LIMIT, CUT, Found, Match, Rival
from dpscale.audit.words import NAMES, listed, number, place_words, unlike
from dpscale.formulas.rounded import Rounded

# Where the closest convention misses no cell by more than this, it is said to be near: the formula may be right, and
# its inputs those of another run.
_NEAR = 0.15
# Factors that a constant may be, in words.
_KNOWN_FACTORS = {
    **{f"10^{power}": 10.0**power for power in (-9, -6, -3, -2, -1, 1, 2, 3, 6, 9)},
    **{f"2^{power}": 2.0**power for power in (-30, -20, -10, -3, -2, -1, 1, 2, 3, 10, 20, 30)},
    **{f"{of}": float(of) for of in (60, 3600, 3)},
    **{f"1/{of}": 1 / of for of in (60, 3600, 3)},
}


def sentence(
    found: Found,
    printed: Printed,
    published: Published | None = None,
    faults: Mapping[Spot, Fault] | None = None,
) -> str:
    """The outcome for a quantity: the convention, how much supports it, and what else would fit.

    `published` adds which clock it follows; `faults` what may have happened to single cells.
    """
    name = NAMES[found.quantity]
    if found.best is None:
        return f"The {name} cannot be checked: the times that it would follow from were not printed."
    if found.verdict == "up to a constant":
        return _of_a_link(found, published) if found.quantity == "utilisation_percent" else _up_to_a_constant(found)
    if found.verdict == "not reproduced":
        return _not_reproduced(found, printed)
    has_several = published is not None and published.other_clocks
    clock = f", of the clock {clock_of(published, found).name}" if published and has_several else ""
    differences = "; ".join(found.best.differences)
    against_method = f"not as defined here ({differences})" if differences else "as defined here"
    return (
        f"The {name} is {found.best.convention.formula}{clock}, {against_method}: "
        f"{_support(found, printed, faults or {})}; {_certainty(found)}."
    )


def remarks(published: Published, times: Grounds) -> Iterator[tuple[str, str, str]]:
    """Quantity, verdict and sentence of what else there is to say."""
    if times != TABLE:
        text = (
            f"Compute time, communication time and bandwidth are corrected from {times.formula}, the times that the "
            "authors subtracted; those of their table are another measurement."
        )
        yield "communication_s", "from other times", text
    if published.synchronised is False:
        text = (
            "Their clock does not wait until the GPUs are done. It measures how fast work is handed to them, which can "
            "be much less than the time of the work."
        )
        yield "epoch_s", "not synchronised", text
    if published.assumed:
        yield "epoch_s", "assumed", f"Not given, and assumed: {'; '.join(published.assumed)}."
    if unknown := published.unknown_links:
        text = f"Bandwidths are not compared with the links that they name. Not in links.yaml: {listed(unknown)}."
        yield "bandwidth", "not compared", text
    for cell in published.unmeasured:
        place = Spot(cell["batch_per_gpu"], cell["gpus"])
        yield "epoch_s", "not measured", f"There is no time at {place_words(place)}: {cell['why']}."
    if published.training:
        text = "Loss and accuracy stand as published: nothing that was printed allows them to be recomputed."
        yield "training", "not recomputable", text


def summary(record: Mapping[str, Any]) -> str:
    """A record of an audit in a few lines for the terminal."""
    lines = [f"{record['id']}: {record['title']}"]
    for quantity in record["quantities"]:
        # What is 4 bytes stands in the record; a line has to fit a terminal.
        formula = quantity["convention"]["formula"].replace(" bytes", "") if quantity["convention"] else "-"
        formula = f"closest: {formula}" if quantity["verdict"] == "not reproduced" else formula
        cells = f"{quantity['supporting_cells']} of {quantity['independent_cells']} cells"
        lines.append(f"  {NAMES[quantity['quantity']]:19}  {quantity['verdict']:17} {cells:>13}  {formula}")
    counts = Counter((warning["severity"], warning["check"]) for warning in record["warnings"])
    names = {"impossible": "impossible", "wrong": "warning", "look": "look at"}
    return "\n".join(
        [*lines, *(f"  {names[severity]}: {check} ({number})" for (severity, check), number in counts.items())]
    )


def _support(found: Found, printed: Printed, faults: Mapping[Spot, Fault]) -> str:
    """How many cells the convention gives, whether others do too, and which it does not give."""
    assert found.best
    several, supporting = found.independent, found.best.supporting
    part = "all" if several == supporting else f"{supporting} of"
    cells = f"{part} {several} cells with several GPUs" if several else "cells of one GPU alone"
    exceptions = [_miss(found.best, place, printed, faults.get(place)) for place in found.exceptions]
    but = f", but not {listed(exceptions)}" if exceptions else ""
    but += _cut_cells(found.best, printed)
    if found.fitting == 1:
        return f"it alone of {found.tried:,} conventions tried gives {cells}{but}"
    others = "does another" if found.fitting == 2 else f"do {found.fitting - 1:,} others"
    rivals = [_rival(rival, found.best) for rival in found.rivals[:2]]
    more = [f"{found.fitting - 3:,} more"] if found.fitting > 3 else []
    shown = listed([*rivals, *more])
    return f"it gives {cells}{but}, and so {others} of {found.tried:,} tried, {shown}"


def _cut_cells(fit: Match, printed: Printed) -> str:
    """The cells that show that digits were cut: rounding would have printed others."""
    if fit.printing is not CUT:
        return ""
    shows = [place for place in sorted(fit.agreeing) if not Rounded.of(printed[place]).meets(fit.values[place])]
    return f" (cut, not rounded: {listed([_miss(fit, place, printed) for place in shows])})"


def _certainty(found: Found) -> str:
    """The guard against a fit by chance, in words."""
    often = f"in about {found.chance * 100:.1g} % of cases" if found.chance >= 1e-6 else "less than once in a million"
    by_chance = f"chance alone would do as well {often}"
    if found.verdict == "too few cells":
        rough = "most cells agree only because what it gives is known so roughly"
        return f"too little to call it found, as {by_chance if found.chance >= CHANCE_LIMIT else rough}"
    if found.scale and found.scale.chance >= CHANCE_LIMIT:
        return (
            f"{by_chance}, but for the constant factor that all cells share, one of the {found.scale.constants} tried "
            f"would suit in about {found.scale.chance * 100:.1g} %"
        )
    return by_chance


def _rival(rival: Rival, best: Match) -> str:
    """How another convention differs from the best one, and which cell would decide between them."""
    other = [choice.sentence for choice in rival.convention.choices if choice not in best.convention.choices]
    if rival.printing is not best.printing:
        other.append(rival.printing.sentence)
    if rival.unprinted:
        decided_by = f"{place_words(rival.unprinted[0])} would tell, which was not printed"
    elif rival.difference:
        apart = "less than 0.1 %" if rival.difference < 0.0005 else f"{rival.difference * 100:.1f} %"
        decided_by = f"{apart} apart at most, at {place_words(rival.place)}"
    else:
        decided_by = "the same in every cell here"
    return f"with {', '.join(other) or 'fewer assumptions'} ({decided_by})"


def _miss(fit: Match, place: Spot, printed: Printed, fault: Fault | None = None) -> str:
    gives = "nothing there" if place not in fit.values else unlike(fit.values[place], fit.printed[place], 4)[0]
    because = f": {fault.clause}" if fault and place in fit.values else ""
    return f"{place_words(place)} (printed {printed[place]}, it gives {gives}{because})"


def _not_reproduced(found: Found, printed: Printed) -> str:
    fit = found.best
    assert fit
    furthest, missed = fit.error(fit.worst), _miss(fit, fit.worst, printed)
    closest = (
        f"No convention of the {found.tried:,} tried gives the {NAMES[found.quantity]}. The closest, "
        f"{fit.convention.formula}"
    )
    if furthest >= _NEAR or found.chance >= CHANCE_LIMIT:
        return f"{closest}, is furthest off at {missed}."
    return (
        f"{closest} ({'; '.join(fit.differences) or 'as defined here'}), is within {math.ceil(furthest * 100)} % in "
        f"every cell, as where its inputs were of another run than those printed; it is furthest off at {missed}."
    )


def _of_a_link(found: Found, published: Published | None) -> str:
    """Percent over bandwidth is 100 over the bandwidth of a link, in the unit of the printed one."""
    assert found.factor
    link, unit = 100 / found.factor, (published.bandwidth_unit if published else None) or "GB/s"
    return (
        f"The utilisation is the bandwidth as printed over a link of {number(link.value)} {unit}, in all "
        f"{found.independent} cells with several GPUs; {_certainty(found)}."
    )


def _up_to_a_constant(found: Found) -> str:
    assert found.best and found.factor
    factor = found.factor
    same = [name for name, value in _KNOWN_FACTORS.items() if factor.low <= value <= factor.high]
    equals = f", which is {same[0]}" if same else ""
    formula = found.best.convention.form.formula.replace("{} * ", "").replace(" * {}", "").replace("{}", "1")
    return (
        f"The {NAMES[found.quantity]} is one factor, {number(factor.value, 4)}{equals}, times {formula} "
        f"in all {found.independent} cells with several GPUs; the factor is that of no convention of the "
        f"{found.tried:,} tried; {_certainty(found)}."
    )
