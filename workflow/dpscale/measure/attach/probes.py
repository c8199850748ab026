"""The interventions: each says whether it can change something, and is set for a block and undone after it."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from .calls import ASKED, COLLECTED, EMPTIED, EVENTS, SYNCHRONISED
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
    fits: Callable[[Scene], Any]  # whether it can change something here
    begin: Callable[[Scene], Undo]


def _set(*changes: tuple[Any, str, Any]) -> Callable[[Any], Undo]:
    """An intervention that sets attributes of objects, and afterwards sets them as they were."""

    def begin(_scene: Any) -> Undo:
        before = [(owner, name, getattr(owner, name)) for owner, name, _ in changes]
        _assign(changes)
        return lambda: _assign(before)

    return begin


def _assign(values: Sequence[tuple[Any, str, Any]]) -> None:
    for owner, name, value in values:
        setattr(owner, name, value)


def _all(*begins: Callable[[Any], Undo]) -> Callable[[Any], Undo]:
    def begin(scene: Any) -> Undo:
        undoing = [of(scene) for of in begins]

        def undo() -> None:
            for of_one in undoing:
                of_one()

        return undo

    return begin


def _nothing() -> None:
    pass


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


def _only_last(scene: Scene) -> Undo:
    return _set((NETWORK, "only_last", (NETWORK.each_step() or (0,))[0]))(scene)


# Loading


def _loads(scene: Scene) -> bool:
    """Unless the script changes its batches in place, or loading takes next to no time."""
    used = LOADING.of_training()
    in_steps = not any(source.facts["workers"] for source in used)
    quick = scene.ranks < 2 and in_steps and LOADING.seconds < LITTLE_LOADING * scene.seconds
    return bool(used) and not LOADING.in_place and not quick


def _keep(_scene: Scene) -> Undo:
    LOADING.keeping = True
    return LOADING.release


# Garbage, and switches


def _gc_off(_scene: Scene) -> Undo:
    on = gc.isenabled()
    gc.disable()
    return gc.enable if on else _nothing


def _anomaly_off(_scene: Scene) -> Undo:
    was_on, checks = torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()
    EVENTS.anomaly_off = True
    torch.set_anomaly_enabled(False)

    def undo() -> None:
        EVENTS.anomaly_off = False
        torch.set_anomaly_enabled(was_on, checks)

    return undo


def _is_deterministic(_scene: Scene) -> bool:
    return torch.are_deterministic_algorithms_enabled() or torch.backends.cudnn.deterministic


def _deterministic_off(_scene: Scene) -> Undo:
    was_on, warns = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(False)
    return lambda: torch.use_deterministic_algorithms(was_on, warn_only=warns)


# Precision


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


def _in_float32(scene: Scene) -> bool:
    """On a GPU that has units for less."""
    if not scene.on_gpu or torch.cuda.get_device_capability() < (8, 0):
        return False
    types = dtypes(scene.optimisers)
    is_widest = max(types, key=lambda name: types[name]) == "float32"
    return is_widest and not EVENTS.autocast and not torch.is_autocast_enabled("cuda")


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


def _not_fused(scene: Scene) -> bool:
    """Many plain tensors on one kind of device, under optimisers that can be."""
    tensors = parameters(scene.optimisers)
    groups = [group for optimiser in scene.optimisers for group in optimiser.param_groups]
    return (
        len(tensors) >= FEW_TENSORS
        and all(type(optimiser) in FUSED for optimiser in scene.optimisers)
        and not any(group.get(name) for group in groups for name in ("fused", "capturable", "differentiable"))
        and all(p.is_floating_point() and p.is_cuda == scene.on_gpu and not p.is_sparse for p in tensors)
    )


def _fused(scene: Scene) -> Undo:
    groups = [group for optimiser in scene.optimisers for group in optimiser.param_groups]
    before = [{name: group.get(name) for name in ("fused", "foreach")} for group in groups]
    for group in groups:
        group.update(fused=True, foreach=False)
    _counts_of_steps(scene, on_gpu=scene.on_gpu)

    def undo() -> None:
        for group, values in zip(groups, before):  # noqa: B905, for Python 3.9
            group.update(values)
        _counts_of_steps(scene, on_gpu=False)

    return undo


def _counts_of_steps(scene: Scene, on_gpu: bool) -> None:
    """Adam counts its steps per parameter: on the GPU where it is fused, on the CPU otherwise."""
    for optimiser in scene.optimisers:
        for parameter, state in optimiser.state.items():
            if isinstance(state.get("step"), torch.Tensor):
                state["step"] = state["step"].to(parameter.device if on_gpu else "cpu")


_no_allreduce = _set((NETWORK, "no_allreduce", True))
_cuda, _cudnn = torch.backends.cuda, torch.backends.cudnn

PROBES: dict[str, Intervention] = {
    "no_allreduce": Intervention(_with_ddp, _no_allreduce),
    "no_buffers": Intervention(_sends_buffers, _set((NETWORK, "no_buffers", True))),
    "batch_kept": Intervention(_loads, _keep),
    "batch_kept_no_allreduce": Intervention(
        lambda scene: _with_ddp(scene) and _loads(scene), _all(_keep, _no_allreduce)
    ),
    "accumulated": Intervention(_accumulates, _only_last),
    "no_waiting": Intervention(
        lambda scene: scene.on_gpu and ASKED.count + SYNCHRONISED.count,
        _set((ASKED, "left_out", True), (SYNCHRONISED, "left_out", True)),
    ),
    "no_emptying": Intervention(lambda _: 10 * EMPTIED.count >= NOW.step, _set((EMPTIED, "left_out", True))),
    "gc_off": Intervention(
        lambda scene: EVENTS.gc_s > LITTLE_GC * scene.seconds, _all(_gc_off, _set((COLLECTED, "left_out", True)))
    ),
    "anomaly_off": Intervention(lambda _: EVENTS.anomaly, _anomaly_off),
    "deterministic_off": Intervention(
        _is_deterministic, _all(_deterministic_off, _set((_cudnn, "deterministic", False)))
    ),
    "cudnn_benchmark_off": Intervention(
        lambda scene: scene.on_gpu and _cudnn.benchmark,
        _set((_cudnn, "benchmark", False), (EVENTS, "search_off", True)),
    ),
    "precision": Intervention(
        lambda scene: _in_float32(scene) and not (_cuda.matmul.allow_tf32 and _cudnn.allow_tf32),
        _set((_cuda.matmul, "allow_tf32", True), (_cudnn, "allow_tf32", True)),
    ),
    "autocast_bfloat16": Intervention(_in_float32, _autocast),
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


def begin(name: str, scene: Scene) -> Undo:
    """Sets an intervention. What it gives back undoes it. One that this process has not is none."""
    return PROBES[name].begin(scene) if name in PROBES else _nothing


def hindrance(scene: Scene) -> str | None:
    """Why this script is only watched."""
    kinds = {type(p).__name__ for p in parameters(scene.optimisers)}
    if {"torch.distributed.fsdp", "deepspeed"} & sys.modules.keys():
        kinds |= {type(thing).__name__ for thing in gc.get_objects()}
    if kinds & {"DTensor", "FlatParameter", "FullyShardedDataParallel"}:
        return "fsdp"
    if "DeepSpeedEngine" in kinds:
        return "deepspeed"
    if any(getattr(ddp, "_comm_hooks", None) for ddp in NETWORK.ddp):
        return "communication hook"
    if any(ddp._join_config.enable or getattr(ddp, "_use_python_reducer", False) for ddp in NETWORK.ddp):
        return "uneven inputs are joined, or compiled autograd reduces"
    return None
