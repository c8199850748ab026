"""Images for cells of every kind."""

from pathlib import Path

import pytest

from command_line import must


@pytest.fixture(scope="module")
def dataset(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Synthetic images, as many as the module's `IMAGES`."""
    folder = tmp_path_factory.mktemp("dataset")
    must("dataset", "--source", "synthetic", "--images", request.module.IMAGES, "--out", folder)
    return folder
