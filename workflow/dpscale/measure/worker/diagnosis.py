"""One worker of a diagnosis: variants of one step, in turns, each of which changes one thing."""

import os
import socket
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice
from math import nan
from statistics import fmean
from typing import Any

import torch
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.debugging_hooks import noop_hook
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer
from torch.utils.data import Dataset, default_collate

from dpscale.errors import MeasurementError
from dpscale.measure.ranks import gather, gather_lists, gather_objects, slowest
from dpscale.measure.watch.cores import on_all_cores
from dpscale.measure.watch.hardware import hardware, quota_cores
from dpscale.measure.watch.launches import launches
from dpscale.measure.watch.sensors import busy_cores
from dpscale.measure.watch.waits import KeptNumbers, waits_of
from dpscale.measure.worker import communication
from dpscale.measure.worker.captured_step import CapturedStep
from dpscale.measure.worker.collectives import CollectivesWorker
from dpscale.measure.worker.communication import CommunicationWorker, fitting, random_orders
from dpscale.measure.worker.epoch_timer import EpochTimer
from dpscale.measure.workload.batches import Batch, length, to_device
from dpscale.measure.workload.loading import LoadedEpochs, host_memory
from dpscale.strategies.ddp.in_torch import bucket_bytes, settled
from dpscale.strategies.in_torch import StepVariant, parallelise
from dpscale.vocabulary.causes import PROBES
from dpscale.vocabulary.chips import chip_named

# So many that the interval of a median over rounds leaves out one round at each end.
ROUNDS = 9
# Different batches that steps in memory use in turn: few, since a user's items may take long.
BATCHES = 2
# Items are fetched for so long, and then used again. A slow loader is a cause, and must not hold the diagnosis up.
FETCH_S = 2.0
# How much larger a larger batch is, as far as memory and time allow.
FACTORS = (8, 4, 2)
MEMORY_SHARE = 0.6
LARGE_STEP_S = 0.1
# With a loader of K workers, every K-th batch is waited for: blocks have so many rounds of them, and one batch before.
LOADER_ROUNDS = 3
LOADER_STEPS = (3, 60)
COPY_BYTES, COPIES = 16 * 2**20, 7
# A message so large that the bandwidth of its allreduce is the link's, and not a matter of how long each call takes.
LINK_BYTES = {"cuda": 64 * 2**20, "cpu": 2**20}
# More loader workers than so many per core of a rank are not tried.
WORKERS_PER_CORE = 2


@dataclass
class Probe:
    """A variant of the step as this rank runs it, with `batch` samples per device.

    Batches are those of the variant, or made by a loader. `within` is around every block of steps. `in_turn` lets the
    ranks run one after the other. A graph writes gradients where they were when it was captured: `keeps_gradients`.
    """

    variant: StepVariant
    batch: int
    epochs: LoadedEpochs | None = None
    loader_workers: int | None = None
    within: Callable[[], AbstractContextManager[Any]] = nullcontext
    in_turn: bool = False
    keeps_gradients: bool = False
    devices: Sequence[torch.device] | None = None

    def batches(self, steps: int) -> Iterator[Batch]:
        """So many batches for one block. A loader begins an epoch when the first one is asked for, inside the clock."""
        yield from islice(self.epochs, steps) if self.epochs else communication.steps_of(self.variant.batches, steps)


@dataclass(frozen=True)
class ProbeBlock:
    """Seconds of a step of every rank, None where it waited, and of the start of a loader, the slowest rank's."""

    rank_step_s: Sequence[float | None]
    start_s: float

    @property
    def step_s(self) -> float:
        return max(seconds for seconds in self.rank_step_s if seconds is not None)


class DiagnosisWorker(CommunicationWorker):
    """Times what tells why a step is not faster. The answer is not made here."""

    def __init__(self, job: dict[str, Any], rank: int):
        super().__init__({"traces": None, **job}, rank)
        self.asked = job["asked"]
        self.words = job["words"]
        self.launcher_pid = job["launcher_pid"]
        self.measured: dict[str, Any] = {}
        self._ticks = {"busy": 0, "idle": 0}

    def outcome_of(self, error: Exception) -> dict[str, Any] | None:
        """Out of memory ends a diagnosis: nothing can be told of a step that does not fit."""
        outcome = super().outcome_of(error)
        if outcome is None:
            return None
        return {"status": "failed", "message": f"memory ran out during {self.phase}: choose a smaller batch"}

    def results(self, finished: bool) -> dict[str, Any]:
        return self.measured

    def measure(self) -> None:
        """Fill `measured`."""
        self.phase = "loading the batches"
        self._require_a_batch()
        self.full_batches = self._batches_of(self.batch)
        seen = launches(self.words, self.launcher_pid, os.environ)
        self.phase = "warm-up"
        probes = self._in_memory()
        step_s = {name: self._warm_up_probe(probe) for name, probe in probes.items()}
        waits = self._waits(probes)
        for name, probe in self._more(probes, step_s, waits):
            probes[name] = probe
            step_s[name] = self._warm_up_probe(probe)
        self.phase = "timing steps"
        blocks, ran = self._time_probes(probes, step_s)
        if self.workload.verify is not None:
            self.workload.verify(self.plain.network)
        self.phase = "timing collectives"
        again = launches(self.words, self.launcher_pid, os.environ)
        self.measured = {
            "settings": {**self.settings.to_json(), "epoch_images": len(self.samples)},  # type: ignore[arg-type]
            "seed": self.seed,
            "orders": ran,
            "steps_per_epoch": self._steps_per_epoch,
            "probes": blocks,
            **self._allreduce(probes),
            "cores": self._cores(),
            "synchronisations": waits,
            "launches": {**seen, "same_command": sorted({*seen["same_command"], *again["same_command"]})},
        }

    @cached_property
    def samples(self) -> Dataset[Any]:
        """The whole dataset is an epoch."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            return self.workload.dataset()

    def _require_a_batch(self) -> None:
        """Raise MeasurementError where the dataset has no full step."""
        samples, batch = len(self.samples), self.configuration.global_batch  # type: ignore[arg-type]
        if samples < batch:
            raise MeasurementError(
                f"the dataset has {samples} samples, and a step of all devices takes {batch}: choose a smaller batch"
            )

    @property
    def _steps_per_epoch(self) -> int:
        return max(1, len(self.samples) // self.configuration.global_batch)  # type: ignore[arg-type]

    def _batches_of(self, samples: int) -> list[Batch]:
        """Batches of this rank in host memory, of items that are fetched once."""
        collate = self.workload.collate or default_collate
        prepared = host_memory(self.on_gpu, self.memory_format)
        items = [self._items[number % len(self._items)] for number in range(BATCHES * samples)]
        return [prepared(collate(items[start : start + samples])) for start in range(0, len(items), samples)]

    @cached_property
    def _items(self) -> list[Any]:
        """This rank's first items, as many as a batch and a second of them need, fewer where they take long."""
        there = len(self.samples)  # type: ignore[arg-type]
        wanted = min(there, BATCHES * FACTORS[0] * self.batch)
        items: list[Any] = []
        start = time.perf_counter()
        while len(items) < wanted and (time.perf_counter() - start < FETCH_S or not items):
            items.append(self.samples[(self.rank + len(items) * self.workers) % there])
        return items

    def _in_memory(self) -> dict[str, Probe]:
        """The plain step, and the whole step with and without parts, all at the batch that was asked for."""
        plain = Probe(self.plain, self.configuration.batch_per_gpu)
        probes = {"alone": replace(plain, in_turn=True)}
        if self.workers > 1:
            probes |= {
                "together": plain,
                "no_op_hook": Probe(settled(self, noop_hook), plain.batch),
                "training": Probe(settled(self), plain.batch),
            }
        if self.asked["strategy"] == "dp":
            probes["dp"] = self._data_parallel()
        return probes

    def _data_parallel(self) -> Probe:
        """The first rank drives all devices. All other ranks wait."""
        batch = self.configuration.batch_per_gpu
        if self.rank:
            return self._waiting(batch)
        devices = [torch.device("cuda", index) for index in range(self.gpus_here)]
        network = parallelise(self.build_network(), "dp", devices, self.settings)
        variant = self.variant(network, self._batches_of(self.configuration.global_batch))
        return Probe(variant, batch, devices=devices)

    def _waiting(self, samples: int) -> Probe:
        """This rank has nothing to do."""
        return Probe(replace(self.plain, batches=()), samples)

    def _of_first(self, samples: int) -> Sequence[Batch]:
        """Batches for the first rank alone."""
        return self._batches_of(samples) if self.rank == 0 else ()

    def _more(
        self, probes: dict[str, Probe], step_s: dict[str, float], waits: Sequence[dict[str, Any]]
    ) -> Iterator[tuple[str, Probe]]:
        """What else is timed, as far as it exists here."""
        alone = replace(probes["alone"], in_turn=False)
        reference = self.configuration.batch_per_gpu
        if self.asked["global_batch_held"]:
            reference = self.configuration.global_batch
            yield "alone_reference", self._at(alone, reference, first_only=True)
        large = self._factor(step_s["alone"] * reference / alone.batch, reference / alone.batch) * reference
        if large > reference:
            yield "alone_large", self._at(alone, large, first_only=True)
        scaled = reference if self.asked["global_batch_held"] else large
        if "training" in probes and scaled > alone.batch:
            yield "training_scaled", self._at(probes["training"], scaled, first_only=False)
        if waits:
            yield from self._without_waiting(probes)
        elif self.on_gpu:
            yield from self._captured(reference)
        yield from self._in_bfloat16()
        yield from self._loaded(probes)

    def _at(self, probe: Probe, samples: int, first_only: bool) -> Probe:
        batches = self._of_first(samples) if first_only else self._batches_of(samples)
        return replace(probe, variant=replace(probe.variant, batches=batches), batch=samples)

    def _factor(self, step_s: float, grown: float) -> int:
        """How much larger a batch can be, all ranks alike, so that a step takes neither long nor most of the memory.

        Now it takes `step_s`, with a batch that is `grown` times the one that was run so far."""
        used = 0.0
        if self.on_gpu:
            total = torch.cuda.get_device_properties(self.device).total_memory
            used = grown * torch.cuda.max_memory_allocated(self.device) / total
        (used,) = slowest([used], self.workers)
        fits = [factor for factor in FACTORS if factor * used < MEMORY_SHARE and factor * step_s < LARGE_STEP_S]
        return fits[0] if fits else 1

    def _waits(self, probes: dict[str, Probe]) -> list[dict[str, Any]]:
        """Where the plain step waits for a number, as the first rank sees it."""
        variant = probes["alone"].variant
        batch = variant.batches[0]
        seen = waits_of(lambda: variant.step(batch), self.workload.path, self.on_gpu)
        variant.optimiser.zero_grad()
        waits: list[dict[str, Any]] = gather_objects(seen, self.workers)[0]
        return waits

    def _without_waiting(self, probes: dict[str, Probe]) -> Iterator[tuple[str, Probe]]:
        alone = replace(probes["alone"], in_turn=False)
        alone = replace(alone, variant=replace(alone.variant, batches=alone.variant.batches if self.rank == 0 else ()))
        yield "alone_unsynchronised", self._keeping_numbers(alone)
        if "training" in probes:
            yield "training_unsynchronised", self._keeping_numbers(probes["training"])

    def _keeping_numbers(self, probe: Probe) -> Probe:
        kept, step = KeptNumbers(self.device.type), probe.variant.step

        def keeping(batch: Batch) -> None:
            kept.begin()
            step(batch)

        return replace(probe, variant=replace(probe.variant, step=keeping), within=kept.within)

    def _captured(self, samples: int) -> Iterator[tuple[str, Probe]]:
        """Steps as CUDA graphs, as far as they can be captured: the whole step of DDP, and the first rank's plain one.

        DDP's before any other of the process: after one it ends in an illegal memory access.
        """
        if self.asked["strategy"] == "ddp" and not self.asked["global_batch_held"]:
            yield from self._tried("training_graph", lambda: self._capture(self.build, self.full_batches))
        yield from self._tried("alone_graph", lambda: self._captured_alone(samples))

    def _captured_alone(self, samples: int) -> Probe:
        return self._waiting(samples) if self.rank else self._capture(self.build_alone, self._batches_of(samples))

    def _capture(self, build: Callable[[], tuple[nn.Module, Optimizer]], batches: Sequence[Batch]) -> Probe:
        stream = torch.cuda.Stream(self.device)
        with torch.cuda.stream(stream):
            network, optimiser = build()
        batch = to_device(batches[0], self.device, self.memory_format)
        step = CapturedStep(self.step_of(network, optimiser), batch, self.device, stream)
        return Probe(StepVariant(network, optimiser, step, batches), length(batch), keeps_gradients=True)

    def _in_bfloat16(self) -> Iterator[tuple[str, Probe]]:
        """The whole step as it was asked for that computes in bfloat16, and DDP's that sends gradients in it."""
        if self.settings.precision != "bfloat16":
            yield from self._tried("bfloat16", self._computing_in_bfloat16)
        if self.asked["strategy"] == "ddp":
            sending = partial(settled, self, bf16_compress_hook)
            yield from self._tried("bfloat16_gradients", lambda: Probe(sending(), self.configuration.batch_per_gpu))

    def _computing_in_bfloat16(self) -> Probe:
        settings, self.settings = self.settings, replace(self.settings, precision="bfloat16")
        try:
            if self.asked["strategy"] == "dp":
                return self._data_parallel()
            return Probe(settled(self) if self.workers > 1 else self.whole_step(), self.configuration.batch_per_gpu)
        finally:
            self.settings = settings

    def _tried(self, name: str, build: Callable[[], Probe]) -> Iterator[tuple[str, Probe]]:
        """A probe that not every step can have: left out on all ranks where it fails on one."""
        probe = None
        try:
            probe = build()
            self._run_once(probe)
        except Exception as error:  # the user's own code may end in any
            probe = None
            words = (str(error).splitlines() or [""])[0]
            self.report(f"left out: {PROBES[name]}: {type(error).__name__}: {words}")
        works = gather(float(probe is not None), self.workers)
        if probe is not None and all(works):
            yield name, probe

    def _loaded(self, probes: dict[str, Probe]) -> Iterator[tuple[str, Probe]]:
        """The loader alone, with the whole step, and both with more workers and fewer."""
        whole = probes["dp"] if "dp" in probes else probes.get("training", probes["alone"])
        whole = replace(whole, in_turn=False)
        workers = self.asked["loader_workers"]
        nothing = replace(whole.variant, step=lambda batch: None)
        yield "loader", self._with_loader(replace(whole, variant=nothing), workers)
        yield "end_to_end", self._with_loader(whole, workers)
        cores = max(1, len(self._usable) // self.workers)
        fewer = min(cores, workers // 2)
        if fewer:
            yield "end_to_end_fewer", self._with_loader(whole, fewer)
        if workers <= WORKERS_PER_CORE * cores:
            yield "end_to_end_more", self._with_loader(whole, max(2, 2 * workers))
        if self.on_gpu:
            yield "end_to_end_unpinned", self._with_loader(whole, workers, pinned=False)
        if self._can_have_all_cores():
            yield "end_to_end_all_cores", replace(self._with_loader(whole, workers), within=on_all_cores)

    def _with_loader(self, probe: Probe, loader_workers: int, pinned: bool = True) -> Probe:
        """With batches of a loader, which lie in pinned memory for GPUs alone."""
        if self.asked["strategy"] == "dp":
            share = 0, 1, self.configuration.global_batch
        else:
            share = self.rank, self.workers, self.configuration.batch_per_gpu
        if not probe.variant.batches:  # this rank waits
            return replace(probe, loader_workers=loader_workers)
        with warnings.catch_warnings():
            # More workers than torch finds reasonable are what is to be timed.
            warnings.filterwarnings("ignore", "This DataLoader will create")
            epochs = LoadedEpochs(self.samples, share, loader_workers, pinned and self.on_gpu, self.workload.collate)
        return replace(probe, epochs=epochs, loader_workers=loader_workers)

    @cached_property
    def _usable(self) -> list[int]:
        """Cores that any of the ranks may use."""
        of_ranks = gather_objects(sorted(os.sched_getaffinity(0)), self.workers)
        return sorted({core for cores in of_ranks for core in cores})

    def _can_have_all_cores(self) -> bool:
        """Whether this job is bound to a part of the cores, by no scheduler that gave others the rest."""
        if len(self._usable) == os.cpu_count() or "SLURM_JOB_ID" in os.environ:
            return False
        with on_all_cores():
            more = len(os.sched_getaffinity(0)) > len(self._usable)
        return all(gather(float(more), self.workers))

    def _warm_up_probe(self, probe: Probe) -> float:
        """Returns the seconds of a step, the same on every rank."""
        steps = communication.WARM_UP_STEPS
        if probe.loader_workers is not None:
            steps = min(1 + max(2, probe.loader_workers), self._steps_per_epoch)
        return self._time_probe(probe, steps, whole=True).step_s

    def _run_once(self, probe: Probe) -> None:
        """One step, without the other ranks' clocks: an error stays on its rank."""
        for batch in probe.batches(1):
            probe.variant.step(batch)
        self._now()

    def _block_steps(self, probe: Probe, step_s: float) -> int:
        if probe.loader_workers is None:
            return fitting(communication.BLOCK_S, step_s, communication.BLOCK_STEPS)
        each = max(1, probe.loader_workers)
        turns = max(LOADER_ROUNDS, fitting(communication.BLOCK_S, step_s, LOADER_STEPS) // each)
        return min(1 + turns * each, self._steps_per_epoch)

    def _time_probes(
        self, probes: dict[str, Probe], step_s: dict[str, float]
    ) -> tuple[dict[str, dict[str, Any]], list[list[str]]]:
        """The blocks of every probe, and in which orders they ran."""
        steps = {name: self._block_steps(probe, step_s[name]) for name, probe in probes.items()}
        blocks: dict[str, list[ProbeBlock]] = {name: [] for name in probes}
        ran = list(random_orders(list(probes), self.seed, ROUNDS))
        start = time.perf_counter()
        for number, order in enumerate(ran, start=1):
            for name in order:
                with self._watching_cores() if name == "end_to_end" else nullcontext():
                    blocks[name].append(self._time_probe(probes[name], steps[name]))
            left_s = (time.perf_counter() - start) / number * (len(ran) - number)
            self.report(f"round {number} of {len(ran)}, about {left_s:.0f} s left")
        return {name: self._recorded(probes[name], steps[name], blocks[name]) for name in probes}, ran

    def _recorded(self, probe: Probe, steps: int, blocks: Sequence[ProbeBlock]) -> dict[str, Any]:
        loading: dict[str, Any] = {}
        if probe.loader_workers is not None:
            loading = {"loader_workers": probe.loader_workers, "start_s": [block.start_s for block in blocks]}
        return {
            "batch_per_gpu": probe.batch,
            "steps": steps,
            "step_s": [block.step_s for block in blocks],
            "rank_step_s": [list(block.rank_step_s) for block in blocks],
            **loading,
        }

    def _time_probe(self, probe: Probe, steps: int, whole: bool = False) -> ProbeBlock:
        """A block of steps. The first one is left out, or counts as part of the `whole`; with a loader it holds the
        start, which is spread over the steps of an epoch."""
        turns: Sequence[int | None] = range(self.workers) if probe.in_turn else [None]
        found = [self._time_turn(probe, steps, turn in (None, self.rank), whole) for turn in turns]
        own = next((times for times in found if times[0] == times[0]), (nan, nan))
        times = gather_lists(own, self.workers)
        starts = [start for _, start in times if start == start]
        return ProbeBlock([None if step != step else step for step, _ in times], max(starts, default=nan))

    def _time_turn(self, probe: Probe, steps: int, runs: bool, whole: bool) -> tuple[float, float]:
        """A step's time and that of the loader's start on this rank; NaN where it waits."""
        timer = EpochTimer(self.devices if probe.devices is None else probe.devices, self.workers)
        runs = runs and bool(probe.variant.batches)
        with probe.within():
            batches = probe.batches(steps) if runs else ()
            step_s = timer.time(probe.variant.step, batches, steps if runs else 0)["step_s"]
        if not probe.keeps_gradients:
            probe.variant.optimiser.zero_grad()
        if not runs:
            return nan, nan
        if whole or len(step_s) == 1:
            return fmean(step_s), step_s[0]
        steady_s = fmean(step_s[1:])
        if probe.loader_workers is None:
            return steady_s, nan
        start_s = max(step_s[0] - steady_s, 1e-9)
        return steady_s + start_s / self._steps_per_epoch, start_s

    def _allreduce(self, probes: dict[str, Probe]) -> dict[str, Any]:
        """Allreduces of the gradient and of DDP's buckets with nothing else running, and plain copies beside them."""
        if self.workers == 1:
            return {"allreduce": None, "link": None}
        assert self.network
        network = probes["training"].variant.network
        buckets = bucket_bytes(network) if isinstance(network, DistributedDataParallel) else []
        gradient = self.network["gradient_bytes"]
        sizes = [max(gradient, LINK_BYTES[self.device.type]), gradient, *sorted(set(buckets), reverse=True)]
        job = {
            "folder": str(self.folder),
            "timeout_s": self.timeout_s,
            "gpus": self.gpus,
            "settings": {"device": self.device.type},
            "messages": [("allreduce", size) for size in sizes],
        }
        collectives = CollectivesWorker(job, self.rank)
        collectives.measure()
        large, whole, *messages = [
            {"bytes": timed["bytes"], "seconds": timed["seconds"]} for timed in collectives.collectives
        ]
        return {
            "allreduce": {**whole, "messages": messages, "conversion_s": self._conversion_s(gradient)},
            "link": {**self._link(collectives.peer_copies), "allreduce": large},
        }

    def _conversion_s(self, gradient_bytes: int) -> list[float]:
        """What torch's hook for gradients in bfloat16 does beside their allreduce: the slowest rank's, of repeats."""
        gradient = torch.zeros(gradient_bytes // 4, device=self.device)
        found = []
        for _ in range(1 + COPIES):
            start = self._now()
            gradient.copy_(gradient.to(torch.bfloat16).div_(self.workers))
            found.append(self._now() - start)
        return slowest(found[1:], self.workers)

    def _now(self) -> float:
        """When all that was asked of this rank's devices is done, in s."""
        for device in self.devices:
            torch.cuda.synchronize(device)
        return time.perf_counter()

    def _link(self, peer_copies: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """What a plain copy reaches: from GPU to GPU, or through a socket of this host, which no network shapes."""
        if not self.on_gpu:
            rates = _socket_rates() if self.rank == 0 else []
            return {
                "kind": "sockets of this host",
                "copy_gb_s": gather_objects(rates, self.workers)[0],
                "nominal_gb_s": None,
            }
        # Of the slowest pair: an allreduce goes through all of them.
        slowest_pair = max(peer_copies, key=lambda copy: min(copy["seconds"])) if peer_copies else None
        copies = [slowest_pair["bytes"] / seconds / 1e9 for seconds in slowest_pair["seconds"]] if slowest_pair else []
        kind, nominal = self._link_of_gpus()
        return {"kind": kind, "copy_gb_s": copies, "nominal_gb_s": nominal}

    def _link_of_gpus(self) -> tuple[str, float | None]:
        """The link that all pairs of GPUs have, and its bandwidth in the data sheet, where they are known."""
        found = hardware("cuda", self.gpus_here)
        kinds = {link["kind"] for link in found["links"]}
        kind = kinds.pop() if len(kinds) == 1 else None
        chip = chip_named(found["gpus"][0]["name"])
        if kind is None or chip is None:
            return kind or "unknown", None
        return kind, next((link.gb_s for link in chip.links if link.name.startswith(kind)), None)

    @contextmanager
    def _watching_cores(self) -> Iterator[None]:
        before = busy_cores(self._usable)
        yield
        after = busy_cores(self._usable)
        if before and after:
            self._ticks = {name: ticks + after[name] - before[name] for name, ticks in self._ticks.items()}

    @property
    def _busy_share(self) -> float | None:
        """How busy the cores were while loader and step ran together."""
        total = sum(self._ticks.values())
        return self._ticks["busy"] / total if total else None

    def _cores(self) -> dict[str, Any]:
        return {
            "usable": len(self._usable),
            "of_machine": os.cpu_count(),
            "quota": quota_cores(),
            "busy_share": self._busy_share,
            "of_ranks": gather_objects(sorted(os.sched_getaffinity(0)), self.workers),
        }


def _socket_rates() -> list[float]:
    """GB/s through a socket of this host, of repeats."""
    payload, rates = bytearray(COPY_BYTES), []
    for _ in range(COPIES):
        giver, taker = socket.socketpair()
        with giver, taker:
            sending = threading.Thread(target=giver.sendall, args=(payload,))
            start = time.perf_counter()
            sending.start()
            buffer, left = memoryview(bytearray(2**20)), COPY_BYTES
            while left:
                left -= taker.recv_into(buffer)
            rates.append(COPY_BYTES / (time.perf_counter() - start) / 1e9)
            sending.join()
    return rates


WORKER = DiagnosisWorker
