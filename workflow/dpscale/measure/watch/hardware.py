"""The machine that a cell runs on: devices, links, software, and the best that its GPU reaches. What cannot be found
out is None."""

import os
import platform
import socket
import time
from collections.abc import Callable
from importlib.metadata import version
from itertools import combinations
from pathlib import Path
from typing import Any

import pynvml
import torch

from dpscale.errors import MeasurementError
from dpscale.measure.watch.nvml import ask, gpu_handle, is_there
from dpscale.records.files import JsonRecord
from dpscale.vocabulary.chips import UNITS

# Matrices so large that all of the chip works, and launches cost nothing.
MATRIX = 8192
# Long enough for clocks and power to settle where a training has them.
CHIP_S = 0.3
CALLS_PER_BLOCK = 5
TYPES = {"bfloat16": torch.bfloat16, "tf32": torch.float32, "float32": torch.float32}


def require_gpus(gpus: int) -> None:
    """Raise MeasurementError where torch sees another number of GPUs than `gpus`."""
    visible = torch.cuda.device_count()
    if visible != gpus:
        raise MeasurementError(
            f"asked for {gpus} GPUs, {visible} visible to torch {torch.__version__} (CUDA {torch.version.cuda}): see "
            "CUDA_VISIBLE_DEVICES, the job's allocation, and whether the driver "
            f"({_driver() or 'none found'}) is new enough for this CUDA"
        )


def software(device: str) -> dict[str, str | None]:
    """Return the versions of everything that computes or communicates."""
    cuda = device == "cuda"
    cudnn = torch.backends.cudnn.version() if cuda else None
    nccl = ".".join(map(str, torch.cuda.nccl.version())) if cuda else None
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "torchvision": version("torchvision"),
        "cuda": torch.version.cuda if cuda else None,
        "cudnn": None if cudnn is None else str(cudnn),
        "nccl": nccl,
        "driver": _driver() if cuda else None,
    }


def hardware(device: str, gpus: int) -> JsonRecord:
    """Return the host and the `gpus` devices in use, with the link between every pair of GPUs."""
    cpuinfo = Path("/proc/cpuinfo").read_text().splitlines()
    cpu_model = next((line.split(":", 1)[1].strip() for line in cpuinfo if line.startswith("model name")), None)
    properties = [torch.cuda.get_device_properties(index) for index in range(gpus)] if device == "cuda" else []
    devices: list[JsonRecord] = [
        {"name": gpu.name, "uuid": gpu_uuid(index), "memory_bytes": gpu.total_memory}
        for index, gpu in enumerate(properties)
    ]
    models = sorted({gpu["name"] for gpu in devices}) or [cpu_model or platform.machine()]
    return {
        "host": socket.gethostname(),
        "device_model": " and ".join(models),
        "cpu_model": cpu_model,
        "cpu_cores": len(os.sched_getaffinity(0)),
        "threads_per_worker": torch.get_num_threads(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "gpus": devices,
        "links": [_link(*pair) for pair in combinations(range(len(devices)), 2)],
    }


_TOPOLOGY = {
    pynvml.NVML_TOPOLOGY_INTERNAL: "same board",
    pynvml.NVML_TOPOLOGY_SINGLE: "one PCIe switch",
    pynvml.NVML_TOPOLOGY_MULTIPLE: "several PCIe switches",
    pynvml.NVML_TOPOLOGY_HOSTBRIDGE: "same host bridge",
    pynvml.NVML_TOPOLOGY_NODE: "same NUMA node",
    pynvml.NVML_TOPOLOGY_SYSTEM: "across NUMA nodes",
}


def _driver() -> str | None:
    return ask(pynvml.nvmlSystemGetDriverVersion) if is_there() else None


def _link(a: int, b: int) -> JsonRecord:
    """The link between GPUs `a` and `b`: NVLink where one is up to the other GPU or to a switch, otherwise PCIe."""
    # NVML and torch number GPUs differently, so the UUID is asked for.
    first, second = gpu_handle(gpu_uuid(a)), gpu_handle(gpu_uuid(b))
    nvlinks = _nvlinks(first, second)
    return {
        "gpus": [a, b],
        "kind": None if nvlinks is None else "NVLink" if nvlinks else "PCIe",
        "nvlink_links": None if nvlinks is None else len(nvlinks),
        **(nvlinks[0] if nvlinks else {"nvlink_version": None, "via_switch": None}),
        "topology": _TOPOLOGY.get(ask(pynvml.nvmlDeviceGetTopologyCommonAncestor, first, second)),
    }


def _nvlinks(first: Any, second: Any) -> list[JsonRecord] | None:
    """The active NVLinks from one GPU to the other or to an NVSwitch; None where NVML does not know."""
    p2p = ask(pynvml.nvmlDeviceGetP2PStatus, first, second, pynvml.NVML_P2P_CAPS_INDEX_NVLINK)
    if p2p is None:
        return None
    if p2p != pynvml.NVML_P2P_STATUS_OK:
        return []
    target = ask(lambda: pynvml.nvmlDeviceGetPciInfo(second).busId)
    links = []
    for number in range(pynvml.NVML_NVLINK_MAX_LINKS):
        if ask(pynvml.nvmlDeviceGetNvLinkState, first, number) != pynvml.NVML_FEATURE_ENABLED:
            continue
        remote = ask(lambda n=number: pynvml.nvmlDeviceGetNvLinkRemotePciInfo(first, n).busId)
        kind = ask(pynvml.nvmlDeviceGetNvLinkRemoteDeviceType, first, number)
        via_switch = None if kind is None else kind == pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH
        if via_switch or remote == target:
            link_version = ask(pynvml.nvmlDeviceGetNvLinkVersion, first, number)
            links.append({"nvlink_version": link_version, "via_switch": bool(via_switch)})
    # Peer-to-peer over NVLink works but the links themselves are hidden (as in some virtual machines).
    return links or [{"nvlink_version": None, "via_switch": None}]


def gpu_uuid(index: int) -> str:
    """The UUID of torch's device `index`, as NVML has it."""
    return f"GPU-{torch.cuda.get_device_properties(index).uuid}"


def chip_rates(device: torch.device, precision: str) -> dict[str, str | float]:
    """Return the floating point operations per second of a matrix product in the type that `precision` (the setting)
    computes in. The second half of the time counts."""
    kind = UNITS[precision][0]  # the type that convolutions may compute in
    left, right, out = (torch.randn(MATRIX, MATRIX, device=device, dtype=TYPES[kind]) for _ in range(3))
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = kind == "tf32"
    try:
        product_s = _seconds(lambda: torch.matmul(left, right, out=out), device)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
    return {"precision": kind, "matrix_flop_per_s": 2 * MATRIX**3 / product_s}


def _seconds(work: Callable[[], object], device: torch.device) -> float:
    """Return the time of a call, on average over the second half of CHIP_S."""
    start, first, last = time.perf_counter(), torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    while time.perf_counter() - start < CHIP_S / 2:
        _block(work, device)
    calls = 0
    first.record()
    while time.perf_counter() - start < CHIP_S:
        _block(work, device)
        calls += CALLS_PER_BLOCK
    last.record()
    last.synchronize()
    elapsed_ms: float = first.elapsed_time(last)
    return elapsed_ms / 1e3 / calls


def _block(work: Callable[[], object], device: torch.device) -> None:
    for _ in range(CALLS_PER_BLOCK):
        work()
    torch.cuda.synchronize(device)
