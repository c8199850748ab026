"""The interventions: each says why it is not offered, or is set for a block and undone after it."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch.nn.parallel import DistributedDataParallel

from .calls import ANSWERS, WAIT
from .events import EVENTS
from .hooks import NOW
from .loader import LOADING
from .network import NETWORK

Undo = Callable[[], None]
# Parts of the time below which it is not tried without.
LITTLE_LOADING, LITTLE_GC = 0.01, 0.005
# So few tensors are no work for an optimiser.
FEW_TENSORS = 50
FUSED = (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW)


class Scene(NamedTuple):
    """What an intervention may touch: the optimisers of the script, where it computes, how many ranks there are; and
    for how long it has run."""

    optimisers: Sequence[Any]
    on_gpu: bool
    ranks: int
    seconds: float


class Intervention(NamedTuple):
    why_not: Callable[[Scene], str | None]
    begin: Callable[[Scene], Undo]


def _attributes(*changes: tuple[Any, str, Any]) -> Undo:
    """Sets attributes of objects, and gives back what sets them as they were."""
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in changes]
    for owner, name, value in changes:
        setattr(owner, name, value)

    def undo() -> None:
        for owner, name, value in before:
            setattr(owner, name, value)

    return undo


def _both(first: Undo, second: Undo) -> Undo:
    def undo() -> None:
        first()
        second()

    return undo


# Communication


def _no_ddp(scene: Scene) -> str | None:
    if scene.ranks < 2:
        return "one process"
    if not NETWORK.ddp:
        return "no DistributedDataParallel"
    return "static_graph is on" if any(ddp.static_graph for ddp in NETWORK.ddp) else None


def _no_buffers(scene: Scene) -> str | None:
    if why := _no_ddp(scene):
        return why
    sent = any(ddp.broadcast_buffers and ddp.modules_buffers for ddp in NETWORK.ddp)
    return None if sent else "no buffers are sent"


def _accumulated(scene: Scene) -> str | None:
    if why := _no_ddp(scene):
        return why
    if len(NETWORK.ddp) > 1 or len(scene.optimisers) > 1:
        return "several networks or optimisers"
    backwards, forwards, synchronised = NETWORK.each_step() or (0, 1, 0)
    if backwards != forwards:
        return "the number of micro-batches changes"
    if backwards < 2:
        return "one micro-batch per step"
    return None if synchronised > 1 else "micro-batches are not synchronised"


def _only_last(_scene: Scene) -> Undo:
    return _attributes((NETWORK, "only_last", (NETWORK.each_step() or (0,))[0]))


# Loading


def _no_loader(scene: Scene) -> str | None:
    used = LOADING.of_training()
    if not used:
        return "no DataLoader of torch"
    if LOADING.in_place:
        return "the script changes its batches in place"
    in_steps = not any(source.facts["workers"] for source in used)
    quick = scene.ranks < 2 and in_steps and LOADING.seconds < LITTLE_LOADING * scene.seconds
    return "loading takes next to no time" if quick else None


def _keep(_scene: Scene) -> Undo:
    LOADING.keeping = True
    return LOADING.release


# Waiting


def _no_gpu(scene: Scene) -> str | None:
    return None if scene.on_gpu else "no CUDA GPU is used"


def _no_waits(scene: Scene) -> str | None:
    return _no_gpu(scene) or (None if WAIT.asked else "no number is asked for")


def _no_emptying(_scene: Scene) -> str | None:
    return None if 10 * ANSWERS.emptied >= NOW.step else "the allocator is not emptied in steps"


def _no_gc(scene: Scene) -> str | None:
    return None if EVENTS.gc_s > LITTLE_GC * scene.seconds else "garbage collection takes next to no time"


def _gc_off(_scene: Scene) -> Undo:
    on = gc.isenabled()
    gc.disable()
    flag = _attributes((EVENTS, "gc_off", True))
    return _both(flag, gc.enable if on else flag)


# Switches


def _anomaly_off(_scene: Scene) -> Undo:
    was_on, EVENTS.anomaly_off = torch.is_anomaly_enabled(), True
    torch.set_anomaly_enabled(False)

    def undo() -> None:
        EVENTS.anomaly_off = False
        torch.set_anomaly_enabled(was_on)

    return undo


def _not_deterministic(_scene: Scene) -> str | None:
    on = torch.are_deterministic_algorithms_enabled() or torch.backends.cudnn.deterministic
    return None if on else "deterministic algorithms are off"


def _deterministic_off(_scene: Scene) -> Undo:
    was_on, warns = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(False)
    cudnn = _attributes((torch.backends.cudnn, "deterministic", False))
    return _both(lambda: torch.use_deterministic_algorithms(was_on, warn_only=warns), cudnn)


def _no_benchmark(scene: Scene) -> str | None:
    return _no_gpu(scene) or (None if torch.backends.cudnn.benchmark else "cudnn.benchmark is off")


def dtypes(optimisers: Sequence[Any]) -> dict[str, float]:
    """Numbers of elements of all parameters, by their type."""
    found: dict[str, float] = {}
    for parameter in parameters(optimisers):
        name = str(parameter.dtype).replace("torch.", "")
        found[name] = found.get(name, 0) + parameter.numel()
    return found


def parameters(optimisers: Sequence[Any]) -> list[Any]:
    unique = {id(p): p for optimiser in optimisers for group in optimiser.param_groups for p in group["params"]}
    return list(unique.values())


def _no_float32(scene: Scene) -> str | None:
    if why := _no_gpu(scene):
        return why
    if torch.cuda.get_device_capability() < (8, 0):
        return "this GPU has no such units"
    types = dtypes(scene.optimisers)
    widest = max(types, key=lambda name: types[name])
    if widest != "float32":
        return f"the network computes in {widest}"
    return "autocast is on" if EVENTS.autocasts or torch.is_autocast_enabled() else None


def _no_tf32(scene: Scene) -> str | None:
    return _no_float32(scene) or ("TF32 is on" if torch.backends.cuda.matmul.allow_tf32 else None)


def _tf32(_scene: Scene) -> Undo:
    return _attributes((torch.backends.cuda.matmul, "allow_tf32", True), (torch.backends.cudnn, "allow_tf32", True))


def _autocast(_scene: Scene) -> Undo:
    """For the whole process. Casts are not cached: the cache is emptied where a context ends, and none does here."""
    dtype, cached = torch.get_autocast_dtype("cuda"), torch.is_autocast_cache_enabled()
    torch.set_autocast_dtype("cuda", torch.bfloat16)
    torch.set_autocast_cache_enabled(False)
    torch.set_autocast_enabled("cuda", True)

    def undo() -> None:
        torch.set_autocast_enabled("cuda", False)
        torch.set_autocast_cache_enabled(cached)
        torch.set_autocast_dtype("cuda", dtype)
        torch.clear_autocast_cache()

    return undo


# The optimiser


def _not_fused(scene: Scene) -> str | None:
    if len(parameters(scene.optimisers)) < FEW_TENSORS:
        return "the optimiser has few tensors"
    for optimiser in scene.optimisers:
        if type(optimiser) not in FUSED:
            return f"{type(optimiser).__name__} is not one of {', '.join(kind.__name__ for kind in FUSED)}"
        if any(
            group.get("fused") or group.get("capturable") or group.get("differentiable")
            for group in optimiser.param_groups
        ):
            return "the optimiser is fused, capturable or differentiable"
    if any(not p.is_floating_point() or p.is_cuda != scene.on_gpu or p.is_sparse for p in parameters(scene.optimisers)):
        return "parameters on several devices"
    return None


def _fused(scene: Scene) -> Undo:
    undo = _groups(scene, fused=True, foreach=False)
    _counts_of_steps(scene, on_gpu=scene.on_gpu)
    return _both(undo, lambda: _counts_of_steps(scene, on_gpu=False))


def _counts_of_steps(scene: Scene, on_gpu: bool) -> None:
    """Adam counts its steps per parameter: on the GPU where it is fused, on the CPU otherwise."""
    for optimiser in scene.optimisers:
        for parameter, state in optimiser.state.items():
            if isinstance(state.get("step"), torch.Tensor):
                state["step"] = state["step"].to(parameter.device if on_gpu else "cpu")


def _groups(scene: Scene, **changes: Any) -> Undo:
    before = [
        (group, {name: group.get(name) for name in changes}) for of in scene.optimisers for group in of.param_groups
    ]
    for group, _ in before:
        group.update(changes)

    def undo() -> None:
        for group, values in before:
            group.update(values)

    return undo


def _no_foreach(scene: Scene) -> str | None:
    if why := _no_gpu(scene):
        return why
    groups = [group for optimiser in scene.optimisers for group in optimiser.param_groups]
    if any("foreach" not in group or group.get("fused") for group in groups):
        return "the optimiser has no foreach, or is fused"
    return None if any(group["foreach"] is False for group in groups) else "foreach is not switched off"


def _nothing(_scene: Scene) -> Undo:
    return lambda: None


def _no_allreduce(_scene: Scene) -> Undo:
    return _attributes((NETWORK, "no_allreduce", True))


PROBES: dict[str, Intervention] = {
    "no_allreduce": Intervention(_no_ddp, _no_allreduce),
    "no_buffers": Intervention(_no_buffers, lambda _: _attributes((NETWORK, "no_buffers", True))),
    "batch_kept": Intervention(_no_loader, _keep),
    "batch_kept_no_allreduce": Intervention(
        lambda scene: _no_ddp(scene) or _no_loader(scene), lambda scene: _both(_keep(scene), _no_allreduce(scene))
    ),
    "accumulated": Intervention(_accumulated, _only_last),
    "no_waiting": Intervention(_no_waits, lambda _: _attributes((ANSWERS, "at_once", True))),
    "no_emptying": Intervention(_no_emptying, lambda _: _attributes((ANSWERS, "no_emptying", True))),
    "gc_off": Intervention(_no_gc, _gc_off),
    "anomaly_off": Intervention(lambda _: None if EVENTS.anomaly else "anomaly mode is off", _anomaly_off),
    "deterministic_off": Intervention(_not_deterministic, _deterministic_off),
    "cudnn_benchmark_off": Intervention(
        _no_benchmark,
        lambda _: _attributes((torch.backends.cudnn, "benchmark", False), (EVENTS, "search_off", True)),
    ),
    "precision": Intervention(_no_tf32, _tf32),
    "autocast_bfloat16": Intervention(_no_float32, _autocast),
    "fused_optimiser": Intervention(_not_fused, _fused),
    "foreach_optimiser": Intervention(_no_foreach, lambda scene: _groups(scene, foreach=True)),
    "unused_off": Intervention(lambda scene: _no_ddp(scene) or "cannot be switched while a script runs", _nothing),
}


def offered(scene: Scene) -> tuple[list[str], dict[str, str]]:
    """Names of the probes that can change something here, and the reasons of the others."""
    reasons = {name: _reason(probe, scene) for name, probe in PROBES.items()}
    return [name for name, why in reasons.items() if not why], {name: why for name, why in reasons.items() if why}


def _reason(probe: Intervention, scene: Scene) -> str | None:
    try:
        return probe.why_not(scene)
    except Exception as error:  # a version of torch that says it in another way
        return f"could not be asked: {error}"


def begin(name: str, scene: Scene) -> Undo:
    """Sets an intervention. What it gives back undoes it. One that this process has not is none."""
    return PROBES[name].begin(scene) if name in PROBES else _nothing(scene)


def hindrance(scene: Scene) -> str | None:
    """Why this script is only watched."""
    kinds = {type(p).__name__ for p in parameters(scene.optimisers)}
    if kinds & {"DTensor", "FlatParameter"}:
        return "fsdp"
    if {"torch.distributed.fsdp", "deepspeed"} & sys.modules.keys():
        kinds = {type(thing).__name__ for thing in gc.get_objects()}
        if found := kinds & {"FullyShardedDataParallel", "DeepSpeedEngine"}:
            return "fsdp" if "FullyShardedDataParallel" in found else "deepspeed"
    if any(getattr(ddp, "_comm_hooks", None) for ddp in NETWORK.ddp):
        return "communication hook"
    if any(ddp._join_config.enable or getattr(ddp, "_use_python_reducer", False) for ddp in NETWORK.ddp):
        return "uneven inputs are joined, or compiled autograd reduces"
    return None


def strategy(ranks: int) -> str:
    """What the processes do together: ddp, dp, other or single."""
    if any(isinstance(network, DistributedDataParallel) for network in NETWORK.ddp):
        return "ddp"
    if any(len(network.device_ids) > 1 for network in NETWORK.dp):
        return "dp"
    return "other" if ranks > 1 else "single"
