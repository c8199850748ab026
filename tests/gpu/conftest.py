"""Images for cells on GPUs."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from on_gpus import run_apart


@pytest.fixture(scope="session")
def dataset_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Path]:
    """The folder with so many synthetic images, made when it is first asked for."""

    @cache
    def make(images: int) -> Path:
        folder = tmp_path_factory.mktemp("dataset")
        run_apart("dataset", "--source", "synthetic", "--images", images, "--out", folder)
        return folder

    return make


@pytest.fixture
def dataset(request: pytest.FixtureRequest, dataset_of: Callable[[int], Path]) -> Path:
    """Synthetic images, as many as the module's `IMAGES`."""
    return dataset_of(request.module.IMAGES)
