"""A record of a script that was run as it is: its times by probe, and the answer that it gives."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from statistics import fmean, median

from msgspec.structs import replace

from dpscale.analyse.answer.claims import FEWEST_ROUNDS, is_efficient
from dpscale.analyse.causes import FoundCause, Probes, Remedy, causes_of, in_rounds, minus, of_rounds
from dpscale.diagnosis.finders import FINDERS, SAME_SAMPLES, Seen, shared_samples
from dpscale.formulas.figure import UNKNOWN, Figure, multiplied, ratio
from dpscale.records.script import ProbeBlock, Process, ScriptRecord
from dpscale.vocabulary.causes import NOTHING, Cause
from dpscale.vocabulary.chips import chip_named

AS_IT_IS = ("as_it_is", "as_it_is_again")
# Options of scripts that say how many steps they make, whatever the number of ranks.
_FIXED_STEPS = re.compile(r"--?(max|total|train|num)[-_](train(ing)?[-_])?(steps|iters|iterations)\b")
# A step that takes so many times the median is a pause, and counts among those.
PAUSE = 3.0
# What adds less to a step is no part of it.
LEAST_PART_S = 1e-7
# A difference of three rounds is more than noise from so many times what two equal blocks differ by, in the median; of
# more rounds, which have to agree, from less in proportion.
OVER_NOISE = 2.0
NO_EXCHANGE = ("batch_kept_no_allreduce", "no_allreduce")

# Blocks of a process by probe and by round.
Blocks = Mapping[str, Mapping[int, ProbeBlock]]


@dataclass(frozen=True)
class StepPart:
    """A part of the whole step: the time that `probe` takes longer than the one before it, or all of the first."""

    probe: str
    seconds: Figure


@dataclass(frozen=True)
class Diagnosis:
    """The answer: reasons in their order, smaller costs in theirs, and where the time of a step goes.

    `efficiency` is the step of the fastest device alone over the whole step, both of one batch per device. `tried` is
    what was changed for no cause: it can pay without one.
    """

    reasons: Sequence[FoundCause]
    smaller: Sequence[FoundCause]
    parts: Sequence[StepPart]
    whole_s: Figure
    efficiency: Figure
    tried: Sequence[Remedy]
    speedup: Figure = UNKNOWN
    chip_share: Figure = UNKNOWN
    slowed: Figure = UNKNOWN
    cautions: Sequence[str] = ()

    @property
    def is_efficient(self) -> bool:
        """Whether several devices lose no more than what is not named as a reason."""
        return is_efficient(self.efficiency)

    @property
    def first(self) -> Cause:
        """The first reason; `nothing` where there is none."""
        return self.reasons[0].cause if self.reasons else NOTHING


def diagnose_script(record: ScriptRecord) -> Diagnosis:
    """The answer that the record of a script gives."""
    probes = probes_of(record)
    ranks = record.ranks("diagnosed")
    seen = Seen(ranks, record.ranks("one"), record.diagnosed.other_cores)
    causes = causes_of(probes, (cause for find in FINDERS for cause in find(probes, seen)))
    step, n = probes[probes.whole], probes.devices
    speedup = speedup_of(record)
    efficiency = in_rounds(lambda alone_s, step_s: alone_s / step_s, probes["fastest"], step)
    return Diagnosis(
        [cause for cause in causes if cause.is_reason],
        [cause for cause in causes if not cause.is_reason],
        list(_parts(probes)),
        step,
        multiplied(speedup, 1 / n) if speedup.is_known else efficiency,
        [Remedy("bfloat16", None, cost.seconds)] if (cost := probes.cost(probes.whole, "autocast_bfloat16")) else [],
        speedup,
        _chip_share(ranks[0], step),
        _slowed(record),
        [*_cautions(record, ranks)],
    )


def probes_of(record: ScriptRecord) -> Probes:
    """The times of the run with interventions, round by round. Raises ValueError without a process."""
    ranks = record.ranks("diagnosed")
    blocks = [_by_probe(rank) for rank in ranks]
    rounds = {name: _rounds(blocks, name) for name in blocks[0]}
    first = ranks[0]
    on_gpu = first.device == "cuda"
    times = {
        name: of_rounds({at: _slowest_s([of_rank[name][at] for of_rank in blocks], on_gpu) for at in numbers})
        for name, numbers in rounds.items()
        if numbers
    }
    noise_s = 0.0
    if "as_it_is_again" in times:
        pair = times["as_it_is"], times.pop("as_it_is_again")
        apart = in_rounds(lambda first_s, again_s: abs(first_s - again_s), *pair)
        noise_s = OVER_NOISE * apart.value * FEWEST_ROUNDS / max(FEWEST_ROUNDS, len(apart.blocks))
        times["as_it_is"] = in_rounds(lambda first_s, again_s: (first_s + again_s) / 2, *pair)
    times.setdefault("as_it_is", as_it_is(first))
    in_memory = "batch_kept" if "batch_kept" in times else "as_it_is"
    by_device, paced = [times[in_memory]], {}
    if exchange := next((name for name in NO_EXCHANGE if name in times), None):
        by_device = [of_rounds({at: _step_s(of_rank[exchange][at]) for at in rounds[exchange]}) for of_rank in blocks]
        paced = {"own_pace": times[exchange]}
        if exchange == "no_allreduce" and in_memory == "batch_kept":  # less what loading adds
            paced["own_pace"] = minus(times[exchange], minus(times["as_it_is"], times[in_memory]))
    fastest, slowest = (choose(by_device, key=lambda figure: figure.value) for choose in (min, max))
    on_one = record.ranks("one")
    held = _held_batch(on_one, ranks)
    return Probes(
        times={**times, **paced, "fastest": fastest, "slowest": slowest, "first": by_device[0], **held},
        whole="as_it_is",
        in_memory=in_memory,
        devices=devices_of(ranks),
        batch=first.batch or 1,
        keeps_global_batch=bool(held),
        on_gpu=on_gpu,
        workers=first.loader.workers if first.loader else 0,
        alone_by_device=by_device,
        loading_by_rank=[_loading(of_rank) for of_rank in blocks if "as_it_is" in of_rank],
        noise_s=noise_s,
    )


def devices_of(ranks: Sequence[Process]) -> int:
    """Return the number of devices that train together: those of DataParallel's one process, or one of each rank."""
    return ranks[0].devices or 1 if ranks[0].strategy == "dp" else len(ranks)


def _by_probe(rank: Process) -> Blocks:
    """Blocks without the steps that are told as pauses; those of a GPU come without."""
    by_probe: dict[str, dict[int, ProbeBlock]] = {}
    usual = [seconds for block in rank.blocks if block.probe in AS_IT_IS for seconds in block.step_s]
    limit_s = PAUSE * median(usual) if usual and rank.device == "cpu" else inf
    for block in rank.blocks:
        by_probe.setdefault(block.probe, {})[block.round] = _without_pauses(block, limit_s)
    return by_probe


def _without_pauses(block: ProbeBlock, limit_s: float) -> ProbeBlock:
    usual = [seconds for seconds in block.step_s if seconds <= limit_s]
    if 2 * len(usual) <= len(block.step_s):
        return block
    pauses_s, pauses = sum(block.step_s) - sum(usual), len(block.step_s) - len(usual)
    return replace(block, seconds=block.seconds - pauses_s, steps=block.steps - pauses, step_s=usual)


def _rounds(blocks: Sequence[Blocks], name: str) -> list[int]:
    """Rounds in which every rank has a block of a probe, and two as it is."""
    wanted = (name, *AS_IT_IS)
    return sorted(set.intersection(*(set(of_rank.get(probe, ())) for of_rank in blocks for probe in wanted)))


def _step_s(block: ProbeBlock) -> float:
    return block.seconds / block.steps


def _slowest_s(blocks: Sequence[ProbeBlock], on_gpu: bool) -> float:
    """A step whose slowest rank is waited for: of every step, but of a GPU's, whose single steps the host's clock does
    not tell."""
    if on_gpu:
        return max(map(_step_s, blocks))
    return fmean(map(max, zip(*(block.step_s for block in blocks), strict=False)))


def _loading(blocks: Blocks) -> Figure:
    """Return the time that a rank waits for its loader, in a step as it is."""
    by_round = blocks["as_it_is"]
    return of_rounds({number: block.loading_s / block.steps for number, block in by_round.items()})


def as_it_is(rank: Process) -> Figure:
    """A rank's step in its blocks without an intervention, without pauses; unknown without any."""
    by_probe = _by_probe(rank)
    blocks = [block for probe in AS_IT_IS for block in by_probe.get(probe, {}).values()]
    return of_rounds([_step_s(block) for block in blocks]) if blocks else UNKNOWN


def _held_batch(on_one: Sequence[Process], ranks: Sequence[Process]) -> dict[str, Figure]:
    """The step on one device in proportion to its samples, where that had the batch of all ranks together."""
    batch, batch_on_one = ranks[0].batch, on_one[0].batch if on_one else None
    if len(ranks) < 2 or not batch or batch_on_one != batch * len(ranks):
        return {}
    return {"alone_reference": as_it_is(on_one[0]).map(lambda seconds: seconds * batch / batch_on_one).sure}


def speedup_of(record: ScriptRecord) -> Figure:
    """Different samples per second of all ranks over those of one, before and after (A B A): with the ends of both
    intervals that are farther out. Unknown where it was not run on one device."""
    several = _rate(record.ranks("diagnosed"))
    ratios = [ratio(several, _rate(run.processes)) for run in record.runs if run.purpose == "one" and run.processes]
    if not ratios or not several.is_known:
        return UNKNOWN
    low, high = min(speedup.low for speedup in ratios), max(speedup.high for speedup in ratios)
    return Figure.of(median(speedup.value for speedup in ratios), low, high)


def _rate(ranks: Sequence[Process]) -> Figure:
    """Samples per second; of an unknown batch, batches of a rank. What several ranks have in common counts once."""
    if not ranks:
        return UNKNOWN
    first = ranks[0]
    copies = 1 if shared_samples(ranks) >= SAME_SAMPLES else len(ranks)
    samples = copies * (first.batch or 1) * (first.micro_batches_per_step or 1)
    return as_it_is(first).map(lambda seconds: samples / seconds).sure


def _slowed(record: ScriptRecord) -> Figure:
    """Return how much longer a rank's step takes with hooks than without: two processes, with their difference."""
    watched, paced = record.ranks("diagnosed"), record.ranks("paced")
    return ratio(as_it_is(watched[0]).sure, as_it_is(paced[0]).sure).map(lambda value: value - 1) if paced else UNKNOWN


def _chip_share(rank: Process, step: Figure) -> Figure:
    """Return the share of the arithmetic that the device could do at the precision that is used."""
    chip, flops, sizes = chip_named(rank.device_model or ""), rank.flops_per_step, rank.dtypes
    if chip is None or not flops:
        return UNKNOWN
    is_half = rank.switches.autocast or max(sizes, key=sizes.__getitem__, default="") in ("bfloat16", "float16")
    peak = chip.most("bfloat16" if is_half else "float32" if rank.switches.tf32 else "float32-strict")
    return step.map(lambda seconds: flops / seconds / peak.flop_s).sure


def _parts(probes: Probes) -> Iterator[StepPart]:
    """From the fastest rank's own pace to all that the script does in a step, each less the one before."""
    before = probes["fastest"]
    yield StepPart("fastest", before)
    names = [*(["slowest", "own_pace"] if probes.has("own_pace") else []), probes.in_memory, probes.whole]
    for name in dict.fromkeys(names):
        label = "batch_kept" if name == probes.in_memory else name
        adds = abs(probes[name].value - before.value) > LEAST_PART_S
        if adds and not (label == "batch_kept" and probes.devices == 1):
            yield StepPart("exchanged" if label == "batch_kept" else label, minus(probes[name], before))
            before = probes[name]


def _cautions(record: ScriptRecord, ranks: Sequence[Process]) -> Iterator[str]:
    """Yield the cautions that a reader of the answer has to know."""
    first, run = ranks[0], record.diagnosed
    if len(ranks) > 1 or first.world_size > 1:
        if first.world_size > len(ranks):
            yield f"Of {first.world_size} ranks {len(ranks)} are on this machine; the others are not seen."
        if (reason := record.one_unknown) and not record.ranks("one"):
            yield f"How many times as fast as one device it is, is not known: {reason}."
        if fixed := [word for word in record.command if _FIXED_STEPS.match(word)]:
            yield f"{fixed[0]} fixes the number of steps: on more devices it is more work, unless that is divided."
    if first.status == "observed":
        yield f"Nothing was changed in its steps, only watched: {first.why or 'it cannot be undone safely'}."
    if first.optimiser and first.optimiser.count > 1:
        yield f"It has {first.optimiser.count} optimisers: a step ends with the last one's."
    if not first.loader:
        yield "No DataLoader was seen: what loading costs is not known."
    elif first.loader.iterable:
        yield "Its dataset is iterable: how many samples an epoch has is not known."
    if first.ended_by == "script":
        yield f"The script ended by itself after {first.steps} steps."
    if strangers := run.others_on_gpu:
        yield f"Other processes are on its GPUs: {', '.join(map(str, strangers))}."
    if run.code is None:
        yield "It could not be interrupted, and was ended from outside."
