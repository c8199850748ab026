"""What tests do without a program that they need."""

import os
from typing import NoReturn

import pytest


def without(reason: str) -> NoReturn:
    """Skip the test, or fail it on CI, which installs everything: there an absence is a mistake."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
