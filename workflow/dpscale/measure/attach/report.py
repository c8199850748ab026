"""The file of a process: what was seen, where it ran, and how everything was switched."""

from __future__ import annotations

import gc
import json
import os
import platform
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from . import loader, network, probes
from .calls import COLLECTIVE, EMPTYING, WAIT
from .events import EVENTS
from .hooks import NOW
from .loader import LOADING
from .network import NETWORK, bytes_of
from .probes import dtypes, parameters

clock = time.perf_counter

VERSION = 1
READ = ("NCCL_", "GLOO_", "TORCH_", "OMP_", "MKL_", "PYTORCH_", "CUDA_VISIBLE_DEVICES", "CUDA_LAUNCH_BLOCKING")


def write(folder: Path, kind: str, values: dict[str, Any]) -> None:
    """As KIND-HOST-PID.json, whole or not at all. A folder that is gone is no error of the script."""
    path = folder / f"{kind}-{socket.gethostname()}-{os.getpid()}.json"
    temporary = path.with_suffix(".tmp")
    try:
        temporary.write_text(json.dumps(values))
        temporary.replace(path)
    except OSError:
        pass


def write_run(run: Any) -> None:
    write(run.folder, "process", of_run(run))


def of_run(run: Any) -> dict[str, Any]:
    """All that a run (run.WatchedRun) has found."""
    alive = run.living()
    values = {
        **process(),
        "rank": run.ranks.rank,
        "world_size": run.ranks.world_size,
        "backend": run.ranks.backend,
        "status": status(run),
        "why": run.why,
        "last_probe": run.block.probe or None,
        "steps": NOW.step,
        "wall_s": clock() - run.began,
        "warm_up_s": run.timing_began and run.timing_began - run.began,
        "steady_steps": run.steady_steps,
        "steady_s": run.steady_s,
        "counted_steps": run.counted_steps,
        "blocks": run.blocks,
        "step_s": [round(seconds, 6) for seconds in run.step_s[-2000:]],
        "machine": machine(run.processor, run.folder),
        "environment": environment(),
    }
    return values if run.pace else {**values, **seen(run, alive)}


def status(run: Any) -> str:
    if run.why:
        return "observed"
    names = {block["probe"] for block in run.blocks if block["round"] == 0}
    return "measured" if {"as_it_is", "as_it_is_again"} <= names else "few steps"


def seen(run: Any, alive: Sequence[Any]) -> dict[str, Any]:
    """What hooks other than the optimisers' have found."""
    each = NETWORK.each_step()
    return {
        **device(run.on_gpu),
        **sizes(alive),
        "strategy": run.why if run.why in ("fsdp", "deepspeed") else probes.strategy(run.ranks.world_size),
        "optimiser": optimiser(alive),
        "micro_batches_per_step": each and each[0],
        "synchronised_per_step": each and each[2],
        "batch": next((source.batch for source in LOADING.of_training()), None),
        "not_offered": run.not_offered,
        "loader": loader.facts(),
        "collectives": network.rows(run.counted_steps) + COLLECTIVE.merged(),
        "waits": WAIT.merged(),
        "emptyings": EMPTYING.merged(),
        "gaps": run.gaps.found,
        "gaps_in_all": {"count": run.gaps.count, "seconds": run.gaps.seconds},
        "lines": run.sampler.lines(),
        "events": EVENTS.facts(),
        "switches": switches(),
        "profile": run.profile,
        "flops_per_step": run.flops,
    }


def process() -> dict[str, Any]:
    return {
        "version": VERSION,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "ppid": os.getppid(),
        "argv": sys.argv,
        "local_rank": int(os.environ["LOCAL_RANK"]) if os.environ.get("LOCAL_RANK", "").isdigit() else None,
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def device(on_gpu: bool) -> dict[str, Any]:
    if not on_gpu:
        return {"device": "cpu", "device_model": None, "devices": 0, "memory": None}
    free, total = torch.cuda.mem_get_info()
    memory = {
        "allocated": torch.cuda.max_memory_allocated(),
        "reserved": torch.cuda.max_memory_reserved(),
        "free": free,
        "total": total,
    }
    return {
        "device": "cuda",
        "device_model": torch.cuda.get_device_name(),
        "devices": torch.cuda.device_count(),
        "memory": memory,
    }


def optimiser(optimisers: Sequence[Any]) -> dict[str, Any] | None:
    """Of the first one; `parameters` are tensors."""
    if not optimisers:
        return None
    first, tensors = optimisers[0], parameters(optimisers)
    group = first.param_groups[0]
    return {
        "class": type(first).__name__,
        "parameters": len(tensors),
        "numel": sum(tensor.numel() for tensor in tensors),
        "foreach": group.get("foreach"),
        "fused": group.get("fused"),
        "capturable": group.get("capturable"),
        "count": len(optimisers),
    }


def sizes(optimisers: Sequence[Any]) -> dict[str, Any]:
    tensors = parameters(optimisers)
    return {
        "parameter_bytes": bytes_of(tensors),
        "gradient_bytes": bytes_of(tensor for tensor in tensors if tensor.requires_grad),
        "dtypes": dtypes(optimisers),
    }


def switches() -> dict[str, Any]:
    """As they are read at the end, or were seen to be on."""
    ddp = next(iter(NETWORK.ddp), None)
    debuggers = {"pydevd", "debugpy", "pdb"} & sys.modules.keys()
    return {
        "anomaly": EVENTS.anomaly or torch.is_anomaly_enabled(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "cudnn_benchmark": torch.backends.cudnn.benchmark,
        "cudnn_deterministic": torch.backends.cudnn.deterministic,
        "tf32": _or_none(lambda: torch.backends.cuda.matmul.allow_tf32),
        "matmul_precision": _or_none(torch.get_float32_matmul_precision),
        "autocast": sorted(f"{device} {dtype}" for device, dtype in EVENTS.autocasts) or False,
        "find_unused_parameters": bool(ddp and ddp.find_unused_parameters),
        "broadcast_buffers": bool(ddp and ddp.broadcast_buffers),
        "buffers": len(ddp.modules_buffers) if ddp else None,
        "static_graph": bool(ddp and ddp.static_graph),
        "gradient_as_bucket_view": bool(ddp and ddp.gradient_as_bucket_view),
        "search_s": NETWORK.search_s if ddp else None,
        "debugger": sys.gettrace() is not None or bool(debuggers - {"pdb"}),
        "profiler": sys.getprofile() is not None,
        "threads": torch.get_num_threads(),
        "gc_enabled": gc.isenabled(),
        "gc_threshold": list(gc.get_threshold()),
    }


def _or_none(read: Any) -> Any:
    try:
        return read()
    except RuntimeError:  # set in another of torch's two ways
        return None


def environment() -> dict[str, str]:
    return {name: value for name, value in sorted(os.environ.items()) if name.startswith(READ)}


def processor_time() -> tuple[int, int] | None:
    """Busy and all ticks of the cores that this process may use. None where the system does not say."""
    try:
        cores = {f"cpu{core}" for core in os.sched_getaffinity(0)}
        lines = [line.split() for line in Path("/proc/stat").read_text().splitlines() if line]
        ticks = [sum(int(line[column]) for line in lines if line[0] in cores) for column in range(1, 9)]
    except (OSError, ValueError, AttributeError):
        return None
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


def machine(before: tuple[int, int] | None, folder: Path) -> dict[str, Any]:
    """Of the time since `before`. What GPUs do is seen from outside."""
    now = processor_time()
    busy = (now[0] - before[0]) / (now[1] - before[1]) if now and before and now[1] > before[1] else None
    usable = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    return {
        "cores": os.cpu_count(),
        "cores_usable": len(usable),
        "numbers_of_cores": list(usable),
        "busy_share": busy,
        "processes_here": len(list(folder.glob(f"progress-{socket.gethostname()}-*.json"))),
        "same_command": same_command(),
        "others_on_gpu": [],
        "clocks": None,
    }


def same_command() -> int:
    """Other processes with this one's command line that are no part of this run: one that was left over, say."""
    mine, here = _read("/proc/self/cmdline"), os.environ["DPSCALE_ATTACH"].encode()
    found = Path("/proc").glob("[0-9]*") if mine else ()
    return sum(_read(str(pid / "cmdline")) == mine and here not in _read(str(pid / "environ")) for pid in found)


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""
