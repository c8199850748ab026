"""Finders of causes in a script that was run as it is: from its blocks of steps, and from what its processes saw.

What is seen once in a while (a pause, a collection, a search) has cost its seconds of the whole time, and no block
tells it; what is in every step is a difference of blocks of the same round (docs/method/diagnosis.md).
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, nan
from typing import Any

from dpscale.analyse.causes.causes import (
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
from dpscale.tables.column import GB_PER_S, MB, PERCENT, SECONDS, Unit
from dpscale.vocabulary.causes import CAUSES
from dpscale.vocabulary.chips import chip_named

DECIMAL = Unit("1", "", decimals=1)
# What a probe switches off: its cause, the probe, and the rows of calls that have its lines.
SWITCHED = (
    ("buffers", "no_buffers", ""),
    ("micro_batches", "accumulated", ""),
    ("hidden_synchronisation", "no_waiting", "waits"),
    ("anomaly", "anomaly_off", ""),
    ("deterministic", "deterministic_off", ""),
    ("no_tf32", "precision", ""),
    ("many_small_tensors", "fused_optimiser", ""),
    ("allocator_emptied", "no_emptying", "emptyings"),
)
# What happens now and then: its cause, what it is called among events, and a probe without it.
EVENTS = (
    ("garbage_collection", "gc", "gc_off"),
    ("compile_per_length", "compile", ""),
    ("workers_restarted", "worker_start", ""),
    ("cudnn_search", "cudnn_search", "cudnn_benchmark_off"),
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
    """The records that the processes of a script made of themselves, by rank (`script.schema.yaml`); those of its run
    on one device, if there was one; and cores that were busy with other processes."""

    ranks: Sequence[Mapping[str, Any]]
    one_device: Sequence[Mapping[str, Any]]
    other_cores: float

    @property
    def first(self) -> Mapping[str, Any]:
        return self.ranks[0]

    def part(self, *names: str) -> Any:
        """Return the value that the first rank has under these names; None where it has none."""
        return part(self.first, *names)

    def variables(self, names: Sequence[str]) -> list[str]:
        """Return the variables of the environment that are set, and not to 0."""
        values = self.part("environment") or {}
        return [f"{name}={values[name]}" for name in names if values.get(name, "0") not in ("0", "")]


Finder = Callable[[Probes, Seen], Iterator[FoundCause]]


def part(record: Any, *names: str) -> Any:
    """Return the value that a record has under these names, one inside the other; None where it has none."""
    for name in names:
        record = (record or {}).get(name)
    return record


def places(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """`train.py, line 7: loss.item()`, of the first three."""
    lines = [f"{row['file']}, line {row['line']}: {row['code']}" for row in rows if row.get("file")]
    return list(dict.fromkeys(lines))[:3]


def shared_samples(ranks: Sequence[Mapping[str, Any]]) -> float:
    """The part of the samples that ranks have in common; NaN where they were not hashed."""
    hashes = [set(part(rank, "loader", "hashes") or ()) for rank in ranks]
    fewest = min(map(len, hashes), default=0)
    return len(set.intersection(*hashes)) / fewest if fewest > 1 and len(hashes) > 1 else nan


def _switches(probes: Probes, seen: Seen) -> Iterator[FoundCause]:
    for name, probe, rows in SWITCHED:
        if cost := probes.cost(probes.whole, probe):
            remedy = Remedy("switched_off", None, cost.seconds)
            yield found(name, probes, cost, times(probes, probes.whole, probe), [remedy], places(seen.part(rows) or ()))


def _rare(probes: Probes, seen: Seen, name: str, seconds: float, often: float, lines: Sequence[str]) -> FoundCause:
    """Return a cause that took so many seconds of the whole time after the warm-up."""
    first = seen.first
    share = min(1.0, seconds / (first["wall_s"] - (first.get("warm_up_s") or 0.0)))
    cost = exact(seconds / max(1, first["steps"] - first.get("warm_up_steps", 0)))
    evidence = [Evidence("seconds", exact(seconds), SECONDS), count("times", often)]
    return found(name, probes, ProbeCost(cost, exact(share)), evidence, [Remedy("none_of_it", cost)], lines)


def _pauses(probes: Probes, seen: Seen) -> Iterator[FoundCause]:
    """Yield causes by the script's lines in its longest steps: those of the rank whose own line is seen there."""
    by_cause: dict[str, dict[int, Mapping[str, Any]]] = {}
    taken: set[int] = set()
    for rank in seen.ranks:
        for gap in rank.get("gaps") or ():
            name = _kind_of_gap(gap, rank)
            if name and gap["after_step"] not in taken:
                taken.add(gap["after_step"])
                by_cause.setdefault(name, {})[gap["after_step"]] = gap
    for name, gaps in by_cause.items():
        seconds = sum(max(0.0, gap["seconds"] - probes[probes.whole].value) for gap in gaps.values())
        yield _rare(probes, seen, name, seconds, len(gaps), places(list(gaps.values())))


def _kind_of_gap(gap: Mapping[str, Any], rank: Mapping[str, Any]) -> str | None:
    """Return the cause of a pause; None where the rank waited in it for something else, or it is counted as an
    event."""
    event, border, inside = gap["what"], gap.get("border"), gap.get("inside") or ""
    workers, batches = (part(rank, "loader", name) or 0 for name in ("workers", "batches"))
    if event in ("gc", "compile"):
        return None
    if event == "loader start":
        return "few_batches" if 0 < batches <= BATCHES_PER_WORKER * workers else None
    if "checkpoint" in (event, border) or border == "evaluation":
        return "validation" if border == "evaluation" and event != "checkpoint" else "checkpoint"
    code = (gap.get("code") or "").strip()
    is_of_training = _OF_TRAINING.search(code) or inside.startswith("torch.")
    kind = next((name for name, words in KINDS.items() if words.search(f"{inside} {code}")), None)
    return kind or (None if is_of_training else "own_code")


def _logging(probes: Probes, seen: Seen) -> Iterator[FoundCause]:
    """Lines that log in every step, by samples of the main thread."""
    lines = [line for line in seen.part("lines") or () if KINDS["logging"].search(line.get("code") or "")]
    cost = exact(probes[probes.whole].value * sum(line["share"] for line in lines))
    yield found("logging", probes, ProbeCost(cost), [], [Remedy("none_of_it", cost)], places(lines))


def _events(probes: Probes, seen: Seen) -> Iterator[FoundCause]:
    """Yield causes of events by their seconds, or by blocks without them where those tell it surely."""
    searches = probes.on_gpu and seen.part("switches", "cudnn_benchmark")
    for name, event, probe in EVENTS if searches else EVENTS[:-1]:
        of_ranks = [part(rank, "events", event) or {} for rank in seen.ranks]
        most = max(of_ranks, key=lambda events: events.get("seconds") or 0.0)
        rare = _rare(probes, seen, name, most.get("seconds") or 0.0, most.get("count") or 0, [])
        cost = probes.cost(probes.whole, probe)
        # Pauses are no part of blocks.
        is_less = cost and cost.seconds.has_interval and cost.seconds.high < rare.cost_s.value
        in_steps = (most.get("longest_s") or inf) < probes[probes.whole].value
        if cost and (cost.seconds.low > probes.noise_s or (is_less and in_steps)):
            remedy = Remedy("switched_off", rare.cost_s, cost.seconds)
            yield found(name, probes, cost, times(probes, probes.whole, probe), [remedy])
        else:
            yield rare


def _calls(probes: Probes, seen: Seen) -> Iterator[FoundCause]:
    """Yield the time in collectives that are not DDP's, and in DDP's search: of a step as it is.

    Collectives are of the script itself, or gather shards of what would fit whole.
    """
    steps = seen.part("counted_steps") or 1
    rows = seen.part("collectives") or ()
    memory, held = seen.part("device_bytes"), 4 * (seen.part("parameter_bytes") or 0)
    is_sharded = seen.first["strategy"] == "fsdp" or "ZeroRedundancy" in (seen.part("optimiser", "class") or "")
    if not (is_sharded and memory and held > FITS * memory):
        cost = exact(sum(row["seconds"] for row in rows) / steps)
        often = Evidence("calls", exact(sum(row["calls"] for row in rows) / steps), DECIMAL)
        name, remedy = "sharding" if is_sharded else "scalars", Remedy("none_of_it", cost)
        yield found(name, probes, ProbeCost(cost), [often], [remedy], places(rows))
    search = exact((seen.part("switches", "search_s") or 0.0) / steps)
    yield found("unused_search", probes, ProbeCost(search), [], [Remedy("none_of_it", search)])


def _work(probes: Probes, seen: Seen) -> Iterator[FoundCause]:
    """Yield the cost of work that is not divided.

    Ranks go through the same samples, know nothing of each other, or make as many steps as one alone.
    """
    first, n = seen.first, len(seen.ranks)
    runs = 1 + (seen.part("machine", "same_command") or 0)
    if n > 1 and all(rank["world_size"] == 1 for rank in seen.ranks):
        runs = max(runs, n)
    one_device = seen.one_device[0] if seen.one_device else {}
    batches = part(first, "loader", "batches")
    has_same_epoch = bool(batches) and _epoch(one_device) == _epoch(first)
    are_ended_by_script = one_device.get("ended_by") == first.get("ended_by") == "script"
    in_common = shared_samples(seen.ranks)
    if runs > 1:
        name, evidence, n = "started_twice", count("runs", runs), runs
    elif n < 2:
        return
    elif in_common >= SAME_SAMPLES:
        name, evidence = "work_not_divided", Evidence("same_samples", exact(in_common), PERCENT)
    elif has_same_epoch:
        name, evidence = "work_not_divided", count("batches_of_epoch", batches)
    elif are_ended_by_script and one_device["steps"] == first["steps"]:
        name, evidence = "fixed_steps", count("steps", first["steps"])
    else:
        return
    cost = exact(probes[probes.whole].value * (1 - 1 / n))
    remedy = Remedy("one_launch" if name == "started_twice" else "divided", cost)
    yield found(name, probes, ProbeCost(cost), [evidence], [remedy])


def _epoch(process: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    """Return the batches of an epoch, the batch size and the samples that a process goes through."""
    return part(process, "loader", "batches"), process.get("batch"), part(process, "loader", "samples")


def _exchange(probes: Probes, seen: Seen) -> Iterator[FoundCause]:
    """Yield the time that the exchange of gradients adds to the slowest rank of every step; named after what makes it
    slow."""
    added = probes.cost(probes.in_memory, "own_pace")
    if added is None:
        return
    if probes.has("batch_kept", "no_allreduce"):  # with the loader too: two differences of a round tell it better
        loaded = minus(probes[probes.whole], probes["no_allreduce"])
        added = replace(added, seconds=in_rounds(lambda first, second: (first + second) / 2, added.seconds, loaded))
    device, size, n = seen.first["device"], seen.part("gradient_bytes") or 0, probes.devices
    moved_gb = 2 * (n - 1) / n * size / 1e9
    rate = moved_gb / max(added.seconds.value, 1e-9)
    evidence = [*times(probes, probes.in_memory, "own_pace"), Evidence("gradient_bytes", exact(size), MB)]
    evidence.append(Evidence("exchanged", exact(rate), GB_PER_S))
    tells_link = size > FEWEST_BYTES and (device == "cuda" or seen.first["world_size"] > len(seen.ranks))
    if not tells_link:
        most_s = (seen.part("exchanges_per_step") or 1) * (CALL_S + moved_gb / SLOW_EXCHANGE[device])
        added = replace(added, seconds=added.seconds.map(lambda seconds: min(seconds, most_s)))
    off, notes = seen.variables(SWITCHED_OFF), seen.variables(INTERFACES)
    is_slow = tells_link and rate < SLOW_EXCHANGE[device]
    name = "interface" if notes else "slow_link" if is_slow else "heavy_gradients"
    if device == "cuda" and seen.part("backend") == "gloo":
        name = "gloo_with_cuda"
    elif "nccl" in (seen.part("backend") or "") and off:  # also cpu:gloo,cuda:nccl
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
    busy, sizes = seen.part("profile", "busy_share"), seen.part("dtypes") or {}
    computing = min(step, probes[probes.whole].value * (1.0 if busy is None else busy))
    searches = seen.part("switches", "cudnn_benchmark") and seen.part("events", "cudnn_search", "count")
    if busy is not None and busy < BUSY_GPU and (searches or 0) < OFTEN * seen.first["steps"]:
        cost = exact(step - computing)
        evidence = [
            Evidence("busy_gpu", exact(busy), PERCENT),
            count("kernels", seen.part("profile", "kernels_per_step")),
        ]
        yield found("small_batch", probes, ProbeCost(cost), evidence, [Remedy("cuda_graph", cost)])
    if 2 * sizes.get("float64", 0) > sum(sizes.values()):
        chip = chip_named(seen.part("device_model") or "")
        gained = chip.most("float32").flop_s / chip.most("float32-strict").flop_s if chip else 1.0
        slower = max(FLOAT64_SLOWER, gained if seen.part("switches", "tf32") else 1.0)
        cost = exact(computing * (1 - 1 / slower))
        yield found("float64", probes, ProbeCost(cost), [], [Remedy("float32", cost)])


def _not_timed(probes: Probes, seen: Seen) -> Iterator[FoundCause]:
    """Yield causes that are certain, where nothing was timed without them."""
    notes = [*(["debugger"] if seen.part("switches", "debugger") else []), *seen.variables(BLOCKING)]
    if notes:
        yield found("debugger", probes, ProbeCost(Figure()), [], [], notes)
    if seen.first["strategy"] == "dp":
        yield found("data_parallel", probes, ProbeCost(Figure()), [count("devices", probes.devices)])


def _cores(probes: Probes, seen: Seen) -> Iterator[FoundCause]:
    """Yield causes of processes that share cores.

    With each other: of P that need a core each and have C, 1 − C/P. Or with other processes: what these cost was not
    measured, and is not told.
    """
    ranks = [rank for rank in seen.ranks if rank["host"] == seen.first["host"]]
    # Each rank may be bound to cores of its own.
    bound = {core for rank in ranks for core in part(rank, "machine", "numbers_of_cores") or ()}
    usable = len(bound) or seen.part("machine", "cores_usable")
    if not usable:
        return
    workers = seen.part("loader", "workers") or 0
    threads_in_worker = seen.part("loader", "threads_in_worker") or 1
    threads = len(ranks) * workers * threads_in_worker
    needed = len(ranks) * (2 if workers and probes.on_gpu else 1)
    busy_elsewhere = seen.other_cores
    loading = probes.cost(probes.whole, "batch_kept")
    if threads_in_worker > 1 and threads > usable and loading:
        yield found("threads", probes, loading, [count("cores", usable), count("threads", threads)])
    is_few = needed > usable and (seen.part("machine", "busy_share") or 0) >= BUSY_SHARE
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
