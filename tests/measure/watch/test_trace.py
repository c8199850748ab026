"""Device time by kind, on traces whose answer is known."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dpscale.measure.watch.trace import (
    COMMUNICATION,
    COMPUTE,
    COPY,
    Kernel,
    device_times,
    kind_of,
    read_kernels,
)

NS = 1e-9


def kernel(start: int, end: int, kind: str = COMPUTE, device: int = 0) -> Kernel:
    return Kernel(device, kind, start, end)


# Some begin before the window of 100 ns, and some end after it.
spans = st.tuples(st.integers(-20, 90), st.integers(0, 40)).map(lambda span: (span[0], span[0] + span[1]))


kinds = st.sampled_from([COMPUTE, COMMUNICATION, COPY])
kernels_of_devices = st.lists(
    st.builds(lambda span, kind, device: kernel(span[0], span[1], kind, device), spans, kinds, st.integers(0, 1)),
    max_size=10,
)


@given(kernels_of_devices)
@example([kernel(0, 60), kernel(40, 90, COMMUNICATION)])
@example([kernel(0, 50), kernel(50, 100, COMMUNICATION)])
@example([kernel(0, 100, device=1), kernel(20, 50, COMMUNICATION)])
def test_every_instant_of_every_device_is_one_thing(kernels: list[Kernel]) -> None:
    """Against the definition, instant by instant."""
    for device in (0, 1):
        kinds_at = [
            {work.kind for work in kernels if work.device == device and work.start_ns <= t < work.end_ns}
            for t in range(100)
        ]
        assert device_times(kernels, device, 0, 100) == pytest.approx({
            "compute_s": NS * sum(COMPUTE in instant for instant in kinds_at),
            "communication_s": NS * sum(COMMUNICATION in instant for instant in kinds_at),
            "exposed_s": NS * sum(COMMUNICATION in instant and COMPUTE not in instant for instant in kinds_at),
            "copy_s": NS * sum(instant == {COPY} for instant in kinds_at),
            "idle_s": NS * sum(not instant for instant in kinds_at),
        })  # fmt: skip


@pytest.mark.parametrize(
    ("category", "name", "kind"),
    [
        ("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", COMMUNICATION),
        ("kernel", "void at::native::vectorized_elementwise_kernel<4>", COMPUTE),
        ("gpu_memcpy", "Memcpy PtoP (Device -> Device)", COMMUNICATION),
        ("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", COPY),
        ("gpu_memcpy", "Memcpy DtoD (Device -> Device)", COMPUTE),
        ("gpu_memset", "Memset (Device)", COMPUTE),
    ],
)
def test_kinds(category: str, name: str, kind: str) -> None:
    assert kind_of(category, name) == kind


def event(category: str, name: str, ts: float, dur: float, device: int = 0) -> dict[str, Any]:
    return {"ph": "X", "cat": category, "name": name, "ts": ts, "dur": dur, "args": {"device": device}}


def test_a_trace_as_the_profiler_writes_it() -> None:
    """Microseconds after a base in ns; annotations and launches are not kernels."""
    base = 1_700_000_000_000_000_000
    trace = {
        "baseTimeNanoseconds": base,
        "traceEvents": [
            {"ph": "M", "name": "process_name"},
            event("cuda_runtime", "cudaLaunchKernel", 1.0, 0.5),
            event("kernel", "gemm", 10.5, 2.25),
            event("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 12.0, 3, device=1),
            event("gpu_user_annotation", "nccl:all_reduce", 12.0, 3, device=1),
        ],
    }
    assert read_kernels(trace) == [
        Kernel(0, COMPUTE, base + 10_500, base + 12_750),
        Kernel(1, COMMUNICATION, base + 12_000, base + 15_000),
    ]


def test_a_copy_between_devices_is_communication_of_both() -> None:
    """Its row names three devices, and none as `device` (libkineto's MetadataFieldCatalog.h)."""
    row = event("gpu_memcpy", "Memcpy PtoP (Device -> Device)", 4, 2)
    row["args"] = {"fromDevice": 3, "inDevice": 3, "toDevice": 0, "bytes": 1024}
    assert read_kernels({"traceEvents": [row]}) == [Kernel(device, COMMUNICATION, 4_000, 6_000) for device in (0, 3)]
