"""The times of a script that was run as it is: of its step by probe, and by part (docs/method/diagnosis.md).

Parts exclude each other and divide a step without rest. Hooks tell them (`attach.hooks`), blocks without allreduce tell
what the ranks exchange and wait for, and samples of the training thread tell the statements of the script's own code.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, sqrt
from operator import add, truediv
from statistics import fmean

from dpscale.analyse.answer.claims import FEWEST_ROUNDS, is_large_cost
from dpscale.analyse.causes import ProbeCost, Probes, exact, in_rounds, minus, of_rounds
from dpscale.formulas.figure import UNKNOWN, Figure, multiplied
from dpscale.formulas.statistics import mean_with_t_interval
from dpscale.records.script import Line, ProbeBlock, Process, ScriptRecord, StatementTime, devices_of
from dpscale.vocabulary.causes import CAUSES, PARTS

AS_IT_IS = ("as_it_is", "as_it_is_again")
NO_EXCHANGE = ("batch_kept_no_allreduce", "no_allreduce")
# A difference of three rounds is more than noise from so many times what two equal blocks differ by, in the median; of
# more rounds, which have to agree, from less in proportion.
OVER_NOISE = 2.0
OWN, WAITING = "own", "waiting"
# Parts that are differences of blocks, and may come out below zero; others are times.
_DIFFERENCES = ("exchange", "other_ranks", "rest")
# In which gradients and buffers are exchanged.
_WITH_EXCHANGE = ("forward", "backward")
# Parts of a step, or kinds of a pause, that are causes.
CAUSE_OF_PART = {cause.part: cause.name for cause in CAUSES.values() if cause.part}
# Own code below this part of the step is told together.
LEAST_STATEMENT = 0.02
_TWO_SIDED_95 = 1.96


@dataclass(frozen=True, kw_only=True)
class Account(Probes):
    """The times of a script by probe, and whose they are: its processes by rank, those of its run on one device, if
    there was one, cores that its ranks may use, of which each may be bound to some, and cores that were busy with other
    processes."""

    ranks: Sequence[Process]
    one_device: Sequence[Process]
    usable_cores: int
    other_cores: float

    @property
    def first(self) -> Process:
        return self.ranks[0]

    @property
    def step(self) -> Figure:
        """The step as it is."""
        return self[self.whole]

    def without(self, probe: str) -> ProbeCost | None:
        """Return what the step as it is takes longer than a probe; None where that was not tried."""
        return self.cost(self.whole, probe)

    def work(self, longer: str, shorter: str) -> ProbeCost | None:
        """Return what one probe takes longer than another, less what either waits for the loader: of steps that become
        shorter than a batch takes to load, the wait is as much longer. None where that was not tried.

        Equal steps as they are tell the noise of the step as it is alone.
        """
        cost = self.cost(longer, shorter)
        probes = [AS_IT_IS if name == self.whole else (name,) for name in (longer, shorter)]
        waits = [wait for names in probes if (wait := parts_of(self.ranks, names).get("loading"))]
        if cost and len(waits) == 2:
            cost = replace(cost, seconds=minus(cost.seconds, minus(*waits)))
        return replace(cost, is_of_probes=longer == self.whole) if cost else None

    @property
    def pauses_s(self) -> float:
        """What pauses add to a step, spread over all steps after the warm-up: of the rank that has most of them."""
        steps = max(1, self.first.steps - self.first.warm_up_steps)
        by_rank = [{pause.after_step: pause.seconds for pause in rank.gaps}.values() for rank in self.ranks]
        return max(sum(max(0.0, seconds - self.step.value) for seconds in pauses) for pauses in by_rank) / steps


def account_of(record: ScriptRecord) -> Account:
    """The account of the run with interventions, round by round; and of the run on one device, if there was one."""
    ranks, on_one = record.ranks("diagnosed"), record.ranks("one")
    first, by_probe = ranks[0], _rounds(ranks)
    bound = {core for rank in ranks for core in rank.machine.numbers_of_cores}
    usable_cores = len(bound) or first.machine.cores_usable or 0

    def by_rank(probe: str, seconds: Callable[[ProbeBlock], float]) -> list[Figure]:
        rounds = by_probe.get(probe, {})
        return [of_rounds({at: seconds(rounds[at][rank]) for at in rounds}) for rank in range(len(ranks))]

    times = {
        name: of_rounds({at: _slowest_s(blocks) for at, blocks in rounds.items()}) for name, rounds in by_probe.items()
    }
    noise_s = 0.0
    if again := times.pop("as_it_is_again", None):
        apart = in_rounds(lambda first_s, again_s: abs(first_s - again_s), times["as_it_is"], again)
        noise_s = OVER_NOISE * apart.value * FEWEST_ROUNDS / max(FEWEST_ROUNDS, len(apart.blocks))
        times["as_it_is"] = in_rounds(lambda *equal_s: fmean(equal_s), times["as_it_is"], again)
    times.setdefault("as_it_is", as_it_is(first))
    kept, waits = times.get("batch_kept", times["as_it_is"]), parts_of(ranks).get("loading")
    loading = minus(times["as_it_is"], kept)
    in_steps = len(ranks) == 1 or not first.loading.workers  # and beside no other rank's wait
    if in_steps and waits and not is_large_cost(loading, loading, 0.0, noise_s):
        kept = minus(times["as_it_is"], waits)  # clocks in each step tell it better
        times = {name: figure for name, figure in times.items() if not name.startswith("batch_kept")}
    in_memory = "batch_kept" if "batch_kept" in times else "as_it_is"
    exchange = next((name for name in NO_EXCHANGE if name in times), None)
    by_device = by_rank(exchange, _step_s) if exchange else [times.get("share_on_one_device", kept)]
    if exchange:
        times["own_pace"], times["mean_pace"] = times[exchange], multiplied(added(by_device), 1 / len(ranks))
    parts = [parts_of([rank], (exchange or AS_IT_IS[0],)) for rank in ranks]
    waits = parts[0].get("loading")
    times["first"] = minus(by_device[0], waits) if waits else by_device[0]
    times["fastest"], times["slowest"] = (choose(by_device, key=lambda figure: figure.value) for choose in (min, max))
    keeps_batch = bool(len(ranks) > 1 and on_one and first.batch and on_one[0].batch == first.batch * len(ranks))
    if keeps_batch:  # without loading, in proportion to the samples
        loader_s = parts_of(on_one[:1]).get("loading", Figure(0.0)).value
        times["alone_reference"] = as_it_is(on_one[0]).map(lambda seconds: (seconds - loader_s) / len(ranks)).sure
    return Account(
        times=times,
        whole="as_it_is",
        in_memory=in_memory,
        devices=devices_of(ranks),
        batch=first.batch or 1,
        on_gpu=first.device == "cuda",
        workers=first.loading.workers,
        cores=max(1, usable_cores // len(ranks)) if usable_cores else inf,
        usable_cores=usable_cores,
        alone_by_device=[_training_s(*pace) for pace in zip(by_device, parts, strict=False)],
        loading_by_rank=by_rank("as_it_is", lambda block: block.loading_s / block.steps) if by_probe else [],
        noise_s=noise_s,
        ranks=ranks,
        one_device=on_one,
        other_cores=record.diagnosed.other_cores,
    )


def _training_s(pace: Figure, parts: Mapping[str, Figure]) -> Figure:
    """Return a rank's pace less its loading, and what its script does beside the training: both are told by lines."""
    for part in {"loading", *CAUSE_OF_PART} & parts.keys():
        pace = minus(pace, parts[part])
    return pace


def _rounds(ranks: Sequence[Process]) -> Mapping[str, Mapping[int, Sequence[ProbeBlock]]]:
    """Return blocks by probe and by round, those of all ranks together: of rounds in which every rank has it, and two
    as it is."""
    blocks: dict[tuple[int, str], list[ProbeBlock]] = defaultdict(list)
    for block in (block for rank in ranks for block in rank.blocks):
        blocks[block.round, block.probe].append(block)
    whole = {key for key in blocks if len(blocks[key]) == len(ranks)}
    by_probe: dict[str, dict[int, list[ProbeBlock]]] = defaultdict(dict)
    for at, name in sorted(whole):
        if whole.issuperset((at, probe) for probe in AS_IT_IS):
            by_probe[name][at] = blocks[at, name]
    return by_probe


def clocked(part: Figure) -> ProbeCost:
    """Return a part of every step as a cost: clocks in each tell it, and no difference of blocks; so also where rounds
    are too few for one."""
    return ProbeCost(part if len(part.blocks) >= FEWEST_ROUNDS else exact(part.value))


def _step_s(block: ProbeBlock) -> float:
    return block.seconds / block.steps


def _slowest_s(blocks: Sequence[ProbeBlock]) -> float:
    """Return the step of ranks that train together.

    Where they wait for each other in every step, each of them tells it. Without allreduce the slowest of each step
    does, unless the host's clock alone told the steps of a GPU, which it cannot one by one.
    """
    if not all(block.parts for block in blocks):
        return max(map(_step_s, blocks))
    if "no_allreduce" in blocks[0].probe:
        return fmean(map(max, zip(*(block.step_s for block in blocks), strict=False)))
    return max(fmean(block.step_s) for block in blocks)


def as_it_is(rank: Process) -> Figure:
    """A rank's step in its blocks without an intervention, without pauses; unknown without any."""
    steps_s = [_step_s(block) for probe in AS_IT_IS for block in rank.blocks if block.probe == probe]
    return of_rounds(steps_s) if steps_s else UNKNOWN


@dataclass(frozen=True)
class StepPart:
    """A part of a step, by name; of own code the statement."""

    name: str
    seconds: Figure
    place: Line | None = None


def parts_of(ranks: Sequence[Process], probes: Sequence[str] = AS_IT_IS) -> dict[str, Figure]:
    """Return the parts of a step in blocks of these probes, round by round, on average of the ranks. Empty in records
    without parts.

    What a library's frames show to be of another part than own code is counted there.
    """
    rounds: dict[int, list[Mapping[str, float]]] = defaultdict(list)
    for block in (block for rank in ranks for block in rank.blocks if block.probe in probes and block.parts):
        rounds[block.round].append(block.parts)
    parts = {
        name: of_rounds({at: fmean(step.get(name, 0.0) for step in steps) for at, steps in rounds.items()})
        for name in dict.fromkeys(name for steps in rounds.values() for step in steps for name in step)
    }
    rows = [row for rank in ranks for row in rank.lines if row.part == OWN and row.kind != WAITING]
    own_code = parts.get(OWN, UNKNOWN)
    for name in {row.kind for row in rows if own_code.blocks} - {OWN}:
        moved = multiplied(own_code, _samples(row for row in rows if row.kind == name) / _samples(rows))
        parts[OWN] = minus(parts[OWN], moved)
        parts[name] = in_rounds(add, parts[name], moved) if name in parts else moved
    return parts


def _samples(rows: Iterable[StatementTime]) -> int:
    return sum(row.samples for row in rows)


def own_statements(ranks: Sequence[Process]) -> Iterator[tuple[StatementTime, list[Figure]]]:
    """Yield the statements of the script's own code, with the seconds of a step that each takes on every rank that was
    seen in it: its share of the samples of own code, with their interval (Wald)."""
    timed: dict[tuple[str, int], tuple[StatementTime, list[Figure]]] = {}
    for rank in ranks:
        rows = [row for row in rank.lines if row.part == row.kind == OWN]
        own_s, samples = parts_of([rank]).get(OWN, UNKNOWN).value, _samples(rows)
        for row in rows:
            share = row.samples / samples
            half = _TWO_SIDED_95 * sqrt(share * (1 - share) / samples)
            seconds = Figure.of(*(own_s * part for part in (share, max(0.0, share - half), share + half)))
            timed.setdefault((row.file, row.line), (row, []))[1].append(seconds)
    return ((row, seconds) for row, seconds in timed.values() if row.file)


def step_parts(account: Account) -> Iterator[StepPart]:
    """Yield the parts of a step, on average of the ranks: they add up to the step as it is.

    Each is its mean share of a round's step, of the step: medians of parts would not add up.
    """
    for part in _parts(account):
        if part.seconds.blocks:
            shares = in_rounds(truediv, part.seconds, account.step).blocks.values()
            share = mean_with_t_interval([*shares]) if len(shares) >= FEWEST_ROUNDS else Figure(fmean(shares))
            if part.name not in _DIFFERENCES:
                share = replace(share, low=max(0.0, share.low))
            yield replace(part, seconds=multiplied(share, account.step.value))
        else:
            yield part


def added(figures: Iterable[Figure]) -> Figure:
    """Return the sum of figures, round by round."""
    return in_rounds(lambda *seconds: sum(seconds), *figures)


def _parts(account: Account) -> Iterator[StepPart]:
    """Yield the parts of a step round by round.

    What forward and backward take longer with allreduce is exchanged, but for what the ranks wait for the slowest of
    them in every step; and what they take longer with shards, with FSDP's own collectives.
    """
    parts = parts_of(account.ranks)
    has_ddp = account.has("no_allreduce")
    without = parts_of(account.ranks, ("no_allreduce" if has_ddp else "shards_kept",))
    if passes := [name for name in _WITH_EXCHANGE if name in parts and name in without]:
        exchange = added(minus(parts[name], without[name]) for name in passes)
        parts |= {name: without[name] for name in passes}
        if has_ddp:
            parts["other_ranks"] = in_rounds(min, exchange, minus(account["own_pace"], account["mean_pace"]))
            exchange = minus(exchange, parts["other_ranks"])
        elif "collectives" in parts:
            exchange = added([exchange, parts.pop("collectives")])
        parts["exchange"] = exchange
    yield from (StepPart(name, parts[name]) for name in PARTS if name in parts)
    if OWN in parts:
        yield from _own_code(account, parts[OWN])


def _own_code(account: Account, own: Figure) -> Iterator[StepPart]:
    """Yield the largest statements, and what is left."""
    for row, by_rank in own_statements(account.ranks):
        part = Figure(sum(figure.value for figure in by_rank) / len(account.ranks))
        if part.value >= LEAST_STATEMENT * account.step.value:
            own = minus(own, part)
            yield StepPart(OWN, part, row)
    yield StepPart("rest", own)
