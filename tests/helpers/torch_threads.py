"""Torch in the tests' own process."""

import pytest
import torch


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Several processes of tests share the cores, and threads that wait for each other take them all."""
    torch.set_num_threads(1)
