"""Finders of causes in a script that was run as it is: from its blocks of steps, and from what its processes saw.

What is seen once in a while (a pause, a collection, a search) has cost its seconds of the whole time, and no block
tells it; what is in every step is a difference of blocks of the same round (docs/method/diagnosis.md).
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from math import inf, nan

from dpscale.analyse.causes import (
    BUSY_SHARE,
    Evidence,
    FoundCause,
    ProbeCost,
    Remedy,
    count,
    exact,
    found,
    in_rounds,
    minus,
    times,
)
from dpscale.diagnosis.account import (
    CAUSE_OF_PART,
    LEAST_STATEMENT,
    OWN,
    Account,
    added,
    as_it_is,
    clocked,
    own_statements,
    parts_of,
)
from dpscale.formulas.figure import UNKNOWN, Figure
from dpscale.records.script import Line, Pause, Process
from dpscale.tables.column import GB_PER_S, MB, PERCENT, SECONDS, Unit
from dpscale.vocabulary.causes import CAUSES, Cause

DECIMAL = Unit("1", "", decimals=1)
PASSES = ("forward", "backward", "optimiser")
STEPS_OF_DP = ("scatter", "replicate", "forward", "gather")
# A GPU that is busy for a smaller part of a step waits for its launches.
BUSY_GPU = 0.6
# An exchange that is no faster than that, in GB/s, has a slow link, whatever of it was hidden. Few bytes tell no link,
# nor do CPU workers of one machine: what takes longer there than a call, and that, is waiting for a core.
SLOW_EXCHANGE, FEWEST_BYTES, CALL_S = {"cuda": 4.0, "cpu": 0.05}, 1e6, 1e-3
# Processes of one machine exchange few bytes in its memory: in at most so long for a call, and at so many GB/s at least
# (gloo, two processes on two cores: 0.2 ms for 40 bytes, 0.5 ms for 473 kB).
IN_MEMORY = 3e-4, 1.0
# A GPU that idles while cuDNN searches, in a larger part of the steps than that, does not wait for launches.
OFTEN = 0.1
# Samples that ranks have in common, of those that they can have, from which on the work is not divided.
SAME_SAMPLES = 0.8
# Workers that build no more batches than so many each, in an epoch, mostly start.
BATCHES_PER_WORKER = 2
# What is sharded would fit on one device where weights, gradients and two states take a smaller part of its memory.
FITS = 0.5
# Statements of the script that are told one by one.
MOST_STATEMENTS = 5
# Of the time of a cause, what a line has that is told.
LEAST_OF_LINES = 0.1
# Causes that cost no more than a part of the step takes in all.
INSIDE = {"many_small_tensors": "optimiser"}
SEARCH_PER_THREAD = "cudnn_search_per_thread"
SWITCHED_OFF = ("NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", "NCCL_IB_DISABLE")
INTERFACES = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")

Finder = Callable[[Account], Iterator[FoundCause]]


def variables(process: Process, *names: str) -> list[str]:
    """Return the variables of the environment that are set, and not to 0."""
    values = process.environment
    return [f"{name}={values[name]}" for name in names if values.get(name, "0") not in ("0", "")]


def places(lines: Sequence[Line]) -> list[str]:
    """`train.py, line 7: loss.item()`, of the first three."""
    shown = [f"{line.file}, line {line.line}: {line.code}" for line in lines if line.file]
    return list(dict.fromkeys(shown))[:3]


def most_of(timed: Iterable[tuple[Line, float]]) -> list[Line]:
    """Return one line of each place that has at least a tenth of the time of all, those that have most first."""
    lines: dict[tuple[str, int], Line] = {}
    time_of: defaultdict[tuple[str, int], float] = defaultdict(float)
    for line, time in timed:
        lines.setdefault((line.file, line.line), line)
        time_of[line.file, line.line] += time
    least = LEAST_OF_LINES * sum(time_of.values())
    return [lines[place] for place in sorted(lines, key=lambda place: -time_of[place]) if time_of[place] >= least]


def shared_samples(ranks: Sequence[Process]) -> float:
    """The part of the samples that ranks have in common; NaN where they were not hashed."""
    hashes = [set(rank.loading.hashes) for rank in ranks]
    fewest = min(map(len, hashes), default=0)
    return len(set.intersection(*hashes)) / fewest if fewest > 1 and len(hashes) > 1 else nan


def _part(
    name: str, account: Account, cost: ProbeCost, evidence: Sequence[Evidence] = (), notes: Sequence[str] = ()
) -> FoundCause:
    """Return a cause that is a part of the time by itself, without which there is none of that."""
    return found(name, account, cost, evidence, [Remedy("none_of_it", cost.seconds)], notes)


def _untimed(name: str, account: Account, *evidence: Evidence, notes: Sequence[str] = ()) -> FoundCause:
    """Return a cause that is certain, where nothing was timed without it."""
    return found(name, account, ProbeCost(UNKNOWN), evidence, notes=notes)


def _in_table(account: Account) -> Iterator[FoundCause]:
    """Yield causes that a probe switches off, or that are events, as the table of causes says."""
    first = account.first
    lines: Mapping[str, Sequence[Line]] = {
        "hidden_synchronisation": first.waits,
        "allocator_emptied": first.emptyings,
        SEARCH_PER_THREAD: [first.switches.cudnn_benchmark_line],
    }
    # cuDNN searches in every step of DataParallel, and otherwise now and then.
    searches = account.on_gpu and first.switches.cudnn_benchmark
    is_there = {
        "cudnn_search": searches and first.strategy != "dp",
        SEARCH_PER_THREAD: _searches_per_thread(account),
    }
    for cause in CAUSES.values():
        if is_there.get(cause.name, True):
            if cause.event:
                yield _event(account, cause)
            elif cause.name == SEARCH_PER_THREAD and (cost := account.work(account.whole, cause.probe)):
                yield _switched(account, cause, cost, None, lines[cause.name], _searched_in_pauses(account))
            elif cost := account.without(cause.probe):
                if cause.name in INSIDE and (part := parts_of(account.ranks).get(INSIDE[cause.name])):
                    cost = replace(cost, seconds=in_rounds(partial(min, part.value), cost.seconds))
                yield _switched(account, cause, cost, None, lines.get(cause.name, ()))


def _switched(
    account: Account,
    cause: Cause,
    cost: ProbeCost,
    predicted_s: Figure | None,
    lines: Sequence[Line] = (),
    more: Sequence[Evidence] = (),
) -> FoundCause:
    """Return a cause that its probe switches off."""
    saved = account.without(cause.probe)
    remedy = Remedy("switched_off", predicted_s, saved.seconds if saved else None)
    evidence = [*times(account, account.whole, cause.probe), *more]
    return found(cause.name, account, cost, evidence, [remedy], places(lines))


def _searches_per_thread(account: Account) -> bool:
    """Whether cuDNN searches anew in the threads of each forward pass of DataParallel."""
    return account.first.strategy == "dp" and account.on_gpu and account.first.switches.cudnn_benchmark


def _searched_in_pauses(account: Account) -> list[Evidence]:
    """Return what validation took that searches in each of its forward passes too: it is no cause by itself."""
    pauses = [pause for pause in account.first.gaps if _cause_of_pause(pause, account.first) == "validation"]
    seconds = exact(sum(pause.share * pause.seconds for pause in pauses))
    return [Evidence("validation_that_searches", seconds, SECONDS)] if pauses else []


def _event(account: Account, cause: Cause) -> FoundCause:
    """Return a cause by the seconds of its events, or by blocks without them where those tell it surely."""
    most = max((getattr(rank.events, cause.event) for rank in account.ranks), key=lambda event: event.seconds)
    rare, cost = _rare(account, cause.name, most.seconds, most.count), account.without(cause.probe)
    # Pauses are no part of blocks.
    is_less = cost and cost.seconds.has_interval and cost.seconds.high < rare.cost_s.value
    in_steps = (most.longest_s or inf) < account.step.value
    if cost and (cost.seconds.low > account.noise_s or (is_less and in_steps)):
        return _switched(account, cause, cost, rare.cost_s)
    return rare


def _rare(account: Account, name: str, seconds: float, often: float, lines: Sequence[Line] = ()) -> FoundCause:
    """Return a cause that took so many seconds of all steps after the warm-up: of a step as it is and its pauses, since
    interventions made other steps shorter."""
    first = account.first
    cost_s = seconds / max(1, first.steps - first.warm_up_steps)
    share = min(1.0, cost_s / (account.step.value + account.pauses_s))
    cost = ProbeCost(exact(cost_s), exact(share))
    evidence = [Evidence("seconds", exact(seconds), SECONDS), count("times", often)]
    return _part(name, account, cost, evidence, places(lines))


def _lines(account: Account) -> Iterator[FoundCause]:
    """Yield causes by lines of the script. What is a pause now and then, and a part of other steps, is told once."""
    by_place: dict[tuple[str, ...], FoundCause] = {}
    for cause in chain(_pauses(account), _parts(account), _own_code(account)):
        place = cause.cause.name, *cause.notes[:1]
        if place not in by_place or cause.cost_s.value > by_place[place].cost_s.value:
            by_place[place] = cause
    yield from by_place.values()


def _pauses(account: Account) -> Iterator[FoundCause]:
    """Yield causes by the script's lines in its longest steps: those of the rank whose own line is seen there."""
    pauses: dict[tuple[int, str], tuple[str, Pause]] = {}
    for rank in account.ranks:
        for pause in rank.gaps:
            if name := _cause_of_pause(pause, rank):
                pauses.setdefault((pause.after_step, pause.kind), (name, pause))
    names = dict.fromkeys(name for name, _ in pauses.values())
    for name in names if not _searches_per_thread(account) else names.keys() - {"validation"}:
        of_cause = [pause for cause, pause in pauses.values() if cause == name]
        timed = [(pause, pause.share * pause.seconds) for pause in of_cause]
        # In all no more than usual steps do not take: of one pause there can be two samples.
        beyond = {pause.after_step: pause.seconds - account.step.value for pause in of_cause}
        seconds = max(0.0, min(sum(seconds for _, seconds in timed), sum(beyond.values())))
        yield _rare(account, name, seconds, len(beyond), most_of(timed))


def _cause_of_pause(pause: Pause, rank: Process) -> str | None:
    """Return the cause of a pause; None where the rank waited in it for something else, or it is counted as an
    event."""
    if pause.event in ("gc", "compile"):
        return None
    if pause.event == "loader start":
        is_short = 0 < (rank.loading.batches or 0) <= BATCHES_PER_WORKER * rank.loading.workers
        return "few_batches" if is_short else None
    return CAUSE_OF_PART.get(pause.kind or pause.event)


def _parts(account: Account) -> Iterator[FoundCause]:
    """Yield causes that are a part of every step, of the rank where it takes longest."""
    by_rank = [(rank, parts_of([rank])) for rank in account.ranks]
    for part, cause in CAUSE_OF_PART.items():
        with_part = [(parts[part], rank) for rank, parts in by_rank if part in parts]
        if with_part and part != OWN:
            seconds, rank = max(with_part, key=lambda timed: timed[0].value)
            lines = most_of((row, row.samples) for row in rank.lines if row.kind == part)
            yield _part(cause, account, clocked(seconds), notes=places(lines))
    if not account.has("batch_kept") and (waits := parts_of(account.ranks).get("loading")):
        yield _part("slow_loader", account, clocked(waits))


def _own_code(account: Account) -> Iterator[FoundCause]:
    """Yield the script's own code in every step by its statements, each of the rank where it takes longest."""
    longest = [(max(by_rank, key=lambda cost: cost.value), row) for row, by_rank in own_statements(account.ranks)]
    for cost, row in sorted(longest, key=lambda timed: -timed[0].value)[:MOST_STATEMENTS]:
        if cost.value > LEAST_STATEMENT * account.step.value:
            yield _part("own_code", account, ProbeCost(cost), notes=[*places([row]), *filter(None, [row.inside])])


def _calls(account: Account) -> Iterator[FoundCause]:
    """Yield the time in collectives that are not DDP's, and in DDP's search: of a step as it is.

    Collectives are of the script itself, for numbers or for gradients, or gather shards of what would fit whole.
    """
    first = account.first
    steps = first.counted_steps or 1
    memory, held = first.device_bytes, 4 * first.parameter_bytes
    is_zero = first.optimiser is not None and "ZeroRedundancy" in first.optimiser.name
    is_sharded = first.strategy == "fsdp" or is_zero
    in_calls = parts_of(account.ranks).get("collectives")  # those between steps are no part of one
    cost = account.without("shards_kept") or (clocked(in_calls) if in_calls else None)
    if cost and not (is_sharded and memory and held > FITS * memory):
        often = Evidence("calls", exact(sum(line.calls for line in first.collectives) / steps), DECIMAL)
        evidence = [often, *times(account, "shards_kept")]
        # Ranks that train together without DDP, and without shards, send their gradients so.
        name = "sharding" if is_sharded else "own_exchange" if first.strategy == "other" else "scalars"
        yield _part(name, account, cost, evidence, places(first.collectives))
    yield _part("unused_search", account, ProbeCost(exact(first.switches.search_s / steps)))


def _work(account: Account) -> Iterator[FoundCause]:
    """Yield the cause of work that is not divided.

    Ranks share a device and know nothing of each other: what that costs was not measured. Or they go through the same
    samples, or make as many steps as one alone: of what these take on one device all but one nth is done in vain.
    """
    first, n, in_common = account.first, len(account.ranks), shared_samples(account.ranks)
    if runs := _runs_on_one_device(account.ranks):
        yield _untimed("started_twice", account, count("runs", runs))
    elif n > 1:
        alone = account.one_device[0] if account.one_device else None
        if in_common >= SAME_SAMPLES:
            name, evidence = "work_not_divided", Evidence("same_samples", exact(in_common), PERCENT)
        elif first.loading.batches and alone and _epoch(alone) == _epoch(first):
            name, evidence = "work_not_divided", count("batches_of_epoch", first.loading.batches)
        elif alone and _whole_run(alone) == _whole_run(first) and first.ended_by == "script":
            name, evidence = "fixed_steps", count("steps", first.steps)
        else:
            return
        cost, step_s = UNKNOWN, account.step.value
        if alone and alone.batch == first.batch:
            cost = as_it_is(alone).map(lambda alone_s: min(alone_s, step_s) * (1 - 1 / n))
        yield found(name, account, ProbeCost(cost), [evidence], [Remedy("divided", cost)] if cost.is_known else [])


def _runs_on_one_device(ranks: Sequence[Process]) -> int:
    """Count processes that train alone beside another one on the same GPU, or on a CPU on the same cores; not those
    that train a network together, in the same memory."""
    devices = [
        {(rank.host, name) for name in ([rank.gpu] if rank.device == "cuda" else rank.machine.numbers_of_cores)}
        for rank in ranks
        if rank.world_size == 1 and rank.strategy != "other" and (rank.device == "cpu" or rank.gpu)
    ]
    runs = Counter(chain(*devices))
    return sum(any(runs[device] > 1 for device in of_run) for of_run in devices)


def _epoch(process: Process) -> tuple[int | None, ...]:
    """Return the batch size of a process, and the batches and samples of its epoch."""
    return process.batch, process.loading.batches, process.loading.samples


def _whole_run(process: Process) -> tuple[object, ...]:
    return process.ended_by, process.steps, process.batch


def _exchange(account: Account) -> Iterator[FoundCause]:
    """Yield the time that the exchange of gradients adds to the slowest rank of every step; named after what makes it
    slow."""
    has_both = account.has("batch_kept_no_allreduce")
    pair = (account.in_memory, "own_pace") if has_both else (account.whole, "no_allreduce")
    cost = account.cost(*pair)
    if cost is None:
        return
    first, n = account.first, account.devices
    is_large, is_local = first.gradient_bytes > FEWEST_BYTES, first.world_size == len(account.ranks)
    slow_gb_s = SLOW_EXCHANGE[first.device]
    moved_gb = 2 * (n - 1) / n * first.gradient_bytes / 1e9
    rate = moved_gb / max(cost.seconds.value, 1e-9)
    evidence = [
        *times(account, *pair),
        Evidence("gradient_bytes", exact(first.gradient_bytes), MB),
        Evidence("exchanged", exact(rate), GB_PER_S),
    ]
    remedies = [Remedy("switched_off", None, cost.seconds)]
    tells_link = is_large and (account.on_gpu or not is_local)
    if not tells_link:
        in_memory = is_local and not (account.on_gpu or is_large)
        call_s, gb_s = IN_MEMORY if in_memory else (CALL_S, slow_gb_s)
        most_s = (first.exchanges_per_step or 1) * (call_s + moved_gb / gb_s)
        own_s = parts_of(account.ranks).get("collectives", Figure(0.0)).value
        if own_s > CAUSES["scalars"].least_share * account.step.value:  # named for themselves, and taken off
            most_s += own_s
        if cost.seconds.value > most_s:  # what was measured is not what the exchange costs
            remedies = []
        cost = replace(cost, seconds=cost.seconds.map(lambda seconds: min(seconds, most_s)))
    off, interfaces, backend = variables(first, *SWITCHED_OFF), variables(first, *INTERFACES), first.backend or ""
    names = {
        "gloo_with_cuda": account.on_gpu and backend == "gloo",
        "link_switched_off": "nccl" in backend and off,  # also cpu:gloo,cuda:nccl
        "interface": interfaces,
        "slow_link": tells_link and rate < slow_gb_s,
        "heavy_gradients": is_large,
        "small_messages": True,
    }
    name = next(name for name, is_so in names.items() if is_so)
    notes = off if name == "link_switched_off" else interfaces
    yield found(name, account, cost, evidence, remedies, notes)


def _computing(account: Account) -> Iterator[FoundCause]:
    """Yield the time in which a GPU computes nothing in forward, backward and optimiser, as its profile shows.

    DataParallel's own work on the host is told for itself.
    """
    first = account.first
    profile, step_s = first.profile, account.step.value
    without_exchange = parts_of([first], ("no_allreduce",)) or parts_of([first], ("shards_kept",))
    parts = without_exchange or parts_of([first])
    in_passes = [parts[name] for name in PASSES if name in parts]
    is_searching = first.switches.cudnn_benchmark and first.events.cudnn_search.count >= OFTEN * first.steps
    if profile and in_passes and profile.busy_share < BUSY_GPU and first.strategy != "dp" and not is_searching:
        idle = minus(added(in_passes), exact(profile.busy_share * step_s))
        busy = Evidence("busy_gpu", exact(profile.busy_share), PERCENT)
        yield found("small_batch", account, ProbeCost(idle), [busy, count("kernels", profile.kernels_per_step)])


def _data_parallel(account: Account) -> Iterator[FoundCause]:
    """Yield what DataParallel costs: the step over several GPUs, without cuDNN's search in its threads, less the same
    on one of them with its share of the samples."""
    first = account.first
    if first.strategy == "dp":
        is_searched = _searches_per_thread(account) and account.has("cudnn_benchmark_off")
        step = "cudnn_benchmark_off" if is_searched else account.whole
        parts = parts_of([first], (step,))
        cost = account.work(step, "share_on_one_device") or ProbeCost(UNKNOWN)
        evidence = [count("devices", account.devices), *times(account, "share_on_one_device", "one_device")]
        evidence += [Evidence(name, parts[name]) for name in STEPS_OF_DP if name in parts]
        yield found("data_parallel", account, cost, evidence)


def _not_timed(account: Account) -> Iterator[FoundCause]:
    first = account.first
    notes = [
        *(["a debugger, a tracer, or torch.profiler in many steps"] if first.switches.debugger else []),
        *variables(first, "CUDA_LAUNCH_BLOCKING"),
    ]
    if notes:
        yield _untimed("debugger", account, notes=notes)
    if 2 * first.dtypes.get("float64", 0) > sum(first.dtypes.values()):
        yield _untimed("float64", account)


def _cores(account: Account) -> Iterator[FoundCause]:
    """Yield causes of processes that share cores.

    With each other, or with other processes. What that costs was not measured, and is not told.
    """
    first, n, usable = account.first, len(account.ranks), account.usable_cores
    if not usable:
        return
    workers, threads_in_worker = first.loading.workers, first.loading.threads_in_worker or 1
    threads = n * workers * threads_in_worker
    needed = n * (2 if workers and account.on_gpu else 1)
    cores = count("cores", usable)
    loading = account.without("batch_kept")
    if threads_in_worker > 1 and threads > usable and loading:
        yield found("threads", account, loading, [cores, count("threads", threads)])
    evidence = cores, count("processes", needed), Evidence("other_cores", exact(account.other_cores), DECIMAL)
    if needed > usable and (first.machine.busy_share or 0) >= BUSY_SHARE:
        yield _untimed("too_few_cores", account, *evidence)
    elif (needed - max(0.0, usable - account.other_cores)) / needed > CAUSES["other_work"].least_share:
        yield _untimed("other_work", account, *evidence)


FINDERS: Sequence[Finder] = (
    _in_table, _lines, _calls, _work, _exchange, _computing, _data_parallel, _not_timed, _cores,
)  # fmt: skip
