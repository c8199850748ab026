"""One small measured study for all tests of exports. None of them changes it."""

import pytest

from exported_study import Measured, measure


@pytest.fixture(scope="session")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    return measure(tmp_path_factory.mktemp("exported"))
