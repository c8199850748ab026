"""Finders of causes in a script that was run as it is: from its blocks of steps, and from what its processes saw.

What is seen once in a while (a pause, a collection, a search) has cost its seconds of the whole time, and no block
tells it; what is in every step is a difference of blocks of the same round (docs/method/diagnosis.md).
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf, nan

from dpscale.analyse.causes import (
    BUSY_SHARE,
    Evidence,
    FoundCause,
    ProbeCost,
    Probes,
    Remedy,
    count,
    exact,
    found,
    in_rounds,
    minus,
    times,
)
from dpscale.formulas.figure import Figure
from dpscale.records.script import Event, Line, LineTime, Pause, Process, ProcessEvents
from dpscale.tables.column import GB_PER_S, MB, PERCENT, SECONDS, Unit
from dpscale.vocabulary.causes import CAUSES
from dpscale.vocabulary.chips import chip_named

DECIMAL = Unit("1", "", decimals=1)
# Causes that a probe switches off: the cause, the probe, and the lines of the script that it is about.
SWITCHED: Sequence[tuple[str, str, Callable[[Process], Sequence[LineTime]]]] = (
    ("buffers", "no_buffers", lambda rank: []),
    ("micro_batches", "accumulated", lambda rank: []),
    ("hidden_synchronisation", "no_waiting", lambda rank: rank.waits),
    ("anomaly", "anomaly_off", lambda rank: []),
    ("deterministic", "deterministic_off", lambda rank: []),
    ("no_tf32", "precision", lambda rank: []),
    ("many_small_tensors", "fused_optimiser", lambda rank: []),
    ("allocator_emptied", "no_emptying", lambda rank: rank.emptyings),
)
# Causes that happen now and then: the cause, its events, and a probe without it.
EVENTS: Sequence[tuple[str, Callable[[ProcessEvents], Event], str]] = (
    ("garbage_collection", lambda events: events.gc, "gc_off"),
    ("compile_per_length", lambda events: events.compile, ""),
    ("workers_restarted", lambda events: events.worker_start, ""),
    ("cudnn_search", lambda events: events.cudnn_search, "cudnn_benchmark_off"),
)
# Float64 is so many times slower than float32 without tensor cores, at least.
FLOAT64_SLOWER = 2.0
# A GPU that is busy for a smaller part of a step waits for its launches.
BUSY_GPU = 0.6
# An exchange that is no faster than that, in GB/s, has a slow link, whatever of it was hidden. Few bytes tell no link,
# nor do CPU workers of one machine: what takes longer there than a call, and that, is waiting for a core.
SLOW_EXCHANGE, FEWEST_BYTES, CALL_S = {"cuda": 4.0, "cpu": 0.05}, 1e6, 1e-3
# A GPU that idles while cuDNN searches, in a larger part of the steps than that, does not wait for launches.
OFTEN = 0.1
# Samples that ranks have in common, of those that they can have, from which on the work is not divided.
SAME_SAMPLES = 0.8
# Workers that build no more batches than so many each, in an epoch, mostly start.
BATCHES_PER_WORKER = 2
# What is sharded would fit on one device where weights, gradients and two states take a smaller part of its memory.
FITS = 0.5
KINDS = {
    "validation": re.compile(r"valid|eval|test_?(loader|set|data)|\btest\(", re.I),
    "checkpoint": re.compile(r"save|checkpoint|ckpt", re.I),
    "logging": re.compile(r"log|print|hist|summary|wandb|mlflow|writer|tensorboard", re.I),
}
# Lines in which a rank waits for the others, or for what is told elsewhere.
_OF_TRAINING = re.compile(r"backward\(|\.step\(|^for |barrier|all_?reduce|\.item\(|next\(|^$")
SWITCHED_OFF = ("NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", "NCCL_IB_DISABLE")
INTERFACES = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")
BLOCKING = ("CUDA_LAUNCH_BLOCKING",)


@dataclass(frozen=True)
class Seen:
    """The processes of a script by rank; those of its run on one device, if there was one; and cores that were busy
    with other processes."""

    ranks: Sequence[Process]
    one_device: Sequence[Process]
    other_cores: float

    @property
    def first(self) -> Process:
        return self.ranks[0]

    def variables(self, names: Sequence[str]) -> list[str]:
        """Return the variables of the environment that are set, and not to 0."""
        values = self.first.environment
        return [f"{name}={values[name]}" for name in names if values.get(name, "0") not in ("0", "")]


Finder = Callable[[Probes, Seen], Iterator[FoundCause]]


def places(lines: Sequence[Line]) -> list[str]:
    """`train.py, line 7: loss.item()`, of the first three."""
    shown = [f"{line.file}, line {line.line}: {line.code}" for line in lines if line.file]
    return list(dict.fromkeys(shown))[:3]


def shared_samples(ranks: Sequence[Process]) -> float:
    """The part of the samples that ranks have in common; NaN where they were not hashed."""
    hashes = [set(rank.loader.hashes) if rank.loader else set() for rank in ranks]
    fewest = min(map(len, hashes), default=0)
    return len(set.intersection(*hashes)) / fewest if fewest > 1 and len(hashes) > 1 else nan


def _switches(probes: Probes, seen: Seen) -> Iterator[FoundCause]:
    for name, probe, lines_of in SWITCHED:
        if cost := probes.cost(probes.whole, probe):
            remedy = Remedy("switched_off", None, cost.seconds)
            yield found(name, probes, cost, times(probes, probes.whole, probe), [remedy], places(lines_of(seen.first)))


def _rare(probes: Probes, seen: Seen, name: str, seconds: float, often: float, lines: Sequence[str]) -> FoundCause:
    """Return a cause that took so many seconds of the whole time after the warm-up."""
    first = seen.first
    share = min(1.0, seconds / (first.wall_s - (first.warm_up_s or 0.0)))
    cost = exact(seconds / max(1, first.steps - first.warm_up_steps))
    evidence = [Evidence("seconds", exact(seconds), SECONDS), count("times", often)]
    return found(name, probes, ProbeCost(cost, exact(share)), evidence, [Remedy("none_of_it", cost)], lines)


def _pauses(probes: Probes, seen: Seen) -> Iterator[FoundCause]:
    """Yield causes by the script's lines in its longest steps: those of the rank whose own line is seen there."""
    by_cause: dict[str, dict[int, Pause]] = {}
    taken: set[int] = set()
    for rank in seen.ranks:
        for pause in rank.gaps:
            name = _cause_of_pause(pause, rank)
            if name and pause.after_step not in taken:
                taken.add(pause.after_step)
                by_cause.setdefault(name, {})[pause.after_step] = pause
    for name, pauses in by_cause.items():
        seconds = sum(max(0.0, pause.seconds - probes[probes.whole].value) for pause in pauses.values())
        yield _rare(probes, seen, name, seconds, len(pauses), places(list(pauses.values())))


def _cause_of_pause(pause: Pause, rank: Process) -> str | None:
    """Return the cause of a pause; None where the rank waited in it for something else, or it is counted as an
    event."""
    if pause.event in ("gc", "compile"):
        return None
    if pause.event == "loader start":
        loader = rank.loader
        is_short = loader and 0 < (loader.batches or 0) <= BATCHES_PER_WORKER * loader.workers
        return "few_batches" if is_short else None
    if "checkpoint" in (pause.event, pause.border) or pause.border == "evaluation":
        return "validation" if pause.border == "evaluation" and pause.event != "checkpoint" else "checkpoint"
    code = pause.code.strip()
    is_of_training = _OF_TRAINING.search(code) or pause.inside.startswith("torch.")
    kind = next((name for name, words in KINDS.items() if words.search(f"{pause.inside} {code}")), None)
    return kind or (None if is_of_training else "own_code")


def _logging(probes: Probes, seen: Seen) -> Iterator[FoundCause]:
    """Lines that log in every step, by samples of the main thread."""
    lines = [line for line in seen.first.lines if KINDS["logging"].search(line.code)]
    cost = exact(probes[probes.whole].value * sum(line.share for line in lines))
    yield found("logging", probes, ProbeCost(cost), [], [Remedy("none_of_it", cost)], places(lines))


def _events(probes: Probes, seen: Seen) -> Iterator[FoundCause]:
    """Yield causes of events by their seconds, or by blocks without them where those tell it surely."""
    searches = probes.on_gpu and seen.first.switches.cudnn_benchmark
    for name, event_of, probe in EVENTS if searches else EVENTS[:-1]:
        most = max((event_of(rank.events) for rank in seen.ranks), key=lambda event: event.seconds)
        rare = _rare(probes, seen, name, most.seconds, most.count, [])
        cost = probes.cost(probes.whole, probe)
        # Pauses are no part of blocks.
        is_less = cost and cost.seconds.has_interval and cost.seconds.high < rare.cost_s.value
        in_steps = (most.longest_s or inf) < probes[probes.whole].value
        if cost and (cost.seconds.low > probes.noise_s or (is_less and in_steps)):
            remedy = Remedy("switched_off", rare.cost_s, cost.seconds)
            yield found(name, probes, cost, times(probes, probes.whole, probe), [remedy])
        else:
            yield rare


def _calls(probes: Probes, seen: Seen) -> Iterator[FoundCause]:
    """Yield the time in collectives that are not DDP's, and in DDP's search: of a step as it is.

    Collectives are of the script itself, or gather shards of what would fit whole.
    """
    first = seen.first
    steps = first.counted_steps or 1
    memory, held = first.device_bytes, 4 * first.parameter_bytes
    is_zero = first.optimiser is not None and "ZeroRedundancy" in first.optimiser.name
    is_sharded = first.strategy == "fsdp" or is_zero
    if not (is_sharded and memory and held > FITS * memory):
        cost = exact(sum(line.seconds for line in first.collectives) / steps)
        often = Evidence("calls", exact(sum(line.calls for line in first.collectives) / steps), DECIMAL)
        name, remedy = "sharding" if is_sharded else "scalars", Remedy("none_of_it", cost)
        yield found(name, probes, ProbeCost(cost), [often], [remedy], places(first.collectives))
    search = exact(first.switches.search_s / steps)
    yield found("unused_search", probes, ProbeCost(search), [], [Remedy("none_of_it", search)])


def _work(probes: Probes, seen: Seen) -> Iterator[FoundCause]:
    """Yield the cost of work that is not divided.

    Ranks go through the same samples, know nothing of each other, or make as many steps as one alone.
    """
    first, n = seen.first, len(seen.ranks)
    runs = 1 + first.machine.same_command
    if n > 1 and all(rank.world_size == 1 for rank in seen.ranks):
        runs = max(runs, n)
    one_device = seen.one_device[0] if seen.one_device else None
    batches = first.loader.batches if first.loader else None
    has_same_epoch = one_device is not None and _epoch(one_device) == _epoch(first)
    makes_same_steps = one_device is not None and (
        one_device.ended_by == first.ended_by == "script" and one_device.steps == first.steps
    )
    in_common = shared_samples(seen.ranks)
    if runs > 1:
        name, evidence, n = "started_twice", count("runs", runs), runs
    elif n < 2:
        return
    elif in_common >= SAME_SAMPLES:
        name, evidence = "work_not_divided", Evidence("same_samples", exact(in_common), PERCENT)
    elif batches and has_same_epoch:
        name, evidence = "work_not_divided", count("batches_of_epoch", batches)
    elif makes_same_steps:
        name, evidence = "fixed_steps", count("steps", first.steps)
    else:
        return
    cost = exact(probes[probes.whole].value * (1 - 1 / n))
    remedy = Remedy("one_launch" if name == "started_twice" else "divided", cost)
    yield found(name, probes, ProbeCost(cost), [evidence], [remedy])


def _epoch(process: Process) -> tuple[int | None, int | None, int | None]:
    """Return the batches of an epoch, the batch size and the samples that a process goes through."""
    loader = process.loader
    return (loader.batches, process.batch, loader.samples) if loader else (None, process.batch, None)


def _exchange(probes: Probes, seen: Seen) -> Iterator[FoundCause]:
    """Yield the time that the exchange of gradients adds to the slowest rank of every step; named after what makes it
    slow."""
    added = probes.cost(probes.in_memory, "own_pace")
    if added is None:
        return
    if probes.has("batch_kept", "no_allreduce"):  # with the loader too: two differences of a round tell it better
        loaded = minus(probes[probes.whole], probes["no_allreduce"])
        added = replace(added, seconds=in_rounds(lambda first, second: (first + second) / 2, added.seconds, loaded))
    device, size, n = seen.first.device, seen.first.gradient_bytes, probes.devices
    moved_gb = 2 * (n - 1) / n * size / 1e9
    rate = moved_gb / max(added.seconds.value, 1e-9)
    evidence = [*times(probes, probes.in_memory, "own_pace"), Evidence("gradient_bytes", exact(size), MB)]
    evidence.append(Evidence("exchanged", exact(rate), GB_PER_S))
    tells_link = size > FEWEST_BYTES and (device == "cuda" or seen.first.world_size > len(seen.ranks))
    if not tells_link:
        most_s = (seen.first.exchanges_per_step or 1) * (CALL_S + moved_gb / SLOW_EXCHANGE[device])
        added = replace(added, seconds=added.seconds.map(lambda seconds: min(seconds, most_s)))
    off, notes = seen.variables(SWITCHED_OFF), seen.variables(INTERFACES)
    is_slow = tells_link and rate < SLOW_EXCHANGE[device]
    name = "interface" if notes else "slow_link" if is_slow else "heavy_gradients"
    if device == "cuda" and seen.first.backend == "gloo":
        name = "gloo_with_cuda"
    elif "nccl" in (seen.first.backend or "") and off:  # also cpu:gloo,cuda:nccl
        name, notes = "link_switched_off", off
    yield found(name, probes, added, evidence, [Remedy("switched_off", None, added.seconds)], notes)


def _ranks(probes: Probes, _seen: Seen) -> Iterator[FoundCause]:
    """Yield causes of ranks that wait for each other.

    One is what a step whose ranks all wait for its slowest takes longer than the steps of the slowest rank. Another is
    what one rank waits longer for its batches than the one after it, where that is twice as long.
    """
    if probes.has("own_pace"):
        late = minus(probes["own_pace"], probes["slowest"])
        yield found("uneven_ranks", probes, ProbeCost(late), _of_ranks(probes.alone_by_device))
    loading = sorted(enumerate(probes.loading_by_rank), key=lambda rank_and_wait: -rank_and_wait[1].value)
    if len(loading) < 2:
        return
    (slowest_rank, longest), (_, second) = loading[:2]
    if longest.value > 2 * second.value:
        cost = ProbeCost(minus(longest, second))
        notes = [f"rank {slowest_rank} is the slow one"]
        yield found("loader_of_one_rank", probes, cost, _of_ranks(probes.loading_by_rank), [], notes)


def _of_ranks(figures: Sequence[Figure]) -> list[Evidence]:
    return [Evidence(f"rank {rank}", figure) for rank, figure in enumerate(figures)]


def _computing(probes: Probes, seen: Seen) -> Iterator[FoundCause]:
    """Yield causes in a step in memory, without exchange.

    One is the time in which a GPU computes nothing, as its profile shows; another, in float64, what its arithmetic
    would take less in float32.
    """
    step = probes["own_pace" if probes.has("own_pace") else probes.in_memory].value
    first = seen.first
    profile, sizes = first.profile, first.dtypes
    computing = min(step, probes[probes.whole].value * (profile.busy_share if profile else 1.0))
    searches = first.events.cudnn_search.count if first.switches.cudnn_benchmark else 0
    if profile and profile.busy_share < BUSY_GPU and searches < OFTEN * first.steps:
        cost = exact(step - computing)
        evidence = [
            Evidence("busy_gpu", exact(profile.busy_share), PERCENT),
            count("kernels", profile.kernels_per_step),
        ]
        yield found("small_batch", probes, ProbeCost(cost), evidence, [Remedy("cuda_graph", cost)])
    if 2 * sizes.get("float64", 0) > sum(sizes.values()):
        chip = chip_named(first.device_model or "")
        gained = chip.most("float32").flop_s / chip.most("float32-strict").flop_s if chip else 1.0
        slower = max(FLOAT64_SLOWER, gained if first.switches.tf32 else 1.0)
        cost = exact(computing * (1 - 1 / slower))
        yield found("float64", probes, ProbeCost(cost), [], [Remedy("float32", cost)])


def _not_timed(probes: Probes, seen: Seen) -> Iterator[FoundCause]:
    """Yield causes that are certain, where nothing was timed without them."""
    notes = [*(["debugger"] if seen.first.switches.debugger else []), *seen.variables(BLOCKING)]
    if notes:
        yield found("debugger", probes, ProbeCost(Figure()), [], [], notes)
    if seen.first.strategy == "dp":
        yield found("data_parallel", probes, ProbeCost(Figure()), [count("devices", probes.devices)])


def _cores(probes: Probes, seen: Seen) -> Iterator[FoundCause]:
    """Yield causes of processes that share cores.

    With each other: of P that need a core each and have C, 1 − C/P. Or with other processes: what these cost was not
    measured, and is not told.
    """
    first = seen.first
    ranks = [rank for rank in seen.ranks if rank.host == first.host]
    # Each rank may be bound to cores of its own.
    bound = {core for rank in ranks for core in rank.machine.numbers_of_cores}
    usable = len(bound) or first.machine.cores_usable
    if not usable:
        return
    workers = first.loader.workers if first.loader else 0
    threads_in_worker = (first.loader.threads_in_worker if first.loader else None) or 1
    threads = len(ranks) * workers * threads_in_worker
    needed = len(ranks) * (2 if workers and probes.on_gpu else 1)
    busy_elsewhere = seen.other_cores
    loading = probes.cost(probes.whole, "batch_kept")
    if threads_in_worker > 1 and threads > usable and loading:
        yield found("threads", probes, loading, [count("cores", usable), count("threads", threads)])
    is_few = needed > usable and (first.machine.busy_share or 0) >= BUSY_SHARE
    other_cores = Evidence("other_cores", exact(busy_elsewhere), DECIMAL)
    evidence = [count("cores", usable), count("processes", needed), other_cores]
    if is_few:
        cost = exact(probes[probes.whole].value * (needed - usable) / needed)
        yield found("too_few_cores", probes, ProbeCost(cost), evidence, [Remedy("all_cores", cost)])
    elif (needed - max(0.0, usable - busy_elsewhere)) / needed > CAUSES["other_work"].least_share:
        yield found("other_work", probes, ProbeCost(Figure()), evidence)


FINDERS: Sequence[Finder] = (
    _switches, _pauses, _logging, _events, _calls, _work, _exchange, _ranks, _computing, _not_timed, _cores,
)  # fmt: skip
