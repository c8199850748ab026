"""What no machine can do: times against a GPU's peak arithmetic, utilisation against its links, and times against those
that others took on the same GPU."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import yaml

from dpscale.audit.consistency import IMPOSSIBLE, LOOK, Doubt
from dpscale.audit.conventions import UNITS
from dpscale.audit.published import Place, Published
from dpscale.audit.search import Found
from dpscale.audit.words import gpus_words, listed, number
from dpscale.formulas.rounded import Rounded
from dpscale.records.files import read_record
from dpscale.vocabulary.chips import LINKS_TABLE, TERA, Link, chip_named, links
from dpscale.vocabulary.networks import network_of

RECORDED_TIMES = LINKS_TABLE.with_name("one_gpu_times.yaml")

# What of a peak real networks hardly reach.
DOUBTFUL_SHARE = 0.7
# A one-GPU time stands out where it is so many times that of all others, or one over that.
STANDS_OUT = 2.0


def flop_per_image(published: Published) -> float | None:
    """FLOP per image, forward and backward: as given, or of the network with the parameters trained."""
    network = network_of(published.parameters_trained)
    return published.flop_per_image or (network.flop_per_image if network else None)


def above_the_peak(published: Published) -> Iterator[Doubt]:
    """Images per second times FLOP per image against the peak of the GPUs in use."""
    flop, chip = flop_per_image(published), published.chip
    if not flop or not chip:
        return
    peak = chip.most(published.precision or "float32")
    for quantity, place, printed in published.times:
        if not isinstance(place, Place):
            continue
        rate = published.dataset_images / Rounded.of(printed)
        tflop_s = rate * (flop / TERA)
        share = tflop_s / (place.gpus * peak.tflop_s)
        if share.low <= DOUBTFUL_SHARE:
            continue
        detail = (
            f"{printed} s is {rate.value:,.0f} images/s and {number(tflop_s.value)} TFLOP/s; the {peak.unit} peak of "
            f"{gpus_words(place.gpus)} ({chip.name}) is {number(place.gpus * peak.tflop_s)}"
        )
        if share.low > 1:
            yield Doubt("time that the GPU cannot reach", quantity, place, detail, IMPOSSIBLE)
        else:
            shown = f"{detail}, {share.value * 100:.0f} % of it"
            yield Doubt("time close to the GPU's peak", quantity, place, shown, LOOK)


def link_of_utilisation(published: Published, found: Mapping[str, Found]) -> Iterator[Doubt]:
    """Utilisation over bandwidth is one link's bandwidth in all cells: which link is that?"""
    outcome = found.get("utilisation_percent")
    if not outcome or outcome.verdict != "up to a constant" or not outcome.factor:
        return
    scale = UNITS[published.bandwidth_unit or "GB/s"] / UNITS["GB/s"]
    link_gb_s = 100 / outcome.factor * scale
    names = _candidates(published)
    same = [link for link in names if link_gb_s.low * 0.99 <= link.gb_s <= link_gb_s.high * 1.01]
    if same:
        return
    whose = _whose_links(published)
    known = listed([f"{link.name}: {link.gb_s:g}" for link in names], 4)
    beside = _beside(link_gb_s)
    for place in outcome.cells:
        detail = f"taken against {number(link_gb_s.value)} GB/s; no link {whose} carries that ({known} GB/s){beside}"
        yield Doubt("utilisation of a link that is none", "utilisation_percent", place, detail)


def _candidates(published: Published) -> list[Link]:
    """Links that the study names, or those of its GPU, or all that are known."""
    return published.named_links or (published.chip.links if published.chip else links())


def _whose_links(published: Published) -> str:
    """Whose links the candidates are, in words."""
    if published.named_links:
        return "that the study names"
    return f"of the {published.chip.name}" if published.chip else "in the table"


def _beside(link_gb_s: Rounded) -> str:
    """A link that it would be with another prefix: GB for TB."""
    for chip in ("H100", "A100", "V100"):
        known = chip_named(chip)
        total = 2 * known.nvlink_gb_s if known and known.nvlink_gb_s else 0
        if link_gb_s.low * 0.99 <= total / 1000 <= link_gb_s.high * 1.01:
            return f"; a thousand times as much is all NVLink of an {chip}, both directions"
    return ""


@dataclass(frozen=True)
class Reference:
    """A one-GPU epoch time that somebody else took, with what it depends on. `source` is a study, or the folder of a
    study that was measured here."""

    source: str
    gpu: str
    parameters: int
    images: int
    precision: str
    batch: int
    seconds: float
    is_measured: bool = False


def references_of(published: Published) -> Iterator[Reference]:
    """The one-GPU times of a study, of all its tables and clocks, but for those that its GPU cannot reach."""
    impossible = {(doubt.quantity, doubt.place) for doubt in above_the_peak(published) if doubt.severity == IMPOSSIBLE}
    return (time for name, place, time in _one_gpu_times(published) if (name, place) not in impossible)


def _one_gpu_times(published: Published) -> Iterator[tuple[str, Place, Reference]]:
    """Every one-GPU time, with the name of its table and its cell."""
    if not published.chip or not published.parameters_trained:
        return
    for name, place, time in published.times:
        if isinstance(place, Place) and place.gpus == 1:
            yield name, place, Reference(
                published.id, published.chip.name, published.parameters_trained, published.dataset_images,
                published.precision or "float32", place.batch_per_gpu, float(time),
            )  # fmt: skip


def references_of_records(results: Path) -> Iterator[Reference]:
    """The one-GPU times of a measured study, from the records in its folder. Raises RecordError."""
    for path in sorted(results.glob("cells/single/gpus-1/batch-*/run-*.json")):
        record = read_record("timing", path)
        chip = chip_named(record["hardware"]["device_model"])
        if record["status"] != "ok" or not chip or not record["network"]:
            continue
        for scope in record["scopes"].values():
            yield Reference(
                f"{results.name}, measured", chip.name, record["network"]["parameters"],
                record["settings"]["epoch_images"], record["settings"]["precision"], record["cell"]["batch_per_gpu"],
                median(scope["epoch_s"]), is_measured=True,
            )  # fmt: skip


def recorded_references() -> Iterator[Reference]:
    """The one-GPU times of the recorded studies, from the table of them: no records are needed."""
    for entry in yaml.safe_load(RECORDED_TIMES.read_text()):
        work = {name: value for name, value in entry.items() if name not in ("source", "seconds")}
        for seconds in entry["seconds"]:
            yield Reference(**work, source=f"{entry['source']}, measured", seconds=seconds, is_measured=True)


def times_beside_others(published: Published, references: Iterable[Reference]) -> Iterator[Doubt]:
    """One-GPU times of the same network, batch and precision on the same GPU, taken by others."""
    others = [reference for reference in references if reference.source != published.id]
    for quantity, place, time in _one_gpu_times(published):
        alike = [other for other in others if _same_work(other, time)]
        sources = list(dict.fromkeys(other.source for other in alike))
        ratios = [other.seconds / time.seconds for other in alike]
        known_well = len(sources) > 1 or any(other.is_measured for other in alike)
        if not known_well or not (min(ratios) > STANDS_OUT or max(ratios) < 1 / STANDS_OUT):
            continue
        ends = [number(end(other.seconds for other in alike)) for end in (min, max)]
        detail = (
            f"{number(time.seconds)} s on the {time.gpu}, where others took {' to '.join(ends)} s ({listed(sources)})"
        )
        yield Doubt("time unlike those of others on this GPU", quantity, place, detail, LOOK)


def _same_work(one: Reference, other: Reference) -> bool:
    return (one.gpu, one.parameters, one.images, one.precision, one.batch) == (
        other.gpu, other.parameters, other.images, other.precision, other.batch,
    )  # fmt: skip


def same_times(published: Published, studies: Sequence[Published]) -> Iterator[Doubt]:
    """Times that another study has printed digit for digit: two measurements do not agree like that."""
    for other in studies:
        if other.id == published.id or not published.epoch_s:
            continue
        same = [place for place, time in published.epoch_s.items() if str(other.epoch_s.get(place)) == str(time)]
        if len(same) == len(published.epoch_s):
            for place in same:
                detail = f"{len(same)} times are those of {other.id}, digit for digit"
                yield Doubt("times of another study", "epoch_s", place, detail, LOOK)
