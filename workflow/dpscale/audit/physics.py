"""What no machine can do: times against a GPU's peak arithmetic, utilisation against its links, and times of another
study."""

from collections.abc import Iterator, Mapping, Sequence

from dpscale.audit.checks import IMPOSSIBLE, LOOK, WRONG, Doubt, with_assumed
from dpscale.audit.conventions import UNITS
from dpscale.audit.reading.in_words import gpus_words, listed, number
from dpscale.audit.reading.published import Published
from dpscale.audit.search import ColumnSearch
from dpscale.vocabulary.chips import TERA, Peak, links
from dpscale.vocabulary.networks import network_of

COPIED = "times of another study"
# What of a peak real networks hardly reach.
DOUBTFUL_SHARE = 0.7
# What of a link a measured bandwidth is at least.
_MEASURED = 0.1
# Bandwidths of links that differ by less are one.
_SAME_LINK = 0.01


def above_the_peak(published: Published) -> Iterator[Doubt]:
    """Images per second times FLOP per image, forward and backward, against the peak of the GPUs in use. What rests on
    assumptions is no more than worth a look."""
    network, chip = network_of(published.parameters_trained), published.chip
    flop = float(published.flop_per_image or (network and network.flop_per_image) or 0)
    precision = published.precision or "float32"
    peak = chip.most(precision) if chip else None
    if published.peak_tflop_s:
        peak = Peak(precision, published.peak_tflop_s)
    if not flop or not peak:
        return
    assumed = published.assuming("network", "precision", "images")
    for quantity, place, printed in published.times:
        rate = published.dataset_images / printed.interval
        tflop_s = rate * (flop / TERA)
        share = tflop_s / (place.gpus * peak.tflop_s)
        detail = with_assumed(
            f"{printed} s is {rate.value:,.0f} images/s and {number(tflop_s.value)} TFLOP/s; the {peak.unit} peak of "
            f"{gpus_words(place.gpus)} ({published.gpu}) is {number(place.gpus * peak.tflop_s)}",
            assumed,
        )
        check, severity = "time that the GPU cannot reach", IMPOSSIBLE
        if share.low <= 1:
            check, severity = "time close to the GPU's peak", LOOK
            detail += f", {share.value * 100:.0f} % of it"
        elif assumed:
            check, severity = "time above the peak of what was assumed", LOOK
        if share.low > DOUBTFUL_SHARE:
            yield Doubt(check, quantity, place, detail, severity)


def link_of_utilisation(published: Published, outcomes: Mapping[str, ColumnSearch]) -> Iterator[Doubt]:
    """Utilisation over bandwidth is one link's bandwidth in all cells: which link is that?"""
    outcome = outcomes.get("utilisation_percent")
    if not outcome or not outcome.factor or published.bus_gb_s:
        return
    link_gb_s = 100 / outcome.factor * (UNITS[published.bandwidth_unit or "GB/s"] / UNITS["GB/s"])

    # Links of its GPU, or all that are known.
    chip = published.chip
    candidates, whose = (chip.links, f"of the {chip.name}") if chip else (links(), "in the table")
    if any(link_gb_s.low * (1 - _SAME_LINK) <= link.gb_s <= link_gb_s.high * (1 + _SAME_LINK) for link in candidates):
        return
    names = listed([f"{link.name}: {link.gb_s:g}" for link in candidates], 4)
    # Somewhat less than a link carries is what was measured of it, perhaps.
    fastest = max(link.gb_s for link in candidates)
    severity = LOOK if _MEASURED * fastest < link_gb_s.value < fastest else WRONG
    for place in outcome.checkable:
        detail = f"taken against {number(link_gb_s.value)} GB/s; no link {whose} carries that ({names} GB/s)"
        yield Doubt("utilisation of a link that is none", "utilisation_percent", place, detail, severity)


def same_times(published: Published, studies: Sequence[Published]) -> Iterator[Doubt]:
    """Times that another study has printed digit for digit: two measurements do not agree like that."""
    times = published.epoch_s
    for study in studies:
        if study.id != published.id and all(str(study.epoch_s.get(at)) == str(time) for at, time in times.items()):
            detail = f"{len(times)} times are those of {study.id}, digit for digit"
            for place in times:
                yield Doubt(COPIED, "epoch_s", place, detail, LOOK)
