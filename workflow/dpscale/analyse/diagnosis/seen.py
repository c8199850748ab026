"""Finders of causes in a script that was run as it is: from its blocks of steps, and from what its processes saw.

What is seen once in a while (a pause, a collection, a search) has cost its seconds of the whole time, and no block
tells it; what is in every step is a difference of blocks of the same round (docs/method.md, "Diagnosis").
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dpscale.analyse.answer.causes import Evidence, Finder, Found, FoundCause, Remedy, count, exact, found, times
from dpscale.analyse.answer.probes import ProbeCost, Probes, in_rounds, minus
from dpscale.formulas.figure import Figure
from dpscale.tables.column import GB_PER_S, MB, PERCENT, SECONDS, Unit

CORES, OF_STEP = Unit("1", "", decimals=1), Unit("1", "in a step", decimals=1)
# What a probe switches off, by cause. Of several probes of a cause the first that is there counts.
SWITCHED: Mapping[str, Sequence[str]] = {
    "buffers": ("no_buffers",),
    "micro_batches": ("accumulated",),
    "hidden_synchronisation": ("no_waiting",),
    "anomaly": ("anomaly_off",),
    "deterministic": ("deterministic_off",),
    "no_tf32": ("precision",),
    "many_small_tensors": ("fused_optimiser", "foreach_optimiser"),
    "allocator_emptied": ("no_emptying",),
}
# A GPU that is busy for a smaller part of a step waits for its launches.
BUSY_GPU = 0.6
# An exchange that is no faster than that, in GB/s, has a slow link, whatever of it was hidden.
SLOW_EXCHANGE = {"cuda": 4.0, "cpu": 0.05}
# Hashes of batches that ranks have in common, of those that they can have, from which on the work is not divided.
SAME_BATCHES = 0.8
# Workers that build fewer batches than so many each, in an epoch, mostly start.
BATCHES_PER_WORKER = 2
CORES_BUSY = 0.6
# What is optimised in one place fits where weights, gradients and two states take a smaller part of its memory.
FITS = 0.5
KINDS = (
    ("validation", re.compile(r"valid|eval|test_?(loader|set|data)|\btest\(", re.I)),
    ("checkpoint", re.compile(r"save|checkpoint|ckpt", re.I)),
    ("logging", re.compile(r"log|print|hist|summary|wandb|mlflow|writer|tensorboard", re.I)),
)
# Lines in which a rank waits for the others, or for what is told elsewhere.
_OF_TRAINING = re.compile(r"backward\(|\.step\(|^for |barrier|all_?reduce|\.item\(|next\(")
SWITCHED_OFF = ("NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", "NCCL_IB_DISABLE")
INTERFACES = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")


def place(line: Mapping[str, Any]) -> str:
    """`train.py, line 7: loss.item()`."""
    return f"{line['file']}, line {line['line']}: {line.get('code') or ''}".rstrip(": ")


def _switches(probes: Probes) -> Found:
    return [one for name, offered in SWITCHED.items() for one in _switched(probes, name, offered)]


def _switched(probes: Probes, name: str, offered: Sequence[str]) -> list[FoundCause]:
    probe = next(filter(probes.has, offered), None)
    cost = probes.cost(probes.whole, probe) if probe else None
    if probe is None or cost is None:
        return []
    lines = {"hidden_synchronisation": "waits", "allocator_emptied": "emptyings"}.get(name)
    notes = (
        [place(row["line"]) for row in probes.seen.part(lines) or () if row["line"]] if probes.seen and lines else []
    )
    remedy = Remedy("switched_off", None, cost.seconds)
    return found(name, probes, cost, times(probes, probes.whole, probe), [remedy], notes[:3])


def _rare(
    probes: Probes, name: str, seconds: float, evidence: Sequence[Evidence] = (), notes: Sequence[str] = ()
) -> list[FoundCause]:
    """What took so many seconds of the whole time."""
    assert probes.seen
    if seconds <= 0:
        return []
    cost = exact(seconds / max(1, probes.seen.first["steps"]))
    share = exact(min(1.0, seconds / probes.seen.total_s))
    evidence = [Evidence("seconds", exact(seconds), SECONDS), *evidence]
    return found(name, probes, ProbeCost(cost, share), evidence, [Remedy("none_of_it", cost)], notes)


def _pauses(probes: Probes) -> Found:
    """By what the script does in its longest steps: those of the rank whose own line is seen there."""
    if probes.seen is None:
        return None
    step_s = probes[probes.whole].value
    by_cause: dict[str, list[Mapping[str, Any]]] = {}
    taken: set[int] = set()
    for rank in probes.seen.ranks:
        for gap in rank.get("gaps") or ():
            name = _kind_of_gap(gap, rank)
            if name and gap["after_step"] not in taken:
                taken.add(gap["after_step"])
                by_cause.setdefault(name, []).append(gap)
    told = []
    for name, gaps in by_cause.items():
        lines = sorted({place(gap) for gap in gaps if gap.get("file")})
        seconds = sum(max(0.0, gap["seconds"] - step_s) for gap in gaps)
        told += _rare(probes, name, seconds, [count("times", len(gaps))], lines[:3])
    return told


def _kind_of_gap(gap: Mapping[str, Any], rank: Mapping[str, Any]) -> str | None:
    """The cause of a pause; None where the rank waited in it for something else, or it is counted as an event."""
    loader = rank.get("loader") or {}
    if gap["what"] == "loader start":
        workers, batches = loader.get("workers") or 0, loader.get("batches") or 0
        if not workers:
            return None
        return "few_batches" if batches and batches < BATCHES_PER_WORKER * workers else "workers_restarted"
    if gap["what"] in ("gc", "compile"):
        return None
    if "checkpoint" in (gap["what"], gap.get("border")):
        return "checkpoint"
    if gap.get("border") == "evaluation":
        return "validation"
    code = (gap.get("code") or "").strip()
    kind = next((name for name, words in KINDS if words.search(f"{gap.get('inside')} {code}")), None)
    is_of_training = not code or _OF_TRAINING.search(code) or (gap.get("inside") or "").startswith("torch.")
    return kind or (None if is_of_training else "own_code")


def _logging(probes: Probes) -> Found:
    """Lines that log in every step, by samples of the main thread."""
    if probes.seen is None:
        return None
    words = dict(KINDS)["logging"]
    lines = [line for line in probes.seen.part("lines") or () if words.search(line.get("code") or "")]
    cost = exact(probes[probes.whole].value * sum(line["share"] for line in lines)) if lines else None
    remedy = Remedy("none_of_it", cost)
    return found("logging", probes, ProbeCost(cost), [], [remedy], [place(line) for line in lines]) if cost else []


def _events(probes: Probes) -> Found:
    """Collections, compilations and searches: by their seconds, or by blocks without them where those tell more."""
    if probes.seen is None:
        return None
    told = []
    for name, event, counted, probe in (
        ("garbage_collection", "gc", "count", "gc_off"),
        ("compile_per_length", "compile", "count", None),
        ("cudnn_search", "cudnn_search", "new_shapes", "cudnn_benchmark_off"),
    ):
        if event == "cudnn_search" and not (probes.on_gpu and probes.seen.part("switches", "cudnn_benchmark")):
            continue
        ranks = [(rank.get("events") or {}).get(event) or {} for rank in probes.seen.ranks]
        most = max(ranks, key=lambda one: one.get("seconds") or 0.0)
        rare = _rare(probes, name, most.get("seconds") or 0.0, [count("times", most.get(counted) or 0)])
        cost = probes.cost(probes.whole, probe) if probe else None
        if cost and probe and cost.seconds.low > probes.noise_s:
            remedy = Remedy("switched_off", rare[0].cost_s if rare else None, cost.seconds)
            told += found(name, probes, cost, times(probes, probes.whole, probe), [remedy])
        else:
            told += rare
    return told


def _calls(probes: Probes, name: str, rows: str, among: Callable[[Mapping[str, Any]], bool]) -> Found:
    """What the rows of calls that are `among` these took, of a step as it is."""
    if probes.seen is None:
        return None
    calls = [row for row in probes.seen.part(rows) or () if row["seconds"] and among(row)]
    steps = probes.seen.part("counted_steps") or 1
    cost = exact(sum(row["seconds"] for row in calls) / steps)
    each = Evidence("calls", exact(sum(row["calls"] for row in calls) / steps), OF_STEP)
    lines = [f"{place(row['line'])} ({row['kind']})" for row in calls if row["line"]]
    return found(name, probes, ProbeCost(cost), [each], [Remedy("none_of_it", cost)], lines[:3]) if calls else []


def _work(probes: Probes) -> Found:
    """Ranks that go through the same samples, that know nothing of each other, or make as many steps as one alone."""
    seen = probes.seen
    if seen is None or len(seen.ranks) < 2:
        return []
    whole, n = probes[probes.whole], len(seen.ranks)
    cost = ProbeCost(exact(whole.value * (1 - 1 / n)))
    if all(rank["world_size"] == 1 for rank in seen.ranks):
        return found("started_twice", probes, cost, [count("runs", n)], [Remedy("one_launch", cost.seconds)])
    divided = [Remedy("divided", cost.seconds)]
    if (same := shared_batches(seen.ranks)) is not None and same >= SAME_BATCHES:
        evidence = [Evidence("same_batches", exact(same), PERCENT)]
        return found("work_not_divided", probes, cost, evidence, divided)
    one = seen.one[0] if seen.one else {}
    alone, here = ((of.get("loader") or {}).get("batches") for of in (one, seen.first))
    if alone and alone == here and one.get("batch") == seen.first.get("batch"):
        return found("work_not_divided", probes, cost, [count("batches_of_epoch", here)], divided)
    ended = [of.get("ended_by") == "script" for of in (one, seen.first)]
    if all(ended) and one["steps"] == seen.first["steps"]:
        return found("fixed_steps", probes, cost, [count("steps", one["steps"])], divided)
    return []


def shared_batches(ranks: Sequence[Mapping[str, Any]]) -> float | None:
    """The part of the batches that the ranks with the fewest have in common; None where they were not hashed."""
    hashes = [set((rank.get("loader") or {}).get("hashes") or ()) for rank in ranks]
    fewest = min(map(len, hashes), default=0)
    return len(set.intersection(*hashes)) / fewest if fewest > 1 else None


def _exchange(probes: Probes) -> Found:
    """What the exchange of gradients adds to the slowest rank of every step; named after what makes it slow."""
    seen = probes.seen
    if seen is None or not probes.has("own_pace"):
        return []
    added = probes.cost(probes.in_memory, "own_pace")
    assert added
    if probes.has("batch_kept", "no_allreduce"):  # with the loader too: two differences of a round tell it better
        loaded = minus(probes[probes.whole], probes["no_allreduce"])
        added = replace(added, seconds=in_rounds(lambda one, other: (one + other) / 2, added.seconds, loaded))
    device, bytes_sent = seen.first["device"], seen.part("gradient_bytes")
    n = probes.devices
    evidence = times(probes, probes.in_memory, "own_pace")
    rate = None
    if bytes_sent and added.seconds.value > 0:
        rate = 2 * (n - 1) / n * bytes_sent / added.seconds.value / 1e9
        evidence += [Evidence("gradient_bytes", exact(bytes_sent), MB), Evidence("exchanged", exact(rate), GB_PER_S)]
    variables = seen.part("environment") or {}
    off = [f"{name}={variables[name]}" for name in SWITCHED_OFF if variables.get(name, "0") not in ("0", "")]
    interfaces = [f"{name}={variables[name]}" for name in INTERFACES if variables.get(name)]
    name, notes = "slow_link" if rate and rate < SLOW_EXCHANGE[device] else "heavy_gradients", interfaces
    if seen.first["strategy"] == "fsdp":
        name = "sharding"
    elif device == "cuda" and seen.part("backend") == "gloo":
        name = "gloo_with_cuda"
    elif seen.part("backend") == "nccl" and off:
        name, notes = "link_switched_off", off
    elif interfaces:
        name = "interface"
    return found(name, probes, added, evidence, [Remedy("switched_off", None, added.seconds)], notes)


def _own_collectives(probes: Probes) -> Found:
    """The time in collectives but DDP's: of the script itself, or what gathers shards of what would fit whole."""
    if probes.seen is None:
        return None
    first = probes.seen.first
    memory, held = probes.seen.part("memory", "total"), 4 * (first.get("parameter_bytes") or 0)
    fits = not memory or held < FITS * memory
    name = "scalars" if not _shards(first) else "sharding" if fits else None
    return _calls(probes, name, "collectives", lambda row: row["by"] != "ddp") if name else []


def _shards(rank: Mapping[str, Any]) -> bool:
    return rank["strategy"] == "fsdp" or "ZeroRedundancy" in ((rank.get("optimiser") or {}).get("class") or "")


def _unused_search(probes: Probes) -> Found:
    seconds = probes.seen.part("switches", "search_s") if probes.seen else None
    if not seconds or not probes.seen:
        return []
    cost = exact(seconds / (probes.seen.part("counted_steps") or 1))
    return found("unused_search", probes, ProbeCost(cost), [], [Remedy("none_of_it", cost)])


def _uneven(probes: Probes) -> Found:
    """What a step whose ranks all wait for its slowest takes longer than the steps of the slowest rank."""
    if not probes.has("own_pace"):
        return []
    cost = ProbeCost(minus(probes["own_pace"], probes["slowest"]))
    evidence = [Evidence(f"rank {rank}", figure) for rank, figure in enumerate(probes.alone_by_device)]
    return found("uneven_ranks", probes, cost, evidence, [Remedy("none_of_it", cost.seconds)])


def _loader_of_one_rank(probes: Probes) -> Found:
    """What one rank waits longer for its batches than the one after it, where it waits most of the time that all do."""
    loading = sorted(((figure.value, rank) for rank, figure in enumerate(probes.loading_by_rank)), reverse=True)
    if len(loading) < 2 or loading[0][0] < 2 * loading[1][0]:
        return []
    slow, next_one = (probes.loading_by_rank[rank] for _, rank in loading[:2])
    cost = ProbeCost(minus(slow, next_one))
    evidence = [Evidence(f"rank {rank}", figure) for rank, figure in enumerate(probes.loading_by_rank)]
    notes = [f"rank {loading[0][1]} is the slow one"]
    return found("loader_of_one_rank", probes, cost, evidence, [Remedy("none_of_it", cost.seconds)], notes)


def _launches(probes: Probes) -> Found:
    """Of a GPU's step in memory, without exchange, the time in which the GPU computes nothing."""
    busy = probes.seen.part("profile", "busy_share") if probes.seen else None
    if busy is None or busy >= BUSY_GPU:
        return []
    step = probes["own_pace" if probes.has("own_pace") else probes.in_memory]
    computing = busy * probes[probes.whole].value
    cost = step.map(lambda seconds: max(0.0, seconds - computing))
    kernels = probes.seen.part("profile", "kernels_per_step") if probes.seen else None
    evidence = [Evidence("busy_gpu", exact(busy), PERCENT), *([count("kernels", kernels)] if kernels else [])]
    return found("small_batch", probes, ProbeCost(cost), evidence, [Remedy("cuda_graph", cost)])


def _precision(probes: Probes) -> Found:
    """Predicted: float32 takes half as long at least, on every device."""
    sizes = (probes.seen.part("dtypes") or {}) if probes.seen else {}
    share = sizes.get("float64", 0) / max(1, sum(sizes.values()))
    if share < 0.5:
        return []
    cost = exact(0.5 * probes["own_pace" if probes.has("own_pace") else probes.in_memory].value)
    evidence = [Evidence("in_float64", exact(share), PERCENT)]
    return found("float64", probes, ProbeCost(cost), evidence, [Remedy("float32", cost)])


def _debugger(probes: Probes) -> Found:
    seen = probes.seen
    variables = (seen.part("environment") or {}) if seen else {}
    notes = [name for name in ("CUDA_LAUNCH_BLOCKING",) if variables.get(name, "0") not in ("0", "")]
    traced = [name for name in ("debugger", "profiler") if seen and seen.part("switches", name)]
    notes += [f"a {name} is on" for name in traced]
    return found("debugger", probes, ProbeCost(Figure()), [], [], notes) if notes else []


def _cores(probes: Probes) -> Found:
    """Processes that share cores with each other, or with others: of P that need a core each and have C, 1 − C/P."""
    seen, cores = probes.seen, probes.cores
    if seen is None or cores is None:
        return []
    here = sum(rank["host"] == seen.first["host"] for rank in seen.ranks)
    loader = seen.part("loader") or {}
    needed = here * (2 if loader.get("workers") and probes.on_gpu else 1)
    threads = here * (loader.get("workers") or 0) * (loader.get("threads_in_worker") or 1)
    evidence = [count("cores", cores.usable), count("processes", needed)]
    told = []
    loading = probes.cost(probes.whole, probes.in_memory) if probes.whole != probes.in_memory else None
    if (loader.get("threads_in_worker") or 1) > 1 and threads > cores.usable and loading:
        told += found("threads", probes, loading, [count("cores", cores.usable), count("threads", threads)])
    if needed > cores.usable and (cores.busy_share or 0) >= CORES_BUSY:
        told += _lacking(probes, "too_few_cores", needed - cores.usable, needed, evidence)
    elif seen.other_cores is not None:
        lacking = needed - max(0.0, cores.usable - seen.other_cores)
        evidence.append(Evidence("other_cores", exact(seen.other_cores), CORES))
        told += _lacking(probes, "other_work", lacking, needed, evidence)
    return told


def _lacking(
    probes: Probes, name: str, lacking: float, needed: float, evidence: Sequence[Evidence]
) -> list[FoundCause]:
    if lacking <= 0:
        return []
    cost = exact(probes[probes.whole].value * min(1.0, lacking / needed))
    return found(
        name, probes, ProbeCost(cost), evidence, [Remedy("all_cores" if name != "other_work" else "none_of_it", cost)]
    )


def _pageable(probes: Probes) -> Found:
    if probes.seen is None or not probes.on_gpu or probes.seen.part("loader", "pin_memory") is not False:
        return []
    return _calls(probes, "pageable_copies", "waits", lambda row: row["kind"] in ("to", "copy", "cuda"))


def _data_parallel(probes: Probes) -> Found:
    """Beside it nothing was timed: what it costs is not known."""
    is_used = probes.seen is not None and probes.seen.first["strategy"] == "dp"
    return found("data_parallel", probes, ProbeCost(Figure()), [count("devices", probes.devices)]) if is_used else []


FINDERS: Sequence[Finder] = (
    _switches, _pauses, _logging, _events, _work, _exchange, _own_collectives, _unused_search, _uneven,
    _loader_of_one_rank, _launches, _precision, _debugger, _cores, _pageable, _data_parallel,
)  # fmt: skip
