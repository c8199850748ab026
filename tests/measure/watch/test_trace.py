"""Communication of devices, on traces whose answer is known."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dpscale.measure.watch.trace import Kernel, communication_s, read_kernels

ALLREDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"

kernels_of_devices = st.lists(
    st.builds(
        lambda device, is_communication, start, lasts: Kernel(device, is_communication, start, start + lasts),
        st.integers(0, 1), st.booleans(), st.integers(0, 90), st.integers(0, 40),
    ),
    max_size=10,
)  # fmt: skip


@given(kernels_of_devices)
@example([Kernel(0, False, 0, 60), Kernel(0, True, 40, 90)])
@example([Kernel(0, False, 0, 50), Kernel(0, True, 50, 100)])
@example([Kernel(1, False, 0, 100), Kernel(0, True, 20, 50)])
def test_communication_is_every_instant_of_it_and_exposed_where_nothing_computes(kernels: list[Kernel]) -> None:
    """Against the definition, instant by instant."""
    for device in (0, 1):
        kinds_at = [
            {
                kernel.is_communication
                for kernel in kernels
                if kernel.device == device and kernel.start_ns <= t < kernel.end_ns
            }
            for t in range(130)
        ]
        expected_ns = sum(True in kinds for kinds in kinds_at), sum(kinds == {True} for kinds in kinds_at)
        assert communication_s(kernels, device) == pytest.approx([1e-9 * ns for ns in expected_ns])


def event(category: str, name: str, ts: float, dur: float, **arguments: int) -> dict[str, Any]:
    return {"ph": "X", "cat": category, "name": name, "ts": ts, "dur": dur, "args": arguments or {"device": 0}}


def test_a_trace_as_the_profiler_writes_it() -> None:
    """Annotations, launches and copies from and to the host are no kernels. The row of a copy between devices names
    three, and none as `device` (libkineto's MetadataFieldCatalog.h): it is communication of both."""
    trace = {
        "traceEvents": [
            {"ph": "M", "name": "process_name"},
            event("cuda_runtime", "cudaLaunchKernel", 1.0, 0.5),
            event("kernel", "gemm", 10.5, 2.25),
            event("kernel", ALLREDUCE, 12, 3, device=1),
            event("gpu_user_annotation", "nccl:all_reduce", 12, 3, device=1),
            event("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 15, 2),
            event("gpu_memcpy", "Memcpy DtoD (Device -> Device)", 16, 2),
            event("gpu_memset", "Memset (Device)", 17, 2),
            event("gpu_memcpy", "Memcpy PtoP (Device -> Device)", 20, 2, fromDevice=3, inDevice=3, toDevice=0),
        ]
    }
    assert read_kernels(trace) == [
        Kernel(0, False, 10_500, 12_750),
        Kernel(1, True, 12_000, 15_000),
        Kernel(0, False, 16_000, 18_000),
        Kernel(0, False, 17_000, 19_000),
        Kernel(0, True, 20_000, 22_000),
        Kernel(3, True, 20_000, 22_000),
    ]
