"""What no machine can do: times against a GPU's peak arithmetic, utilisation against its links, and times against those
that others took on the same GPU."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import yaml

from dpscale.audit.checks import IMPOSSIBLE, LOOK, WRONG, Doubt, with_assumed
from dpscale.audit.conventions import UNITS
from dpscale.audit.reading.in_words import gpus_words, listed, number
from dpscale.audit.reading.published import Published, Spot
from dpscale.audit.search import Found
from dpscale.vocabulary.chips import LINKS_TABLE, TERA, Peak, chip_named, links
from dpscale.vocabulary.networks import network_of

RECORDED_TIMES = LINKS_TABLE.with_name("one_gpu_times.yaml")

# What of a peak real networks hardly reach.
DOUBTFUL_SHARE = 0.7
# A one-GPU time stands out where it is so many times that of all others, or one over that.
STANDS_OUT = 2.0
# Bandwidths of links that differ by less are one.
_SAME_LINK = 0.01


def flop_per_image(published: Published) -> float | None:
    """FLOP per image, forward and backward: as given, or of the network with the parameters trained."""
    network = network_of(published.parameters_trained)
    return published.flop_per_image or (network.flop_per_image if network else None)


def above_the_peak(published: Published) -> Iterator[Doubt]:
    """Images per second times FLOP per image against the peak of the GPUs in use. What rests on assumptions is no more
    than worth a look."""
    flop, precision = flop_per_image(published), published.precision or "float32"
    peak = _peak(published, precision)
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
        if share.low > 1 and assumed:
            yield Doubt("time above the peak of what was assumed", quantity, place, detail, LOOK)
        elif share.low > 1:
            yield Doubt("time that the GPU cannot reach", quantity, place, detail, IMPOSSIBLE)
        elif share.low > DOUBTFUL_SHARE:
            shown = f"{detail}, {share.value * 100:.0f} % of it"
            yield Doubt("time close to the GPU's peak", quantity, place, shown, LOOK)


def _peak(published: Published, precision: str) -> Peak | None:
    """As given, or of the GPU."""
    if published.peak_tflop_s:
        return Peak(precision, published.peak_tflop_s)
    return published.chip.most(precision) if published.chip else None


def link_of_utilisation(published: Published, found: Mapping[str, Found]) -> Iterator[Doubt]:
    """Utilisation over bandwidth is one link's bandwidth in all cells: which link is that?"""
    outcome = found.get("utilisation_percent")
    if not outcome or not outcome.factor or published.bus_gb_s:
        return
    link_gb_s = 100 / outcome.factor * (UNITS[published.bandwidth_unit or "GB/s"] / UNITS["GB/s"])

    def is_it(gb_s: float) -> bool:
        return link_gb_s.low * (1 - _SAME_LINK) <= gb_s <= link_gb_s.high * (1 + _SAME_LINK)

    # Links that the study names, or those of its GPU, or all that are known.
    known, whose = published.named_links, "that the study names"
    if not known:
        chip = published.chip
        known, whose = (chip.links, f"of the {chip.name}") if chip else (links(), "in the table")
    if any(is_it(link.gb_s) for link in known):
        return
    names = listed([f"{link.name}: {link.gb_s:g}" for link in known], 4)
    # A link that it would be with another prefix: GB for TB.
    nvlinks = ((name, chip.nvlink_gb_s) for name in ("H100", "A100", "V100") if (chip := chip_named(name)))
    thousandth = next((name for name, gb_s in nvlinks if gb_s and is_it(2 * gb_s / 1000)), None)
    beside = f"; a thousand times as much is all NVLink of an {thousandth}, both directions" if thousandth else ""
    # Less than a link carries is what was measured of it, perhaps.
    is_measured = not thousandth and link_gb_s.low <= max(link.gb_s for link in known)
    severity = LOOK if is_measured else WRONG
    for place in outcome.checkable:
        detail = f"taken against {number(link_gb_s.value)} GB/s; no link {whose} carries that ({names} GB/s){beside}"
        yield Doubt("utilisation of a link that is none", "utilisation_percent", place, detail, severity)


@dataclass(frozen=True)
class Work:
    """What a one-GPU epoch time depends on."""

    gpu: str
    parameters: int
    images: int
    precision: str
    batch: int


@dataclass(frozen=True)
class Reference:
    """A one-GPU epoch time that somebody else took, or that was measured here: `source` is a study."""

    source: str
    work: Work
    seconds: float
    is_measured: bool = False


def references_of(published: Published) -> Iterator[Reference]:
    """The one-GPU times of a study, of all its tables and clocks, but for those that its GPU cannot reach."""
    close = "time close to the GPU's peak"
    beyond = {(doubt.quantity, doubt.place) for doubt in above_the_peak(published) if doubt.check != close}
    return (time for name, place, time in _one_gpu_times(published) if (name, place) not in beyond)


def _one_gpu_times(published: Published) -> Iterator[tuple[str, Spot, Reference]]:
    """Every one-GPU time, with the name of its table and its cell."""
    if not published.chip or not published.parameters_trained:
        return
    network, images = published.parameters_trained, published.dataset_images
    for name, place, time in published.times:
        if place.gpus == 1:
            precision = published.precision or "float32"
            work = Work(published.chip.name, network, images, precision, place.batch_per_gpu)
            yield name, place, Reference(published.id, work, float(time))


def recorded_references() -> Iterator[Reference]:
    """The one-GPU times of the recorded studies, from the table of them: no records are needed."""
    for entry in yaml.safe_load(RECORDED_TIMES.read_text()):
        source, times = f"{entry.pop('source')}, measured", entry.pop("seconds")
        yield from (Reference(source, Work(**entry), seconds, is_measured=True) for seconds in times)


def times_beside_others(published: Published, references: Iterable[Reference]) -> Iterator[Doubt]:
    """One-GPU times of the same network, batch and precision on the same GPU, taken by others."""
    others = [reference for reference in references if reference.source != published.id]
    for quantity, place, time in _one_gpu_times(published):
        alike = [other for other in others if other.work == time.work]
        sources = list(dict.fromkeys(other.source for other in alike))
        if len(sources) < 2 and not any(other.is_measured for other in alike):
            continue
        seconds = [other.seconds for other in alike]
        least, most = min(seconds), max(seconds)
        if least / time.seconds > STANDS_OUT or most / time.seconds < 1 / STANDS_OUT:
            others_took = f"where others took {number(least)} to {number(most)} s ({listed(sources)})"
            detail = f"{number(time.seconds)} s on the {time.work.gpu}, {others_took}"
            yield Doubt("time unlike those of others on this GPU", quantity, place, detail, LOOK)


def same_times(published: Published, studies: Sequence[Published]) -> Iterator[Doubt]:
    """Times that another study has printed digit for digit: two measurements do not agree like that."""
    times = published.epoch_s
    for other in studies:
        if (
            times
            and other.id != published.id
            and all(str(other.epoch_s.get(place)) == str(times[place]) for place in times)
        ):
            for place in times:
                detail = f"{len(times)} times are those of {other.id}, digit for digit"
                yield Doubt("times of another study", "epoch_s", place, detail, LOOK)
