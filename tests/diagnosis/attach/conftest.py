"""Torch in the tests' own process, where every test has hooks of its own."""

import pytest

from dpscale.diagnosis.attach import hooks
from torch_threads import one_thread

__all__ = ["one_thread"]


@pytest.fixture(autouse=True)
def own_hooks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hooks, "ALL", [])
