"""Which GPUs a build of torch runs on, and what is said where it does not."""

import pytest
import torch

from dpscale.errors import MeasurementError
from dpscale.measure.watch import hardware
from dpscale.measure.watch.hardware import require_gpus, runs_on

CUDA_13 = ["sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120", "compute_120"]
CUDA_12_6 = ["sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90"]


@pytest.mark.parametrize(
    ("capability", "architectures", "runs"),
    [
        ((7, 0), CUDA_13, False),  # V100
        ((7, 0), CUDA_12_6, True),
        ((7, 5), CUDA_13, True),  # RTX 8000
        ((8, 9), CUDA_13, True),  # L40S runs what was built for 8.0 and 8.6
        ((9, 0), CUDA_13, True),
        ((12, 0), CUDA_12_6, False),  # RTX PRO 6000: newer than the build, and no intermediate code
        ((12, 1), CUDA_13, True),
        ((13, 0), CUDA_13, True),  # through intermediate code
        ((8, 0), ["sm_86"], False),
        ((9, 0), ["sm_90a"], True),
        ((10, 3), ["sm_100a"], False),
        ((9, 0), [], True),
    ],
)
def test_code_runs_where_its_architecture_allows(
    capability: tuple[int, int], architectures: list[str], runs: bool
) -> None:
    assert runs_on(capability, architectures) is runs


def test_the_installed_torch_names_architectures_that_are_understood() -> None:
    architectures = torch._C._cuda_getArchFlags()
    if architectures is None:
        pytest.skip("this torch was built without CUDA")
    newest = max(int(name.split("_")[1].rstrip("af")) for name in architectures.split())
    assert runs_on(divmod(newest, 10), architectures.split())


def test_the_error_names_the_gpu_and_the_build(monkeypatch: pytest.MonkeyPatch) -> None:
    """A V100 cannot be had here: torch is told that it sees one, and what it was built for."""
    properties = type("Properties", (), {"name": "Tesla V100-SXM2-32GB", "major": 7, "minor": 0})
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: properties)
    monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: CUDA_13)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    with pytest.raises(MeasurementError) as error:
        require_gpus(1)
    assert f"Tesla V100-SXM2-32GB (sm_70) is not supported by torch {torch.__version__} (CUDA 13.0)" in str(error.value)
    assert "built for sm_75 sm_80" in str(error.value)
    assert "docs/cluster.md" in str(error.value)


def test_missing_gpus_are_counted_and_the_driver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "_driver", lambda: "535.104.05")
    missing = torch.cuda.device_count() + 1
    with pytest.raises(MeasurementError, match=rf"asked for {missing} GPUs, {missing - 1} visible .*535\.104\.05"):
        require_gpus(missing)
