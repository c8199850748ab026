"""What all tests share: real studies made small, and the marks that need hardware."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if any(item.get_closest_marker("gpu") for item in items):
        import torch

        gpus = torch.cuda.device_count()
        for item in items:
            mark = item.get_closest_marker("gpu")
            needed = mark.args[0] if mark and mark.args else 1
            if mark and gpus < needed:
                item.add_marker(pytest.mark.skip(reason=f"needs {needed} CUDA GPUs, {gpus} here"))


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT
