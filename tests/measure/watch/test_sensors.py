"""Events of GPUs during an epoch, the error where GPUs are missing, and communication on traces with a known answer."""

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from cases import cases
from dpscale.errors import MeasurementError
from dpscale.measure.watch import hardware
from dpscale.measure.watch.sensors import _reasons, on_all_nodes
from dpscale.measure.watch.trace import Kernel, communication_s, computing_s, read_kernels
from dpscale.records.kinds import Watched, WatchedGpu


def test_nodes_are_joined_with_all_gpus_and_the_most_processes() -> None:
    gpus = [WatchedGpu(["power cap"], {"power": 0.5}), WatchedGpu(None, None)]
    first = Watched(gpus[:1], None)
    second = Watched(gpus[1:], 1)
    assert on_all_nodes([first, second]) == Watched(gpus, 1)


def test_reasons_are_known_where_every_sample_has_them() -> None:
    assert _reasons([["power cap"], [], ["thermal", "power cap"]]) == ["power cap", "thermal"]
    assert _reasons([["power cap"], None]) is _reasons([]) is None


def test_missing_gpus_are_counted_and_the_driver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "_driver", lambda: "535.104.05")
    missing = torch.cuda.device_count() + 1
    with pytest.raises(MeasurementError, match=rf"asked for {missing} GPUs, {missing - 1} visible .*535\.104\.05"):
        hardware.require_gpus(missing)


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


def test_computing_is_compared_by_the_kernels_that_both_traces_have_equally_often() -> None:
    """A sum of gradients is in the first one alone, and the second has a copy more."""
    kernels = [
        Kernel(0, False, 0, 50, "gemm"), Kernel(0, False, 60, 90, "gemm"), Kernel(0, True, 0, 90, "allreduce"),
        Kernel(0, False, 90, 95, "sum"), Kernel(0, False, 95, 99, "copy"), Kernel(1, False, 0, 7, "gemm"),
    ]  # fmt: skip
    silent = [Kernel(0, False, start, start + 25, "gemm") for start in (0, 30)]
    copies = [Kernel(0, False, start, start + 4, "copy") for start in (60, 70)]
    assert computing_s(kernels, silent + copies, 0) == pytest.approx((80e-9, 50e-9))
    assert computing_s(kernels, silent, 1) is computing_s(kernels, [], 0) is None


def test_a_trace_as_the_profiler_writes_it() -> None:
    """Annotations, launches and copies from and to the host are no kernels. The row of a copy between devices names
    three, and none as `device` (libkineto's MetadataFieldCatalog.h): it is communication of both."""
    expected = [Kernel(*kernel) for kernel in cases(__file__, "kernels")]  # device, kind, start, end, name
    assert read_kernels({"traceEvents": cases(__file__, "events")}) == expected
