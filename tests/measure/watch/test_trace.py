"""Where device time went, on traces whose answer is known."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from torch.profiler import ProfilerActivity, profile, record_function

from dpscale.measure.watch.trace import (
    COMMUNICATION,
    COMPUTE,
    COPY,
    Kernel,
    Mark,
    device_times,
    kind_of,
    read_kernels,
    union_ns,
)

NS = 1e-9


def kernel(start: int, end: int, kind: str = COMPUTE, device: int = 0, phase: str = "forward") -> Kernel:
    return Kernel(device, kind, phase, start, end)


# Some begin before the window of 100 ns, and some end after it.
spans = st.tuples(st.integers(-20, 90), st.integers(0, 40)).map(lambda span: (span[0], span[0] + span[1]))


@given(st.lists(spans, max_size=8))
@example([(0, 10), (10, 20)])
@example([(10, 20), (0, 30), (30, 40), (5, 5)])
def test_union_counts_every_instant_once(intervals: list[tuple[int, int]]) -> None:
    covered = {instant for start, end in intervals for instant in range(start, end)}
    assert union_ns(intervals) == len(covered)


kinds = st.sampled_from([COMPUTE, COMMUNICATION, COPY])
kernels_of_devices = st.lists(
    st.builds(
        lambda span, kind, device, phase: kernel(span[0], span[1], kind, device, phase),
        spans,
        kinds,
        st.integers(0, 1),
        st.sampled_from(["forward", "backward"]),
    ),
    max_size=10,
)


@given(kernels_of_devices, st.integers(0, 100))
@example([kernel(0, 60), kernel(40, 90, COMMUNICATION, phase="backward")], 50)
@example([kernel(0, 50), kernel(50, 100, COMMUNICATION)], 0)
@example([kernel(0, 100, device=1), kernel(20, 50, COMMUNICATION)], 20)
def test_every_instant_of_every_device_is_one_thing(kernels: list[Kernel], switch_ns: int) -> None:
    """Against the definition, instant by instant."""
    marks = [Mark("forward", 0), Mark("backward", switch_ns)]
    for found in device_times(kernels, marks, [0, 1], 0, 100):
        running = [
            [active for active in kernels if active.device == found.device and active.start_ns <= t < active.end_ns]
            for t in range(100)
        ]
        kinds_at = [{active.kind for active in some} for some in running]
        sums = {part: sum(phase[part] for phase in found.phases.values()) / NS for part in (COMPUTE, COPY, "idle")}
        assert sums[COMPUTE] == pytest.approx(sum(COMPUTE in instant for instant in kinds_at))
        assert found.exposed_s / NS == pytest.approx(
            sum(COMMUNICATION in instant and COMPUTE not in instant for instant in kinds_at)
        )
        assert found.communication_s / NS == pytest.approx(sum(COMMUNICATION in instant for instant in kinds_at))
        assert sums[COPY] == pytest.approx(sum(instant == {COPY} for instant in kinds_at))
        assert sums["idle"] == pytest.approx(sum(not instant for instant in kinds_at))
        idle_forward = found.phases.get("forward", {"idle": 0.0})["idle"] / NS
        assert idle_forward == pytest.approx(sum(not instant for instant in kinds_at[:switch_ns]))
        whole = sum(seconds for phase in found.phases.values() for seconds in phase.values())
        assert whole / NS == pytest.approx(100)


def test_busy_time_belongs_to_the_phase_that_asked_and_idle_time_to_the_hosts() -> None:
    """Kernels run after the host has gone on."""
    marks = (Mark("forward", 0), Mark("backward", 20), Mark("optimiser", 70))
    kernels = [kernel(10, 40, phase="forward"), kernel(40, 60, phase="backward")]
    (found,) = device_times(kernels, marks, [0], 0, 100)
    assert found.phases["forward"] == pytest.approx({COMPUTE: 30 * NS, COMMUNICATION: 0, COPY: 0, "idle": 10 * NS})
    assert found.phases["backward"] == pytest.approx({COMPUTE: 20 * NS, COMMUNICATION: 0, COPY: 0, "idle": 10 * NS})
    assert found.phases["optimiser"]["idle"] == pytest.approx(30 * NS)


@pytest.mark.parametrize(
    ("category", "name", "kind"),
    [
        ("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", COMMUNICATION),
        ("kernel", "ncclKernel_Broadcast_RING_LL_Sum_int8_t(ncclWorkElem)", COMMUNICATION),
        ("kernel", "void at::native::vectorized_elementwise_kernel<4>", COMPUTE),
        ("kernel", "sm90_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nchw", COMPUTE),
        ("gpu_memcpy", "Memcpy PtoP (Device -> Device)", COMMUNICATION),
        ("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", COPY),
        ("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", COPY),
        ("gpu_memcpy", "Memcpy DtoD (Device -> Device)", COMPUTE),
        ("gpu_memset", "Memset (Device)", COMPUTE),
    ],
)
def test_kinds(category: str, name: str, kind: str) -> None:
    assert kind_of(category, name) == kind


def event(
    category: str, name: str, ts: float, dur: float, device: int = 0, correlation: int | None = None, **more: Any
) -> dict[str, Any]:
    arguments = {"device": device, **({} if correlation is None else {"correlation": correlation})}
    return {"ph": "X", "cat": category, "name": name, "ts": ts, "dur": dur, "args": arguments, **more}


def test_a_trace_as_the_profiler_writes_it() -> None:
    """Microseconds after a base in ns; annotations are not kernels; a kernel's phase is that of its launch."""
    base = 1_700_000_000_000_000_000
    trace = {
        "baseTimeNanoseconds": base,
        "traceEvents": [
            {"ph": "M", "name": "process_name"},
            event("cuda_runtime", "cudaLaunchKernel", 1.0, 0.5, correlation=7),
            event("kernel", "gemm", 10.5, 2.25, correlation=7),
            event("cuda_driver", "cuLaunchKernelEx", 6.0, 0.5, correlation=8),
            event("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 12.0, 3, device=1, correlation=8),
            event("gpu_user_annotation", "nccl:all_reduce", 12.0, 3, device=1),
            event("kernel", "unlinked", 20.0, 1),
        ],
    }
    marks = [Mark("forward", base), Mark("backward", base + 5_000)]
    assert read_kernels(trace, marks) == [
        Kernel(0, COMPUTE, "forward", base + 10_500, base + 12_750),
        Kernel(1, COMMUNICATION, "backward", base + 12_000, base + 15_000),
        Kernel(0, COMPUTE, "backward", base + 20_000, base + 21_000),
    ]


def test_a_copy_between_devices_is_communication_of_both() -> None:
    """Its row names three devices, and none as `device` (libkineto's MetadataFieldCatalog.h)."""
    row = event("gpu_memcpy", "Memcpy PtoP (Device -> Device)", 4, 2)
    row["args"] = {"fromDevice": 3, "inDevice": 3, "toDevice": 0, "bytes": 1024}
    kernels = read_kernels({"traceEvents": [row]}, [Mark("gather", 0)])
    assert kernels == [Kernel(device, COMMUNICATION, "gather", 4_000, 6_000) for device in (0, 3)]


def test_the_profilers_clock_is_the_hosts(tmp_path: Path) -> None:
    """Phases are marked with one, kernels with the other."""
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        before_ns = time.time_ns()
        with record_function("here"):
            time.sleep(0.01)
        after_ns = time.time_ns()
    profiler.export_chrome_trace(str(tmp_path / "trace.json"))
    trace = json.loads((tmp_path / "trace.json").read_text())
    (row,) = (event for event in trace["traceEvents"] if event.get("name") == "here")
    start_ns = trace["baseTimeNanoseconds"] + row["ts"] * 1e3
    tolerance_ns = 1e5  # the profiler converts the processor's counter
    assert before_ns - tolerance_ns <= start_ns
    assert start_ns + row["dur"] * 1e3 <= after_ns + tolerance_ns
