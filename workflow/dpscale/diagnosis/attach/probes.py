"""The interventions: each says whether it can change something, and is set for a block and undone after it.

Beside them: the optimisers of the script, which they reach, and tools that look at its last steps.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from typing import Any, NamedTuple
from weakref import ref

import torch

from .calls import ASKED, COLLECTED, EMPTIED, EVENTS, NETWORK, SYNCHRONISED, real_synchronize
from .hooks import NOW
from .loader import LOADING

# Parts of the time below which it is not tried without.
LITTLE_LOADING, LITTLE_GC = 0.01, 0.005
# So few tensors are no work for an optimiser.
FEW_TENSORS = 50
# The part of a device's memory that an intervention may need.
FITS = 0.8
SHARDS_KEPT = "shards_kept"  # all that is changed where FSDP shards
FUSED = (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW)


class Optimisers:
    """Optimisers of the script. The main one ends a step: the least called of several, so that a step has all."""

    def __init__(self, first: Any) -> None:
        self.main = id(first)
        self.refs = {self.main: ref(first)}
        self.calls = {self.main: 1}
        self.on_gpu = any(parameter.is_cuda for parameter in parameters([first]))

    def ends_step(self, optimiser: Any, learning: bool) -> bool:
        """Whether this call does. While `learning`, all that are called get known."""
        key = id(optimiser)
        if self.refs[self.main]() is None:  # a script that makes itself a new one, maybe at the place of the old one
            self.main, self.refs, self.calls = key, {key: ref(optimiser)}, {key: 1}
            return False
        if learning:
            self.calls[key] = self.calls.get(key, 0) + 1
            self.refs.setdefault(key, ref(optimiser))
        return key == self.main

    def choose(self) -> None:
        """Choose the main one among those that are called often enough."""
        counts = {key: self.calls[key] for key, reference in self.refs.items() if reference() is not None}
        often = max(counts.values())
        main = min((key for key in counts if counts[key] >= 0.1 * often), key=lambda key: counts[key])
        if main != self.main:
            self.main = main
            NETWORK.per_step.clear()

    def living(self) -> list[Any]:
        """Return the optimisers that are still there, the main one first."""
        keys = sorted(self.refs, key=lambda key: key != self.main)
        return [optimiser for optimiser in (self.refs[key]() for key in keys) if optimiser is not None]

    def synchronise(self) -> None:
        if self.on_gpu:
            for device in {parameter.device for parameter in parameters(self.living()) if parameter.is_cuda}:
                real_synchronize(device)


class Scene(NamedTuple):
    """Reach of an intervention: the optimisers of the script, where it computes, how many ranks there are; and
    for how long it has run."""

    optimisers: Sequence[Any]
    on_gpu: bool
    ranks: int
    seconds: float


Begin = Callable[[Scene, ExitStack], None]  # leaves in the stack what undoes it


class Intervention(NamedTuple):
    fits: Callable[[Scene], Any]  # whether it can change something here
    begin: Begin


def _set(*changes: tuple[Any, str, Any]) -> Begin:
    """An intervention that sets attributes of objects, and afterwards sets them as they were."""

    def begin(_scene: Scene, undo: ExitStack) -> None:
        for owner, name, value in changes:
            undo.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, value)

    return begin


def _all(*begins: Begin) -> Begin:
    def begin(scene: Scene, undo: ExitStack) -> None:
        for begin_part in begins:
            begin_part(scene, undo)

    return begin


# Communication


def _with_ddp(scene: Scene) -> bool:
    return scene.ranks > 1 and bool(NETWORK.ddp) and not any(ddp.static_graph for ddp in NETWORK.ddp)


def _sends_buffers(scene: Scene) -> bool:
    return _with_ddp(scene) and any(ddp.broadcast_buffers and ddp.modules_buffers for ddp in NETWORK.ddp)


def _accumulates(scene: Scene) -> bool:
    """In as many micro-batches in every step, of which more than one is synchronised."""
    backwards, forwards, synchronised = NETWORK.each_step() or (0, 1, 0)
    is_one = len(NETWORK.ddp) == 1 and len(scene.optimisers) == 1
    return _with_ddp(scene) and is_one and backwards == forwards and synchronised > 1


def _only_last(scene: Scene, undo: ExitStack) -> None:
    _set((NETWORK, "only_last", (NETWORK.each_step() or (0,))[0]))(scene, undo)


# DataParallel


def _drives_several(_scene: Scene) -> bool:
    return any(len(network.device_ids) > 1 for network in NETWORK.dp)


def _fits_on_one(scene: Scene) -> bool:
    """Whether one device has the memory for the samples of all."""
    devices = max((len(network.device_ids) for network in NETWORK.dp), default=1)
    first = next(iter(NETWORK.dp)).device_ids[0] if NETWORK.dp else 0
    used, size = torch.cuda.max_memory_allocated(first), torch.cuda.get_device_properties(first).total_memory
    return _drives_several(scene) and devices * used < FITS * size


# FSDP


def _can_keep_shards(scene: Scene) -> bool:
    """Whether there is memory for all parameters and gradients as a whole."""
    size = 2 * sum(parameter.numel() * parameter.element_size() for parameter in parameters(scene.optimisers))
    return bool(NETWORK.fsdp) and (not scene.on_gpu or size < FITS * torch.cuda.mem_get_info()[0])


def _shards_kept(_scene: Scene, undo: ExitStack) -> None:
    """Gradients are added up whole and not reduced, and parameters are gathered no more after a backward pass."""
    for module in NETWORK.fsdp:
        for name in ("set_requires_gradient_sync", "set_reshard_after_backward"):
            undo.callback(getattr(module, name), True, recurse=False)
            getattr(module, name)(False, recurse=False)


# Loading


def _loads(scene: Scene) -> bool:
    """Unless batches cannot be kept, as those that the script changes in place, or loading takes next to no time."""
    used = LOADING.of_training()
    in_steps = not any(source.facts.workers for source in used)
    quick = scene.ranks < 2 and in_steps and LOADING.seconds < LITTLE_LOADING * scene.seconds
    return bool(used) and not LOADING.unkept and not quick


def _keep(_scene: Scene, undo: ExitStack) -> None:
    LOADING.keeping = True
    undo.callback(LOADING.release)


# Garbage, and switches


def _gc_off(_scene: Scene, undo: ExitStack) -> None:
    if gc.isenabled():
        undo.callback(gc.enable)
    gc.disable()


def _anomaly_off(scene: Scene, undo: ExitStack) -> None:
    undo.callback(torch.set_anomaly_enabled, torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled())
    _set((EVENTS, "anomaly_off", True))(scene, undo)
    torch.set_anomaly_enabled(False)


def _is_deterministic(scene: Scene) -> bool:
    return torch.are_deterministic_algorithms_enabled() or (scene.on_gpu and torch.backends.cudnn.deterministic)


def _deterministic_off(_scene: Scene, undo: ExitStack) -> None:
    was_on, warns = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    undo.callback(torch.use_deterministic_algorithms, was_on, warn_only=warns)
    torch.use_deterministic_algorithms(False)


# Precision


def dtypes(optimisers: Sequence[Any]) -> dict[str, float]:
    """Numbers of elements of all parameters, by their type."""
    elements: dict[str, float] = {}
    for parameter in parameters(optimisers):
        name = str(parameter.dtype).replace("torch.", "")
        elements[name] = elements.get(name, 0) + parameter.numel()
    return elements


def parameters(optimisers: Sequence[Any]) -> list[Any]:
    """Return the parameters of all optimisers, each once."""
    return list({id(parameter): parameter for group in _groups(optimisers) for parameter in group["params"]}.values())


def _groups(optimisers: Sequence[Any]) -> list[dict[str, Any]]:
    return [group for optimiser in optimisers for group in optimiser.param_groups]


def _in_float32(scene: Scene) -> bool:
    """On a GPU that has units for less."""
    if not scene.on_gpu or torch.cuda.get_device_capability() < (8, 0):
        return False
    types = dtypes(scene.optimisers)
    is_widest = max(types, key=lambda name: types[name]) == "float32"
    return is_widest and not EVENTS.autocast and not torch.is_autocast_enabled("cuda")


# The optimiser


def _not_fused(scene: Scene) -> bool:
    """Many plain tensors on one kind of device, under optimisers that can be."""
    tensors, groups = parameters(scene.optimisers), _groups(scene.optimisers)
    return (
        len(tensors) >= FEW_TENSORS
        and all(type(optimiser) in FUSED for optimiser in scene.optimisers)
        and not any(group.get(name) for group in groups for name in ("fused", "capturable", "differentiable"))
        and all(p.is_floating_point() and p.is_cuda == scene.on_gpu and not p.is_sparse for p in tensors)
    )


def _fused(scene: Scene, undo: ExitStack) -> None:
    for group in _groups(scene.optimisers):
        undo.callback(group.update, {name: group.get(name) for name in ("fused", "foreach")})
        group.update(fused=True, foreach=False)
    undo.callback(_counts_of_steps, scene, on_gpu=False)
    _counts_of_steps(scene, on_gpu=scene.on_gpu)


def _counts_of_steps(scene: Scene, on_gpu: bool) -> None:
    """Adam counts its steps per parameter: on the GPU where it is fused, on the CPU otherwise."""
    for optimiser in scene.optimisers:
        for parameter, state in optimiser.state.items():
            if isinstance(state.get("step"), torch.Tensor):
                state["step"] = state["step"].to(parameter.device if on_gpu else "cpu")


_no_allreduce = _set((NETWORK, "no_allreduce", True))
_cuda, _cudnn = torch.backends.cuda, torch.backends.cudnn

# In the order in which they are worth their time, where a step takes so long that not everything fits.
PROBES: dict[str, Intervention] = {
    "no_allreduce": Intervention(_with_ddp, _no_allreduce),
    SHARDS_KEPT: Intervention(_can_keep_shards, _shards_kept),
    "share_on_one_device": Intervention(_drives_several, _set((NETWORK, "on_one_device", "its share"))),
    "cudnn_benchmark_off": Intervention(
        lambda scene: scene.on_gpu and _cudnn.benchmark,
        _set((_cudnn, "benchmark", False), (EVENTS, "search_off", True)),
    ),
    "one_device": Intervention(_fits_on_one, _set((NETWORK, "on_one_device", "all samples"))),
    "batch_kept": Intervention(_loads, _keep),
    "no_waiting": Intervention(
        # A length that was asked of another batch would not fit this one.
        lambda scene: scene.on_gpu and ASKED.count + SYNCHRONISED.count and not LOADING.shapes_change(),
        _set((ASKED, "left_out", True), (SYNCHRONISED, "left_out", True)),
    ),
    "accumulated": Intervention(_accumulates, _only_last),
    "no_buffers": Intervention(_sends_buffers, _set((NETWORK, "no_buffers", True))),
    "no_emptying": Intervention(lambda _: 10 * EMPTIED.count >= NOW.step, _set((EMPTIED, "left_out", True))),
    "anomaly_off": Intervention(lambda _: EVENTS.anomaly, _anomaly_off),
    "precision": Intervention(
        lambda scene: _in_float32(scene) and not (_cuda.matmul.allow_tf32 and _cudnn.allow_tf32),
        _set((_cuda.matmul, "allow_tf32", True), (_cudnn, "allow_tf32", True)),
    ),
    "batch_kept_no_allreduce": Intervention(
        lambda scene: _with_ddp(scene) and _loads(scene), _all(_keep, _no_allreduce)
    ),
    "gc_off": Intervention(
        lambda scene: EVENTS.gc_s > LITTLE_GC * scene.seconds, _all(_gc_off, _set((COLLECTED, "left_out", True)))
    ),
    "deterministic_off": Intervention(
        _is_deterministic, _all(_deterministic_off, _set((_cudnn, "deterministic", False)))
    ),
    "fused_optimiser": Intervention(_not_fused, _fused),
}


def offered(scene: Scene) -> list[str]:
    """Names of the probes that can change something here."""
    return [name for name, probe in PROBES.items() if _fits(probe, scene)]


def _fits(probe: Intervention, scene: Scene) -> bool:
    try:
        return bool(probe.fits(scene))
    except Exception:  # a version of torch that says it in another way
        return False


def begin(name: str, scene: Scene) -> ExitStack:
    """Sets an intervention, which is undone when the stack is closed. A script as it is has none."""
    undo = ExitStack()
    if name in PROBES:
        PROBES[name].begin(scene, undo)
    return undo


SHARDED = {"FSDP shards its parameters": "fsdp", "DeepSpeed trains it": "deepspeed"}  # and what they are called


def hindrance(scene: Scene) -> str | None:
    """Why this script is only watched."""
    fsdp, deepspeed = SHARDED
    kinds = {type(p).__name__ for p in parameters(scene.optimisers)}
    if {"torch.distributed.fsdp", "deepspeed"} & sys.modules.keys():
        things = gc.get_objects()
        kinds |= {type(thing).__name__ for thing in things}
        NETWORK.fsdp.update(thing for thing in things if hasattr(type(thing), "set_reshard_after_backward"))
    if kinds & {"DTensor", "FlatParameter", "FullyShardedDataParallel"}:
        return fsdp
    if "DeepSpeedEngine" in kinds:
        return deepspeed
    if NETWORK.own_exchange:
        return "DDP has a communication hook of the script"
    if any(ddp._join_config.enable or getattr(ddp, "_use_python_reducer", False) for ddp in NETWORK.ddp):
        return "uneven inputs are joined, or compiled autograd reduces"
    return None


class Profile:
    """Kernels of a few steps, the last thing that is done: a profiler that ran once slows what the host limits."""

    def __init__(self) -> None:
        self._profiler: Any = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA])
        self._profiler.__enter__()

    def end(self, steps: int, step_s: float) -> dict[str, float] | None:
        """Busy share of the GPU, of the step as it is without a profiler. None where no kernel was seen."""
        self._profiler.__exit__(None, None, None)
        spans = sorted(
            (event.start_ns(), event.start_ns() + event.duration_ns())
            for event in self._profiler.profiler.kineto_results.events()
            if "CUDA" in str(event.device_type())
        )
        if not spans or not step_s:
            return None
        busy, until = 0, 0
        for start, end in spans:
            busy += max(0, end - max(start, until))
            until = max(until, end)
        return {"busy_share": min(1.0, busy / 1e9 / steps / step_s), "kernels_per_step": len(spans) / steps}


class Flops:
    """Operations of one step, counted as torch dispatches them."""

    def __init__(self) -> None:
        from torch.utils.flop_counter import FlopCounterMode

        self._mode = FlopCounterMode(display=False)
        # In place of its hooks at modules, which fail where a script calls torch.autograd.grad.
        self._mode.mod_tracker = nullcontext()  # type: ignore[assignment]
        self._mode.mod_tracker.parents = {"Global"}
        self._mode.__enter__()

    def end(self, _steps: int, _step_s: float) -> float | None:
        self._mode.__exit__(None, None, None)
        return float(self._mode.get_total_flops()) or None


TOOLS: dict[str, type[Flops | Profile]] = {"flops_per_step": Flops, "profile": Profile}
